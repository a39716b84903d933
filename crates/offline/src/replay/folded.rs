//! Hashes by folded products, for tables and comparisons that nobody else sees. Not for anything that a stranger gains by: the
//! secret is drawn anew by each process, so that no log can be made whose texts or clients collide, and that is all it is for.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

static SECRET: LazyLock<[u64; 2]> = LazyLock::new(secret);

/// Two random words, odd, as what is multiplied by an even number loses a bit.
pub fn secret() -> [u64; 2] {
    let random = RandomState::new();
    [random.hash_one(0) | 1, random.hash_one(1) | 1]
}

/// The two halves of a product hang on all bits of both words.
#[inline]
pub fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

/// A hash of a text, the same within a process: two texts that differ have the same by a chance of about one in 2⁶⁴.
#[inline]
pub fn hash_of(text: &[u8]) -> u64 {
    let [a, b] = *SECRET;
    let (words, rest) = text.as_chunks::<8>();
    let hash = words.iter().fold(text.len() as u64 ^ a, |hash, word| fold(hash ^ u64::from_le_bytes(*word), b));
    let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    fold(fold(hash ^ rest, a), b)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn texts_that_differ_hash_apart() {
        let texts =
            (0..40_000_u32).flat_map(|n| [format!("/{n}"), format!("/a/{n}/index.html"), "0".repeat(n as usize % 64)]);
        let texts: HashSet<String> = texts.collect();
        let hashes: HashSet<u64> = texts.iter().map(|text| hash_of(text.as_bytes())).collect();
        assert_eq!(hashes.len(), texts.len());
        assert_eq!(hash_of(b"/a"), hash_of("/a".to_owned().as_bytes()));
    }
}
