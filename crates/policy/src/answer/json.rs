//! Text and times as JSON, onto the end of a buffer.
//!
//! Used where a stranger's bytes go into a log line or a problem document. Nothing but printable text comes out: a line
//! stays one line for every reader (so the line separators of Unicode are escaped too), and no control sequence reaches
//! an operator's terminal. (RFC 8259, section 7.)

/// Appends `text` as a JSON string. Each run of bytes that is no UTF-8 becomes one U+FFFD; of more than `most` bytes
/// the first are kept, up to a whole character, and `…` follows.
pub fn text(out: &mut Vec<u8>, text: &[u8], most: usize) {
    out.push(b'"');
    inner(out, text, most);
    out.push(b'"');
}

/// Appends what stands between the quotes of that string.
pub fn inner(out: &mut Vec<u8>, text: &[u8], most: usize) {
    let kept = beginning(text, most);
    if is_all_plain(kept) {
        out.extend_from_slice(kept);
    } else {
        for chunk in kept.utf8_chunks() {
            escaped(out, chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
    }
    if kept.len() < text.len() {
        out.extend_from_slice("…".as_bytes());
    }
}

/// Whether every byte does, as those of nearly every text. Eight are looked at together: a line has thirty texts.
fn is_all_plain(text: &[u8]) -> bool {
    let (eights, rest) = text.as_chunks::<8>();
    let mut last = [b' '; 8];
    last.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    eights.iter().fold(specials(last), |special, eight| special | specials(*eight)) == 0
}

/// Not zero if one of the bytes does not stand for itself.
fn specials(eight: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let eight = u64::from_le_bytes(eight);
    // the high bit of a byte that is below so much; above it there may be others, below it there are none
    let below = |bytes: u64, most: u64| bytes.wrapping_sub(ONES * most) & !bytes;
    let is = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    (eight | below(eight, 0x20) | is(0x7f) | is(b'"') | is(b'\\')) & HIGHS
}

/// Whether the byte stands for itself in a JSON string that is only printable ASCII.
fn is_plain(byte: u8) -> bool {
    // without a jump
    (byte.wrapping_sub(0x20) < 0x5f) & (byte != b'"') & (byte != b'\\')
}

/// Appends a number.
pub fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Up to `most` bytes, without cutting a character.
fn beginning(text: &[u8], most: usize) -> &[u8] {
    let continues = |at: usize| text.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let mut end = most.min(text.len());
    // a character has at most three further bytes; what has more is no UTF-8 anyway
    for _ in 0..3 {
        if continues(end) {
            end = end.saturating_sub(1);
        }
    }
    text.get(..end).unwrap_or_default()
}

/// `text` is UTF-8.
fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| !is_plain(*byte)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let taken = match special {
            [b'"', ..] => copied(out, br#"\""#, 1),
            [b'\\', ..] => copied(out, br"\\", 1),
            [b'\n', ..] => copied(out, br"\n", 1),
            [b'\r', ..] => copied(out, br"\r", 1),
            [b'\t', ..] => copied(out, br"\t", 1),
            [byte @ (0x00..=0x1f | 0x7f), ..] => hex(out, u16::from(*byte), 1),
            // the second set of control characters, NEL and CSI among them
            [0xc2, byte @ 0x80..=0x9f, ..] => hex(out, u16::from(*byte), 2),
            [0xe2, 0x80, 0xa8, ..] => hex(out, 0x2028, 3),
            [0xe2, 0x80, 0xa9, ..] => hex(out, 0x2029, 3),
            [first, ..] => {
                out.push(*first);
                1
            }
            [] => 0,
        };
        rest = special.get(taken..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

fn copied(out: &mut Vec<u8>, escape: &[u8], taken: usize) -> usize {
    out.extend_from_slice(escape);
    taken
}

fn hex(out: &mut Vec<u8>, unit: u16, taken: usize) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(br"\u");
    for shift in [12, 8, 4, 0] {
        out.push(DIGITS.get(usize::from(unit >> shift & 15)).copied().unwrap_or(b'0'));
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(bytes: &[u8], most: usize) -> String {
        let mut out = Vec::new();
        text(&mut out, bytes, most);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn quotes_breaks_and_controls_are_escaped() {
        assert_eq!(written(b"a\"b\\c\r\n\t\0\x1b\x7f", 99), r#""a\"b\\c\r\n\t\u0000\u001b\u007f""#);
        assert_eq!(written("\u{85}\u{9b}\u{2028}\u{2029}é€😀".as_bytes(), 99), r#""\u0085\u009b\u2028\u2029é€😀""#);
    }

    #[test]
    fn eight_at_a_time_finds_what_one_at_a_time_finds() {
        for byte in 0..=255_u8 {
            for (length, place) in (1..20).flat_map(|length| (0..length).map(move |place| (length, place))) {
                for filling in *b"x ~![]#" {
                    let mut text = vec![filling; length];
                    text[place] = byte;
                    assert_eq!(
                        is_all_plain(&text),
                        text.iter().copied().all(is_plain),
                        "{byte} at {place} of {length}"
                    );
                }
            }
        }
        assert!(is_all_plain(b""));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(written(b"a\xffb\xe2\x80", 99), "\"a\u{fffd}b\u{fffd}\"");
    }

    #[test]
    fn long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(written("aé€".as_bytes(), 6), "\"aé€\"");
        assert_eq!(written("aé€".as_bytes(), 5), "\"aé…\"");
        assert_eq!(written("aé€".as_bytes(), 2), "\"a…\"");
        assert_eq!(written(&[0x80; 9], 0), "\"…\"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_text_is_read_back_and_stays_one_printable_line(whole in any::<String>()) {
            let line = written(whole.as_bytes(), usize::MAX);
            let breaks = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
            prop_assert!(!line.contains(breaks));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), whole);
        }

        #[test]
        fn any_bytes_are_read_back_as_a_lenient_reader_sees_them(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xc2), Just(0x85), Just(0xe2), Just(0x80)], 0..200),
            most in 0usize..200,
        ) {
            let read: String = serde_json::from_str(&written(&bytes, usize::MAX)).unwrap();
            prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
            let cut: String = serde_json::from_str(&written(&bytes, most)).unwrap();
            prop_assert!(cut.len() <= 3 * most + "…".len());
        }
    }
}
