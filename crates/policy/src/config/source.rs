//! The texts that were read, and places in them.
//!
//! Every diagnostic points at a [`Span`]; the [`Sources`] turn it back into a file name, a line and a column. Nothing
//! here knows YAML.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::concealed::Concealed;
use super::fault::{Code, Diagnostic};
use super::span::Span;

/// A policy file larger than this is refused: ten thousand routes are 2 MiB, and a log piped in by mistake is not.
pub const MAX_BYTES: usize = 4 << 20;

/// One text and the name that messages call it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path as the operator wrote it.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// Where its lines end.
    breaks: Vec<usize>,
}

impl Source {
    /// Line and column, from 1, of a byte.
    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.breaks.partition_point(|at| *at < offset);
        let start = line.checked_sub(1).and_then(|before| self.breaks.get(before)).map_or(0, |at| at + 1);
        (line + 1, self.text.get(start..offset).map_or(0, |line| line.chars().count()) + 1)
    }
}

/// All texts of one load, in the order in which they were read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    list: Vec<Source>,
}

/// Where a [`Span`] starts and ends, as people count: from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line of the first character.
    pub line: usize,
    /// Column of the first character.
    pub column: usize,
    /// Line of the end.
    pub end_line: usize,
    /// Column behind the last character.
    pub end_column: usize,
}

impl Sources {
    /// Adds a text and returns its position.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> usize {
        let text: String = text.into();
        let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
        self.list.push(Source { name: name.into(), text, breaks });
        self.list.len() - 1
    }

    /// Takes what may not be shown out of the names of the files.
    pub fn conceal(&mut self, concealed: &Concealed) {
        self.list.iter_mut().for_each(|source| concealed.hide(&mut source.name));
    }

    /// A hash over all names and texts, and over `more`.
    pub fn digest(&self, more: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        let texts = self.list.iter().flat_map(|source| [source.name.as_bytes(), source.text.as_bytes()]);
        for text in texts.chain([more]) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }

    /// The source that a span lies in.
    pub fn of(&self, span: Span) -> Option<&Source> {
        self.list.get(span.source())
    }

    /// The text of a source; empty when there is none at that position.
    pub fn text(&self, source: usize) -> &str {
        self.list.get(source).map_or("", |source| source.text.as_str())
    }

    /// The text that a span covers.
    pub fn excerpt(&self, span: Span) -> &str {
        self.text(span.source()).get(span.range()).unwrap_or("")
    }

    /// Lines and columns of a span.
    pub fn position(&self, span: Span) -> Position {
        let at = |offset| self.of(span).map_or((1, 1), |source| source.line_and_column(offset));
        let (line, column) = at(span.range().start);
        let (end_line, end_column) = at(span.range().end);
        Position { line, column, end_line, end_column }
    }

    /// Reads a file into the sources and returns its position. A file that cannot be read becomes an empty source, so
    /// that the diagnostic has a name to point at.
    ///
    /// # Errors
    /// The file cannot be read, is larger than [`MAX_BYTES`], or is not UTF-8.
    pub fn read(&mut self, path: &Path) -> Result<usize, Box<Diagnostic>> {
        self.read_up_to(path, MAX_BYTES)
    }

    /// As [`Sources::read`], of a file of at most so many bytes.
    ///
    /// # Errors
    /// As [`Sources::read`].
    pub fn read_up_to(&mut self, path: &Path, most: usize) -> Result<usize, Box<Diagnostic>> {
        let name = path.display().to_string();
        let bytes = read_bounded(path, most).map_err(|error| {
            let message = format!("cannot read `{name}`");
            Box::new(self.without_text(Code::UNREADABLE, &name, message).label(error.to_string()))
        })?;
        if bytes.len() > most {
            let message = format!("`{name}` is too large");
            let allowed = format!("allowed are {}MiB", most >> 20);
            let fault = self.without_text(Code::TOO_LARGE, &name, message).label(allowed);
            return Err(Box::new(fault.help("move parts into files of their own and name them under `include:`")));
        }
        String::from_utf8(bytes).map(|text| self.add(name.as_str(), text)).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let byte = error.as_bytes().get(good).copied().unwrap_or_default();
            // what is readable stays, so that the message can show where it stops
            let at = self.add(name.as_str(), String::from_utf8_lossy(error.as_bytes()));
            let fault = Diagnostic::error(Code::NOT_UTF8, Span::new(at, good, good), "the file is not UTF-8 text");
            Box::new(fault.label(format!("byte 0x{byte:02x} starts no character")).help("save it as UTF-8"))
        })
    }

    /// Returns the fault of a policy file that is not there.
    pub fn missing(&mut self, path: &Path) -> Diagnostic {
        let name = path.display().to_string();
        self.without_text(Code::UNREADABLE, &name, format!("no policy file: `{name}` does not exist")).help(
            "name yours: `tidegate run -c tidegate.yaml`; make one: `tidegate init`; without a file: `tidegate run --listen :8080 \
             --origin 127.0.0.1:3000`",
        )
    }

    /// A fault of a file whose text is not to be had.
    fn without_text(&mut self, code: Code, name: &str, message: String) -> Diagnostic {
        let at = self.add(name, "");
        Diagnostic::error(code, Span::new(at, 0, 0), message)
    }
}

/// At most one byte more than is allowed, so that a device or pipe without end cannot fill the memory.
fn read_bounded(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let mut sources = Sources::default();
        let at = sources.add("a.yaml", "é: x\nbb: ü y\n");
        let start = "é: x\nbb: ü ".len();
        let position = sources.position(Span::new(at, start, start + 1));
        assert_eq!(position, Position { line: 2, column: 7, end_line: 2, end_column: 8 });
        assert_eq!(sources.excerpt(Span::new(at, start, start + 1)), "y");
        assert_eq!(sources.position(Span::new(at, 999, 1_999)).line, 3);
    }

    #[test]
    fn a_device_without_end_is_too_large() {
        let mut sources = Sources::default();
        let fault = sources.read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(fault.code, Code::TOO_LARGE);
    }
}
