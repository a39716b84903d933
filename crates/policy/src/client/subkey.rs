//! Keys for one purpose each, made from the operator's one secret, so that what is named under one of them cannot be joined
//! with what is named under another.
//!
//! Sources: RFC 2104 (HMAC), RFC 5869 (HKDF).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HKDF-SHA-256 without salt, one block of output (RFC 5869 §2.2, §2.3).
pub fn subkey(secret: &[u8], info: &[u8]) -> [u8; 32] {
    expand(&extract(&[0; 32], secret), info)
}

fn extract(salt: &[u8], secret: &[u8]) -> [u8; 32] {
    let mut mac = keyed(salt);
    mac.update(secret);
    mac.finalize().into_bytes().into()
}

fn expand(key: &[u8], info: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(info);
    mac.update(&[1]);
    mac.finalize().into_bytes().into()
}

/// An HMAC under a key of any length.
pub fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"))
}

/// Feeds bytes behind their length, in one byte: what is named so is far shorter than 256 bytes.
pub fn update_with_length(mac: &mut Hmac<Sha256>, bytes: &[u8]) {
    mac.update(&[u8::try_from(bytes.len()).unwrap_or(u8::MAX)]);
    mac.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn agrees_with_rfc_5869() {
        // A.1, whose 42 bytes begin with one block
        let salt: Vec<u8> = (0x00..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let key = extract(&salt, &[0x0b; 22]);
        assert_eq!(hex(&key), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        assert_eq!(hex(&expand(&key, &info)), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        // A.3: no salt, no info
        assert_eq!(hex(&subkey(&[0x0b; 22], b"")), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
    }
}
