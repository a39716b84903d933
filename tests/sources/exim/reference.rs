//! Exim's `per_addr` as Finch published it, kept here to be measured: what his table promises, and where it does not hold.
//!
//! A Bloom filter per key of max(40, 2·limit) bytes with the bits `h1 + n·h2`, n = 0…7, and a smoothed rate per key. Exim cuts h1
//! and h2 out of an MD5; here they are the halves of 64 mixed bits, which for values that nobody chooses is the same.

use tidegate::units::Dice;

/// Eight hashes, whatever the size.
const HASHES: u32 = 8;

/// Where a value's bits lie.
#[derive(Clone, Copy, PartialEq)]
pub enum Bits {
    /// `h1 + n·h2`, as in Exim: a stride that divides the size visits few bits or one.
    Strided,
    /// Eight independent bits, as the published formula takes for granted.
    Independent,
}

/// The filter of one key.
pub struct Bloom {
    words: Vec<u64>,
    size: u64,
    bits: Bits,
}

impl Bloom {
    /// Of max(40, 2·limit) bytes.
    pub fn new(limit: u32, bits: Bits) -> Bloom {
        let size = 8 * u64::from((2 * limit).max(40));
        Bloom { words: vec![0; size.div_ceil(64) as usize], size, bits }
    }

    /// Of 16 bits per unit of limit, without the least size: the table's own terms.
    pub fn as_in_the_formula(limit: u32) -> Bloom {
        let size = 16 * u64::from(limit);
        Bloom { words: vec![0; size.div_ceil(64) as usize], size, bits: Bits::Independent }
    }

    fn places(&self, value: u64) -> impl Iterator<Item = u64> + use<> {
        let mut dice = Dice(value.wrapping_mul(0xd134_2543_de82_ef95));
        let hash = dice.roll();
        let (mut place, stride) = (hash as u32, (hash >> 32) as u32);
        let (size, bits) = (self.size, self.bits);
        (0..HASHES).map(move |_| match bits {
            Bits::Independent => dice.below(size),
            Bits::Strided => {
                let bit = u64::from(place) % size;
                place = place.wrapping_add(stride);
                bit
            }
        })
    }

    pub fn contains(&self, value: u64) -> bool {
        self.places(value).all(|bit| self.words[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    pub fn insert(&mut self, value: u64) {
        for bit in self.places(value) {
            self.words[bit as usize / 64] |= 1 << (bit % 64);
        }
    }
}

/// Whether an event over the limit changes anything.
#[derive(Clone, Copy, PartialEq)]
pub enum Counting {
    /// It does not: Exim's default.
    Leaky,
    /// It counts, so that whoever persists stays out.
    Strict,
}

/// One key under `limit / period / per_addr`; time in seconds.
pub struct PerAddr {
    limit: f64,
    period: f64,
    counting: Counting,
    /// Smoothed rate and the time of its last change.
    rate: Option<(f64, f64)>,
    filter: Option<(Bloom, f64)>,
}

impl PerAddr {
    pub fn new(limit: u32, period: f64, counting: Counting) -> PerAddr {
        PerAddr { limit: f64::from(limit), period, counting, rate: None, filter: None }
    }

    /// At `peak` at the beginning, and `after` seconds later with a new filter that knows one value.
    pub fn after_a_peak(limit: u32, period: f64, peak: f64, value: u64, after: f64) -> PerAddr {
        let mut filter = Bloom::new(limit, Bits::Strided);
        filter.insert(value);
        PerAddr {
            rate: Some((peak, 0.0)),
            filter: Some((filter, after)),
            ..PerAddr::new(limit, period, Counting::Strict)
        }
    }

    /// The rate at the last event that counted.
    pub fn rate(&self) -> f64 {
        self.rate.map_or(0.0, |(rate, _)| rate)
    }

    /// Whether the event is over the limit.
    pub fn offer(&mut self, value: u64, now: f64) -> bool {
        if self.filter.as_ref().is_none_or(|(_, born)| now - born > self.period) {
            self.filter = Some((Bloom::new(self.limit as u32, Bits::Strided), now));
        }
        let seen = self.filter.as_ref().is_some_and(|(filter, _)| filter.contains(value));
        let count = if seen { 0.0 } else { 1.0 };
        let rate = match self.rate {
            None => count,
            Some((rate, then)) => {
                // an interval of nothing is taken for a nanosecond; expm1 keeps the digits that 1 − exp(−x) loses there
                let x = (now - then).max(1e-9) / self.period;
                (-(-x).exp_m1() * count / x + (-x).exp() * rate).max(count)
            }
        };
        let over = rate >= self.limit;
        if !over || self.counting == Counting::Strict {
            self.rate = Some((rate, now));
            if let Some((filter, _)) = &mut self.filter {
                filter.insert(value);
            }
        }
        over
    }
}

/// The share of new values that a filter with `stored` values takes for old ones, over many filters.
pub fn false_seen(filter: impl Fn() -> Bloom, stored: u64, filters: u64, looks: u64) -> f64 {
    let mut wrong = 0;
    for n in 0..filters {
        let mut bloom = filter();
        for value in 0..stored {
            bloom.insert(n << 32 | value);
        }
        wrong += (0..looks).filter(|look| bloom.contains(n << 32 | 1 << 31 | look)).count();
    }
    wrong as f64 / (filters * looks) as f64
}
