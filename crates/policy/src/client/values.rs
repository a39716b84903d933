//! The values that one request has under a name: cookies and query parameters, told apart by what they mean and not by how
//! they are spelled.
//!
//! Applications do not agree on which of two values is meant, nor on what separates them. A limit that believes one reader is
//! walked round at all others. So every value counts that some reader finds:
//!
//! * **Query.** `&` separates. Where a `;` stands, the query is read a second time with `;` as a separator too.
//! * **Cookies.** `;` separates, over all lines (RFC 6265 §4.2.1; HTTP/2 splits the line at will, RFC 9113 §8.2.3).
//!
//! Two spellings are one value: `%6b1` is `k1` in names and values, and a `+` is a blank however either is written (some
//! readers turn `+` into a blank, some do not). A percent sign without two hex digits stays as it is. Of a cookie, quotes
//! around the value are no part of it, and within them `\153` and `\k` are `k`. Blanks in front of a name are no part of it.
//!
//! One pass over the bytes for each value that is told apart, of which there are [`MOST_VALUES`].

use arrayvec::ArrayVec;
use http::HeaderMap;
use http::header::COOKIE;
use memchr::{memchr, memchr_iter, memchr2_iter, memchr3};

use super::x_forwarded_for::trimmed;

/// The most different values of one name that a request may have.
pub const MOST_VALUES: usize = 4;

/// The most cookies or parameters of a request of which one is read. Browsers keep fewer of the first. Applications refuse more than
/// 1,000 of the second (PHP, Django, Tomcat), but to tell pairs apart costs many times what passing over their bytes does: in 7,500 bytes
/// 940 pairs cost 3.6 times what one costs, and 470 pairs 3.2 times.
pub const MOST_PAIRS: usize = 256;

/// The different values of one name.
pub type Values<'a> = ArrayVec<Value<'a>, MOST_VALUES>;

/// A request has more different values than [`MOST_VALUES`], or more than [`MOST_PAIRS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// One value as it was sent. Equal to all other spellings of the same value.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    raw: &'a [u8],
    /// Whether it stood in quotes, so that a backslash escapes.
    quoted: bool,
}

impl<'a> Value<'a> {
    fn plain(raw: &'a [u8]) -> Value<'a> {
        Value { raw, quoted: false }
    }

    fn of_cookie(value: &'a [u8]) -> Value<'a> {
        match trimmed(value) {
            [b'"', inner @ .., b'"'] => Value { raw: inner, quoted: true },
            value => Value::plain(value),
        }
    }

    /// The bytes as they were sent, if they mean themselves.
    pub fn as_sent(&self) -> Option<&'a [u8]> {
        let escape = if self.quoted { b'\\' } else { b'%' };
        memchr3(b'%', b'+', escape, self.raw).is_none().then_some(self.raw)
    }

    fn is_spelled_as(&self, other: &Value<'_>) -> bool {
        self.raw == other.raw && self.quoted == other.quoted
    }

    /// What the value means, byte by byte, a `+` being a blank however it is written.
    pub fn bytes(&self) -> Meant<'a> {
        Meant { rest: self.raw, quoted: self.quoted, plus_stays: false }
    }

    /// The value as a form's reader decodes it, where `%2B` is a `+`.
    pub fn decoded(&self) -> Vec<u8> {
        Meant { plus_stays: true, ..self.bytes() }.collect()
    }

    /// Whether the value means this text, in which a `+` stands for itself or a blank.
    pub fn is(&self, text: &str) -> bool {
        self.bytes().eq(text.bytes().map(blank_for_plus))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.is_spelled_as(other) || are_equal(self.bytes(), other.bytes())
    }
}

impl Eq for Value<'_> {}

/// The bytes that a value means.
#[derive(Debug, Clone)]
pub struct Meant<'a> {
    rest: &'a [u8],
    quoted: bool,
    /// Whether an escaped `+` is one.
    plus_stays: bool,
}

