//! The hash is SipHash as published: an independent reading of the paper, checked against the authors' vectors, agrees with
//! the crate at every length, in the 1-3 form that keys are hashed with.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};
use tidegate_limits::sketch::{KeyHasher, Seed};

/// The key and the message of the published vectors: 00 01 02 …
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|byte| byte as u8).collect()
}

/// SipHash-c-d with 128 bits, written from section 2.1 of the paper and the authors' note on the longer output.
fn by_the_paper(compressions: usize, finalizations: usize, key: &[u8; 16], message: &[u8]) -> [u8; 16] {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let (k0, k1) = (word(&key[..8]), word(&key[8..]));
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut padded = message.to_vec();
    padded.resize(message.len() / 8 * 8 + 7, 0);
    padded.push(message.len() as u8);
    for block in padded.chunks(8) {
        v[3] ^= word(block);
        (0..compressions).for_each(|_| round(&mut v));
        v[0] ^= word(block);
    }
    let mut output = [0; 16];
    for (half, (place, mark)) in output.chunks_mut(8).zip([(2, 0xee), (1, 0xdd)]) {
        v[place] ^= mark;
        (0..finalizations).for_each(|_| round(&mut v));
        half.copy_from_slice(&(v[0] ^ v[1] ^ v[2] ^ v[3]).to_le_bytes());
    }
    output
}

fn round(v: &mut [u64; 4]) {
    let mut mix = |a: usize, b: usize, turn: u32| {
        v[a] = v[a].wrapping_add(v[b]);
        v[b] = v[b].rotate_left(turn) ^ v[a];
    };
    mix(0, 1, 13);
    mix(2, 3, 16);
    v[0] = v[0].rotate_left(32);
    let mut mix = |a: usize, b: usize, turn: u32| {
        v[a] = v[a].wrapping_add(v[b]);
        v[b] = v[b].rotate_left(turn) ^ v[a];
    };
    mix(2, 1, 17);
    mix(0, 3, 21);
    v[2] = v[2].rotate_left(32);
}

#[test]
fn the_authors_vectors_hold() {
    // SipHash-2-4 with 128 bits, messages of 0, 1, 7, 8, 15, 16 and 63 bytes
    let published: [(usize, u128); 7] = [
        (0, 0xa3817f04ba25a8e66df67214c7550293),
        (1, 0xda87c1d86b99af44347659119b22fc45),
        (7, 0xa1f1ebbed8dbc153c0b84aa61ff08239),
        (8, 0x3b62a9ba6258f5610f83e264f31497b4),
        (15, 0x5493e99933b0a8117e08ec0f97cfc3d9),
        (16, 0x6ee2a4ca67b054bbfd3315bf85230577),
        (63, 0x5150d1772f50834a503e069a973fbd7c),
    ];
    for (length, expected) in published {
        let message = message(length);
        assert_eq!(by_the_paper(2, 4, &KEY, &message), expected.to_be_bytes(), "the paper, {length} bytes");
        let mut hasher = SipHasher24::new_with_key(&KEY);
        hasher.write(&message);
        assert_eq!(hasher.finish128().as_bytes(), expected.to_be_bytes(), "the crate, {length} bytes");
    }
}

#[test]
fn the_form_that_keys_are_hashed_with_is_the_paper_s_too() {
    for length in 0..=70 {
        let message = message(length);
        let expected = by_the_paper(1, 3, &KEY, &message);
        for cut in [0, 1, 5, 8, length] {
            let mut hasher = SipHasher13::new_with_key(&KEY);
            let (head, tail) = message.split_at(cut.min(length));
            hasher.write(head);
            hasher.write(tail);
            assert_eq!(hasher.finish128().as_bytes(), expected, "{length} bytes in two writes, cut at {cut}");
        }
    }
}

/// The message that the parts of a key become, in words: kind and length, whole words of bytes, and if bytes are left, the
/// last eight of them all, or all of fewer and zeros.
#[test]
fn a_key_is_the_hash_of_its_parts_each_behind_kind_and_length() {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(KEY));
    hasher.part(4, &[192, 0, 2, 1, 77, 78]);
    hasher.part(9, b"a longer name");
    hasher.part(1, b"abcdefgh");
    hasher.part(2, b"xyz");
    hasher.part(3, b"");
    let mut message = vec![4, 6, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1, 77, 78, 0, 0];
    message.extend(b"\x09\x0d\0\0\0\0\0\0a longerger name");
    message.extend(b"\x01\x08\0\0\0\0\0\0abcdefgh");
    message.extend(b"\x02\x03\0\0\0\0\0\0xyz\0\0\0\0\0");
    message.extend(b"\x03\0\0\0\0\0\0\0");
    let hash = u128::from_le_bytes(by_the_paper(1, 3, &KEY, &message));
    let key = hasher.finish();
    for row in 0..4 {
        assert_eq!(u128::from(key.slice(row)), (hash >> (24 * row)) & 0xff_ffff, "row {row}");
    }
}
