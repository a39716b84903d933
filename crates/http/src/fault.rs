//! Faults in the bytes of a request, found before any policy reads it, and in those of an answer.
//!
//! Each fault has the word under which it is counted. Statuses and texts for clients stand where all answers are made, above this
//! crate.

use std::io;

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// Why a request head was refused by the connection layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr, Error)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[error("{}", self.reason())]
pub enum HeadFault {
    /// Not a method: bytes other than `A-Z`, `0-9`, `-`, `_`, none, or more than 32 of them.
    Method,
    /// A blank or tab too many in the request line.
    Blank,
    /// A byte that no request target may hold: a control, non-ASCII, a backslash in the path, or a fragment.
    Target,
    /// A target of the wrong form: no leading slash, `*`, or an absolute URI that is not `http` or `https`.
    TargetForm,
    /// A percent sign without two hex digits in the path, or an encoded control byte.
    Escape,
    /// A `.` or `..` segment in the path, plain or encoded.
    DotSegment,
    /// A slash or backslash as an escape in the path, where the policy refuses them.
    EscapedSlash,
    /// No version, or something that is not one.
    Version,
    /// A line that does not end in CRLF: bare LF, or CR elsewhere.
    LineEnding,
    /// A field name that is empty or not a token, or a blank before the colon.
    FieldName,
    /// A control byte in a field value.
    FieldValue,
    /// A folded line (RFC 9112 section 5.2).
    Folding,
    /// No, several, empty or malformed `Host`.
    Host,
    /// An absolute target for another host than `Host` says.
    HostMismatch,
    /// Several lengths, or one that is not a plain number.
    ContentLength,
    /// A transfer coding other than one `chunked`, or any in HTTP/1.0.
    TransferEncoding,
    /// Both a length and a transfer coding.
    LengthAndEncoding,
    /// A `Connection` option that would strip a field others trust, that is no token, or one of too many.
    Connection,
    /// `Upgrade` together with a body.
    Upgrade,
    /// A field that differs from a trusted one only by `_` for `-`.
    UnderscoreTwin,
    /// `CONNECT` or `TRACE`: never forwarded.
    MethodRefused,
    /// The head was not complete in time.
    Late,
    /// The request line is over its limit.
    TargetTooLong,
    /// An expectation other than `100-continue`.
    Expectation,
    /// The head is over its limit.
    TooLarge,
    /// More header fields than allowed.
    TooManyFields,
    /// A version other than 1.0 and 1.1, such as the preface of HTTP/2.
    VersionUnsupported,
    /// A head in HTTP/2 that the library refuses which reads the frames. It resets the stream and tells nobody why.
    #[strum(serialize = "h2_stream")]
    Stream,
}

impl HeadFault {
    /// Every fault, so that counters can be made before the first request.
    pub const ALL: &'static [HeadFault] = HeadFault::VARIANTS;

    /// The word under which it is counted: a metric label, so it never changes and never holds what a client sent.
    pub const fn reason(self) -> &'static str {
        self.into_str()
    }
}

/// Why the transfer of a body was cut short by the connection layer. It travels to the proxy inside an `io::Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr, Error)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[error("{}", self.reason())]
pub enum BodyFault {
    /// A chunk size that is not 1 to 15 hex digits.
    ChunkSize,
    /// A chunk extension that is malformed or too long.
    ChunkExtension,
    /// A chunk, its size or the end of the body without its CRLF.
    ChunkEnding,
    /// A trailer line that is no header field, or too many of them.
    Trailer,
    /// A chunk whose size takes the body over the route's limit.
    #[strum(serialize = "body_too_large")]
    TooLarge,
    /// The client sent its request more slowly than the least rate.
    SlowUpload,
    /// The client took its answer more slowly than the least rate.
    SlowDownload,
    /// The body of the request took longer than a whole one may.
    LateUpload,
    /// The client took longer for its answer than it may for a whole one.
    LateDownload,
    /// The client took nothing for a while, and its transfer held what others needed.
    BuffersFull,
}

impl BodyFault {
    /// Every fault, so that counters can be made before the first request.
    pub const ALL: &'static [BodyFault] = BodyFault::VARIANTS;

    /// The word under which it is counted: a metric label, so it never changes and never holds what a client sent.
    pub const fn reason(self) -> &'static str {
        self.into_str()
    }
}

impl From<BodyFault> for std::io::Error {
    fn from(fault: BodyFault) -> std::io::Error {
        let kind = match fault {
            BodyFault::SlowUpload
            | BodyFault::SlowDownload
            | BodyFault::LateUpload
            | BodyFault::LateDownload
            | BodyFault::BuffersFull => std::io::ErrorKind::TimedOut,
            _ => std::io::ErrorKind::InvalidData,
        };
        std::io::Error::new(kind, fault)
    }
}

/// What was wrong with an answer, or with the time that it came. It travels inside an `io::Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum AnswerFault {
    /// The first line is no status line.
    #[error("no status line")]
    StatusLine,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    #[error("a version of HTTP that is not served")]
    Version,
    /// A line that does not end in CRLF.
    #[error("a line that does not end in CRLF")]
    LineEnding,
    /// A field name that is no token, or is not followed by its colon at once.
    #[error("a malformed field name")]
    FieldName,
    /// A control byte in a field value.
    #[error("a control byte in a field")]
    FieldValue,
    /// A line that continues the one before.
    #[error("a folded line")]
    Folding,
    /// More head than an answer may have.
    #[error("a head that is too large")]
    HeadTooLarge,
    /// More fields than an answer may have.
    #[error("too many fields")]
    TooManyFields,
    /// A length that is not plain digits, or a second one.
    #[error("a malformed or repeated length")]
    ContentLength,
    /// A coding other than `chunked` once, or in HTTP/1.0.
    #[error("a transfer coding other than chunked")]
    TransferEncoding,
    /// A length and a coding.
    #[error("a length beside a transfer coding")]
    LengthAndEncoding,
    /// The framing of a body in an answer that has none by its status.
    #[error("a body where there can be none")]
    BodyWhereNone,
    /// More interim answers than anybody needs.
    #[error("too many interim answers")]
    TooManyInterim,
    /// A switch of protocols that nobody asked for, or that does not say to which.
    #[error("a switch of protocols that nobody asked for")]
    Switch,
    /// A chunk size that is not 1 to 15 hex digits.
    #[error("a malformed chunk size")]
    ChunkSize,
    /// A chunk extension that is malformed or too long.
    #[error("a malformed chunk extension")]
    ChunkExtension,
    /// A chunk, its size or the end of the body without its CRLF.
    #[error("a chunk without its end")]
    ChunkEnding,
    /// A trailer line that is no header field, or too many of them.
    #[error("a malformed trailer")]
    Trailer,
    /// The connection ended before the answer did.
    #[error("an answer that breaks off")]
    Cut,
    /// Bytes came before the request was sent.
    #[error("an answer to no request")]
    Unasked,
    /// The origin does not speak the protocol that the policy names.
    #[error("another protocol than the policy names")]
    Protocol,
}

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
    fn every_fault_has_its_own_word() {
        let mut words = std::collections::HashSet::new();
        for fault in HeadFault::ALL {
            assert!(words.insert(fault.reason()), "{fault:?} shares its word");
        }
        for fault in BodyFault::ALL {
            assert!(words.insert(fault.reason()), "{fault:?} shares its word");
        }
    }
}
