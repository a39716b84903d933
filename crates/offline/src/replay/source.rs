//! Where logs come from: files, plain or gzipped, and standard input; cut into pieces of whole lines.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memrchr};

use super::fault::Fault;
use super::formats::{Format, Gives, Parser};
use super::line::{FieldName, FieldSpan, Line, Parsed};

/// A log, by where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file.
    File(PathBuf),
    /// `-`: standard input.
    Stdin,
}

impl Place {
    /// As it stands on the command line.
    pub fn of(text: &Path) -> Place {
        if text.as_os_str() == "-" { Place::Stdin } else { Place::File(text.to_owned()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Stdin => f.write_str("-"),
        }
    }
}

/// Logs whose formats are known, in the order of their first stamps.
#[derive(Debug)]
pub struct Sources {
    pub(super) logs: Vec<Log>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Log {
    pub place: Place,
    pub parser: Parser,
    /// The stamp of its first request.
    pub first: u64,
    /// What was read ahead of what cannot be opened again.
    kept: Option<Lines>,
    gives: Sample,
}

/// What a log's first lines show.
#[derive(Debug, Default)]
struct Sample {
    requests: usize,
    durations: usize,
    hosts: usize,
    pseudonyms: usize,
    headers: Vec<String>,
}

/// So much of a log is looked at first, in bytes, and so many lines of it tell the format.
const AHEAD: usize = 64 << 10;
const LINES_AHEAD: usize = 100;

impl Sources {
    /// Looks at the beginning of every log. `format`: that of all of them; none to find it out.
    ///
    /// # Errors
    /// One cannot be opened or read, or no format fits its first hundred lines. An empty log is none.
    pub fn open(places: &[Place], format: Option<&Format>) -> Result<Sources, Fault> {
        let mut logs = Vec::new();
        for place in places {
            logs.extend(look(place, format)?);
        }
        logs.sort_by_key(|log: &Log| log.first);
        Ok(Sources { logs })
    }

    /// The formats of the logs, in the order in which they will be read.
    pub fn formats(&self) -> impl Iterator<Item = (&Place, &Format)> {
        self.logs.iter().map(|log| (&log.place, log.parser.format()))
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// The step of the coarsest stamps, in nanoseconds.
    pub fn resolution(&self) -> u64 {
        self.logs.iter().map(|log| log.parser.format().resolution()).max().unwrap_or(1)
    }

    /// Whether every log says how long requests took, as far as its first lines show.
    pub fn gives_duration(&self) -> bool {
        self.logs.iter().all(|log| match log.parser.format().gives_duration() {
            Gives::Always => true,
            Gives::Never => false,
            Gives::Perhaps => log.gives.durations > 0,
        })
    }

    /// Whether every log says the host, as far as its first lines show.
    pub fn gives_host(&self) -> bool {
        self.logs.iter().all(|log| log.gives.hosts > 0)
    }

    /// Whether a log of our own has pseudonyms in the place of addresses, as far as its first lines show.
    pub fn gives_pseudonyms(&self) -> bool {
        self.logs.iter().any(|log| log.gives.pseudonyms > 0)
    }

    /// Whether every log says the query.
    pub fn gives_query(&self) -> bool {
        self.logs.iter().all(|log| !matches!(log.parser.format(), Format::Tidegate))
    }

    /// Whether every log has this header field, whose name is in lower case, as far as its first lines show.
    pub fn gives_header(&self, name: &str) -> bool {
        self.logs.iter().all(|log| match log.parser.format().gives_header(name) {
            Gives::Always => true,
            Gives::Never => false,
            Gives::Perhaps => log.gives.headers.iter().any(|known| known == name),
        })
    }
}

/// Finds out what a log is; none when it is empty.
fn look(place: &Place, format: Option<&Format>) -> Result<Option<Log>, Fault> {
    let fault = |error| Fault::Read(place.to_string(), error);
    let mut lines = Lines::open(place).map_err(fault)?;
    let ahead = lines.peek(AHEAD).map_err(fault)?;
    let all = || ahead.split(|byte| *byte == b'\n').map(without_return).filter(|line| !line.is_empty());
    if all().next().is_none() {
        return Ok(None);
    }
    let found = match format {
        Some(format) => format.clone(),
        None => Format::of(all().take(LINES_AHEAD)).ok_or_else(|| Fault::Unknown(place.to_string(), shown(all())))?,
    };
    let mut parser = Parser::new(found);
    let (mut first, mut sample) = (None, Sample::default());
    let names = parser.names();
    for line in all() {
        let (mut line, mut fields, mut parsed) = (line.to_vec(), Vec::new(), Parsed::default());
        if parser.parse(&mut line, &mut fields, &mut parsed) != Line::Request {
            continue;
        }
        first = first.or(Some(parsed.stamp));
        sample.requests += 1;
        sample.durations += usize::from(parsed.duration.is_some());
        sample.hosts += usize::from(!parsed.host.is_none());
        sample.pseudonyms += usize::from(parsed.told.is_some() && parsed.client.of(&line).is_some_and(is_pseudonym));
        for field in &fields {
            if let Some(FieldName::Header(name)) = field.name.of(&line, &names)
                && sample.headers.len() < 256
                && !sample.headers.iter().any(|known| **known == *name)
            {
                sample.headers.push(name.to_string());
            }
        }
    }
    let kept = (*place == Place::Stdin).then_some(lines);
    Ok(Some(Log { place: place.clone(), parser, first: first.unwrap_or(u64::MAX), kept, gives: sample }))
}

/// Sixteen bytes in base64url, as `client: pseudonym` writes them. No address looks so.
fn is_pseudonym(client: &[u8]) -> bool {
    client.len() == 22 && client.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
}

impl Log {
    /// Its lines, from the first.
    pub fn lines(&mut self) -> io::Result<Lines> {
        match self.kept.take() {
            Some(lines) => Ok(lines),
            None => Lines::open(&self.place),
        }
    }
}

/// The first three lines, cut, for people.
pub(super) fn shown<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    lines.take(3).map(cut).collect()
}

/// A line for people: what is no text replaced, controls escaped, the end cut off.
pub(super) fn cut(line: &[u8]) -> String {
    const WIDTH: usize = 120;
    let head = String::from_utf8_lossy(line.get(..WIDTH.min(line.len())).unwrap_or_default()).into_owned();
    let mut text: String = head
        .chars()
        .flat_map(|letter| {
            let escaped = letter.is_control().then(|| letter.escape_default());
            escaped.into_iter().flatten().chain((!letter.is_control()).then_some(letter))
        })
        .collect();
    if line.len() > WIDTH {
        text.push('…');
    }
    text
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A log's text, in pieces of whole lines.
pub(super) struct Lines {
    input: Box<dyn Read + Send>,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    ended: bool,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("rest", &self.rest.len()).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// How much is read at once.
const PIECE: usize = 128 << 10;

/// A line that is longer than this is no line of an access log, and is given cut.
const LONGEST_LINE: usize = 1 << 20;

impl Lines {
    fn open(place: &Place) -> io::Result<Lines> {
        let raw: Box<dyn Read + Send> = match place {
            Place::File(path) => Box::new(File::open(path)?),
            Place::Stdin => Box::new(io::stdin()),
        };
        Lines::of(raw)
    }

    /// Of any stream; gzip shows by its first two bytes.
    pub(super) fn of(mut raw: Box<dyn Read + Send>) -> io::Result<Lines> {
        let mut magic = Vec::new();
        raw.by_ref().take(2).read_to_end(&mut magic)?;
        let zipped = magic == [0x1f, 0x8b];
        let whole = Cursor::new(magic).chain(raw);
        let input: Box<dyn Read + Send> = if zipped {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, whole)))
        } else {
            Box::new(whole)
        };
        Ok(Lines { input, rest: Vec::new(), ended: false })
    }

