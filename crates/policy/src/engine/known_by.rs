//! When it is known what becomes of what a store granted.

/// When it is known what becomes of what a store granted to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// At the end of the request, which has a place until then.
    Place,
    /// By the answer.
    Answer,
    /// As bytes pass.
    Bytes,
}