impl Iterator for Meant<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = match self.rest {
            [byte, rest @ ..] if !matches!(byte, b'%' | b'+' | b'\\') => (*byte, rest),
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), rest)
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] if self.quoted => {
                ((a & 3) << 6 | (b & 7) << 3 | (c & 7), rest)
            }
            [b'\\', byte, rest @ ..] if self.quoted => (*byte, rest),
            [byte, rest @ ..] => (blank_for_plus(*byte), rest),
            [] => return None,
        };
        self.rest = rest;
        Some(if self.plus_stays { byte } else { blank_for_plus(byte) })
    }
}

#[inline]
fn blank_for_plus(byte: u8) -> u8 {
    if byte == b'+' { b' ' } else { byte }
}

/// The value of a hex digit: letters stand nine behind it in their lowest four bits.
#[inline]
fn hex(digit: u8) -> u8 {
    (digit & 15) + 9 * (digit >> 6)
}

/// The different cookies of that name, the first one first.
///
/// # Errors
/// There are more than [`MOST_VALUES`], or more than [`MOST_PAIRS`] in all.
pub fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> Result<Values<'a>, TooMany> {
    let mut found = Values::new();
    let name = Name::of(name);
    let pairs = headers.get_all(COOKIE).into_iter().map(|line| 1 + memchr_iter(b';', line.as_bytes()).count());
    if pairs.sum::<usize>() > MOST_PAIRS {
        return Err(TooMany);
    }
    for pair in headers.get_all(COOKIE).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';')) {
        if name.may_begin(pair) {
            let (sent, value) = split_pair(pair);
            if name.is(trimmed(sent)) {
                add(&mut found, Value::of_cookie(value))?;
            }
        }
    }
    Ok(found)
}

/// The different parameters of that name, the first one first; without `=`, a value is empty.
///
/// # Errors
/// There are more than [`MOST_VALUES`], or more than [`MOST_PAIRS`] in all.
pub fn parameters<'a>(query: &'a str, name: &str) -> Result<Values<'a>, TooMany> {
    let mut found = Values::new();
    for reading in readings(query)?.into_iter().flatten() {
        for value in reading.values(name) {
            add(&mut found, value)?;
        }
    }
    Ok(found)
}

/// The ways in which a query can be cut into parameters.
///
/// # Errors
/// It has more than [`MOST_PAIRS`], however it is cut.
pub fn readings(query: &str) -> Result<[Option<Reading<'_>>; 2], TooMany> {
    let query = query.as_bytes();
    if memchr2_iter(b'&', b';', query).nth(MOST_PAIRS - 1).is_some() {
        return Err(TooMany);
    }
    let semicolons = memchr(b';', query).is_some().then_some(Reading { query, semicolons: true });
    Ok([Some(Reading { query, semicolons: false }), semicolons])
}

/// One way to cut a query into parameters.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    query: &'a [u8],
    semicolons: bool,
}

impl<'a> Reading<'a> {
    /// All values of that name, in their order.
    pub fn values<'n>(self, name: &'n str) -> impl Iterator<Item = Value<'a>> + use<'a, 'n> {
        let separates = move |byte: &u8| *byte == b'&' || (self.semicolons && *byte == b';');
        let name = Name::of(name);
        self.query.split(separates).filter(move |pair| name.may_begin(pair)).filter_map(move |pair| {
            let (sent, value) = split_pair(pair);
            name.is(sent).then(|| Value::plain(value))
        })
    }
}

/// Adds a value that is not there yet.
fn add<'a>(found: &mut Values<'a>, value: Value<'a>) -> Result<(), TooMany> {
    // most that come again are spelled alike
    let is_known = found.iter().any(|known| known.is_spelled_as(&value)) || found.contains(&value);
    if is_known { Ok(()) } else { found.try_push(value).map_err(|_| TooMany) }
}

