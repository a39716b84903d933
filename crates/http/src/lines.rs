//! The fields of a head as ranges over its bytes: read once, edited in place, and written by one writer.
//!
//! A head is copied behind each other into one buffer, and what is added to it is appended there, so that a head costs no allocation
//! where the buffer has held another one before. Only lines that were parsed are ever written, each as `NAME: VALUE CRLF`; those that
//! stand so already, one behind the other, in one piece. What else is in a head never goes on, and what a line may hold was judged by the
//! same grammar that its next reader has. What is read behind what was written is therefore the same lines (a property test holds it so).
//!
//! Lines keep their order and the spelling of their names. A line that is replaced stays in its place.

use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::head::scan::{TOKEN, run_end, value_end};
use crate::head::{Parser, trim};
use crate::ranges::{Line, LineRanges, Mark, Part};

/// Fields that can be looked up by name.
pub trait Lookup {
    /// The values of a field, line by line.
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a;

    /// The value of its first line.
    fn first<'a>(&'a self, name: &'a HeaderName) -> Option<&'a [u8]> {
        self.lines(name).next()
    }

    /// Whether there is such a field.
    fn has(&self, name: &HeaderName) -> bool {
        self.first(name).is_some()
    }
}

impl Lookup for HeaderMap {
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.get_all(name).iter().map(|value| value.as_bytes())
    }
}

/// The bytes cannot be a line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no line of a head")]
pub struct Unwritable;

/// The fields of a head.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// The head as it was read, and behind it what was added.
    text: Vec<u8>,
    lines: Vec<Line>,
}

impl Lines {
    /// Forgets all, and keeps the memory for the next head.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// The bytes of all that was read and added.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The memory that is kept, in bytes.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Takes the place of what was there: a head that was judged, whose lines stand there.
    pub fn take(&mut self, head: &[u8], lines: &LineRanges) {
        self.clear();
        self.text.extend_from_slice(head);
        self.lines.extend_from_slice(lines.lines());
    }

    /// As [`Lines::take`], of a head of which no more is known than that its fields begin at `fields` and end with the empty line; `None`
    /// if they do not.
    pub fn read(&mut self, head: &[u8], fields: usize) -> Option<()> {
        let mut lines = LineRanges::default();
        let mut parser = Parser::noting(head, fields, &mut lines);
        while parser.field(false).ok()?.is_some() {}
        self.take(head, &lines);
        Some(())
    }

    /// Takes the place of what was there: the same as these.
    pub fn copy(&mut self, other: &Lines) {
        self.text.clone_from(&other.text);
        self.lines.clone_from(&other.lines);
    }

