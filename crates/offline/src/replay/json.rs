//! A scanner over one line of JSON that copies nothing: it says where keys and values are.
//!
//! It is lenient: what is well-formed is read as it should be, and what is not may be read as something or as nothing, in
//! time and memory of the line. Nesting costs no stack.

use memchr::{memchr, memchr2};

use super::line::Span;

/// Where a scan has come to.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

/// A value, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// What is between the quotes, as it stands; see [`unescape`].
    Text(Span),
    /// A number, as it stands.
    Number(Span),
    /// An object, a list or a word, whole.
    Other(Span),
}

impl Value {
    /// The text's part, or none.
    pub fn text(self) -> Span {
        if let Value::Text(span) = self { span } else { Span::NONE }
    }

    /// The part of a number, or of a text that may hold one.
    pub fn figures(self) -> Span {
        match self {
            Value::Text(span) | Value::Number(span) => span,
            Value::Other(_) => Span::NONE,
        }
    }

    /// All of it; of a text, what is between the quotes.
    pub fn whole(self) -> Span {
        match self {
            Value::Text(span) | Value::Number(span) | Value::Other(span) => span,
        }
    }
}

impl<'a> Scan<'a> {
    /// At the beginning of a line.
    pub fn new(text: &'a [u8]) -> Scan<'a> {
        Scan { text, at: 0 }
    }

    /// Goes into the object that is next; `false` if it is none.
    pub fn enter(&mut self) -> bool {
        self.open(b'{')
    }

    /// Goes into the list that is next; `false` if it is none.
    pub fn enter_list(&mut self) -> bool {
        self.open(b'[')
    }

    fn open(&mut self, bracket: u8) -> bool {
        self.blanks();
        let opens = self.text.get(self.at) == Some(&bracket);
        self.at += usize::from(opens);
        opens
    }

    /// The next key of the object that the scan is in, as it stands; none at its end, or where it cannot be read on. The
    /// value is next and must be taken by [`Scan::value`] or entered.
    #[inline]
    pub fn key(&mut self) -> Option<&'a [u8]> {
        self.key_span()?.of(self.text)
    }

    /// The same, as where it is.
    #[inline]
    pub fn key_span(&mut self) -> Option<Span> {
        self.blanks();
        if self.text.get(self.at) == Some(&b',') {
            self.at += 1;
            self.blanks();
        }
        match self.text.get(self.at)? {
            b'"' => {}
            b'}' => {
                self.at += 1;
                return None;
            }
            _ => return None,
        }
        let key = self.string()?;
        self.blanks();
        if self.text.get(self.at) != Some(&b':') {
            return None;
        }
        self.at += 1;
        Some(key)
    }

    /// The next value of the list that the scan is in; none at its end.
    pub fn element(&mut self) -> Option<Value> {
        self.blanks();
        match self.text.get(self.at)? {
            b']' => {
                self.at += 1;
                return None;
            }
            b',' => self.at += 1,
            _ => {}
        }
        self.value()
    }

    /// The value that is next, whatever it holds.
    #[inline]
    pub fn value(&mut self) -> Option<Value> {
        self.blanks();
        let from = self.at;
        match self.text.get(from)? {
            b'"' => self.string().map(Value::Text),
            b'{' | b'[' => {
                self.pass()?;
                Some(Value::Other(Span::new(from, self.at)))
            }
            first => {
                let is_number = first.is_ascii_digit() || *first == b'-';
                while let Some(byte) = self.text.get(self.at)
                    && !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')
                {
                    self.at += 1;
                }
                let span = Span::new(from, self.at);
                (self.at > from).then_some(if is_number { Value::Number(span) } else { Value::Other(span) })
            }
        }
    }

