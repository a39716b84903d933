//! Why an origin's answer was not passed on.

use std::fmt;
use std::io;

use crate::serve::edge::fault::{BodyFault, HeadFault};

/// What was wrong with an answer, or with the time that it came. It travels to the gate inside an `io::Error`;
/// [`AnswerFault::of`] finds it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerFault {
    /// The first line is no status line.
    StatusLine,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
    /// A line that does not end in CRLF.
    LineEnding,
    /// A field name that is no token, or is not followed by its colon at once.
    FieldName,
    /// A control byte in a field value.
    FieldValue,
    /// A line that continues the one before.
    Folding,
    /// More head than an answer may have.
    HeadTooLarge,
    /// More fields than an answer may have.
    TooManyFields,
    /// A length that is not plain digits, or a second one.
    ContentLength,
    /// A coding other than `chunked` once, or in HTTP/1.0.
    TransferEncoding,
    /// A length and a coding.
    LengthAndEncoding,
    /// The framing of a body in an answer that has none by its status.
    BodyWhereNone,
    /// More interim answers than anybody needs.
    TooManyInterim,
    /// A switch of protocols that nobody asked for, or that does not say to which.
    Switch,
    /// A chunk size that is not 1 to 15 hex digits.
    ChunkSize,
    /// A chunk extension that is malformed or too long.
    ChunkExtension,
    /// A chunk, its size or the end of the body without its CRLF.
    ChunkEnding,
    /// A trailer line that is no header field, or too many of them.
    Trailer,
    /// The connection ended before the answer did.
    Cut,
    /// Bytes came before the request was sent.
    Unasked,
    /// The origin does not speak the protocol that the policy names.
    Protocol,
}

impl AnswerFault {
    /// The fault at the root of a proxy error, if it came from here.
    pub fn of(error: &pingora::Error) -> Option<AnswerFault> {
        let cause = error.root_cause().downcast_ref::<io::Error>()?;
        cause.get_ref()?.downcast_ref::<AnswerFault>().copied()
    }

    /// In words, for the log.
    pub const fn text(self) -> &'static str {
        match self {
            AnswerFault::StatusLine => "no status line",
            AnswerFault::Version => "a version of HTTP that is not served",
            AnswerFault::LineEnding => "a line that does not end in CRLF",
            AnswerFault::FieldName => "a malformed field name",
            AnswerFault::FieldValue => "a control byte in a field",
            AnswerFault::Folding => "a folded line",
            AnswerFault::HeadTooLarge => "a head that is too large",
            AnswerFault::TooManyFields => "too many fields",
            AnswerFault::ContentLength => "a malformed or repeated length",
            AnswerFault::TransferEncoding => "a transfer coding other than chunked",
            AnswerFault::LengthAndEncoding => "a length beside a transfer coding",
            AnswerFault::BodyWhereNone => "a body where there can be none",
            AnswerFault::TooManyInterim => "too many interim answers",
            AnswerFault::Switch => "a switch of protocols that nobody asked for",
            AnswerFault::ChunkSize => "a malformed chunk size",
            AnswerFault::ChunkExtension => "a malformed chunk extension",
            AnswerFault::ChunkEnding => "a chunk without its end",
            AnswerFault::Trailer => "a malformed trailer",
            AnswerFault::Cut => "an answer that breaks off",
            AnswerFault::Unasked => "an answer to no request",
            AnswerFault::Protocol => "another protocol than the policy names",
        }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for AnswerFault {}

impl From<AnswerFault> for io::Error {
    fn from(fault: AnswerFault) -> io::Error {
        let kind = match fault {
            AnswerFault::Cut => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, fault)
    }
}

impl From<HeadFault> for AnswerFault {
    fn from(fault: HeadFault) -> AnswerFault {
        match fault {
            HeadFault::LineEnding => AnswerFault::LineEnding,
            HeadFault::FieldName => AnswerFault::FieldName,
            HeadFault::Folding => AnswerFault::Folding,
            HeadFault::TooManyFields => AnswerFault::TooManyFields,
            HeadFault::TooLarge => AnswerFault::HeadTooLarge,
            // the shared reader of lines knows no others
            _ => AnswerFault::FieldValue,
        }
    }
}

impl From<BodyFault> for AnswerFault {
    fn from(fault: BodyFault) -> AnswerFault {
        match fault {
            BodyFault::ChunkSize => AnswerFault::ChunkSize,
            BodyFault::ChunkExtension => AnswerFault::ChunkExtension,
            BodyFault::Trailer => AnswerFault::Trailer,
            // the scanner of chunks knows nothing of speed, and an answer has no limit
            BodyFault::ChunkEnding
            | BodyFault::TooLarge
            | BodyFault::SlowUpload
            | BodyFault::SlowDownload
            | BodyFault::LateUpload
            | BodyFault::LateDownload
            | BodyFault::BuffersFull => AnswerFault::ChunkEnding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_found_again_inside_a_proxy_error() {
        use pingora::{Error, ErrorType};
        let inner = Error::because(ErrorType::ReadError, "reading", io::Error::from(AnswerFault::Folding));
        let outer = Error::because(ErrorType::InternalError, "around it", inner);
        assert_eq!(AnswerFault::of(&outer), Some(AnswerFault::Folding));
        let other = Error::because(ErrorType::ReadError, "reading", io::Error::other("reset"));
        assert_eq!(AnswerFault::of(&other), None);
    }
}
