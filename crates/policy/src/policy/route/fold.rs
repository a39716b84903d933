//! What a path match ignores, and the folded form in which such matches are compared.
//!
//! Origins take several spellings of a path for one: `/Login`, `/login/`, `/login;a=1`, `/login.`, `/login%20`, `/%2Flogin`.
//! A match that ignores these folds its pattern once, when the policy is loaded, and the path of a request into a few bytes
//! on the stack, no further than its longest pattern needs. So it costs one pass over the path, and no memory.

use arrayvec::ArrayVec;
use memchr::memchr2;

/// The spellings that a path match ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ignore(u8);

impl Ignore {
    /// None of them: paths are compared byte by byte.
    pub const NONE: Ignore = Ignore(0);
    /// Capitals: `/Login`. Of ASCII letters, and of the four others that some origins fold onto them (`ſ`, `K` the Kelvin
    /// sign, `ı`, `İ`).
    pub const CASE: Ignore = Ignore(1);
    /// A slash at the end: `/login/`.
    pub const TRAILING_SLASH: Ignore = Ignore(1 << 1);
    /// What stands behind a semicolon in any segment, as Java servlets do: `/login;a=1`, `/login%3Ba=1`.
    pub const PARAMETERS: Ignore = Ignore(1 << 2);
    /// Escaped blanks and dots at the end of any segment, as Windows does: `/login%20`, `/login.`.
    pub const TRAILING_BLANKS: Ignore = Ignore(1 << 3);
    /// Escapes of characters that may stand plain: `/user%40home` for `/user@home`.
    pub const ESCAPES: Ignore = Ignore(1 << 4);
    /// Slashes and backslashes as escapes, read as slashes: `/admin%2Fx`, `/admin%5Cx`.
    pub const ESCAPED_SLASH: Ignore = Ignore(1 << 5);
    /// All of them.
    pub const ALL: Ignore = Ignore((1 << 6) - 1);

    /// Each by its word in the policy file.
    pub const WORDS: [(Ignore, &'static str); 6] = [
        (Ignore::CASE, "case"),
        (Ignore::TRAILING_SLASH, "trailing_slash"),
        (Ignore::PARAMETERS, "parameters"),
        (Ignore::TRAILING_BLANKS, "trailing_blanks"),
        (Ignore::ESCAPES, "escapes"),
        (Ignore::ESCAPED_SLASH, "escaped_slash"),
    ];

    /// These and those.
    pub const fn and(self, other: Ignore) -> Ignore {
        Ignore(self.0 | other.0)
    }

    /// Returns `true` if all of `other` are ignored.
    pub const fn has(self, other: Ignore) -> bool {
        self.0 & other.0 == other.0
    }

    /// The words of those that are ignored.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Ignore::WORDS.into_iter().filter(move |(one, _)| self.has(*one)).map(|(_, word)| word)
    }
}

/// The longest folded pattern, in bytes. A longer one is compared as it is written.
pub const LONGEST: usize = 254;

/// Room for the folded beginning of a path: the longest pattern, and the byte behind it that tells whether a segment ends.
pub type Room = ArrayVec<u8, { LONGEST + 2 }>;

/// Room for a path as keys count it. Of a longer one its beginning counts, so that no spelling of its end buys a fresh count.
pub type KeyRoom = ArrayVec<u8, 2048>;

/// A canonical path as keys of a route count it that ignores these spellings: each spelling is the same key. Escaped slashes within
/// parameters do not end them, or what stands behind them would be a new key each time.
pub fn counted<'r>(path: &str, ignore: Ignore, room: &'r mut KeyRoom) -> &'r str {
    fold(path, ignore, Within::None, room.capacity(), room).0
}

/// The folded form of a pattern; `None` if it is too long.
pub fn pattern(path: &str, ignore: Ignore) -> Option<Box<str>> {
    let mut room = Room::new();
    let (folded, _) = fold(path, ignore, Within::All, LONGEST, &mut room);
    (folded.len() <= LONGEST).then(|| folded.into())
}

/// Which escaped slashes end parameters where both are ignored. Origins differ in it: `/login;%2Fx` is `/login/x` for one that
/// decodes before it cuts parameters off and `/login` for one that cuts first. Such a path is folded in each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// Slashes and backslashes.
    All,
    /// Slashes.
    Slashes,
    /// None.
    None,
}

impl Within {
    /// All ways; the first is enough for a path that is the same in each.
    pub const WAYS: [Within; 3] = [Within::All, Within::Slashes, Within::None];

    /// Whether this escaped slash or backslash ends parameters.
    fn ends_at(self, slash: u8) -> bool {
        self == Within::All || (self == Within::Slashes && slash == b'/')
    }
}

