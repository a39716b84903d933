//! What gates with one secret keep in a store and a store cannot read, change or make up: AES-256-GCM (RFC 5116) by `ring`.
//!
//! The nonce is random. Gates with one secret write less than one text a second each, so two equal nonces are less likely than one in
//! 2³² within a century of a hundred gates.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::system::clock;

/// Bytes that a text begins with and that are another of each.
pub const MARK: usize = NONCE_LEN;

/// Seals texts for one place and opens them.
pub struct Seal {
    key: LessSafeKey,
    place: String,
}

impl Seal {
    /// Seals under this key. A text of one place is none of another.
    pub fn new(key: &[u8; 32], place: String) -> Option<Seal> {
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some(Seal { key: LessSafeKey::new(key), place })
    }

    /// The place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the text sealed; `None` if the system has no randomness.
    pub fn seal(&self, mut text: Vec<u8>) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = clock::secret().ok()?;
        let aad = Aad::from(self.place.as_bytes());
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text).ok()?;
        text.splice(0..0, nonce);
        Some(text)
    }

    /// Returns the text; `None` if it was not sealed under this key for this place.
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (mut text, aad) = (text.to_vec(), Aad::from(self.place.as_bytes()));
        let length = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: u8, place: &str) -> Seal {
        Seal::new(&[key; 32], place.to_owned()).unwrap()
    }

    #[test]
    fn what_is_sealed_is_opened_by_who_has_the_key_at_its_place_alone() {
        let here = seal(1, "tg:{bans}:a");
        let sealed = here.seal(b"203.0.113.7".to_vec()).unwrap();
        assert!(!sealed.windows(11).any(|bytes| bytes == b"203.0.113.7"));
        assert_eq!(here.open(&sealed).unwrap(), b"203.0.113.7");
        assert_ne!(here.seal(b"203.0.113.7".to_vec()).unwrap()[..MARK], sealed[..MARK]);
        assert!(seal(2, "tg:{bans}:a").open(&sealed).is_none());
        assert!(seal(1, "tg:{bans}:b").open(&sealed).is_none());
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert!(here.open(&other).is_none() && here.open(&sealed[..at]).is_none(), "{at}");
        }
    }
}
