//! Caps on the connections of one listener: so many at once, so many at once per client, so many new ones per client and time.
//!
//! Not a kind of limit: no request exists yet, nothing is told to the client, and no policy is asked. What a kind of limit counts
//! with is used all the same: clients are counted in the summing sketch ([`InflightByKey`]) and in token buckets
//! ([`Leveled`]), so the memory is fixed whatever the number of clients, and the error is one-sided: a client may be refused
//! early because others collide with it, never late. Every listener has seeds of its own.
//!
//! Promises, at every instant and in every interval of length τ: `open ≤ max`, `open of a client ≤ per_client`, `new of a client ≤
//! N + N·τ/period`, where the rate is N per period. A place comes back when its [`ConnectionPlace`] is dropped, however the connection ends.

use std::fmt;
use std::sync::Arc;

use super::kinds::{InflightByKey, KeyPermit};
use super::leveled::Leveled;
use super::{Place, Probe};
use crate::sketch::{Bucket, KeyHasher, Seed};
use crate::sync::{AtomicU32, Ordering};
use crate::units::{Bytes, Cost, OutOfRange, Prefix, Rate, Timestamp};

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapsSpec {
    /// The most connections at once, 1 to 2²⁴.
    pub max: u32,
    /// The most at once of one client; `None`: no such cap.
    pub per_client: Option<u32>,
    /// New ones of one client: as many at once as the rate says per period. `None`: no such cap.
    pub new: Option<Rate>,
}

/// Which cap a connection ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapReached {
    /// That on all connections.
    Full,
    /// That on the connections of its client.
    PerClient,
    /// That on new connections of its client.
    New,
}

/// The state of one listener's caps.
pub struct ConnectionCaps {
    max: u32,
    /// A count that only its own read-modify-writes decide on; nothing is published by it.
    open: Arc<AtomicU32>,
    per_client: Option<(Arc<InflightByKey>, u32)>,
    new: Option<Leveled<Bucket>>,
    seed: Seed,
}

/// Beside 1,000 clients that use their rate up, another is refused early with probability 8·10⁻⁷.
const TABLE_OF_NEW: Bytes = Bytes(1 << 20);

impl ConnectionCaps {
    /// Nobody is there yet. The table of clients has four columns for every connection that there may be, at least 64 KiB and at most
    /// 64 MiB (2 MiB for 20,000); a table of new connections takes 2.1 MiB.
    ///
    /// # Errors
    /// A rate that [`Bucket::new`] refuses: one whose period is over 3,650 days, which no policy file can say.
    pub fn new(spec: &CapsSpec, seed: &Seed) -> Result<Arc<ConnectionCaps>, OutOfRange> {
        let columns = u64::from(spec.max).saturating_mul(2).next_power_of_two().clamp(1 << 11, 1 << 21);
        let per_client = |cap| {
            let table = InflightByKey::new(u32::MAX, Bytes(columns * 32), seed.derive("open"))?;
            Ok((Arc::new(table), cap))
        };
        let new = |rate: Rate| {
            let bucket = Bucket::new(rate, rate.events())?;
            Leveled::new(bucket, TABLE_OF_NEW, seed.derive("new"), false)
        };
        Ok(Arc::new(ConnectionCaps {
            max: spec.max,
            open: Arc::default(),
            per_client: spec.per_client.map(per_client).transpose()?,
            new: spec.new.map(new).transpose()?,
            seed: seed.clone(),
        }))
    }

    /// The same connections under other caps, from `now` on: those that are open count for both, and so do the new ones of each client.
    /// A cap that was not there before counts from now on. The table of clients keeps its size.
    ///
    /// # Errors
    /// As [`ConnectionCaps::new`].
    pub fn followed_by(&self, spec: &CapsSpec, now: Timestamp) -> Result<Arc<ConnectionCaps>, OutOfRange> {
        let fresh = ConnectionCaps::new(spec, &self.seed)?;
        let per_client = spec.per_client.and_then(|cap| match &self.per_client {
            Some((table, _)) => Some((Arc::clone(table), cap)),
            None => fresh.per_client.clone(),
        });
        let new = match (spec.new, &self.new) {
            (Some(rate), Some(before)) => {
                let new = Bucket::new(rate, rate.events())?;
                let ratio = before.meter().pace_for(&new, (1, 1));
                let kept = match before.timeline().followed_by(now, ratio).filter(|_| new.fits(ratio)) {
                    Some(timeline) => before.followed_by(Bucket::paced(rate, rate.events(), ratio)?, timeline, false),
                    None => before.apart(new, now, ratio, false),
                };
                // nobody is asked by the old ones any more but who is just about to
                kept.timeline().take_over();
                Some(kept)
            }
            // it is not shared yet
            _ => Arc::into_inner(fresh).and_then(|fresh| fresh.new),
        };
        Ok(Arc::new(ConnectionCaps {
            max: spec.max,
            open: Arc::clone(&self.open),
            per_client,
            new,
            seed: self.seed.clone(),
        }))
    }

