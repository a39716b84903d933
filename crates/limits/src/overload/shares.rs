//! Recent rates of all clients, and who is too heavy for the share in force.
//!
//! A client counts by itself and as part of its network, which stands for at most sixteen clients: 200 hosts of a /24 are as heavy as
//! 16. Rates are estimates in fixed memory ([`OfferedRates`], half-life one second). They can only be too high, and refused ones count.
//! What is offered at rate r to a share s passes with probability s/r: equals are treated alike, and whoever sends more gets no more.
//!
//! Nothing is counted while the server has no pressure: a call is one load then.

use std::time::Duration;

use crate::sketch::offered::OfferedRates;
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Bytes, OutOfRange, Prefix, Timestamp};

/// How many single clients a network may stand for.
const NETWORK: f64 = 16.0;

/// Long enough to tell a burst from a stream, short enough that a client is judged by what it does now.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// Who came so often within a half-life has hardly come.
const FEW: f64 = 2.01;

/// The part of a rate that is known after the first 70 ms.
const LEAST_LEARNED: f64 = 0.05;

/// Beside 1,000 heavy clients, a light one is taken for one with probability 9·10⁻⁷: two tables of 1 MiB, untouched until they count.
const MEMORY: Bytes = Bytes(1 << 20);

/// The rates of clients and networks, and the share of each class. Every word is read and written alone; a verdict that was made by the share of
/// a moment ago is as good.
#[derive(Debug)]
pub struct Shares<const CLASSES: usize> {
    rates: OfferedRates,
    seed: Seed,
    /// `f64` by class: per second of one client; infinite while all of the class are admitted.
    shares: [AtomicU64; CLASSES],
    /// Not zero by class: who has hardly come is spared.
    sparing: [AtomicU64; CLASSES],
    /// `f64` by class: the heaviest offered since it was taken.
    peaks: [AtomicU64; CLASSES],
    /// Offered while counting, refused ones among them.
    offered: AtomicU64,
    /// Not zero: rates are counted, since this stamp.
    counting: AtomicU64,
}

impl<const CLASSES: usize> Shares<CLASSES> {
    /// Returns shares that admit everything.
    ///
    /// # Errors
    /// What [`OfferedRates::new`] refuses; never with these constants.
    pub fn new(seed: &Seed) -> Result<Self, OutOfRange> {
        Ok(Shares {
            rates: OfferedRates::new(MEMORY, HALF_LIFE, &seed.derive("rates"))?,
            seed: seed.derive("keys"),
            shares: std::array::from_fn(|_| AtomicU64::new(f64::INFINITY.to_bits())),
            sparing: std::array::from_fn(|_| AtomicU64::new(0)),
            peaks: std::array::from_fn(|_| AtomicU64::new(0)),
            offered: AtomicU64::new(0),
            counting: AtomicU64::new(0),
        })
    }

    /// Judges a connection or request of `client`, and counts it as offered. `dice` is uniform over `u64`. `now` is called only while
    /// rates are counted.
    #[inline]
    pub fn admit(&self, client: Prefix, class: usize, now: impl FnOnce() -> (Timestamp, u64)) -> bool {
        let since = self.counting.load(Ordering::Relaxed);
        if since == 0 {
            return true;
        }
        let (now, dice) = now();
        self.judge(client, class, (now, Timestamp::from_nanos(since)), dice)
    }

