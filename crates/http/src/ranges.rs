//! Where the lines of a head stand in its bytes: noted by the parser that judges them, so that nobody has to look for them again.

use std::ops::Range;

/// The lines of a head, in their order.
#[derive(Debug, Clone, Default)]
pub struct LineRanges(Vec<Line>);

/// Where a line's parts stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub name: Part,
    pub value: Part,
    /// Of the name.
    pub mark: Mark,
    /// It stands there as it is written: one blank behind the colon, and the end of the line behind the value.
    pub is_plain: bool,
}

impl Line {
    /// All of a line that stands as it is written, its end included.
    pub fn whole(&self) -> Range<usize> {
        self.name.start as usize..self.value.end as usize + 2
    }
}

/// A name in lower case, as far as two words hold it: up to [`Mark::WHOLE`] letters all of it, of longer ones both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    first: u64,
    last: u64,
    length: u32,
}

impl Mark {
    const WHOLE: u32 = 16;

    /// The same for all spellings of a name.
    #[inline]
    pub fn of(name: &[u8]) -> Mark {
        let four = |bytes: Option<&[u8; 4]>| u64::from(u32::from_le_bytes(bytes.copied().unwrap_or_default()));
        let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ if name.len() >= 4 => (four(name.first_chunk()), four(name.last_chunk())),
            _ => (name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
        };
        Mark { first: lower(first), last: lower(last), length: name.len() as u32 }
    }

    /// Whether names of this mark are the same, but for their spelling.
    #[inline]
    pub fn is_whole(self) -> bool {
        self.length <= Mark::WHOLE
    }
}

/// Eight bytes with capitals of ASCII in lower case.
#[inline]
fn lower(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let sevens = eight & !HIGHS;
    // the high bit of each byte; no sum carries into the next one
    let from_a = sevens + ONES * (0x80 - b'A' as u64);
    let behind_z = sevens + ONES * (0x7f - b'Z' as u64);
    eight | ((from_a ^ behind_z) & !eight & HIGHS) >> 2
}

/// A range of the text. Heads have far less than 4 GiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub start: u32,
    pub end: u32,
}

impl Part {
    pub fn of(range: Range<usize>) -> Option<Part> {
        Some(Part { start: u32::try_from(range.start).ok()?, end: u32::try_from(range.end).ok()? })
    }

    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl LineRanges {
    /// Forgets all, and keeps the memory for the next head.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The memory that is kept, in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity() * size_of::<Line>()
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.0
    }

    /// Notes the next line, whose name is this; `None` if it stands too far behind.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], at: Range<usize>, value: Range<usize>, is_plain: bool) -> Option<()> {
        self.0.push(Line { name: Part::of(at)?, value: Part::of(value)?, mark: Mark::of(name), is_plain });
        Some(())
    }

    /// Shortens the value of the line whose name stands there by its last byte.
    pub(crate) fn shorten(&mut self, name: &[u8], bytes: &[u8]) {
        let is_named =
            |line: &&mut Line| bytes.get(line.name.range()).is_some_and(|known| known.eq_ignore_ascii_case(name));
        if let Some(line) = self.0.iter_mut().find(is_named) {
            line.value.end = line.value.end.saturating_sub(1).max(line.value.start);
            line.is_plain = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Two names have one mark just if they are the same but for capitals, and are told apart by it alone up to sixteen bytes.
        #[test]
        fn a_mark_is_that_of_one_name(
            one in prop::collection::vec(any::<u8>(), 0..20),
            other in prop::collection::vec(any::<u8>(), 0..20),
            flips in prop::collection::vec(any::<bool>(), 20),
        ) {
            let same: Vec<u8> = one
                .iter()
                .zip(flips)
                .map(|(byte, flip)| if flip { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() })
                .collect();
            prop_assert_eq!(Mark::of(&one), Mark::of(&same));
            let alike = other.eq_ignore_ascii_case(&one);
            prop_assert!(!alike || Mark::of(&one) == Mark::of(&other));
            prop_assert!(alike || Mark::of(&one) != Mark::of(&other) || one.len() > 16);
        }

        #[test]
        fn capitals_become_small_and_nothing_else_changes(eight in any::<[u8; 8]>()) {
            prop_assert_eq!(lower(u64::from_le_bytes(eight)).to_le_bytes(), <[u8; 8]>::try_from(eight.to_ascii_lowercase()).unwrap());
        }
    }
}