    /// The beginning, up to so many bytes and cut at a line's end, which will be given again.
    fn peek(&mut self, most: usize) -> io::Result<&[u8]> {
        self.fill(most)?;
        let end = if self.ended { self.rest.len() } else { memrchr(b'\n', &self.rest).unwrap_or(self.rest.len()) };
        Ok(self.rest.get(..end).unwrap_or_default())
    }

    fn fill(&mut self, most: usize) -> io::Result<()> {
        let missing = most.saturating_sub(self.rest.len());
        if !self.ended && missing > 0 {
            self.rest.reserve(missing);
            let read = self.input.by_ref().take(missing as u64).read_to_end(&mut self.rest)?;
            self.ended = read < missing;
        }
        Ok(())
    }

    /// Puts the next whole lines into `text`, which is empty; `false` at the end.
    pub(super) fn next(&mut self, text: &mut Vec<u8>) -> io::Result<bool> {
        let mut most = PIECE;
        loop {
            self.fill(most)?;
            if self.ended {
                std::mem::swap(&mut self.rest, text);
                return Ok(!text.is_empty());
            }
            if let Some(end) = memrchr(b'\n', &self.rest) {
                text.extend_from_slice(self.rest.get(end + 1..).unwrap_or_default());
                self.rest.truncate(end + 1);
                std::mem::swap(&mut self.rest, text);
                return Ok(true);
            }
            if self.rest.len() > LONGEST_LINE {
                self.skip_line()?;
                std::mem::swap(&mut self.rest, text);
                return Ok(true);
            }
            most += PIECE;
        }
    }

    /// Throws away the rest of a line that has no end in sight; keeps its beginning.
    fn skip_line(&mut self) -> io::Result<()> {
        self.rest.truncate(AHEAD);
        self.rest.push(b'\n');
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            let read = self.input.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
            if let Some(end) = memchr(b'\n', &piece) {
                self.rest.extend_from_slice(piece.get(end + 1..).unwrap_or_default());
                // what follows the last whole line is kept by the next call
                return self.keep_tail();
            }
            if read < PIECE {
                self.ended = true;
                return Ok(());
            }
        }
    }

    /// Reads on to the end of the line that is begun.
    fn keep_tail(&mut self) -> io::Result<()> {
        let mut byte = [0];
        while self.rest.last() != Some(&b'\n') && self.rest.len() < 2 * LONGEST_LINE {
            if self.input.read(&mut byte)? == 0 {
                self.ended = true;
                return Ok(());
            }
            self.rest.extend_from_slice(&byte);
        }
        Ok(())
    }
}

/// Lines that have been read and what they say.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub text: Vec<u8>,
    pub requests: Vec<Parsed>,
    pub fields: Vec<FieldSpan>,
    pub names: std::sync::Arc<[FieldName]>,
}

impl Piece {
    /// The same room without anything in it.
    pub fn emptied(mut self) -> Piece {
        self.text.clear();
        self.requests.clear();
        self.fields.clear();
        self
    }
}