    /// Takes a place for a connection of whoever it may be.
    ///
    /// # Errors
    /// [`CapReached::Full`].
    pub fn enter(self: &Arc<Self>) -> Result<ConnectionPlace, CapReached> {
        let one_more = |open: u32| (open < self.max).then_some(open + 1);
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(ConnectionPlace { caps: Arc::clone(self), client: None }),
            Err(_) => Err(CapReached::Full),
        }
    }

    /// How many connections there are.
    pub fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Re-keys its table when it is due. To be called about once a second, never on the way of a connection.
    pub fn maintain(&self, now: Timestamp) {
        if let Some(new) = &self.new {
            new.maintain(now, new.fade_nanos());
        }
    }

    /// What it holds, the same whatever the number of clients.
    pub fn memory(&self) -> Bytes {
        let open = self.per_client.as_ref().map_or(0, |(open, _)| open.memory().0);
        Bytes(open + self.new.as_ref().map_or(0, |new| new.levels().memory().0))
    }
}

impl fmt::Debug for ConnectionCaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionCaps").field("max", &self.max).field("open", &self.open()).finish_non_exhaustive()
    }
}

/// The place of one connection; dropping it gives everything back.
#[derive(Debug)]
#[must_use = "a place that is dropped at once counts nothing"]
pub struct ConnectionPlace {
    caps: Arc<ConnectionCaps>,
    client: Option<KeyPermit>,
}

