//! Clients as they appear in the access log: pseudonyms that only the holder of the secret can lead back.
//!
//! The pseudonym of a client is the first 16 bytes of HMAC-SHA-256 over `version ‖ purpose ‖ mark ‖ network`, each but the
//! version with its length before it, in base64url. The network is binary (family, prefix length, address), so there is
//! one pseudonym per client however its address was written, and it changes when clients are counted at other prefix
//! lengths. The mark is in it because clients of different marks are counted apart: one pseudonym is one bucket.
//!
//! The key is a sub-key for this purpose, so that pseudonyms in logs cannot be joined with those anywhere else that are
//! made from the same secret.
//!
//! This is pseudonymous, not anonymous: a holder of the secret can try all 2³² IPv4 addresses.
//!
//! Sources: RFC 2104 (HMAC), RFC 5869 (HKDF), RFC 4648 §5 (base64url).

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::client::subkey::{keyed, subkey, update_with_length};
use crate::client::{Client, ClientNetwork, Mark};
use crate::units::Prefix;

/// Changes when the input changes, so that old and new pseudonyms cannot be taken for one another.
const VERSION: u8 = 1;
const PURPOSE: &[u8] = b"log";

/// Keys before the one in force under which clients are still found: a rotation that is done again at once loses nobody.
const EARLIER_KEYS: usize = 4;

/// Makes pseudonyms under one secret.
#[derive(Clone)]
pub struct Pseudonyms {
    key: Arc<ArcSwap<Key>>,
    /// The keys before this one, the latest first, for what was written under those.
    before: Arc<ArcSwap<Vec<Arc<Key>>>>,
    fallback: [u8; 32],
}

/// A key.
struct Key {
    /// No other key of the process has it.
    number: u64,
    /// Keyed and fed with what all inputs begin with: cloning it is cheaper than keying anew (128 ns against 200 ns).
    begun: Hmac<Sha256>,
}

impl Pseudonyms {
    /// Under the operator's `secret`, of any length (32 random bytes are as good as more); without one, under `fallback`,
    /// which should be random and then makes pseudonyms that end with the process.
    pub fn new(secret: Option<&[u8]>, fallback: [u8; 32]) -> Pseudonyms {
        let key = Arc::new(ArcSwap::from_pointee(Key::of(secret.unwrap_or(&fallback))));
        Pseudonyms { key, before: Arc::default(), fallback }
    }

    /// What stands in for a secret, for the process that takes this one's place.
    pub fn fallback(&self) -> [u8; 32] {
        self.fallback
    }

    /// From now on under another `secret`; the one so far becomes the one before.
    pub fn rekey(&self, secret: Option<&[u8]>) {
        let last = self.key.swap(Arc::new(Key::of(secret.unwrap_or(&self.fallback))));
        let earlier = self.before.load();
        let kept = std::iter::once(last).chain(earlier.iter().cloned()).take(EARLIER_KEYS);
        self.before.store(Arc::new(kept.collect()));
    }

    /// Every pseudonym of `client`: that of now, then those under the keys before, the latest first.
    pub fn all_of(&self, client: &Client) -> impl Iterator<Item = Pseudonym> + use<> {
        self.all_named(client.mark, client.network)
    }

    /// Every pseudonym of clients of this mark that are counted by this network, in the order of [`Pseudonyms::all_of`].
    pub fn all_named(&self, mark: Mark, network: ClientNetwork) -> impl Iterator<Item = Pseudonym> + use<> {
        let earlier = self.before.load_full();
        let earlier =
            (0..earlier.len()).filter_map(move |at| Some(pseudonym(earlier.get(at)?.begun.clone(), mark, network)));
        std::iter::once(self.key.load().named(mark, network)).chain(earlier)
    }

    /// The pseudonym of `client`. Allocates nothing.
    pub fn of(&self, client: &Client) -> Pseudonym {
        self.key.load().named(client.mark, client.network)
    }

    /// The pseudonym of a network: that of a verified client which is the whole of it.
    pub fn of_network(&self, network: Prefix) -> Pseudonym {
        self.key.load().named(Mark::Verified, ClientNetwork::Prefix(network))
    }
}

/// Pseudonyms that a thread has made lately, by their clients. A client that sends request after request, as in a flood, is named once.
const LATELY: usize = 128;

thread_local! {
    static LATELY_MADE: [Cell<Option<Made>>; LATELY] = const { [const { Cell::new(None) }; LATELY] };
}

/// A pseudonym, and whose it is.
#[derive(Clone, Copy)]
struct Made {
    key: u64,
    mark: Mark,
    network: ClientNetwork,
    pseudonym: Pseudonym,
}

