//! Sorted networks of one width of address, and the tree by which they are found.
//!
//! **Time.** A node of the tree is `BLOCK` addresses side by side, so a look reads one node of each of four levels. Then it reads where the
//! networks of one block begin and end, in 256ths of the block. Of the addresses in no network few are within one by that: only for those,
//! and for addresses that are listed, the network itself is read. So what most looks read, 2.5 to 3 MiB of a million networks, stays in the
//! processor's caches, and main memory is read for those that get refused.
//! `cargo bench -p tidegate-policy --bench networks` prints memory and time.

/// Entries of a node, and networks of a block.
const BLOCK: usize = 16;

/// An address as a number.
pub(super) trait Number: Copy + Ord {
    /// The last number of the network of this length that begins with this one.
    fn end(self, length: u8) -> Self;

    /// By how many bits numbers from this one to `last` are too fine for [`Number::roughly`].
    fn fineness(self, last: Self) -> u8;

    /// How far this number is behind `first`, without these bits.
    fn roughly(self, first: Self, fineness: u8) -> u8;

    /// How many of these ascending numbers are not greater than this one.
    #[inline]
    fn up_to(self, numbers: &[Self; BLOCK]) -> usize {
        // first which four of them, then which of the four: half of the comparisons
        let (fours, _) = numbers.as_chunks::<4>();
        let four: usize = fours.iter().skip(1).map(|[first, ..]| usize::from(*first <= self)).sum();
        let within = fours.get(four).map_or(0, |four| four.iter().map(|number| usize::from(*number <= self)).sum());
        4 * four + within
    }
}

macro_rules! number {
    ($type:ty $(, $up_to:item)?) => {
        impl Number for $type {
            #[inline]
            fn end(self, length: u8) -> $type {
                self | <$type>::MAX.checked_shr(length.into()).unwrap_or(0)
            }

            fn fineness(self, last: $type) -> u8 {
                // at most 120
                (<$type>::BITS - last.abs_diff(self).leading_zeros()).saturating_sub(u8::BITS) as u8
            }

            #[inline]
            fn roughly(self, first: $type, fineness: u8) -> u8 {
                let behind = self.saturating_sub(first).checked_shr(fineness.into()).unwrap_or(0);
                // what is left fits
                behind.min(<$type>::from(u8::MAX)) as u8
            }

            $($up_to)?
        }
    };
}

number!(
    u32,
    // the processor compares four at once
    #[inline]
    fn up_to(self, numbers: &[u32; BLOCK]) -> usize {
        numbers.iter().map(|number| u32::from(*number <= self)).sum::<u32>() as usize
    }
);
number!(u64);
number!(u128);

/// Networks in ascending order; one that lies inside of another comes behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Networks<N, V> {
    firsts: Box<[N]>,
    lengths: Box<[u8]>,
    values: Box<[V]>,
    /// The positions of the networks around these, [`OUTSIDE`] if there is none. Empty if that holds for all.
    around: Box<[u32]>,
    /// Of each `BLOCK` networks.
    blocks: Box<[Block]>,
    /// The [fineness](Number::fineness) of each block.
    fineness: Box<[u8]>,
    /// The first number of every block, of every node of those, and so on to one node; the widest level first.
    levels: Vec<Box<[Node<N>]>>,
}

/// Around no network.
const OUTSIDE: u32 = u32::MAX;

/// Where what the networks of a block cover begins and ends, [roughly](Number::roughly), from the block's first number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Block {
    begins: [u8; BLOCK],
    ends: [u8; BLOCK],
}

impl Block {
    fn new<N: Number>(spans: &[(N, N)], fineness: u8) -> Option<Block> {
        let (start, _) = *spans.first()?;
        Some(Block {
            begins: filled(spans, |(first, _)| first.roughly(start, fineness))?,
            ends: filled(spans, |(_, last)| last.roughly(start, fineness))?,
        })
    }

    /// The places of the spans that may contain a number: they begin no later and end no earlier.
    #[inline]
    fn near(&self, number: u8) -> std::ops::Range<usize> {
        let ended: u8 = self.ends.iter().map(|end| u8::from(*end < number)).sum();
        let begun: u8 = self.begins.iter().map(|begin| u8::from(*begin <= number)).sum();
        ended.into()..begun.into()
    }
}

/// Numbers side by side. Begins with a line of the processor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Node<N>([N; BLOCK]);

impl<N, V> Default for Networks<N, V> {
    fn default() -> Networks<N, V> {
        Networks {
            firsts: Box::default(),
            lengths: Box::default(),
            values: Box::default(),
            around: Box::default(),
            blocks: Box::default(),
            fineness: Box::default(),
            levels: Vec::new(),
        }
    }
}

/// A block's worth of items, which repeat the last one where there are fewer.
fn filled<T: Copy, U>(items: &[T], of: impl Fn(T) -> U) -> Option<[U; BLOCK]> {
    let last = *items.last()?;
    Some(std::array::from_fn(|at| of(items.get(at).copied().unwrap_or(last))))
}

