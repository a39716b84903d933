//! Keys for one purpose each, made from the operator's one secret, so that what is named under one of them cannot be joined
//! with what is named under another.
//!
//! Sources: RFC 2104 (HMAC), RFC 5869 (HKDF).

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HKDF-SHA-256 without salt, one block of output (RFC 5869 §2.2, §2.3).
pub fn subkey(secret: &[u8], info: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    match Hkdf::<Sha256>::new(None, secret).expand(info, &mut key) {
        Ok(()) => key,
        Err(_) => unreachable!("HKDF gives up to 255 blocks"),
    }
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
        // A.3: no salt, no info
        assert_eq!(hex(&subkey(&[0x0b; 22], b"")), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
    }
}
