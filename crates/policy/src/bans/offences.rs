//! Bans by penalties: who keeps sending while a limit refuses it, and for how long it is banned. Begin with [`Offences`].
//!
//! **Promise.** A client is banned when [`after`](BanTerms::after) of its requests were refused by a limit's penalty and it never stopped for the
//! limit's [`pause`](BanTerms::pause) in between. Its first ban lasts [`first`](BanTerms::first), each further one twice as long as the one before and
//! [`longest`](BanTerms::longest) at most. Who gets no ban for [`forgive`](BanTerms::forgive) after the end of the last one begins anew.
//!
//! A request puts a [`Strike`] into a queue of fixed length, without a lock and without allocating; a thread settles them about once a
//! second. A strike that finds no room is lost, and [`MOST_OFFENDERS`] clients are remembered, of more those that struck last. So a flood of
//! many lets some of them off for longer; nobody is banned for less than the promise says.
//!
//! **Gates that share bans** count those in a row together, and strikes apart: a client needs `after` refusals at one gate. A gate counts a ban when
//! it hears of it, so one that was away for the whole of a ban does not count that.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use parking_lot::Mutex;

use super::ban::InRow;
use crate::client::ban_terms::BanTerms;
use crate::units::{Prefix, Timestamp};

/// Strikes that can wait to be settled.
const MOST_STRIKES: usize = 8_192;

/// Clients that are remembered.
pub const MOST_OFFENDERS: usize = 8_192;

/// A request that a penalty refused.
#[derive(Debug)]
pub(super) struct Strike {
    network: Prefix,
    terms: Arc<BanTerms>,
    at: Timestamp,
}

/// What is remembered of a client under a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offence {
    /// Refused requests since its last ban, or since it stopped.
    strikes: u32,
    /// When the last one was.
    last: Timestamp,
    /// Bans in a row.
    pub(super) bans: u32,
    /// When the last of them ends.
    pub(super) until: Timestamp,
}

/// A client, and the name of the limit.
pub(super) type Offender = (Prefix, String);

/// A ban that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub network: Prefix,
    pub length: Duration,
    pub strikes: u32,
    pub in_row: InRow,
}

/// Who keeps sending while limits refuse it.
#[derive(Debug)]
pub(super) struct Offences {
    /// Made at the first strike: most policies have no penalty that ends in a ban, and it takes 400 KiB.
    strikes: OnceLock<ArrayQueue<Strike>>,
    /// Held by whoever settles or saves, never by a request.
    known: Mutex<HashMap<Offender, Offence>>,
}

impl Offences {
    pub fn new() -> Offences {
        Offences { strikes: OnceLock::new(), known: Mutex::default() }
    }

    /// Notes a refused request. Waits for nobody.
    pub fn strike(&self, network: Prefix, terms: &Arc<BanTerms>, at: Timestamp) {
        // one that finds no room is lost: see the head of the file
        let strikes = self.strikes.get_or_init(|| ArrayQueue::new(MOST_STRIKES));
        let _ = strikes.push(Strike { network, terms: Arc::clone(terms), at });
    }

    /// Returns whether there is nothing to settle.
    pub fn is_settled(&self) -> bool {
        self.strikes.get().is_none_or(ArrayQueue::is_empty)
    }

    /// Counts what was noted, and returns the bans that are due. Networks that are `spared` get none.
    pub fn settle(&self, spared: impl Fn(Prefix) -> bool) -> Vec<Sentence> {
        let mut due = Vec::new();
        let Some(noted) = self.strikes.get() else { return due };
        let mut known = self.known.lock();
        // no more than were there: requests go on
        for _ in 0..noted.len() {
            let Some(Strike { network, terms, at }) = noted.pop() else { break };
            if spared(network) {
                continue;
            }
            make_room(&mut known);
            let fresh = Offence { strikes: 0, last: at, bans: 0, until: Timestamp::ZERO };
            let offence = known.entry((network, terms.limit.clone())).or_insert(fresh);
            // it was under way when the ban came
            if at < offence.until {
                continue;
            }
            if at.since(offence.last) > terms.pause {
                offence.strikes = 0;
            }
            offence.strikes += 1;
            offence.last = offence.last.max(at);
            if offence.strikes < terms.after {
                continue;
            }
            if at > offence.until.after(terms.forgive) {
                offence.bans = 0;
            }
            let (length, strikes) = (terms.length(offence.bans), offence.strikes);
            offence.bans = offence.bans.saturating_add(1);
            (offence.strikes, offence.until) = (0, at.after(length));
            let in_row = InRow { limit: terms.limit.clone(), nth: offence.bans, forgive: terms.forgive };
            due.push(Sentence { network, length, strikes, in_row });
        }
        due
    }

    /// Counts a ban that another gate gave, from `given` to `until`.
    pub fn learn(&self, network: Prefix, in_row: &InRow, given: Timestamp, until: Timestamp) {
        let mut known = self.known.lock();
        make_room(&mut known);
        let fresh = Offence::of(0, Timestamp::ZERO);
        let offence = known.entry((network, in_row.limit.clone())).or_insert(fresh);
        if given > offence.until.after(in_row.forgive) {
            offence.bans = 0;
        }
        // both gates may have given the same one
        (offence.strikes, offence.bans) = (0, offence.bans.max(in_row.nth));
        offence.until = offence.until.max(until);
    }