/// Folds a canonical path; says whether another way to fold it might end in something else. What is longer than `enough` bytes
/// is cut somewhere behind them; so is what there is no room for.
pub fn fold<'r, const N: usize>(
    path: &str,
    ignore: Ignore,
    within: Within,
    enough: usize,
    room: &'r mut ArrayVec<u8, N>,
) -> (&'r str, bool) {
    room.clear();
    let mut folding = Folding { room, length: 0, begins: true };
    let mut rest = path.as_bytes();
    // from the first of the soft characters that stand right before what is read
    let mut soft: Option<&[u8]> = None;
    let mut in_parameters = false;
    let mut ends_empty = false;
    let mut ambiguous = false;
    while let Some((token, behind)) = next(rest, ignore) {
        match token {
            Token::Escaped(slash) if in_parameters && !within.ends_at(slash) => ambiguous = true,
            Token::Separator | Token::Escaped(_) => {
                ambiguous |= in_parameters && matches!(token, Token::Escaped(_));
                (folding.begins, soft) = (true, None);
                in_parameters = false;
                ends_empty = true;
            }
            _ if in_parameters => {}
            Token::Parameters => in_parameters = true,
            Token::Soft => soft = soft.or(Some(rest)),
            Token::Solid(_) | Token::Letter(_) => {
                let skipped = soft.take().and_then(|from| from.get(..from.len() - rest.len())).unwrap_or_default();
                match token {
                    Token::Letter(letter) => folding.put(skipped, &[letter]),
                    Token::Solid(text) => folding.put(skipped, text),
                    _ => {}
                }
                ends_empty = false;
                if folding.length > enough {
                    break;
                }
            }
        }
        // nothing else ends parameters, and a path can be made of little else
        let end = if in_parameters { memchr2(b'/', b'%', behind).unwrap_or(behind.len()) } else { 0 };
        rest = behind.get(end..).unwrap_or_default();
    }
    if ends_empty && !ignore.has(Ignore::TRAILING_SLASH) {
        folding.begins = true;
        folding.put(b"", b"");
    }
    (std::str::from_utf8(room).unwrap_or_default(), ambiguous)
}

/// One character of a path, as far as it matters here.
enum Token<'p> {
    Separator,
    /// A separator as an escape: a slash or a backslash.
    Escaped(u8),
    /// All up to the next separator is ignored.
    Parameters,
    /// Counts unless it stands at a segment's end.
    Soft,
    Solid(&'p [u8]),
    Letter(u8),
}

/// The first character, and what stands behind it.
#[inline]
fn next(bytes: &[u8], ignore: Ignore) -> Option<(Token<'_>, &[u8])> {
    if let [b'%', high, low, behind @ ..] = bytes {
        if matches!(high, b'C' | b'E')
            && ignore.has(Ignore::CASE)
            && let Some((letter, behind)) = far_letter(bytes)
        {
            return Some((Token::Letter(letter), behind));
        }
        let token = match (high, low) {
            (b'2', b'F') if ignore.has(Ignore::ESCAPED_SLASH) => Token::Escaped(b'/'),
            (b'5', b'C') if ignore.has(Ignore::ESCAPED_SLASH) => Token::Escaped(b'\\'),
            (b'3', b'B') if ignore.has(Ignore::PARAMETERS) => Token::Parameters,
            (b'2', b'0') if ignore.has(Ignore::TRAILING_BLANKS) => Token::Soft,
            _ => match plain(*high, *low).filter(|_| ignore.has(Ignore::ESCAPES)) {
                Some(plain) => Token::Letter(plain),
                None => Token::Solid(bytes.get(..3)?),
            },
        };
        return Some((token, behind));
    }
    let (&byte, rest) = bytes.split_first()?;
    let token = match byte {
        b'/' => Token::Separator,
        b';' if ignore.has(Ignore::PARAMETERS) => Token::Parameters,
        b'.' if ignore.has(Ignore::TRAILING_BLANKS) => Token::Soft,
        byte if ignore.has(Ignore::CASE) => Token::Letter(byte.to_ascii_lowercase()),
        byte => Token::Letter(byte),
    };
    Some((token, rest))
}

/// The character that may also stand plain in a canonical path (RFC 3986 section 3.3), by the digits of its escape.
fn plain(high: u8, low: u8) -> Option<u8> {
    Some(match (high, low) {
        (b'2', b'1') => b'!',
        (b'2', b'4') => b'$',
        (b'2', b'6') => b'&',
        (b'2', b'7') => b'\'',
        (b'2', b'8') => b'(',
        (b'2', b'9') => b')',
        (b'2', b'A') => b'*',
        (b'2', b'B') => b'+',
        (b'2', b'C') => b',',
        (b'3', b'A') => b':',
        (b'3', b'B') => b';',
        (b'3', b'D') => b'=',
        (b'4', b'0') => b'@',
        _ => return None,
    })
}

