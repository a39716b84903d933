//! Numbers and texts from the front of an input, for targets that write rather than read.

/// What is left of an input. Past its end everything is zero or empty.
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// All of it.
    pub fn new(data: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: data }
    }

    /// The next byte; none at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// A byte says how many follow, or all that are left.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte().unwrap_or(0)).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Bytes as a lenient reader sees them.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Up to eight bytes, the highest first, behind their count: small inputs make small numbers.
    pub fn number(&mut self) -> u64 {
        let count = self.byte().unwrap_or(0) % 9;
        (0..count).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0)))
    }

    /// A number for a smaller place; what does not fit is cut.
    pub fn small<N: TryFrom<u64> + Default>(&mut self) -> N {
        N::try_from(self.number()).unwrap_or_default()
    }
}
