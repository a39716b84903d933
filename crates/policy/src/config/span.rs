//! A place in a text that was read.

/// A range of bytes in one of the [`Sources`](super::source::Sources).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    source: u32,
    start: u32,
    end: u32,
}

impl Span {
    /// The range `start..end` of the source at position `source`. Offsets beyond 4 GiB are clamped;
    /// [`MAX_BYTES`](super::source::MAX_BYTES) excludes them.
    pub fn new(source: usize, start: usize, end: usize) -> Span {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { source: clamp(source), start: clamp(start), end: clamp(end.max(start)) }
    }

    /// The position of its source in [`Sources`](super::source::Sources).
    pub fn source(self) -> usize {
        self.source as usize
    }

    /// Its bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}
