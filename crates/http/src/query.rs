//! The one canonical form of a query: what routes and keys read and what the origin gets.
//!
//! A query stays as it was sent, but for the three bytes that no URI parser takes there: `"`, `<` and `>` are escaped, as
//! browsers do before they send them. The parser behind this one would refuse them. Other bytes that RFC 3986 leaves out
//! (`[]{}|^`, backslash and backtick) are sent raw by browsers, are taken by that parser and mean the same to all.

use std::borrow::Cow;

use memchr::memmem;

use super::fault::HeadFault;
use super::head::scan::{TARGET, is};

/// The longest target that the parser behind takes (`http::Uri`): escapes make a target longer than it was sent.
pub const LONGEST_TARGET: usize = 65_534;

/// The canonical form of a query with its question mark, or of none. Borrowed when it was canonical already. Reads each byte
/// a fixed number of times. `longest` bounds it with its escapes, as whoever reads them pays for them too.
///
/// # Errors
/// [`HeadFault::TargetTooLong`] beyond `longest`, [`HeadFault::Target`] for controls, blanks, non-ASCII bytes and `#`,
/// [`HeadFault::Escape`] for `%00`, the byte that ends strings. A lone percent sign is what browsers send for `?q=100%` and stays.
pub fn canonical_query(raw: &[u8], longest: usize) -> Result<Cow<'_, str>, HeadFault> {
    let mut escapes = 0;
    for &byte in raw {
        if !is(byte, TARGET) {
            return Err(HeadFault::Target);
        }
        escapes += usize::from(matches!(byte, b'"' | b'<' | b'>'));
    }
    if memmem::find(raw, b"%00").is_some() {
        return Err(HeadFault::Escape);
    }
    let text = std::str::from_utf8(raw).map_err(|_| HeadFault::Target)?;
    if escapes == 0 {
        return Ok(Cow::Borrowed(text));
    }
    let length = raw.len() + 2 * escapes;
    if length > longest {
        return Err(HeadFault::TargetTooLong);
    }
    let mut query = String::with_capacity(length);
    for char in text.chars() {
        match char {
            '"' => query.push_str("%22"),
            '<' => query.push_str("%3C"),
            '>' => query.push_str("%3E"),
            char => query.push(char),
        }
    }
    Ok(Cow::Owned(query))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_no_uri_holds_is_escaped() {
        for (raw, wanted) in [
            ("", ""),
            ("?", "?"),
            ("?q=\"a\"<b>&c", "?q=%22a%22%3Cb%3E&c"),
            ("?a[]=1&b={x|y}^`\\", "?a[]=1&b={x|y}^`\\"),
            ("?q=100%&r=%2&s=%zz", "?q=100%&r=%2&s=%zz"),
            ("??/;@", "??/;@"),
        ] {
            assert_eq!(canonical_query(raw.as_bytes(), LONGEST_TARGET).as_deref(), Ok(wanted), "{raw}");
        }
    }

    #[test]
    fn what_no_target_holds_is_refused() {
        for (raw, fault) in [
            ("?a=%00", HeadFault::Escape),
            ("?a b", HeadFault::Target),
            ("?a#b", HeadFault::Target),
            ("?caf\u{e9}", HeadFault::Target),
            ("?a\u{7f}", HeadFault::Target),
        ] {
            assert_eq!(canonical_query(raw.as_bytes(), LONGEST_TARGET), Err(fault), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn what_is_canonical_is_taken_by_the_parser_behind(raw in "\\?[ -~]{0,24}") {
            if let Ok(query) = canonical_query(raw.as_bytes(), LONGEST_TARGET) {
                let target = format!("/{query}");
                let uri: http::Uri = target.parse().unwrap();
                prop_assert_eq!(uri.query(), query.strip_prefix('?'));
                let again = canonical_query(query.as_bytes(), LONGEST_TARGET);
                prop_assert!(matches!(again, Ok(Cow::Borrowed(same)) if same == query));
            }
        }
    }
}