    /// Begins anew with a client.
    pub fn forget(&self, network: Prefix) {
        self.known.lock().retain(|(known, _), _| *known != network);
    }

    /// Those that have had bans.
    pub fn banned(&self) -> Vec<(Offender, Offence)> {
        let known = self.known.lock();
        known.iter().filter(|(_, offence)| offence.bans > 0).map(|(who, offence)| (who.clone(), *offence)).collect()
    }

    /// Remembers those of another process.
    pub fn take_over(&self, banned: impl IntoIterator<Item = (Offender, Offence)>) {
        *self.known.lock() = banned.into_iter().take(MOST_OFFENDERS).collect();
    }
}

impl Offence {
    /// Of a client that had so many bans in a row, the last until then.
    pub fn of(bans: u32, until: Timestamp) -> Offence {
        Offence { strikes: 0, last: Timestamp::ZERO, bans, until }
    }
}

/// Forgets the quarter that struck longest ago where all places are taken.
fn make_room(known: &mut HashMap<Offender, Offence>) {
    if known.len() < MOST_OFFENDERS {
        return;
    }
    let mut latest: Vec<Timestamp> = known.values().map(|offence| offence.last.max(offence.until)).collect();
    let (_, oldest, _) = latest.select_nth_unstable(MOST_OFFENDERS / 4);
    let oldest = *oldest;
    known.retain(|_, offence| offence.last.max(offence.until) > oldest);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn terms() -> Arc<BanTerms> {
        let (first, longest) = (10 * MINUTE, 60 * MINUTE);
        Arc::new(BanTerms { limit: "abusers".into(), after: 3, first, longest, forgive: 1_440 * MINUTE, pause: MINUTE })
    }

    fn client(last: u8) -> Prefix {
        Prefix::around([203, 0, 113, last].into(), 32, 64)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    /// The lengths in minutes of the bans that strikes at these seconds bring.
    fn lengths(offences: &Offences, seconds: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let terms = terms();
        let mut lengths = Vec::new();
        for second in seconds {
            offences.strike(client(7), &terms, at(second));
            lengths.extend(offences.settle(|_| false).into_iter().map(|sentence| sentence.length.as_secs() / 60));
        }
        lengths
    }

    #[test]
    fn each_ban_in_a_row_is_twice_as_long_up_to_the_longest_and_good_behaviour_is_forgiven() {
        let offences = Offences::new();
        assert_eq!(lengths(&offences, [1, 2]), [0; 0]);
        assert_eq!(lengths(&offences, [3]), [10]);
        // after each ban, at once
        assert_eq!(lengths(&offences, [604, 605, 606]), [20]);
        assert_eq!(lengths(&offences, [2_000, 2_001, 2_002]), [40]);
        assert_eq!(lengths(&offences, [5_000, 5_001, 5_002]), [60]);
        assert_eq!(lengths(&offences, [9_000, 9_001, 9_002]), [60]);
        // the last one ended at 12,602; a day later all is forgiven
        let day = 86_400;
        assert_eq!(lengths(&offences, [12_500 + day, 12_501 + day, 12_502 + day]), [60]);
        assert_eq!(lengths(&offences, [17_000 + 2 * day, 17_001 + 2 * day, 17_002 + 2 * day]), [10]);
    }

    #[test]
    fn a_client_that_stops_for_the_pause_is_counted_anew() {
        let offences = Offences::new();
        assert_eq!(lengths(&offences, [1, 2, 63, 64, 125, 126, 187]), [0; 0]);
        assert_eq!(lengths(&offences, [188, 189]), [10]);
    }

    #[test]
    fn strikes_under_a_ban_and_of_spared_networks_count_for_nothing() {
        let offences = Offences::new();
        assert_eq!(lengths(&offences, [1, 2, 3, 3, 3, 3, 3, 3]), [10], "those that were under way");
        let terms = terms();
        for second in 1..100 {
            offences.strike(client(9), &terms, at(second));
        }
        assert_eq!(offences.settle(|network| network == client(9)), []);
        offences.forget(client(7));
        assert_eq!(lengths(&offences, [700, 701, 702]), [10], "a lifted ban is forgotten");
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_remembered() {
        let (offences, terms) = (Offences::new(), terms());
        for number in 0..3 * MOST_OFFENDERS as u32 {
            let network = Prefix::around(std::net::IpAddr::V4(number.into()), 32, 64);
            offences.strike(network, &terms, at(u64::from(number)));
            if number % 4_096 == 0 {
                offences.settle(|_| false);
            }
        }
        for _ in 0..2 * MOST_STRIKES {
            offences.strike(client(1), &terms, at(30_000));
        }
        assert!(offences.strikes.get().is_some_and(|strikes| strikes.len() <= MOST_STRIKES));
        offences.settle(|_| false);
        assert!(offences.known.lock().len() <= MOST_OFFENDERS);
        assert!(offences.known.lock().contains_key(&(client(1), "abusers".to_owned())));
    }
}
