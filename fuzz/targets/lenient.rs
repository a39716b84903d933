//! How readers in the field stretch the rules of a head. Each leniency has let somebody smuggle a message past somebody
//! else; a head with one reading has the same under all of them.

/// What a reader makes of a head: what the next one acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub host: Option<Vec<u8>>,
    pub length: Option<u64>,
    pub chunked: bool,
    /// Where the body begins.
    pub end: usize,
}

/// What a reader does differently.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leniency {
    /// A lone LF ends a line.
    line_feed_ends: bool,
    /// A lone CR ends a line.
    return_ends: bool,
    /// A NUL ends a value.
    nul_ends: bool,
    /// A line that begins with a blank belongs to the one before.
    unfolds: bool,
    /// Blanks before the colon, and control bytes around values, are no part of them.
    trims_all: bool,
    /// `_` in a name is `-`.
    underscore_is_hyphen: bool,
    /// Of several equal names the last counts, not the first.
    last_counts: bool,
    /// Any run of blanks and tabs separates the words of the request line.
    any_blank_separates: bool,
    /// Numbers are what `strtol` makes of them.
    reads_numbers_like_c: bool,
    /// Any mention of `chunked` in a transfer coding means it.
    searches_chunked: bool,
    /// A value is a list, of which the last element counts.
    splits_lists: bool,
    /// Fields named in `Connection` are dropped before anything else.
    drops_nominated: bool,
}

impl Leniency {
    /// None, each alone, and all at once.
    pub fn all() -> impl Iterator<Item = Leniency> {
        (0..14).map(|nth| {
            let on = |bit: u32| nth == 13 || nth == bit + 1;
            Leniency {
                line_feed_ends: on(0),
                return_ends: on(1),
                nul_ends: on(2),
                unfolds: on(3),
                trims_all: on(4),
                underscore_is_hyphen: on(5),
                last_counts: on(6),
                any_blank_separates: on(7),
                reads_numbers_like_c: on(8),
                searches_chunked: on(9),
                splits_lists: on(10),
                drops_nominated: on(11),
            }
        })
    }

    /// Whether readers of answers have it too: none takes an answer's fields for variables of the environment, and what
    /// `Connection` names there is dropped behind the framing.
    pub fn concerns_answers(self) -> bool {
        !self.underscore_is_hyphen && !self.drops_nominated
    }

    /// The reading; none when the head does not even end.
    pub fn read(self, bytes: &[u8]) -> Option<Reading> {
        let (lines, end) = self.lines(bytes)?;
        let (request_line, lines) = lines.split_first()?;
        let mut words = request_line
            .split(|byte| *byte == b' ' || (self.any_blank_separates && byte.is_ascii_whitespace()))
            .filter(|word| !self.any_blank_separates || !word.is_empty());
        let (method, target) = (words.next()?.to_vec(), words.next()?.to_vec());
        let mut fields: Vec<(String, Vec<u8>)> = lines.iter().filter_map(|line| self.field(line)).collect();
        if self.drops_nominated {
            let options: Vec<String> = all(&fields, "connection")
                .flat_map(|value| value.split(|byte| *byte == b','))
                .map(|option| String::from_utf8_lossy(option).trim().to_ascii_lowercase())
                .collect();
            // the field itself goes too, and what only says how long this connection lasts is kept elsewhere
            fields.retain(|(name, _)| !options.contains(name));
        }
        let coding = self.pick(&fields, "transfer-encoding").map(|coding| coding.to_ascii_lowercase());
        let chunked = coding.is_some_and(|coding| {
            coding == b"chunked" || (self.searches_chunked && coding.windows(7).any(|word| word == b"chunked"))
        });
        Some(Reading {
            method,
            target,
            host: self.pick(&fields, "host").map(<[u8]>::to_vec),
            length: self.pick(&fields, "content-length").and_then(|length| self.number(length)),
            chunked,
            end,
        })
    }

    /// Lines up to the first empty one, and where that ends.
    fn lines(self, bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let mut line = Vec::new();
        let mut at = 0;
        loop {
            let (byte, next) = (*bytes.get(at)?, bytes.get(at + 1));
            let end = match (byte, next) {
                (b'\r', Some(b'\n')) => 2,
                (b'\n', _) if self.line_feed_ends => 1,
                (b'\r', _) if self.return_ends => 1,
                _ => 0,
            };
            if end == 0 {
                line.push(byte);
                at += 1;
                continue;
            }
            at += end;
            if line.is_empty() {
                return Some((lines, at));
            }
            match lines.last_mut() {
                Some(last) if self.unfolds && matches!(line.first(), Some(b' ' | b'\t')) => last.extend(&line),
                _ => lines.push(line),
            }
            line = Vec::new();
        }
    }

    fn field(self, line: &[u8]) -> Option<(String, Vec<u8>)> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let mut name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        if self.trims_all {
            name = name.trim().to_owned();
        }
        if self.underscore_is_hyphen {
            name = name.replace('_', "-");
        }
        let mut value = &line[colon + 1..];
        if self.nul_ends {
            value = value.split(|byte| *byte == 0).next().unwrap_or_default();
        }
        let blank = |byte: &u8| match byte {
            b' ' | b'\t' => true,
            // vertical tab, form feed, and what Latin-1 and Unicode call blanks
            _ => self.trims_all && (byte.is_ascii_control() || matches!(byte, 0x85 | 0xa0)),
        };
        while value.first().is_some_and(blank) {
            value = &value[1..];
        }
        while value.last().is_some_and(blank) {
            value = &value[..value.len() - 1];
        }
        Some((name, value.to_vec()))
    }

    fn pick<'a>(self, fields: &'a [(String, Vec<u8>)], name: &'static str) -> Option<&'a [u8]> {
        let mut values = all(fields, name);
        let value = if self.last_counts { values.last() } else { values.next() }?;
        let element = value.rsplit(|byte| self.splits_lists && *byte == b',').next().unwrap_or_default();
        Some(if self.splits_lists { element.trim_ascii() } else { element })
    }

    fn number(self, text: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(text).ok()?;
        if !self.reads_numbers_like_c {
            return text.parse().ok();
        }
        let text = text.trim_start().trim_start_matches('+');
        if let Some(hex) = text.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).ok();
        }
        let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse().ok()
    }
}

fn all<'a>(fields: &'a [(String, Vec<u8>)], wanted: &'static str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(name, _)| name == wanted).map(|(_, value)| value.as_slice())
}
