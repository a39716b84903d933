//! The promise of a `rate` limit, in whole nanoseconds, and two ways to hold a log against it.
//!
//! The promise: in every interval of length τ at most `burst + τ / interval` requests of one client are admitted, where
//! `interval` is the period over the events, rounded up. An exact token bucket (the generic cell rate algorithm, ITU-T
//! I.371: one theoretical arrival time per client) that is fed with the *admitted* requests in the order of their stamps
//! overflows if and only if some interval breaks it, because its level after request j is
//! max over i ≤ j of (stamp i + (j − i + 1) · interval). So one pass over the admitted requests checks all intervals.
//!
//! The order in which requests were decided is not the order of their stamps: two threads may read the clock and then
//! reach the limiter the other way round. The promise holds for stamps in any order, so for it the order of stamps is
//! right and exact. Whether a request was *wrongly refused* does depend on the order of decisions, see
//! [`wrongly_refused`].

/// `burst + τ / interval` in every interval of length τ.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    /// Nanoseconds between two requests at exactly the rate.
    pub interval: u64,
    /// Requests at once.
    pub burst: u64,
}

impl Promise {
    /// So many events per so many seconds.
    pub const fn new(events: u64, seconds: u64, burst: u64) -> Promise {
        Promise { interval: (seconds * 1_000_000_000).div_ceil(events), burst }
    }
}

/// An exact token bucket.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    promise: Promise,
    level: u64,
}

impl Bucket {
    pub fn new(promise: Promise) -> Bucket {
        Bucket { promise, level: 0 }
    }

    /// Whether a request at this stamp fits.
    pub fn has_room(&self, at: u64) -> bool {
        self.level.max(at) + self.promise.interval <= at + self.promise.burst * self.promise.interval
    }

    /// Takes a request in, whether it fits or not.
    pub fn charge(&mut self, at: u64) {
        self.level = self.level.max(at) + self.promise.interval;
    }
}

/// One request of one client: what was decided at which stamp, and when its client sent it and had the answer, on one
/// clock (not the gate's).
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    pub at: u64,
    pub admitted: bool,
    pub sent: u64,
    pub answered: u64,
}

/// How many admitted requests of one client break the promise in some interval.
pub fn over_promise(promise: Promise, requests: &[Judged]) -> usize {
    let mut stamps: Vec<u64> = requests.iter().filter(|request| request.admitted).map(|request| request.at).collect();
    stamps.sort_unstable();
    let mut bucket = Bucket::new(promise);
    let mut over = 0;
    for at in stamps {
        over += usize::from(!bucket.has_room(at));
        bucket.charge(at);
    }
    over
}

/// Refusals of one client that an exact bucket with the same admitted history would not have spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wrong {
    /// For certain: no order of decisions explains the refusal.
    pub certain: usize,
    /// Explained by requests that were on their way at the same time.
    pub explained: usize,
}

/// Counts them. A refusal is right when the requests admitted before it had filled the bucket. In the order of stamps
/// these are the admitted ones with an earlier stamp; if that bucket is full, nothing is wrong.
///
/// If it has room, the order of decisions may still explain the refusal. Requests that were on their way at the same
/// time, by the clients' own clock, may have been decided in any order, which has two effects. An admitted one with a
/// *later* stamp may have been decided before the refused one. And an admitted one may have been charged after another
/// with a later stamp, as if its own stamp were that late: charging is `max(level, stamp) + interval`. The fullest
/// bucket that any order could have made comes out by giving each admitted request the latest stamp of those it met:
/// whatever is charged after request i has its stamp or, if an earlier one, has met i, so its new stamp is not before
/// i's, and the formula of the module's first paragraph can only grow. If even that bucket has room, the refusal is
/// wrong for certain.
pub fn wrongly_refused(promise: Promise, requests: &[Judged]) -> Wrong {
    let mut admitted: Vec<&Judged> = requests.iter().filter(|request| request.admitted).collect();
    admitted.sort_unstable_by_key(|request| request.at);
    let latest_met = |one: &Judged| admitted.iter().filter(|other| met(one, other)).map(|other| other.at).max();
    let mut latest: Vec<(u64, &Judged)> =
        admitted.iter().map(|one| (latest_met(one).map_or(one.at, |at| at.max(one.at)), *one)).collect();
    latest.sort_unstable_by_key(|(at, _)| *at);
    let mut wrong = Wrong::default();
    for refused in requests.iter().filter(|request| !request.admitted) {
        let earlier = admitted.iter().map(|one| one.at).take_while(|at| *at <= refused.at);
        if !has_room(promise, earlier, refused.at) {
            continue;
        }
        let possible = latest.iter().filter(|(_, one)| one.at <= refused.at || met(one, refused)).map(|(at, _)| *at);
        match has_room(promise, possible, refused.at) {
            true => wrong.certain += 1,
            false => wrong.explained += 1,
        }
    }
    wrong
}