impl ConnectionPlace {
    /// Counts the connection for its client, once that is known. Charges nothing when it is refused; a second call counts
    /// for the second client alone.
    ///
    /// # Errors
    /// [`CapReached::PerClient`] or [`CapReached::New`].
    pub fn belongs_to(&mut self, client: Prefix, now: Timestamp) -> Result<(), CapReached> {
        let (bytes, used) = client.key_bytes();
        let key = |seed: &Seed| {
            let mut hasher = KeyHasher::new(seed);
            hasher.part(0, bytes.get(..used).unwrap_or(&bytes));
            hasher.finish()
        };
        let permit = match &self.caps.per_client {
            Some((open, cap)) => {
                let (_, permit) = open.admit(key(open.seed()), Cost::ONE, *cap).map_err(|_| CapReached::PerClient)?;
                Some(permit)
            }
            None => None,
        };
        if let Some(new) = &self.caps.new {
            let place = Place { key: key(new.seed()), ..Place::default() };
            new.commit(&Probe::unasked(&place, Cost::ONE), now).map_err(|_| CapReached::New)?;
        }
        self.client = permit;
        Ok(())
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.caps.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SEED: Seed = Seed::from_bytes([7; 16]);
    const NOW: Timestamp = Timestamp::from_nanos(1 << 40);

    fn caps(max: u32, per_client: Option<u32>, new: Option<u32>) -> Arc<ConnectionCaps> {
        let new = new.map(|events| Rate::new(events, Duration::from_secs(1)).unwrap());
        ConnectionCaps::new(&CapsSpec { max, per_client, new }, &SEED).unwrap()
    }

    fn client(number: u32) -> Prefix {
        Prefix::around(std::net::Ipv4Addr::from(number).into(), 32, 64)
    }

    #[test]
    fn never_more_than_the_whole_and_every_place_comes_back() {
        let caps = caps(3, None, None);
        let mut held: Vec<ConnectionPlace> = (0..3).map(|_| caps.enter().unwrap()).collect();
        assert_eq!(caps.enter().unwrap_err(), CapReached::Full);
        held.pop();
        assert!(caps.enter().is_ok(), "and that one comes back at once");
        assert!(caps.enter().is_ok());
        drop(held);
        assert_eq!(caps.open(), 0);
    }

    #[test]
    fn one_client_cannot_take_what_others_have() {
        let caps = caps(100, Some(2), None);
        let enter = |number| {
            let mut place = caps.enter()?;
            place.belongs_to(client(number), NOW).map(|()| place)
        };
        let first = enter(1).unwrap();
        let _second = enter(1).unwrap();
        assert_eq!(enter(1).unwrap_err(), CapReached::PerClient);
        assert_eq!(caps.open(), 2, "whoever is refused holds nothing");
        let _other = enter(2).unwrap();
        drop(first);
        assert!(enter(1).is_ok());
    }

    #[test]
    fn new_connections_of_a_client_are_paced_and_a_refusal_is_free() {
        let caps = caps(100, Some(50), Some(10));
        let enter = |number, at| {
            let mut place = caps.enter()?;
            place.belongs_to(client(number), at).map(|()| place)
        };
        let mut held: Vec<ConnectionPlace> = (0..10).map(|_| enter(1, NOW).unwrap()).collect();
        for _ in 0..100 {
            assert_eq!(enter(1, NOW).unwrap_err(), CapReached::New);
        }
        held.push(enter(2, NOW).unwrap());
        held.push(enter(1, NOW.after(Duration::from_millis(100))).unwrap());
        assert_eq!(caps.open(), 12);
    }

    #[test]
    fn a_connection_counts_for_the_client_named_last() {
        let caps = caps(100, Some(1), None);
        let mut place = caps.enter().unwrap();
        place.belongs_to(client(1), NOW).unwrap();
        place.belongs_to(client(2), NOW).unwrap();
        let mut other = caps.enter().unwrap();
        other.belongs_to(client(1), NOW).unwrap();
        let mut third = caps.enter().unwrap();
        assert_eq!(third.belongs_to(client(2), NOW), Err(CapReached::PerClient));
    }

    #[test]
    fn threads_that_race_never_exceed_a_cap() {
        let caps = caps(40, Some(7), None);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let caps = &caps;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..2_000u32 {
                        if let Ok(mut place) = caps.enter()
                            && place.belongs_to(client(round % 3), NOW).is_ok()
                        {
                            held.push(place);
                        }
                        assert!(caps.open() <= 40);
                        assert!(held.len() <= 21);
                        if round % (5 + thread) == 0 {
                            held.clear();
                        }
                    }
                });
            }
        });
        assert_eq!(caps.open(), 0);
        assert!((0..3).all(|number| caps.enter().unwrap().belongs_to(client(number), NOW).is_ok()));
    }

    #[test]
    fn other_caps_count_the_same_connections() {
        let before = caps(4, Some(2), Some(4));
        let enter = |caps: &Arc<ConnectionCaps>, number| {
            let mut place = caps.enter()?;
            place.belongs_to(client(number), NOW).map(|()| place)
        };
        let mut held: Vec<_> = (0..2).map(|_| enter(&before, 1).unwrap()).collect();
        let spec = |max, per_client, new: u32| CapsSpec {
            max,
            per_client,
            new: Some(Rate::new(new, Duration::from_secs(1)).unwrap()),
        };
        let after = before.followed_by(&spec(3, Some(2), 2), NOW).unwrap();
        assert_eq!(enter(&after, 1).unwrap_err(), CapReached::PerClient);
        held.push(enter(&after, 2).unwrap());
        assert_eq!(enter(&after, 3).unwrap_err(), CapReached::Full);
        assert_eq!((before.open(), after.open()), (3, 3));
        let wide = after.followed_by(&spec(9, Some(9), 3), NOW).unwrap();
        held.push(enter(&wide, 1).unwrap());
        assert_eq!(enter(&wide, 1).unwrap_err(), CapReached::New, "two before the change and one after it are three");
        drop(held);
        assert_eq!((before.open(), wide.open()), (0, 0));
        assert!(enter(&wide, 2).is_ok());
        // two at once, of four thousand a second: no axis runs so fast
        let fast = wide.followed_by(&spec(9_000, Some(9_000), 4_000), NOW).unwrap();
        let new = (0..9_000).map_while(|_| enter(&fast, 2).ok()).count();
        assert_eq!(new, 4_000 - 2, "what was new before stays so");
        let none = wide.followed_by(&CapsSpec { max: 1, per_client: None, new: None }, NOW).unwrap();
        assert!(enter(&none, 1).is_ok());
    }

    #[test]
    fn memory_is_fixed_and_small() {
        assert_eq!(caps(20_000, None, None).memory(), Bytes(0));
        assert_eq!(caps(20_000, Some(100), None).memory(), Bytes(2 << 20));
        assert_eq!(caps(1, Some(1), None).memory(), Bytes(64 << 10));
        assert!(caps(20_000, Some(100), Some(5)).memory().0 < 5 << 20);
    }
}