/// The name that is looked for. It means something: see [`is_blank`].
#[derive(Debug, Clone, Copy)]
struct Name<'n> {
    /// As the operator writes it: as it stands in a URL, so it may have escapes itself.
    text: &'n [u8],
    /// Whether it has any.
    escaped: bool,
    /// The first byte that it means.
    first: Option<u8>,
    /// How many bytes it means, which no spelling is shorter than.
    shortest: usize,
}

impl<'n> Name<'n> {
    fn of(name: &'n str) -> Name<'n> {
        let text = name.as_bytes();
        let mut meant = meant(text);
        let first = meant.next();
        Name { text, escaped: is_escaped(text), first, shortest: usize::from(first.is_some()) + meant.count() }
    }

    /// Whether what is sent may begin with the name. A stranger chooses how many pairs there are, so most are told by the
    /// first byte that they mean.
    #[inline]
    fn may_begin(&self, pair: &[u8]) -> bool {
        pair.len() >= self.shortest
            && match pair.first() {
                Some(b'%' | b'+' | b' ' | b'\t') => self.may_follow_blanks(pair),
                first => first.copied() == self.first || pair.is_empty(),
            }
    }

    /// The same behind blanks, however they are written. What a tab is, only the reader of cookies knows.
    fn may_follow_blanks(&self, mut pair: &[u8]) -> bool {
        while let [b'+' | b' ', rest @ ..] = pair {
            pair = rest;
        }
        let mut meant = Value::plain(pair).bytes();
        loop {
            match meant.next() {
                Some(b' ') => {}
                first => return first == self.first || first == Some(b'\t'),
            }
        }
    }

    /// Whether what was sent means the name.
    fn is(&self, sent: &[u8]) -> bool {
        match (self.escaped, is_escaped(sent)) {
            (false, false) => sent == self.text,
            (false, true) => are_equal(meant(sent), self.text.iter().copied()),
            (true, _) => are_equal(meant(sent), meant(self.text)),
        }
    }
}

/// [`Iterator::eq`] in one loop, which builds without optimisation do not make of it.
fn are_equal(mut one: impl Iterator<Item = u8>, mut other: impl Iterator<Item = u8>) -> bool {
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (a, b) if a != b => return false,
            _ => {}
        }
    }
}

/// Whether a name may mean other bytes than it is written in.
#[inline]
fn is_escaped(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'%' | b'+' | b' '))
}

/// What a name means; blanks in front are no part of it.
fn meant(name: &[u8]) -> Meant<'_> {
    let mut meant = Value::plain(name).bytes();
    loop {
        let here = meant.clone();
        if meant.next() != Some(b' ') {
            return here;
        }
    }
}

/// Returns whether a cookie's or parameter's name means nothing: it is empty, or all of it is blanks. No request can be meant by it,
/// so a policy may not ask for it.
pub fn is_blank(name: &str) -> bool {
    meant(name.as_bytes()).next().is_none()
}

