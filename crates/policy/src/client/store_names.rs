//! What the keys of a shared limit are called in a store.
//!
//! The first 16 bytes of HMAC-SHA-256, under a sub-key of the operator's secret that serves nothing else, over
//! `version ‖ purpose ‖ limit ‖ what ‖ parts of the key`, purpose, limit and parts behind their lengths. The parts are those that the
//! limit's table is hashed by: binary, canonical, and the same in every gate that has the secret. So nobody who reads the
//! store reads a client in it, and no name can be joined with a pseudonym in a log.
//!
//! This is pseudonymous, not anonymous: a holder of the secret can try all 2³² IPv4 addresses.
//!
//! Sources: RFC 2104 (HMAC), RFC 5869 (HKDF).

use std::fmt;

use hmac::{Hmac, Mac};
use http::HeaderName;
use sha2::Sha256;

use super::subkey::{keyed, subkey, update_with_length};
use crate::limiter::sharing::StoreKey;
use crate::sketch::hash::KeyInput;
use crate::units::Prefix;

/// Changes when the input changes, so that gates of different versions never take each other's names for their own.
const VERSION: u8 = 1;
const PURPOSE: &[u8] = b"store";

/// What a name is of: a key, a tier, a value of a key, or the limit itself.
const KEY: u8 = 0;
const TIER: u8 = 1;
const VALUE: u8 = 2;
const LIMIT: u8 = u8::MAX;

/// Names the keys of one limit.
#[derive(Clone)]
pub struct StoreNames(Hmac<Sha256>);

impl StoreNames {
    /// Those of the limit of this name under the operator's secret.
    pub fn new(secret: &[u8], limit: &str) -> StoreNames {
        let mut begun = keyed(&subkey(secret, b"tidegate pseudonyms: store"));
        begun.update(&[VERSION]);
        update_with_length(&mut begun, PURPOSE);
        update_with_length(&mut begun, limit.as_bytes());
        StoreNames(begun)
    }

    /// What all gates with this secret know the limit itself by.
    pub fn limit(&self) -> u64 {
        self.of(LIMIT).finish().halves()[0]
    }

    /// What all gates with this secret know a tier of the limit by: it follows from its condition, not from its place. Never 0.
    pub fn tier(&self, networks: &[Prefix], headers: &[(HeaderName, String)]) -> u32 {
        let mut name = self.of(TIER);
        networks.iter().for_each(|network| name.part(0, network.to_string().as_bytes()));
        for (header, value) in headers {
            name.part(1, header.as_str().as_bytes());
            name.part(2, value.as_bytes());
        }
        (name.finish().halves()[0] as u32).max(1)
    }

    /// The name of a key in the making. Tiers do not tell keys apart: a key that changes its tier takes along what it spent.
    pub fn begin(&self) -> StoreName {
        self.of(KEY)
    }

    /// The name of a value in the making, which begins with the parts of its key: so nobody who reads the store sees that two keys have one
    /// value.
    pub fn begin_value(&self) -> StoreName {
        self.of(VALUE)
    }

    fn of(&self, what: u8) -> StoreName {
        let mut name = self.0.clone();
        name.update(&[what]);
        StoreName(name)
    }
}

/// What bans in a store are under: the name of the place, and the key that they are sealed with. Gates with another secret have another
/// place, so none of them overwrites what it cannot read.
pub fn of_bans(secret: &[u8]) -> (StoreKey, [u8; 32]) {
    /// Changes with the form of what is stored there.
    const FORM: &[u8] = b"tidegate bans: place 1";
    let mut place = StoreKey([0; 16]);
    place.0.iter_mut().zip(subkey(secret, FORM)).for_each(|(to, from)| *to = from);
    (place, subkey(secret, b"tidegate bans: seal"))
}

impl fmt::Debug for StoreNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreNames(‹secret›)")
    }
}

/// A name that takes in the parts of a key.
#[derive(Clone)]
pub struct StoreName(Hmac<Sha256>);

impl StoreName {
    /// The name.
    pub fn finish(self) -> StoreKey {
        let mut first = [0; 16];
        first.iter_mut().zip(self.0.finalize().into_bytes()).for_each(|(to, from)| *to = from);
        StoreKey(first)
    }
}

impl KeyInput for StoreName {
    fn part(&mut self, kind: u8, bytes: &[u8]) {
        // no slice is longer than 2^56 bytes
        self.0.update(&((bytes.len() as u64) << 8 | u64::from(kind)).to_le_bytes());
        self.0.update(bytes);
    }

    fn part_of(&mut self, kind: u8, length: usize, bytes: impl Iterator<Item = u8> + Clone) {
        self.0.update(&((length as u64) << 8 | u64::from(kind)).to_le_bytes());
        bytes.for_each(|byte| self.0.update(&[byte]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(names: &StoreNames, parts: &[(u8, &[u8])]) -> StoreKey {
        let mut name = names.begin();
        parts.iter().for_each(|(kind, bytes)| name.part(*kind, bytes));
        name.finish()
    }

    #[test]
    fn a_tier_is_known_by_its_condition_alone_and_to_those_who_have_the_secret() {
        let [here, stranger] = [&b"the secret"[..], b"another"].map(|secret| StoreNames::new(secret, "per_client"));
        let network: Prefix = Prefix::new("192.0.2.0".parse().unwrap(), 24).unwrap();
        let header = |value: &str| vec![(HeaderName::from_static("x-plan"), value.to_owned())];
        let all = [
            here.tier(&[network], &[]),
            here.tier(&[network], &header("gold")),
            here.tier(&[], &header("gold")),
            here.tier(&[], &header("silver")),
            stranger.tier(&[], &header("gold")),
        ];
        assert_eq!(here.tier(&[], &header("gold")), all[2]);
        for (index, one) in all.iter().enumerate() {
            assert!(*one > 0 && !all[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn a_name_is_the_same_in_every_gate_that_has_the_secret_and_in_no_other() {
        let [here, there] = [(); 2].map(|()| StoreNames::new(b"the secret of all gates", "per_client"));
        let parts: [(u8, &[u8]); 2] = [(1, b"alice"), (2, b"")];
        assert_eq!(name(&here, &parts), name(&there, &parts));
        let stranger = StoreNames::new(b"another", "per_client");
        let neighbour = StoreNames::new(b"the secret of all gates", "login");
        let others: [(u8, &[u8]); 2] = [(1, b"alic"), (2, b"e")];
        let all = [
            name(&here, &parts),
            name(&stranger, &parts),
            name(&neighbour, &parts),
            name(&here, &others),
            name(&here, &[(2, b"alice"), (2, b"")]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{index}");
        }
        assert!(!format!("{here:?}").contains("secret of all"));
    }
}
