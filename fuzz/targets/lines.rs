//! The fields of a request's head on both ways to an origin: `tidegate_http::lines`, which the direct way edits and writes, and
//! `http::HeaderMap`, which Pingora does.
//!
//! The input's first lines are edits, up to an empty one: `+name: value` adds a line, `=name: value` replaces all of this name, `-name`
//! removes them. A head follows, of which only such count as the gate takes.
//!
//! - After the same edits both have the same lines of each name, in the same order.
//! - What no head can hold is refused by both, and then nothing has changed.
//! - What is written is read by httparse, as by the origins behind us, as just these lines; read and written once more it is the same bytes.

use std::collections::BTreeMap;

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_http::head::{HeadLimits, drop_empty_port, parse_noting};
use tidegate_http::lines::{Lines, Lookup as _};
use tidegate_http::ranges::LineRanges;

use super::cost::{self, USUAL, Work};
use super::limits::limits;

const WIDE: HeadLimits = limits(64 << 10, 64 << 10, 200);

/// More edits than any route has.
const MOST_EDITS: usize = 8;

/// More fields than a head here has.
const MOST_FIELDS: usize = 256;

/// What the operator wants done.
#[derive(Debug, Clone, Copy)]
enum Edit<'a> {
    Add(&'a [u8], &'a [u8]),
    Set(&'a [u8], &'a [u8]),
    Remove(&'a [u8]),
}

impl<'a> Edit<'a> {
    fn read(line: &'a [u8]) -> Option<Edit<'a>> {
        let (sign, rest) = line.split_first()?;
        let colon = rest.iter().position(|byte| *byte == b':').unwrap_or(rest.len());
        let (name, value) = (&rest[..colon], rest.get(colon + 1..).unwrap_or_default());
        match sign {
            b'+' => Some(Edit::Add(name, value)),
            b'=' => Some(Edit::Set(name, value)),
            b'-' => Some(Edit::Remove(name)),
            _ => None,
        }
    }

    /// On the direct way; whether a head can hold it.
    fn direct(self, lines: &mut Lines) -> bool {
        match self {
            Edit::Add(name, value) => lines.add(name, value).is_ok(),
            Edit::Set(name, value) => lines.set(name, value).is_ok(),
            Edit::Remove(name) => {
                lines.remove(name);
                true
            }
        }
    }

    /// On Pingora's.
    fn framework(self, fields: &mut HeaderMap) -> bool {
        let (Edit::Add(name, value) | Edit::Set(name, value)) = self else {
            let Edit::Remove(name) = self else { return false };
            if let Ok(name) = HeaderName::from_bytes(name) {
                fields.remove(name);
            }
            return true;
        };
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) else {
            return false;
        };
        match self {
            Edit::Set(..) => drop(fields.insert(name, value)),
            _ => _ = fields.append(name, value),
        }
        true
    }
}

/// A head that the gate takes, as it is kept for the direct way: judged, its lines noted meanwhile, an empty port taken out.
struct Taken {
    bytes: Vec<u8>,
    lines: LineRanges,
    /// Where its request line begins.
    start: usize,
    has_empty_port: bool,
}

impl Taken {
    fn of(bytes: &[u8]) -> Option<Taken> {
        let mut lines = LineRanges::default();
        let head = parse_noting(bytes, &WIDE, &mut lines).ok().flatten()?;
        let mut bytes = bytes[..head.end].to_vec();
        if head.empty_port {
            drop_empty_port(&mut bytes);
        }
        Some(Taken { bytes, lines, start: head.start, has_empty_port: head.empty_port })
    }

    fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        lines.take(&self.bytes, &self.lines);
        lines
    }
}

/// The edits, and behind them the bytes of a head.
fn parts(data: &[u8]) -> Option<(Vec<Edit<'_>>, &[u8])> {
    let (mut edits, mut rest) = (Vec::new(), data);
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, behind) = (&rest[..end], &rest[end + 1..]);
        rest = behind;
        if line.is_empty() {
            return Some((edits, rest));
        }
        edits.extend(Edit::read(line).filter(|_| edits.len() < MOST_EDITS));
    }
}

/// What is measured: what a request costs that is edited and goes on.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let (edits, head) = parts(data)?;
    Taken::of(head)?;
    Some(Box::new(move || {
        let Some(taken) = Taken::of(head) else { return };
        let (mut lines, mut out) = (taken.lines(), Vec::new());
        for edit in edits {
            edit.direct(&mut lines);
        }
        lines.write(&mut out);
    }))
}

/// The target.
pub fn lines(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let Some((edits, head)) = parts(data) else { return };
    let Some(taken) = Taken::of(head) else { return };
    let mut direct = taken.lines();
    // of the bytes as they came, so that no other field can have been touched
    let mut framework = second_reading(&head[taken.start..taken.bytes.len()]);
    if taken.has_empty_port {
        let host = framework
            .get(HOST)
            .expect("it is the host's")
            .as_bytes()
            .trim_ascii_end()
            .strip_suffix(b":")
            .expect("it is empty");
        framework.insert(HOST, HeaderValue::from_bytes(host).expect("a part of one"));
    }
    is_same(&direct, &framework);
    for edit in edits {
        let before = written(&direct);
        let done = edit.direct(&mut direct);
        assert_eq!(done, edit.framework(&mut framework), "{edit:?}");
        assert!(done || written(&direct) == before, "{edit:?} is refused, and done");
        is_same(&direct, &framework);
    }
    let text = written(&direct);
    let mut again = Lines::default();
    again.read(&text, 0).expect("what is written is a head");
    assert_eq!(written(&again).escape_ascii().to_string(), text.escape_ascii().to_string());
    is_same(&direct, &second_reading(&[b"GET / HTTP/1.1\r\n".as_slice(), &text].concat()));
}

fn written(lines: &Lines) -> Vec<u8> {
    let mut text = Vec::new();
    lines.write(&mut text);
    text
}

/// A head as Pingora and many origins read it.
fn second_reading(head: &[u8]) -> HeaderMap {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    assert!(request.parse(head).is_ok_and(|status| status.is_complete()), "{}", head.escape_ascii());
    let pairs = request.headers.iter().map(|field| {
        let name = HeaderName::from_bytes(field.name.as_bytes()).expect("a name");
        (name, HeaderValue::from_bytes(field.value).expect("a value"))
    });
    let mut map = HeaderMap::new();
    pairs.for_each(|(name, value)| _ = map.append(name, value));
    map
}

/// The same lines of each name, but for the blanks around values, which are no part of them (RFC 9110 section 5.5).
fn is_same(direct: &Lines, framework: &HeaderMap) {
    let trimmed = |value: &[u8]| {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
        let end = value.iter().rposition(|byte| !blank(byte)).map_or(start, |end| end + 1);
        value[start..end].escape_ascii().to_string()
    };
    let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in direct.iter() {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        ours.entry(name).or_default().push(trimmed(value));
    }
    let mut theirs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in framework {
        theirs.entry(name.as_str().to_owned()).or_default().push(trimmed(value.as_bytes()));
    }
    assert_eq!(ours, theirs);
    for name in framework.keys() {
        let found: Vec<String> = direct.lines(name).map(trimmed).collect();
        assert_eq!(Some(&found), theirs.get(name.as_str()), "looked up: {name}");
        assert_eq!(direct.first(name).map(trimmed), found.first().cloned(), "the first of {name}");
    }
}