    /// A part of the head as it was read.
    pub fn head(&self, part: Range<usize>) -> &[u8] {
        self.text.get(part).unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All of them: names as they are written, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (self.part(line.name), self.part(line.value)))
    }

    /// Keeps the lines of which this is true.
    pub fn retain(&mut self, mut wanted: impl FnMut(&[u8], &[u8]) -> bool) {
        let text = &self.text;
        let part = |part: Part| text.get(part.range()).unwrap_or_default();
        self.lines.retain(|line| wanted(part(line.name), part(line.value)));
    }

    /// Takes a field out. `name`: in any spelling.
    pub fn remove(&mut self, name: &[u8]) {
        let mark = Mark::of(name);
        if self.lines.iter().any(|line| line.mark == mark) {
            let text = &self.text;
            self.lines.retain(|line| !is_named(text, line, name, mark));
        }
    }

    /// Replaces all lines of a field by one, in the place of the first.
    ///
    /// # Errors
    /// No head can hold it; then all is as it was.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unwritable> {
        let line = self.appended(name, sound(value)?)?;
        self.put(name, line);
        Ok(())
    }

    /// The same of a value that was judged when it was made.
    ///
    /// # Errors
    /// No head can hold the name; then all is as it was.
    pub fn set_value(&mut self, name: &[u8], value: &HeaderValue) -> Result<(), Unwritable> {
        let line = self.appended(name, value.as_bytes())?;
        self.put(name, line);
        Ok(())
    }

    /// Adds a line behind all others.
    ///
    /// # Errors
    /// No head can hold it.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unwritable> {
        let line = self.appended(name, sound(value)?)?;
        self.lines.push(line);
        Ok(())
    }

    /// The same of a value that was judged when it was made.
    ///
    /// # Errors
    /// No head can hold the name.
    pub fn add_value(&mut self, name: &[u8], value: &HeaderValue) -> Result<(), Unwritable> {
        let line = self.appended(name, value.as_bytes())?;
        self.lines.push(line);
        Ok(())
    }

    /// Writes the lines and the empty one that ends a head.
    pub fn write(&self, out: &mut Vec<u8>) {
        // what was read and what was added, with the ends of lines at most
        out.reserve(self.text.len() + 4 * self.lines.len() + 2);
        // lines that stand behind each other as they are written go in one piece
        let mut run = 0..0;
        let put = |out: &mut Vec<u8>, run: Range<usize>| out.extend_from_slice(self.text.get(run).unwrap_or_default());
        for line in &self.lines {
            let whole = line.whole();
            if line.is_plain && whole.start == run.end {
                run.end = whole.end;
            } else if line.is_plain {
                put(out, std::mem::replace(&mut run, whole));
            } else {
                put(out, std::mem::take(&mut run));
                for part in [self.part(line.name), b": ", self.part(line.value), b"\r\n"] {
                    out.extend_from_slice(part);
                }
            }
        }
        put(out, run);
        out.extend_from_slice(b"\r\n");
    }

    fn part(&self, part: Part) -> &[u8] {
        self.text.get(part.range()).unwrap_or_default()
    }

    /// The position of a field's first line.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let mark = Mark::of(name);
        self.lines.iter().position(|line| self.is_named(line, name, mark))
    }

    #[inline]
    fn is_named(&self, line: &Line, name: &[u8], mark: Mark) -> bool {
        is_named(&self.text, line, name, mark)
    }

    /// Puts the line in the place of the first of this name, and takes the others out.
    fn put(&mut self, name: &[u8], line: Line) {
        let Some(first) = self.find(name) else {
            self.lines.push(line);
            return;
        };
        let mut others = self.lines.iter().skip(first + 1);
        if others.any(|other| self.is_named(other, name, line.mark)) {
            let mut place = 0;
            self.retain(|known, _| {
                place += 1;
                place <= first + 1 || !known.eq_ignore_ascii_case(name)
            });
        }
        if let Some(first) = self.lines.get_mut(first) {
            *first = line;
        }
    }

    fn appended(&mut self, name: &[u8], value: &[u8]) -> Result<Line, Unwritable> {
        if name.is_empty() || run_end(name, 0, TOKEN) != name.len() {
            return Err(Unwritable);
        }
        let value = trim(value);
        let start = self.text.len();
        let (behind, middle) = (start + name.len(), start + name.len() + 2);
        let (Some(name_at), Some(value_at)) = (Part::of(start..behind), Part::of(middle..middle + value.len())) else {
            return Err(Unwritable);
        };
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        Ok(Line { name: name_at, value: value_at, mark: Mark::of(name), is_plain: true })
    }
}

/// Whether a line of this text has this name, whose mark that is.
#[inline]
fn is_named(text: &[u8], line: &Line, name: &[u8], mark: Mark) -> bool {
    line.mark == mark
        && (mark.is_whole() || text.get(line.name.range()).is_some_and(|known| known.eq_ignore_ascii_case(name)))
}

/// A value that a head can hold.
fn sound(value: &[u8]) -> Result<&[u8], Unwritable> {
    value_end(value, 0).map_or(Ok(value), |_| Err(Unwritable))
}

impl Lookup for Lines {
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a {
        let name = name.as_str().as_bytes();
        let mark = Mark::of(name);
        let of_name = move |line: &&Line| self.is_named(line, name, mark);
        self.lines.iter().filter(of_name).map(|line| self.part(line.value))
    }

