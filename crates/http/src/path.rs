//! The one canonical form of a request path: what routes match, what keys are made of and what the origin gets.
//!
//! Two spellings that any origin might read alike become one, and a path that origins read differently is refused:
//!
//! - escapes of unreserved characters are decoded, all other escapes get upper-case digits, and raw characters that a
//!   URI may not hold (`"<>[]^` and the like, which browsers do send) are escaped (RFC 3986 sections 2.3, 6.2.2);
//! - runs of slashes become one. Many origins merge them, so a rule for `/admin` must see `//admin` too; and a leading
//!   `//` would otherwise read as a host name. Paths that need an empty segment are not servable, which is the price;
//! - `.` and `..` segments are refused rather than resolved, whether plain, escaped, behind an escaped slash or
//!   backslash, followed by `;parameters` (which some origins cut off first) or between escaped blanks (which some trim).
//!   Browsers and curl resolve them before sending, so an honest client never sends one;
//! - escaped slashes stay escaped (`%2F`): they are data in many interfaces (`/projects/group%2Fname`). An origin that
//!   decodes them before it routes has a second reading of such a path, so a listener may refuse them or decode them
//!   ([`path_of`]), and refuses them by default where they would lead past what a route guards.

use std::borrow::Cow;

use super::fault::HeadFault;
use super::head::scan::{PATH, UNRESERVED, class, is};

/// What is done with a path that holds a slash or backslash as an escape, `%2F` or `%5C`: many origins decode it before they
/// look for the resource, and then `/admin%2Fx` is `/admin/x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapedSlash {
    /// Refused where a spelling with one would lead past what a route guards, kept otherwise.
    Auto,
    /// The request is refused.
    Refuse,
    /// It stays an escape: data, not a separator.
    Keep,
    /// It becomes a slash, for routes and for the origin.
    Decode,
}

impl EscapedSlash {
    /// Decides [`EscapedSlash::Auto`] for a policy.
    pub fn decided(self, walks_round: bool) -> EscapedSlash {
        match self {
            EscapedSlash::Auto if walks_round => EscapedSlash::Refuse,
            EscapedSlash::Auto => EscapedSlash::Keep,
            decided => decided,
        }
    }
}

/// The canonical form of a path. Borrowed when it was canonical already, which is nearly always.
///
/// The argument is the path alone, without query; it starts with `/`.
///
/// # Errors
/// [`HeadFault::TargetForm`] without a leading slash, [`HeadFault::Target`] for controls, blanks, non-ASCII bytes, `#`,
/// `?` and backslashes, [`HeadFault::Escape`] for a percent sign without two hex digits and for escaped controls,
/// [`HeadFault::DotSegment`].
pub fn canonical_path(raw: &[u8]) -> Result<Cow<'_, str>, HeadFault> {
    if raw.first() != Some(&b'/') {
        return Err(HeadFault::TargetForm);
    }
    if is_plainly_canonical(raw)
        && let Ok(path) = std::str::from_utf8(raw)
    {
        return Ok(Cow::Borrowed(path));
    }
    let path = rewrite(raw)?;
    match std::str::from_utf8(raw) {
        Ok(same) if same == path => Ok(Cow::Borrowed(same)),
        _ => Ok(Cow::Owned(path)),
    }
}

/// The canonical form of a path where escaped slashes and backslashes are refused, kept or decoded. Where the policy decides,
/// it must have done so ([`EscapedSlash::decided`]); otherwise they are kept.
///
/// # Errors
/// [`HeadFault::EscapedSlash`] where they are refused, and as [`canonical_path`]. What is decoded is judged after that.
pub fn path_of(raw: &[u8], escaped_slash: EscapedSlash) -> Result<Cow<'_, str>, HeadFault> {
    if escaped_slash == EscapedSlash::Decode
        && let Some(decoded) = with_slashes_decoded(raw)
    {
        return canonical_path(&decoded).map(|path| Cow::Owned(path.into_owned()));
    }
    let path = canonical_path(raw)?;
    let refuses = escaped_slash == EscapedSlash::Refuse;
    if refuses && path.as_bytes().windows(3).any(|escape| matches!(escape, b"%2F" | b"%5C")) {
        return Err(HeadFault::EscapedSlash);
    }
    Ok(path)
}

/// A path with its escaped slashes and backslashes as slashes; `None` when it has none. A percent sign is left as it is, so
/// that `%252F` stays data.
fn with_slashes_decoded(raw: &[u8]) -> Option<Vec<u8>> {
    let is_slash = |escape: &[u8]| matches!(escape, b"%2F" | b"%2f" | b"%5C" | b"%5c");
    raw.windows(3).any(is_slash).then(|| {
        let mut decoded = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((&byte, behind)) = rest.split_first() {
            let slash = rest.split_at_checked(3).filter(|(escape, _)| is_slash(escape));
            decoded.push(if slash.is_some() { b'/' } else { byte });
            rest = slash.map_or(behind, |(_, behind)| behind);
        }
        decoded
    })
}

/// Whether one pass can tell that nothing needs a second look: no escape, no slash or dot behind a slash.
fn is_plainly_canonical(raw: &[u8]) -> bool {
    // both without a branch for every byte
    let behind_slash = raw
        .iter()
        .zip(raw.iter().skip(1))
        .fold(false, |found, (&before, &byte)| found | ((before == b'/') & ((byte == b'/') | (byte == b'.'))));
    !behind_slash && raw.iter().fold(PATH, |classes, &byte| classes & class(byte)) != 0
}

