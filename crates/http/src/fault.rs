//! Faults in the bytes of a request, found before any policy reads it, and in those of an answer.
//!
//! Each fault has the word under which it is counted. Statuses and texts for clients stand where all answers are made, above this
//! crate.

use std::fmt;
use std::io;

/// Why a request head was refused by the connection layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    Stream,
}

impl HeadFault {
    /// Every fault, so that counters and answers can be made before the first request.
    pub const ALL: [HeadFault; 28] = [
        HeadFault::Method,
        HeadFault::Blank,
        HeadFault::Target,
        HeadFault::TargetForm,
        HeadFault::Escape,
        HeadFault::DotSegment,
        HeadFault::EscapedSlash,
        HeadFault::Version,
        HeadFault::LineEnding,
        HeadFault::FieldName,
        HeadFault::FieldValue,
        HeadFault::Folding,
        HeadFault::Host,
        HeadFault::HostMismatch,
        HeadFault::ContentLength,
        HeadFault::TransferEncoding,
        HeadFault::LengthAndEncoding,
        HeadFault::Connection,
        HeadFault::Upgrade,
        HeadFault::UnderscoreTwin,
        HeadFault::MethodRefused,
        HeadFault::Late,
        HeadFault::TargetTooLong,
        HeadFault::Expectation,
        HeadFault::TooLarge,
        HeadFault::TooManyFields,
        HeadFault::VersionUnsupported,
        HeadFault::Stream,
    ];

    /// The word it is counted under: a metric label, so it never changes and never holds what a client sent.
    pub const fn reason(self) -> &'static str {
        match self {
            HeadFault::Method => "method",
            HeadFault::Blank => "blank",
            HeadFault::Target => "target",
            HeadFault::TargetForm => "target_form",
            HeadFault::Escape => "escape",
            HeadFault::DotSegment => "dot_segment",
            HeadFault::EscapedSlash => "escaped_slash",
            HeadFault::Version => "version",
            HeadFault::LineEnding => "line_ending",
            HeadFault::FieldName => "field_name",
            HeadFault::FieldValue => "field_value",
            HeadFault::Folding => "folding",
            HeadFault::Host => "host",
            HeadFault::HostMismatch => "host_mismatch",
            HeadFault::ContentLength => "content_length",
            HeadFault::TransferEncoding => "transfer_encoding",
            HeadFault::LengthAndEncoding => "length_and_encoding",
            HeadFault::Connection => "connection",
            HeadFault::Upgrade => "upgrade",
            HeadFault::UnderscoreTwin => "underscore_twin",
            HeadFault::MethodRefused => "method_refused",
            HeadFault::Late => "late",
            HeadFault::TargetTooLong => "target_too_long",
            HeadFault::Expectation => "expectation",
            HeadFault::TooLarge => "too_large",
            HeadFault::TooManyFields => "too_many_fields",
            HeadFault::VersionUnsupported => "version_unsupported",
            HeadFault::Stream => "h2_stream",
        }
    }
}

impl fmt::Display for HeadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HeadFault {}

/// Why the transfer of a body was cut short by the connection layer. It travels to the proxy inside an `io::Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    pub const ALL: [BodyFault; 10] = [
        BodyFault::ChunkSize,
        BodyFault::ChunkExtension,
        BodyFault::ChunkEnding,
        BodyFault::Trailer,
        BodyFault::TooLarge,
        BodyFault::SlowUpload,
        BodyFault::SlowDownload,
        BodyFault::LateUpload,
        BodyFault::LateDownload,
        BodyFault::BuffersFull,
    ];

    /// The word it is counted under.
    pub const fn reason(self) -> &'static str {
        match self {
            BodyFault::ChunkSize => "chunk_size",
            BodyFault::ChunkExtension => "chunk_extension",
            BodyFault::ChunkEnding => "chunk_ending",
            BodyFault::Trailer => "trailer",
            BodyFault::TooLarge => "body_too_large",
            BodyFault::SlowUpload => "slow_upload",
            BodyFault::SlowDownload => "slow_download",
            BodyFault::LateUpload => "late_upload",
            BodyFault::LateDownload => "late_download",
            BodyFault::BuffersFull => "buffers_full",
        }
    }
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BodyFault {}

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