impl Key {
    fn of(secret: &[u8]) -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut begun = keyed(&subkey(secret, b"tidegate pseudonyms: log"));
        begun.update(&[VERSION]);
        update_with_length(&mut begun, PURPOSE);
        // Relaxed: it only has to differ from all others
        Key { number: NEXT.fetch_add(1, Ordering::Relaxed), begun }
    }

    fn named(&self, mark: Mark, network: ClientNetwork) -> Pseudonym {
        let made = |pseudonym| Made { key: self.number, mark, network, pseudonym };
        LATELY_MADE.with(|lately| {
            let Some(place) = lately.get(place(network)) else { return pseudonym(self.begun.clone(), mark, network) };
            match place.get() {
                Some(Made { key, mark: of, network: whose, pseudonym })
                    if (key, of, whose) == (self.number, mark, network) =>
                {
                    pseudonym
                }
                _ => {
                    let pseudonym = pseudonym(self.begun.clone(), mark, network);
                    place.set(Some(made(pseudonym)));
                    pseudonym
                }
            }
        })
    }
}

/// Where the pseudonym of this network is kept. Two that share a place are made anew in turn, which costs what it did without.
fn place(network: ClientNetwork) -> usize {
    let ClientNetwork::Prefix(prefix) = network else { return 0 };
    let (bytes, used) = prefix.key_bytes();
    let sum = bytes.iter().take(used).fold(0_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (sum >> 32) as usize % LATELY
}

fn pseudonym(mut mac: Hmac<Sha256>, mark: Mark, network: ClientNetwork) -> Pseudonym {
    update_with_length(&mut mac, mark.as_str().as_bytes());
    match network {
        ClientNetwork::Prefix(prefix) => {
            let (bytes, used) = prefix.key_bytes();
            update_with_length(&mut mac, bytes.get(..used).unwrap_or(&bytes));
        }
        // shorter than any network
        ClientNetwork::Unix => update_with_length(&mut mac, b"unix"),
    }
    let mut first = [0; 16];
    first.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
    Pseudonym(first)
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pseudonyms(‹secret›)")
    }
}

/// A pseudonym: sixteen bytes, written in base64url without padding, which takes 22 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pseudonym([u8; 16]);

impl Pseudonym {
    /// The length of the text.
    pub const CHARACTERS: usize = 22;

    /// The sixteen bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The pseudonym of these bytes.
    pub fn of_bytes(bytes: [u8; 16]) -> Pseudonym {
        Pseudonym(bytes)
    }

    /// The fewest characters that an operator may write of one.
    pub const SHORTEST: usize = 8;

    /// Returns whether a text may stand for a pseudonym: all of its characters, or the first ones, at least
    /// [`Pseudonym::SHORTEST`].
    pub fn may_begin(text: &str) -> bool {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (Self::SHORTEST..=Self::CHARACTERS).contains(&text.len()) && text.bytes().all(known)
    }

    /// Returns whether it is the pseudonym that an operator wrote, or begins with what he wrote.
    pub fn is_meant(self, text: &str) -> bool {
        Self::may_begin(text) && self.to_string().starts_with(text)
    }

    /// Reads the text of one, as `Display` writes it; `None` for any other text.
    pub fn parse(text: &str) -> Option<Pseudonym> {
        let mut bytes = [0; 16];
        let exact = text.len() == Self::CHARACTERS && URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).is_ok();
        exact.then_some(Pseudonym(bytes))
    }
}