/// One pass, as a stranger decides how many escapes and segments there are.
fn rewrite(raw: &[u8]) -> Result<String, HeadFault> {
    let mut path = Vec::with_capacity(raw.len() + 16);
    let mut name = Name::Empty;
    let mut has_dots = false;
    let mut rest = raw;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        let (byte, escaped) = match *byte {
            b'%' => {
                let [high, low, behind @ ..] = rest else { return Err(HeadFault::Escape) };
                rest = behind;
                let (Some(high), Some(low)) = (hex(*high), hex(*low)) else { return Err(HeadFault::Escape) };
                let value = high << 4 | low;
                if value.is_ascii_control() {
                    return Err(HeadFault::Escape);
                }
                (value, !is(value, UNRESERVED))
            }
            b'/' if path.last() == Some(&b'/') => continue,
            byte if is(byte, PATH) => (byte, false),
            byte if byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'?') => (byte, true),
            _ => return Err(HeadFault::Target),
        };
        // the faults of bytes come before that of the whole
        has_dots |= name.is_dots() && matches!(byte, b'/' | b'\\' | b';');
        name = name.and(byte);
        if escaped {
            path.extend_from_slice(&[b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        } else {
            path.push(byte);
        }
    }
    if has_dots || name.is_dots() {
        return Err(HeadFault::DotSegment);
    }
    String::from_utf8(path).map_err(|_| HeadFault::Target)
}

/// The name of a segment so far, as any reader could see it: slashes and backslashes separate, escaped or not, `;` ends the name,
/// and blanks around it are no part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Empty,
    Dot,
    Dots,
    /// One dot or two, and blanks.
    DotsAndBlanks,
    Other,
}

impl Name {
    fn is_dots(self) -> bool {
        matches!(self, Name::Dot | Name::Dots | Name::DotsAndBlanks)
    }

    fn and(self, byte: u8) -> Name {
        match (byte, self) {
            (b'/' | b'\\', _) | (b' ', Name::Empty) => Name::Empty,
            (b'.', Name::Empty) => Name::Dot,
            (b'.', Name::Dot) => Name::Dots,
            (b' ', Name::Dot | Name::Dots | Name::DotsAndBlanks) => Name::DotsAndBlanks,
            _ => Name::Other,
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(raw: &str) -> Result<String, HeadFault> {
        canonical_path(raw.as_bytes()).map(Cow::into_owned)
    }

    #[test]
    fn spellings_of_one_path_become_one() {
        for (raw, wanted) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("/%61dmin", "/admin"),
            ("/%7Euser/%5f", "/~user/_"),
            ("/a%2fb", "/a%2Fb"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("//admin", "/admin"),
            ("/a///b//", "/a/b/"),
            ("/a|b\"c", "/a%7Cb%22c"),
            ("/a%7cb", "/a%7Cb"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a..%20/%20/.%20.", "/a..%20/%20/.%20."),
            ("/a;v=1/b", "/a;v=1/b"),
            ("/%252e%252e/", "/%252e%252e/"),
            ("/a:b@c", "/a:b@c"),
        ] {
            assert_eq!(canonical(raw).as_deref(), Ok(wanted), "{raw}");
        }
    }

    #[test]
    fn paths_with_two_readings_are_refused() {
        for (raw, fault) in [
            ("", HeadFault::TargetForm),
            ("admin", HeadFault::TargetForm),
            ("/.", HeadFault::DotSegment),
            ("/..", HeadFault::DotSegment),
            ("/a/../b", HeadFault::DotSegment),
            ("/a/./b", HeadFault::DotSegment),
            ("/a/%2e%2E/b", HeadFault::DotSegment),
            ("/a/.%2e", HeadFault::DotSegment),
            ("/a%2f..%2Fb", HeadFault::DotSegment),
            ("/a%5c..%5cb", HeadFault::DotSegment),
            ("/a/..;x=1/b", HeadFault::DotSegment),
            ("/a/..%3bx/b", HeadFault::DotSegment),
            ("/a//..", HeadFault::DotSegment),
            ("/a/..%20/b", HeadFault::DotSegment),
            ("/a/%2e%2e%20%20", HeadFault::DotSegment),
            ("/a/.%20;x/b", HeadFault::DotSegment),
            ("/a%5c%20..%2Fb", HeadFault::DotSegment),
            ("/a\\b", HeadFault::Target),
            ("/a b", HeadFault::Target),
            ("/a\u{e9}", HeadFault::Target),
            ("/a#b", HeadFault::Target),
            ("/a?b", HeadFault::Target),
            ("/a%", HeadFault::Escape),
            ("/a%4", HeadFault::Escape),
            ("/a%zz", HeadFault::Escape),
            ("/a%00", HeadFault::Escape),
            ("/a%0d%0a", HeadFault::Escape),
            ("/a%7f", HeadFault::Escape),
        ] {
            assert_eq!(canonical(raw), Err(fault), "{raw}");
        }
    }

    #[test]
    fn what_is_canonical_already_is_not_copied() {
        for raw in ["/a/b.html", "/.well-known/acme", "/caf%C3%A9"] {
            assert!(matches!(canonical_path(raw.as_bytes()), Ok(Cow::Borrowed(path)) if path == raw), "{raw}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn canonicalising_twice_changes_nothing_more(raw in "/[a-c./%2eEfF5C;\\\\|]{0,24}") {
            if let Ok(once) = canonical(&raw) {
                let twice = canonical(&once);
                prop_assert_eq!(twice.as_ref(), Ok(&once));
                prop_assert!(once.starts_with('/') && !once.contains("//"));
            }
        }

        #[test]
        fn any_bytes_are_judged_without_a_panic(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(path) = canonical_path(&raw) {
                prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