impl<N: Number, V: Copy + Ord> Networks<N, V> {
    /// Networks in any order: their first numbers, their lengths, their values.
    pub fn new(networks: Vec<(N, u8, V)>) -> Networks<N, V> {
        let networks = needed(networks);
        let around = nested(&networks);
        let spans = spans(&networks, &around);
        let mut starts: Vec<N> = spans.iter().step_by(BLOCK).map(|(first, _)| *first).collect();
        let behind = starts.iter().skip(1).copied().chain(spans.last().map(|(_, last)| *last));
        let fineness: Box<[u8]> = starts.iter().zip(behind).map(|(start, behind)| start.fineness(behind)).collect();
        let blocks =
            spans.chunks(BLOCK).zip(&fineness).filter_map(|(spans, fineness)| Block::new(spans, *fineness)).collect();
        let mut levels: Vec<Box<[Node<N>]>> = Vec::new();
        while !starts.is_empty() {
            let level = starts.chunks(BLOCK).filter_map(|starts| filled(starts, |start| start).map(Node)).collect();
            starts = if starts.len() > BLOCK { starts.into_iter().step_by(BLOCK).collect() } else { Vec::new() };
            levels.push(level);
        }
        Networks {
            firsts: networks.iter().map(|(first, ..)| *first).collect(),
            lengths: networks.iter().map(|(_, length, _)| *length).collect(),
            values: networks.iter().map(|(.., value)| *value).collect(),
            around: if around.iter().all(|around| *around == OUTSIDE) { Box::default() } else { around.into() },
            blocks,
            fineness,
            levels,
        }
    }

    /// The greatest value of the networks around a number.
    #[inline]
    pub fn get(&self, number: N) -> Option<V> {
        let (mut at, mut start) = (0, None);
        for level in self.levels.iter().rev() {
            // behind the end are repetitions of the last one
            let node = at.min(level.len().saturating_sub(1));
            let Node(starts) = level.get(node)?;
            let place = number.up_to(starts).checked_sub(1)?;
            (at, start) = (node * BLOCK + place, starts.get(place));
        }
        let at = at.min(self.blocks.len().checked_sub(1)?);
        let near = self.blocks.get(at)?.near(number.roughly(*start?, *self.fineness.get(at)?));
        // the last one that begins no later, as the tree would say, if it counted to the end
        let begun = |at: &usize| self.firsts.get(*at).is_some_and(|first| *first <= number);
        let at = near.rev().map(|place| at * BLOCK + place).find(begun)?;
        let at = self.ending_behind(at, number)?;
        self.values.get(at).copied()
    }

    /// Of a network and those around it the first that does not end before a number.
    #[inline]
    fn ending_behind(&self, mut at: usize, number: N) -> Option<usize> {
        while self.firsts.get(at)?.end(*self.lengths.get(at)?) < number {
            // of OUTSIDE there is no first number
            at = *self.around.get(at)? as usize;
        }
        Some(at)
    }

    /// Returns whether any number from the first to the last is in one of the networks.
    pub fn meets(&self, first: N, last: N) -> bool {
        let begun = self.firsts.partition_point(|begin| *begin <= last);
        begun.checked_sub(1).is_some_and(|at| self.ending_behind(at, first).is_some())
    }

    /// The number of networks.
    pub fn count(&self) -> usize {
        self.firsts.len()
    }

    /// The bytes of all of it.
    pub fn memory(&self) -> u64 {
        let levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        let networks = size_of_val(&*self.firsts) + size_of_val(&*self.lengths) + size_of_val(&*self.values);
        let networks = networks + size_of_val(&*self.around);
        (networks + size_of_val(&*self.blocks) + size_of_val(&*self.fineness) + levels) as u64
    }
}

/// The networks that are needed, in ascending order: without those inside of others whose values are no less, and two halves as one.
pub(super) fn needed<N: Number, V: Copy + Ord>(mut networks: Vec<(N, u8, V)>) -> Vec<(N, u8, V)> {
    // the wider of two that begin alike comes first, and of two that are alike the greater
    networks.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(one.1.cmp(&other.1)).then(other.2.cmp(&one.2)));
    let mut needed: Vec<(N, u8, V)> = Vec::with_capacity(networks.len());
    // those that have not ended, the widest first: the last number and the value
    let mut open: Vec<(N, V)> = Vec::new();
    for (mut first, mut length, value) in networks {
        while open.pop_if(|(last, _)| *last < first).is_some() {}
        if open.last().is_some_and(|(_, around)| *around >= value) {
            continue;
        }
        open.push((first.end(length), value));
        let lower = |(begin, known, alike): &mut (N, u8, V), first: N, length: u8| {
            (*known, *alike) == (length, value) && begin.end(length.saturating_sub(1)) == first.end(length)
        };
        while let Some((begin, ..)) = needed.pop_if(|last| lower(last, first, length)) {
            (first, length) = (begin, length.saturating_sub(1));
        }
        needed.push((first, length, value));
    }
    needed.shrink_to_fit();
    needed
}

/// The position of the network around each of these.
fn nested<N: Number, V>(networks: &[(N, u8, V)]) -> Vec<u32> {
    let mut open: Vec<(N, u32)> = Vec::new();
    let around = (0_u32..).zip(networks).map(|(at, (first, length, _))| {
        while open.pop_if(|(last, _)| *last < *first).is_some() {}
        let around = open.last().map_or(OUTSIDE, |(_, around)| *around);
        open.push((first.end(*length), at));
        around
    });
    around.collect()
}

/// What each network and those around it cover, before the next one begins: the first and the last number.
fn spans<N: Number, V>(networks: &[(N, u8, V)], around: &[u32]) -> Vec<(N, N)> {
    let mut ends: Vec<N> = Vec::with_capacity(networks.len());
    for ((first, length, _), around) in networks.iter().zip(around) {
        // of the widest around it
        ends.push(ends.get(*around as usize).copied().unwrap_or_else(|| first.end(*length)));
    }
    let firsts = || networks.iter().map(|(first, ..)| *first);
    let behind = firsts().skip(1).map(Some).chain([None]);
    let spans = firsts().zip(ends).zip(behind);
    // that the end of one is the begin of the next does no harm
    spans.map(|((first, end), behind)| (first, behind.map_or(end, |behind| end.min(behind)))).collect()
}