/// Whether both were on their way at the same time.
fn met(one: &Judged, other: &Judged) -> bool {
    one.sent < other.answered && other.sent < one.answered
}

/// Whether a bucket that was charged at these stamps has room at `now`.
fn has_room(promise: Promise, charged: impl Iterator<Item = u64>, now: u64) -> bool {
    let mut bucket = Bucket::new(promise);
    charged.for_each(|at| bucket.charge(at));
    bucket.has_room(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn judged(at: u64, admitted: bool) -> Judged {
        Judged { at, admitted, sent: at, answered: at + 1 }
    }

    #[test]
    fn an_interval_with_one_too_many_is_found_wherever_it_lies() {
        let promise = Promise::new(1, 1, 2);
        let kept = [0, 0, SECOND, 10 * SECOND, 10 * SECOND, 11 * SECOND].map(|at| judged(at, true));
        assert_eq!(over_promise(promise, &kept), 0);
        let broken = [0, 10 * SECOND, 10 * SECOND, 11 * SECOND - 1].map(|at| judged(at, true));
        assert_eq!(over_promise(promise, &broken), 1);
    }

    #[test]
    fn a_refusal_without_cause_is_wrong_for_certain() {
        let promise = Promise::new(1, 1, 1);
        let requests = [judged(0, true), judged(SECOND - 1, false), judged(SECOND, false)];
        assert_eq!(wrongly_refused(promise, &requests), Wrong { certain: 1, explained: 0 });
    }

    #[test]
    fn a_late_charge_of_an_early_stamp_explains_a_refusal_and_only_while_they_met() {
        let promise = Promise::new(1, 1, 2);
        let admitted = |at, sent, answered| Judged { at, admitted: true, sent, answered };
        let refused = Judged { at: 2 * SECOND, admitted: false, sent: 2 * SECOND, answered: 2 * SECOND + 1 };
        // charged in the order of stamps the bucket has room for a third at 2 s, charged the other way round it has none
        let late = admitted(3 * SECOND / 2, 0, 10 * SECOND);
        let both = [admitted(0, 0, 10 * SECOND), late, refused];
        assert_eq!(wrongly_refused(promise, &both), Wrong { certain: 0, explained: 1 });
        let apart = [admitted(0, 0, SECOND), Judged { sent: SECOND, ..late }, refused];
        assert_eq!(wrongly_refused(promise, &apart), Wrong { certain: 1, explained: 0 });
    }

    #[test]
    fn a_refusal_is_explained_by_an_admission_that_met_it_and_by_no_other() {
        let promise = Promise::new(1, 1, 1);
        let refused = Judged { at: 5, admitted: false, sent: 0, answered: 100 };
        let met = Judged { at: 6, admitted: true, sent: 50, answered: 90 };
        let missed = Judged { at: 101, admitted: true, sent: 101, answered: 110 };
        assert_eq!(wrongly_refused(promise, &[refused, met]), Wrong { certain: 0, explained: 1 });
        assert_eq!(wrongly_refused(promise, &[refused, missed]), Wrong { certain: 1, explained: 0 });
    }
}