/// What stands before the first `=`, and what behind it; without one, the value is empty.
#[inline]
fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    let equals = memchr(b'=', pair).unwrap_or(pair.len());
    let (name, value) = pair.split_at_checked(equals).unwrap_or_default();
    // an empty one too lies where the pair does: to compare bytes at no address at all costs some processors 100 ns
    (name, value.get(1..).unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(values: Result<Values<'_>, TooMany>) -> Vec<String> {
        values.unwrap().iter().map(|value| String::from_utf8(value.bytes().collect()).unwrap()).collect()
    }

    fn of_query(query: &str) -> Vec<String> {
        meant(parameters(query, "token"))
    }

    fn of_cookie(line: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, line.parse().unwrap());
        meant(cookies(&headers, "sid"))
    }

    #[test]
    fn spellings_of_one_value_are_one() {
        for query in [
            "token=k1",
            "token=%6b1",
            "token=%6B%31",
            "t%6fken=k1",
            "+token=k1",
            "%20token=k1",
            "token=k1&t%6Fken=%6b1&x=2",
            "x=2;token=k1",
            "token=k1;token=k1&token=k1",
        ] {
            let all = of_query(query);
            assert!(all.contains(&"k1".to_owned()), "{query}: {all:?}");
        }
        assert_eq!(of_query("token=k1&t%6Fken=%6b1"), ["k1"]);
        assert_eq!(of_query("token=a+b&token=a%20b&token=a%2Bb"), ["a b"]);
        assert_eq!(of_query("token=%zz&token=%&token=%6"), ["%zz", "%", "%6"]);
        assert_eq!(of_query("token&token="), [""]);
    }

    #[test]
    fn a_semicolon_separates_and_does_not() {
        assert_eq!(of_query("token=k1;x=2"), ["k1;x=2", "k1"]);
        assert_eq!(of_query("a=1;token=k1"), ["k1"]);
        assert_eq!(of_query("token=k1&x=a;b"), ["k1"]);
        assert_eq!(of_query("tokens=k1&x=token&Token=k1"), [""; 0]);
    }

    #[test]
    fn a_cookie_has_no_quotes() {
        for line in ["sid=k1", "a=b; sid=k1 ", "sid=\"k1\"", "s%69d=%6b1", "sid=\"\\1531\"", "sid=\"\\k1\""] {
            assert_eq!(of_cookie(line), ["k1"], "{line}");
        }
        assert_eq!(of_cookie("sid=k1; sid=\"k1\"; sid=k2"), ["k1", "k2"]);
        assert_eq!(of_cookie("sid=\"; sid=\"k1; sid=a\\153"), ["\"", "\"k1", "a\\153"]);
        assert_eq!(of_cookie("sidx=1; x=sid=2; SID=3"), [""; 0]);
    }

    #[test]
    fn a_name_is_never_passed_over_for_how_it_begins() {
        for name in ["token", "t%6Fken", "%74oken", "+token", "a[]", "%20x", "\u{e9}"] {
            let escaped: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for sent in [name.to_owned(), format!("+{name}"), format!("%20{name}"), format!(" \t+{name}"), escaped] {
                let (looked_for, is_same) = (Name::of(name), Name::of(name).is(trimmed(sent.as_bytes())));
                assert!(!is_same || looked_for.may_begin(format!("{sent}=1").as_bytes()), "{name} {sent}");
            }
            assert!(Name::of(name).is(name.as_bytes()) && Name::of(name).may_begin(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_name_of_blanks_means_nothing() {
        for (name, blank) in [
            ("", true),
            ("+", true),
            (" ", true),
            ("%20", true),
            ("+%2b%2B", true),
            ("%", false),
            ("+a", false),
            ("%2", false),
        ] {
            assert_eq!(is_blank(name), blank, "{name:?}");
        }
    }

    #[test]
    fn of_pairs_without_end_none_is_read() {
        for separator in ["&", ";"] {
            let most = format!("{}token=a", format!("x{separator}").repeat(MOST_PAIRS - 1));
            assert_eq!(of_query(&most), ["a"]);
            assert_eq!(parameters(&format!("{most}{separator}"), "token"), Err(TooMany));
        }
        let mut headers = HeaderMap::new();
        for line in ["a;".repeat(MOST_PAIRS - 2), "sid=k1".to_owned()] {
            headers.append(COOKIE, line.parse().unwrap());
        }
        assert_eq!(meant(cookies(&headers, "sid")), ["k1"]);
        headers.append(COOKIE, "b=c".parse().unwrap());
        assert_eq!(cookies(&headers, "sid"), Err(TooMany));
    }

    #[test]
    fn a_fifth_value_is_one_too_many() {
        assert_eq!(of_query("token=1&token=2&token=3&token=4&token=%34").len(), 4);
        assert_eq!(parameters("token=1&token=2&token=3&token=4&token=5", "token"), Err(TooMany));
        assert_eq!(parameters("token=1;2&token=3;4&token=5", "token").map(|_| ()), Err(TooMany));
    }
}