/// A letter beyond ASCII whose capital or small form is one of ASCII: an origin that compares without case takes one for the
/// other.
fn far_letter(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let letters: [(&[u8], u8); 4] = [(b"%C5%BF", b's'), (b"%E2%84%AA", b'k'), (b"%C4%B0", b'i'), (b"%C4%B1", b'i')];
    letters.iter().find_map(|(escapes, letter)| Some((*letter, bytes.strip_prefix(*escapes)?)))
}

/// The folded form as far as it is known.
struct Folding<'r, const N: usize> {
    room: &'r mut ArrayVec<u8, N>,
    /// Its length, also of what there was no room for.
    length: usize,
    /// Nothing of this segment has been put yet. One of which nothing is ever put is ignored.
    begins: bool,
}

impl<const N: usize> Folding<'_, N> {
    #[inline]
    fn put(&mut self, skipped: &[u8], text: &[u8]) {
        let slash: &[u8] = if self.begins { b"/" } else { b"" };
        self.begins = false;
        for part in [slash, skipped, text] {
            self.length += part.len();
            for byte in part.iter().take(self.room.remaining_capacity()) {
                self.room.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(path: &str, ignore: Ignore) -> String {
        fold(path, ignore, Within::All, LONGEST, &mut Room::new()).0.to_owned()
    }

    #[test]
    fn each_word_ignores_what_it_says_and_nothing_else() {
        for (word, path, wanted) in [
            (Ignore::CASE, "/Log%C5%BFin/%E2%84%AA%C4%B0", "/logsin/ki"),
            (Ignore::TRAILING_SLASH, "/Login/", "/Login"),
            (Ignore::TRAILING_SLASH, "/", ""),
            (Ignore::PARAMETERS, "/a;x=1/login;b%2F", "/a/login"),
            (Ignore::PARAMETERS, "/login%3Bb/", "/login/"),
            (Ignore::PARAMETERS, "/;x/login", "/login"),
            (Ignore::TRAILING_BLANKS, "/a.%20./b..c.", "/a/b..c"),
            (Ignore::TRAILING_BLANKS, "/%20/b", "/b"),
            (Ignore::ESCAPES, "/a%40b%21%2F%5C%22", "/a@b!%2F%5C%22"),
            (Ignore::ESCAPED_SLASH, "/a%2Fb%5C%2Fc", "/a/b/c"),
            (Ignore::ESCAPED_SLASH, "/%2Flogin", "/login"),
            (Ignore::ESCAPED_SLASH, "/login%2F", "/login/"),
            (Ignore::ALL, "/%2FLOGIN.%20;x/;y/", "/login"),
        ] {
            assert_eq!(folded(path, word), wanted, "{path}");
        }
        for path in ["/", "/Login/", "/a;x=1/b%3B", "/a./b%20", "/a%40b", "/a%2Fb", "/%C5%BF", "/..."] {
            assert_eq!(folded(path, Ignore::NONE), path);
        }
    }

    #[test]
    fn an_escaped_slash_within_parameters_is_read_in_each_way() {
        let ways = |path: &str| {
            Within::WAYS.map(|within| fold(path, Ignore::ALL, within, LONGEST, &mut Room::new()).0.to_owned())
        };
        assert_eq!(ways("/login;%2Fx"), ["/login/x", "/login/x", "/login"]);
        assert_eq!(ways("/login;%5Cx/y"), ["/login/x/y", "/login/y", "/login/y"]);
        assert!(fold("/login;%5Cx", Ignore::ALL, Within::All, LONGEST, &mut Room::new()).1);
        assert!(!fold("/login%5C;x", Ignore::ALL, Within::All, LONGEST, &mut Room::new()).1);
    }

    #[test]
    fn what_is_longer_than_asked_for_is_cut_behind_it() {
        let mut room = Room::new();
        let long = format!("/login{}/x", ".".repeat(5_000));
        assert_eq!(fold(&long, Ignore::ALL, Within::All, 6, &mut room), ("/login/x", false));
        let long = format!("/login{}x", ".".repeat(5_000));
        assert!(fold(&long, Ignore::ALL, Within::All, 6, &mut room).0.len() > 6);
        let long = format!("/login{}", "x".repeat(5_000));
        assert_eq!(fold(&long, Ignore::ALL, Within::All, 6, &mut room), ("/loginx", false));
        assert_eq!(pattern(&long, Ignore::ALL), None);
        assert_eq!(pattern("/Login/", Ignore::ALL).as_deref(), Some("/login"));
    }
}