    fn first<'a>(&'a self, name: &'a HeaderName) -> Option<&'a [u8]> {
        let place = self.find(name.as_str().as_bytes())?;
        self.lines.get(place).map(|line| self.part(line.value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> Lines {
        let head = format!("GET / HTTP/1.1\r\n{text}\r\n");
        let mut lines = Lines::default();
        lines.read(head.as_bytes(), 16).expect("the lines are well formed");
        lines
    }

    fn written(lines: &Lines) -> String {
        let mut out = Vec::new();
        lines.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_keep_order_and_spelling_and_lose_blanks() {
        let lines = lines("Host: a\r\nX-a:1\r\nx-A: \t b  c \t\r\nempty:\r\nblank:  \r\n");
        assert_eq!(written(&lines), "Host: a\r\nX-a: 1\r\nx-A: b  c\r\nempty: \r\nblank: \r\n\r\n");
        let name = HeaderName::from_static("x-a");
        assert_eq!(lines.lines(&name).collect::<Vec<_>>(), [&b"1"[..], b"b  c"]);
        assert!(lines.has(&http::header::HOST) && !lines.has(&http::header::ACCEPT));
    }

    #[test]
    fn a_field_is_replaced_in_its_place_and_added_at_the_end() {
        let mut lines = lines("A: 1\r\nB: 2\r\nb: 3\r\nC: 4\r\nB: 5\r\n");
        lines.set(b"b", b"new").unwrap();
        lines.set(b"D", b"").unwrap();
        lines.add(b"A", b"6").unwrap();
        assert_eq!(written(&lines), "A: 1\r\nb: new\r\nC: 4\r\nD: \r\nA: 6\r\n\r\n");
        lines.remove(b"a");
        lines.remove(b"unknown");
        assert_eq!(written(&lines), "b: new\r\nC: 4\r\nD: \r\n\r\n");
    }

    #[test]
    fn what_no_head_can_hold_is_refused_and_changes_nothing() {
        let mut lines = lines("A: 1\r\n");
        for (name, value) in [("", "x"), ("a b", "x"), ("a:", "x"), ("A", "x\r\ny: z"), ("A", "\0")] {
            assert_eq!(lines.set(name.as_bytes(), value.as_bytes()), Err(Unwritable), "{name:?} {value:?}");
            assert_eq!(lines.add(name.as_bytes(), value.as_bytes()), Err(Unwritable), "{name:?} {value:?}");
        }
        assert_eq!(written(&lines), "A: 1\r\n\r\n");
    }

    #[test]
    fn names_of_one_mark_are_told_apart_and_judged_values_are_trimmed() {
        let mut lines = lines("X-aa-Z: 1\r\nX-bb-Z: 2\r\nx-AA-z: 3\r\n");
        lines.set_value(b"x-bb-z", &HeaderValue::from_static(" new ")).unwrap();
        lines.add_value(b"X-bb-z", &HeaderValue::from_static("more")).unwrap();
        lines.set_value(b"X-aa-z", &HeaderValue::from_static("one")).unwrap();
        assert_eq!(written(&lines), "X-aa-z: one\r\nx-bb-z: new\r\nX-bb-z: more\r\n\r\n");
        assert_eq!(lines.add_value(b"a b", &HeaderValue::from_static("")), Err(Unwritable));
        assert_eq!(lines.first(&HeaderName::from_static("x-bb-z")), Some(&b"new"[..]));
        assert_eq!(lines.first(&HeaderName::from_static("x-cc-z")), None);
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Set(String, Vec<u8>),
        Add(String, Vec<u8>),
        Remove(String),
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[aAbBcC]{1,2}", "[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,12}"]
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(b' '), Just(b'\t'), 0x21..=0x7eu8, 0x80..=0xffu8], 0..20)
    }

    fn edit() -> impl Strategy<Value = Edit> {
        let trimmed = || value().prop_map(|value| trim(&value).to_vec());
        prop_oneof![
            (name(), trimmed()).prop_map(|(name, value)| Edit::Set(name, value)),
            (name(), trimmed()).prop_map(|(name, value)| Edit::Add(name, value)),
            name().prop_map(Edit::Remove),
        ]
    }

    proptest! {
        /// What is read behind what was written is the same, and the same as `http::HeaderMap` makes of the same edits.
        #[test]
        fn parse_write_parse_is_the_identity(
            given in prop::collection::vec((name(), value()), 0..12),
            edits in prop::collection::vec(edit(), 0..12),
        ) {
            let mut head = b"GET / HTTP/1.1\r\n".to_vec();
            let mut map = HeaderMap::new();
            for (name, value) in &given {
                head.extend_from_slice(name.as_bytes());
                head.push(b':');
                head.extend_from_slice(value);
                head.extend_from_slice(b"\r\n");
                map.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(trim(value)).unwrap());
            }
            head.extend_from_slice(b"\r\n");
            let mut lines = Lines::default();
            lines.read(&head, 16).unwrap();
            for edit in edits {
                match edit {
                    Edit::Set(name, value) => {
                        lines.set(name.as_bytes(), &value).unwrap();
                        map.insert(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(&value).unwrap());
                    }
                    Edit::Add(name, value) => {
                        lines.add(name.as_bytes(), &value).unwrap();
                        map.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(&value).unwrap());
                    }
                    Edit::Remove(name) => {
                        lines.remove(name.as_bytes());
                        map.remove(HeaderName::try_from(name).unwrap());
                    }
                }
            }
            let mut out = b"GET / HTTP/1.1\r\n".to_vec();
            lines.write(&mut out);
            let mut again = Lines::default();
            again.read(&out, 16).expect("what was written is a head");
            prop_assert!(again.iter().eq(lines.iter()));
            let mut rewritten = b"GET / HTTP/1.1\r\n".to_vec();
            again.write(&mut rewritten);
            prop_assert_eq!(&rewritten, &out);
            prop_assert_eq!(lines.len(), map.len());
            for name in map.keys() {
                prop_assert!(lines.lines(name).eq(Lookup::lines(&map, name)), "{}", name);
            }
            // and an independent parser reads it so
            let mut fields = vec![httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut fields);
            prop_assert!(request.parse(&out).unwrap().is_complete());
            let theirs = request.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            prop_assert!(theirs.eq(lines.iter()));
        }
    }
}