    fn judge(&self, client: Prefix, class: usize, (now, since): (Timestamp, Timestamp), dice: u64) -> bool {
        let network = Prefix::around(client.address(), 24, 48);
        let mut weight = self.rates.add(&self.rates.read(self.key(client), 0), now);
        if network != client {
            weight = weight.max(self.rates.add(&self.rates.read(self.key(network), 1), now) / NETWORK);
        }
        let spared = weight <= FEW * self.rates.per_event();
        // an average over a time that was not observed yet would be too low, and rise for seconds
        let learned = 1.0 - (-now.since(since).as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        let weight = weight / learned.max(LEAST_LEARNED);
        self.offered.fetch_add(1, Ordering::Relaxed);
        let (Some(share), Some(peak)) = (self.shares.get(class), self.peaks.get(class)) else { return true };
        // numbers above zero are ordered as their bits are
        peak.fetch_max(weight.to_bits(), Ordering::Relaxed);
        let share = f64::from_bits(share.load(Ordering::Relaxed));
        let sparing = || self.sparing.get(class).is_some_and(|word| word.load(Ordering::Relaxed) != 0);
        weight <= share || (spared && sparing()) || (dice as f64) * 2.0_f64.powi(-64) * weight < share
    }

    fn key(&self, prefix: Prefix) -> KeyHash {
        let (bytes, used) = prefix.key_bytes();
        let mut hasher = KeyHasher::new(&self.seed);
        hasher.part(0, bytes.get(..used).unwrap_or(&bytes));
        hasher.finish()
    }

    /// Counts rates from `now` on, or goes on to; `None`: ends to. Nothing is refused while they are not counted.
    pub fn count(&self, now: Option<Timestamp>) {
        match now {
            Some(now) if self.counting.load(Ordering::Relaxed) == 0 => {
                self.counting.store(now.nanos().max(1), Ordering::Relaxed);
            }
            Some(_) => {}
            None => self.counting.store(0, Ordering::Relaxed),
        }
    }

    /// Returns what was offered while rates were counted.
    pub fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// The heaviest offered in a class since the last call, per second of one client; zero if nothing was.
    pub fn take_peak(&self, class: usize) -> f64 {
        self.peaks.get(class).map_or(0.0, |peak| f64::from_bits(peak.swap(0, Ordering::Relaxed)))
    }

    /// Puts the share of a class in force. `sparing`: who has come no more than twice in the last second is admitted all the same.
    pub fn set(&self, class: usize, share: f64, sparing: bool) {
        if let (Some(word), Some(spared)) = (self.shares.get(class), self.sparing.get(class)) {
            word.store(share.to_bits(), Ordering::Relaxed);
            spared.store(u64::from(sparing), Ordering::Relaxed);
        }
    }

    /// Re-keys the tables when it is due. To be called about once a second.
    pub fn maintain(&self, now: Timestamp) {
        self.rates.maintain(now);
    }

    /// What it holds, whatever the number of clients.
    pub fn memory(&self) -> Bytes {
        self.rates.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Dice;

    const SEED: Seed = Seed::from_bytes([5; 16]);

    fn client(network: u8, host: u8) -> Prefix {
        Prefix::around(std::net::Ipv4Addr::new(198, 51, network, host).into(), 32, 64)
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos((1 << 40) + nanos)
    }

    #[test]
    fn everything_passes_until_it_counts_and_until_there_is_a_share() {
        let shares: Shares<1> = Shares::new(&SEED).unwrap();
        shares.set(0, 0.0, false);
        assert!(shares.admit(client(1, 1), 0, || panic!("the clock is read for nothing")));
        assert_eq!((shares.offered(), shares.take_peak(0)), (0, 0.0));
        shares.count(Some(at(0)));
        assert!(!shares.admit(client(1, 1), 0, || (at(0), 1)));
        shares.set(0, f64::INFINITY, false);
        assert!(shares.admit(client(1, 1), 0, || (at(1), u64::MAX)));
        assert_eq!(shares.offered(), 2);
    }

    #[test]
    fn the_heavy_are_thinned_to_the_share_and_the_light_are_not_touched() {
        let shares: Shares<1> = Shares::new(&SEED).unwrap();
        shares.count(Some(at(0)));
        shares.set(0, 50.0, false);
        let mut dice = Dice(1);
        let mut passed = [0_u32; 2];
        // four seconds: one client at 500/s, one at 20/s
        for step in 0..2_000_u64 {
            let now = at(step * 2_000_000);
            let admitted = shares.admit(client(1, 1), 0, || (now, dice.roll()));
            // in the last two seconds, when its rate is known
            passed[0] += u32::from(admitted && step >= 1_000);
            if step % 25 == 0 {
                passed[1] += u32::from(shares.admit(client(2, 1), 0, || (now, dice.roll())));
            }
        }
        assert_eq!(passed[1], 80, "the light one is refused");
        assert!((80..=150).contains(&passed[0]), "{passed:?}");
        assert!((400.0..600.0).contains(&shares.take_peak(0)));
    }

    #[test]
    fn two_hundred_hosts_of_a_network_are_as_heavy_as_sixteen_clients() {
        let shares: Shares<1> = Shares::new(&SEED).unwrap();
        shares.count(Some(at(0)));
        shares.set(0, 5.0, false);
        let mut dice = Dice(1);
        let mut passed = 0;
        // 200 hosts at 4/s each, for four seconds: each alone is below the share
        for step in 0..3_200_u64 {
            let now = at(step * 1_250_000);
            let admitted = shares.admit(client(9, (step % 200) as u8), 0, || (now, dice.roll()));
            passed += u32::from(admitted && step >= 1_600);
        }
        // sixteen times five in each of the last two seconds
        assert!((130..=220).contains(&passed), "{passed}");
    }

    #[test]
    fn who_has_hardly_come_is_spared_where_that_is_asked_for() {
        let shares: Shares<1> = Shares::new(&SEED).unwrap();
        shares.count(Some(at(0)));
        shares.set(0, 0.0, true);
        let admitted: Vec<bool> =
            (0..6).map(|step| shares.admit(client(1, 1), 0, || (at(step * 20_000_000), u64::MAX))).collect();
        assert_eq!(admitted, [true, true, false, false, false, false]);
        assert!(shares.admit(client(2, 1), 0, || (at(200_000_000), u64::MAX)), "another network");
    }

    #[test]
    fn classes_have_shares_of_their_own() {
        let shares: Shares<2> = Shares::new(&SEED).unwrap();
        shares.count(Some(at(0)));
        shares.set(0, 0.0, false);
        assert!(!shares.admit(client(1, 1), 0, || (at(0), 7)));
        assert!(shares.admit(client(1, 1), 1, || (at(0), 7)));
        assert!(shares.memory() < Bytes(3 << 20));
    }
}