impl fmt::Display for Pseudonym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; Self::CHARACTERS];
        // the length is exact
        let _ = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text);
        // ASCII by construction
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientRules, resolve};
    use crate::request::Peer;
    use http::HeaderMap;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn client(address: &str) -> Client {
        resolve(&ClientRules::default(), Peer::Ip(address.parse().unwrap()), &HeaderMap::new()).unwrap()
    }

    fn mac(key: &[u8], data: &[u8]) -> String {
        let mut mac = keyed(key);
        mac.update(data);
        hex(&mac.finalize().into_bytes())
    }

    #[test]
    fn agrees_with_rfc_4231() {
        assert_eq!(mac(&[0x0b; 20], b"Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert_eq!(
            mac(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(mac(&[0xaa; 20], &[0xdd; 50]), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
        assert_eq!(
            mac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn agrees_with_the_vector_of_throttlekit() {
        assert_eq!(
            mac(b"key", b"The quick brown fox jumps over the lazy dog"),
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
        );
    }

    #[test]
    fn agrees_with_the_written_definition() {
        let mut input = vec![1, 3, b'l', b'o', b'g', 8];
        input.extend(b"verified");
        input.extend([6, 4, 32, 192, 0, 2, 1]);
        let expected = mac(&subkey(b"secret", b"tidegate pseudonyms: log"), &input);
        let bytes: Vec<u8> =
            (0..16).map(|byte| u8::from_str_radix(&expected[2 * byte..2 * byte + 2], 16).unwrap()).collect();
        let pseudonym = Pseudonyms::new(Some(b"secret"), [0; 32]).of(&client("192.0.2.1"));
        assert_eq!(pseudonym.bytes().as_slice(), bytes);
    }

    #[test]
    fn is_base64url() {
        let text = |bytes: [u8; 16]| Pseudonym::of_bytes(bytes).to_string();
        assert_eq!(text([0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(text([0xff; 16]), "_____________________w");
        // RFC 4648 §10: "foobar" is Zm9vYmFy
        assert_eq!(text(*b"foobarfoobarfoob"), "Zm9vYmFyZm9vYmFyZm9vYg");
    }

    #[test]
    fn one_text_alone_is_read_as_a_pseudonym() {
        let read = |text: &str| Pseudonym::parse(text).map(Pseudonym::bytes);
        assert_eq!(read("Zm9vYmFyZm9vYmFyZm9vYg"), Some(*b"foobarfoobarfoob"));
        // bits behind the last byte, padding, the other alphabet, a character less
        for other in
            ["Zm9vYmFyZm9vYmFyZm9vYh", "Zm9vYmFyZm9vYmFyZm9vYg==", "+m9vYmFyZm9vYmFyZm9vYg", "Zm9vYmFyZm9vYmFyZm9vY"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn eight_characters_or_more_mean_a_pseudonym() {
        let pseudonym = Pseudonym::parse("Zm9vYmFyZm9vYmFyZm9vYg").unwrap();
        for (text, meant) in [
            ("Zm9vYmFyZm9vYmFyZm9vYg", true),
            ("Zm9vYmFy", true),
            ("Zm9vYmF", false),
            ("zm9vYmFy", false),
            ("Zm9vYmFyZm9vYmFyZm9vYgA", false),
            ("", false),
        ] {
            assert_eq!(pseudonym.is_meant(text), meant, "{text}");
        }
        assert!(!Pseudonym::may_begin("203.0.113.7"));
    }

    #[test]
    fn one_network_has_one_pseudonym_and_others_have_others() {
        let pseudonyms = Pseudonyms::new(None, [7; 32]);
        let of = |address: &str| pseudonyms.of(&client(address));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        let unix = resolve(&ClientRules::default(), Peer::Unix, &HeaderMap::new()).unwrap();
        assert_ne!(pseudonyms.of(&unix), of("192.0.2.1"));
    }

    #[test]
    fn clients_that_are_counted_apart_read_apart() {
        let verified = client("192.0.2.1");
        let mut degraded = verified;
        degraded.mark = crate::client::Mark::Degraded;
        let pseudonyms = Pseudonyms::new(None, [7; 32]);
        assert_ne!(pseudonyms.of(&verified), pseudonyms.of(&degraded));
    }

    #[test]
    fn another_secret_gives_other_pseudonyms_and_the_fallback_is_one() {
        let of = |secret: Option<&[u8]>, fallback| Pseudonyms::new(secret, fallback).of(&client("192.0.2.1"));
        assert_ne!(of(Some(b"a"), [0; 32]), of(Some(b"b"), [0; 32]));
        assert_eq!(of(Some(b"a"), [0; 32]), of(Some(b"a"), [1; 32]));
        assert_ne!(of(None, [0; 32]), of(None, [1; 32]));
    }

    #[test]
    fn after_a_rotation_a_client_is_known_by_its_earlier_names_too() {
        let pseudonyms = Pseudonyms::new(Some(b"first"), [0; 32]);
        let client = client("192.0.2.1");
        let mut names = vec![pseudonyms.of(&client)];
        for number in 0..6_u8 {
            pseudonyms.rekey(Some(&[number]));
            names.insert(0, pseudonyms.of(&client));
            names.truncate(1 + EARLIER_KEYS);
            assert_eq!(pseudonyms.all_of(&client).collect::<Vec<_>>(), names, "{number}");
        }
    }

    #[test]
    fn the_secret_is_never_printed() {
        assert_eq!(format!("{:?}", Pseudonyms::new(Some(b"hunter2"), [0; 32])), "Pseudonyms(‹secret›)");
    }
}