    /// Whether nothing but blanks follows.
    pub fn is_over(&mut self) -> bool {
        self.blanks();
        self.at >= self.text.len()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// The string that begins here; the scan goes behind it.
    fn string(&mut self) -> Option<Span> {
        let from = self.at + 1;
        let mut at = from;
        loop {
            let rest = self.text.get(at..)?;
            let found = at + memchr2(b'"', b'\\', rest)?;
            if self.text.get(found) == Some(&b'"') {
                self.at = found + 1;
                return Some(Span::new(from, found));
            }
            at = found + 2;
        }
    }

    /// Goes behind the object or list that begins here.
    fn pass(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Puts what escapes mean in their place, within `line`, as it never takes more room than they do. An escape that means
/// nothing stays as it is.
pub fn unescape(line: &mut [u8], span: Span) -> Span {
    let Some(first) = span.of(line).and_then(|text| memchr(b'\\', text)) else { return span };
    let end = span.to();
    let (mut from, mut to) = (span.from() + first, span.from() + first);
    while from < end {
        let (bytes, length, taken) = one(line.get(from..end).unwrap_or_default());
        if let Some(place) = line.get_mut(to..to + length) {
            place.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        }
        (from, to) = (from + taken.max(1), to + length);
    }
    Span::new(span.from(), to)
}

/// The next character or byte, how many bytes it is and how many it took.
fn one(text: &[u8]) -> ([u8; 4], usize, usize) {
    let plain = |byte: u8, taken: usize| ([byte, 0, 0, 0], 1, taken);
    match text {
        [b'\\', b'u', ..] => {
            let Some((character, taken)) = utf16(text) else { return plain(b'\\', 1) };
            let mut bytes = [0; 4];
            let length = character.encode_utf8(&mut bytes).len();
            (bytes, length, taken)
        }
        [b'\\', b'n', ..] => plain(b'\n', 2),
        [b'\\', b't', ..] => plain(b'\t', 2),
        [b'\\', b'r', ..] => plain(b'\r', 2),
        [b'\\', b'b', ..] => plain(8, 2),
        [b'\\', b'f', ..] => plain(12, 2),
        [b'\\', quoted @ (b'"' | b'\\' | b'/'), ..] => plain(*quoted, 2),
        [byte, ..] => plain(*byte, 1),
        [] => ([0; 4], 0, 1),
    }
}

/// `\u00e9`, or two for a character beyond the first plane; half of one is replaced.
fn utf16(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let [b'\\', b'u', hex @ ..] = text.get(at..at + 6)? else { return None };
        hex.iter().try_fold(0_u16, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)? as u16))
    };
    let first = unit(0)?;
    if let Some(second) = unit(6)
        && let Some(Ok(character)) = char::decode_utf16([first, second]).next()
        && character.len_utf16() == 2
    {
        return Some((character, 12));
    }
    Some((char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_found_without_copying() {
        let line = br#" {"a":"x","b":{"c":[1,{"d":"}\""}]},"e":-1.5e3 , "f":null,"g":["p","q"]}"#;
        let mut scan = Scan::new(line);
        assert!(scan.enter());
        let mut seen = Vec::new();
        while let Some(key) = scan.key() {
            if key == b"g" {
                assert!(scan.enter_list());
                while let Some(element) = scan.element() {
                    seen.push(String::from_utf8_lossy(element.text().of(line).unwrap()).into_owned());
                }
                continue;
            }
            let value = scan.value().unwrap().whole();
            seen.push(String::from_utf8_lossy(value.of(line).unwrap()).into_owned());
        }
        assert_eq!(seen, ["x", r#"{"c":[1,{"d":"}\""}]}"#, "-1.5e3", "null", "p", "q"]);
        assert!(scan.is_over());
    }

    #[test]
    fn escapes_become_what_serde_reads() {
        for text in [r#""a\"b\\\/\n\t\u00e9\ud83d\ude00z""#, r#""""#, r#""plain""#, r#""\u0041""#] {
            let mut line = text.as_bytes().to_vec();
            let span = Scan::new(&line).value().unwrap().text();
            let span = unescape(&mut line, span);
            let wanted: String = serde_json::from_str(text).unwrap();
            assert_eq!(span.of(&line), Some(wanted.as_bytes()), "{text}");
        }
    }

    #[test]
    fn broken_lines_end_the_scan() {
        for text in
            ["", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":\"", "{\"a\":{", "{\"a\":[\"\\", "{a:1}", "[[[["]
        {
            let mut scan = Scan::new(text.as_bytes());
            scan.enter();
            while scan.key().is_some() && scan.value().is_some() {}
            assert_eq!(Scan::new(br#""\ud800\u"#).value(), None);
        }
        let mut line = br#"\ud800\u12\"#.to_vec();
        let whole = Span::new(0, line.len());
        let span = unescape(&mut line, whole);
        assert_eq!(span.of(&line), Some("\u{fffd}\\u12\\".as_bytes()));
    }
}
