//! Leases: budget of a shared limit that this gate took in advance and spends by itself, in fixed memory, without locks.
//!
//! A key's lease is some tokens and an end. A request takes what it costs out of it, with one exchange. When too little is left,
//! one request of the key asks the store; when a quarter is left, somebody asks in the background. A refusal is remembered until
//! its time, or until the key is granted any more, so that a flood on a spent key asks nothing.
//!
//! **Promise**, for N gates, a limit of burst B and rate r, leases of at most q tokens, and δ of 1 s: all gates together
//! spend at most `B + r·τ + min(N·q, r·δ)` in every interval of length τ. Of a quota, whose leases end with its window: at most
//! its `max` per window.
//!
//! *Why.* A token that is spent in (s, t] was charged in (s, t], or held or on its way at s, of which there are at most q
//! per gate. Or, where leases live δ: it was charged in the store in (s − δ, t], as its life is counted from before its question
//! was *sent*, and charges there obey B + r·(τ + δ). Counted from the arrival of the answer, a life would be longer by what the answer
//! took, and the promise broken: `tests/leases` finds the schedule. Where N·q ≤ r·δ/2 the first argument is the one that counts,
//! and a lease may live for four seconds: so a key that comes once a second hardly ever finds that what was taken for it has died.
//!
//! **Size.** q is what the key needs in 0.2 s, at least the cost of the request, or four tokens where that loses little, and at
//! most a quarter of the gate's part, B / 4N. A question asks for what is missing to q, so that what is held and on its way never
//! exceeds it; only a request whose cost is above half of q may raise that to twice its cost. (Where leases live longer, r·δ then is
//! r·1.5 s: what is on its way is a second old at most, and the rest comes back in half a one.)
//!
//! **Ends.** What is left when a refill arrives keeps its end, and gives it to the sum: then what was granted must be spent
//! before that. Where it would not be, the rest is given up for the new end; the background asks late towards an end, so that this is
//! a sixteenth of a lease at most, or a token. Unused tokens die with the lease.
//!
//! **Memory.** 2 MiB are 65,536 entries in pairs. An entry serves another key when its lease has ended, no question is on its
//! way and nobody runs into a refusal. A third key takes what is empty for a moment, or is asked about request by request.
//!
//! Not here: who carries questions, how long a request waits, when a store is given up. Source: ALGORITHMS 2.8.

mod entry;
mod refusals;
mod size;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod words;

use super::{Answer, Promise};
use crate::sketch::{KeyHash, Word};
use crate::sync::Ordering;
use crate::units::{Cost, Timestamp};
use entry::{Claim, Entry, Line};
pub use refusals::Watch;
use size::{Demand, Terms};
use steps::{ATTEMPTS, Fresh, Start, is_low, keep, known, start};
use table::Kept;
pub use table::{Asking, Begin, Ends, Leases, Look};
use words::{Held, LIFE, MOST_TOKENS, State, tick, tick_from};

impl<C: Word> Leases<C> {
    /// What is known about a request of this cost. Takes nothing; one that is refused is counted as by [`Leases::note`], since a
    /// refusal is remembered for as long as somebody runs into it. `key` is a hash of the limit's own, and of the tier's.
    #[inline]
    pub fn look(&self, key: KeyHash, cost: Cost, promise: &Promise, now: Timestamp) -> Look {
        let (line, tag) = self.place(key);
        let found = self.line(line).find(tag);
        let look = known(found.map(|(_, entry, held)| (entry, held)), tag, cost.get(), promise, now);
        if let (Some((_, entry, _)), Look::Refused { .. }) = (found, look) {
            entry.note(cost.get(), now);
        }
        look
    }

    /// Counts a request for the size of the next lease: once for each that no other limit is known to refuse. Leases that grew by
    /// what another limit refuses would take budget that nobody spends.
    #[inline]
    pub fn note(&self, key: KeyHash, cost: Cost, now: Timestamp) {
        let (line, tag) = self.place(key);
        if let Some((_, entry, _)) = self.line(line).find(tag) {
            entry.note(cost.get(), now);
        }
    }

    /// What the store had left of a key when it last granted some: a 256th too low at most. Others may have taken of it since.
    pub fn left_in_store(&self, key: KeyHash) -> u32 {
        let (line, tag) = self.place(key);
        self.line(line).find(tag).map_or(0, |(_, entry, _)| Demand::of(entry.demand.load()).left())
    }

    /// Takes the cost out of what is held; anything but [`Look::Holds`] took nothing.
    #[inline]
    pub fn take(&self, key: KeyHash, cost: Cost, promise: &Promise, now: Timestamp) -> Look {
        let (line, tag) = self.place(key);
        for attempt in 1..=ATTEMPTS {
            let found = self.line(line).find(tag).map(|(_, entry, held)| (entry, held));
            let look = known(found, tag, cost.get(), promise, now);
            let (Look::Holds { left, ends, .. }, Some((entry, word))) = (look, found) else { return look };
            let held = Held { tokens: left.saturating_sub(cost.get()), ..Held::of(word) };
            if entry.held.exchange(word, held.word()) {
                let low = is_low(held, State::of(entry.state.load()), now);
                return Look::Holds { left: held.tokens, low, ends };
            }
            C::pause(attempt);
        }
        // other requests have taken some each time
        Look::Unknown
    }

    /// Gives back what a request took that was then refused by another limit, if it can be held again without living longer, and
    /// without more being held than may be. Otherwise it is lost, as what dies with a lease is.
    pub fn give_back(&self, key: KeyHash, cost: Cost, ends: Ends, promise: &Promise, nodes: u32, now: Timestamp) {
        let (line, tag) = self.place(key);
        let nonce = self.nonces.fetch_add(1, Ordering::Relaxed) as u32;
        for attempt in 1..=ATTEMPTS {
            let Some((_, entry, _)) = self.line(line).find(tag) else { return };
            match start(entry, tag, nonce, now) {
                Start::Ours { asking, low } => {
                    // read again: from here on nobody else adds to it
                    let held = Held::of(entry.held.load());
                    let most = Terms::new(promise, nodes).part.max(cost.get());
                    let room = held.left(now).saturating_add(cost.get()) <= most;
                    if room && held.ends <= ends.0 {
                        // beside as many or more it ends with them, and so takes the place of none
                        let ends = if held.left(now) >= cost.get() { held.ends } else { ends.0 };
                        let lease = Held { ends, tokens: cost.get().min(MOST_TOKENS) };
                        let _ = keep(entry, asking, &Fresh { held: lease, life: LIFE, stocked: false }, now);
                    }
                    let _ = entry.state.exchange(asking, State::Idle { low }.word());
                    return;
                }
                Start::Busy(_) => return,
                Start::Moved => C::pause(attempt),
            }
        }
    }

    /// Makes a request the one that asks about its key, if nobody does. `nodes` is how many gates share the limit.
    pub fn begin(&self, key: KeyHash, cost: Cost, promise: &Promise, nodes: u32, now: Timestamp) -> Begin {
        self.ask(key, cost.get(), cost.get(), promise, nodes, now)
    }

    /// Makes the background the one that asks about a key of which little is left: nothing of the answer is taken by anybody.
    pub fn refill(&self, key: KeyHash, promise: &Promise, nodes: u32, now: Timestamp) -> Begin {
        self.ask(key, 1, 0, promise, nodes, now)
    }

    /// Uses an answer. The request that asked takes its cost out of it before anybody else can: [`Look::Holds`] says that it
    /// has. `sent` is an instant before the question was sent, `now` one after the answer came.
    pub fn answered(&self, asking: Asking, answer: &Answer, sent: Timestamp, now: Timestamp) -> Look {
        let granted = answer.granted.min(asking.wanted);
        if granted < asking.least {
            return self.refused(&asking, answer, now);
        }
        if now.nanos() >= sent.nanos().saturating_add(answer.ends_nanos.min(LIFE)) {
            self.silent(asking);
            return Look::Unknown;
        }
        let Some((entry, kept)) = self.kept(&asking) else {
            return Look::Holds { left: 0, low: false, ends: Ends::NEVER_LIVED };
        };
        let ends = tick(Timestamp::from_nanos(sent.nanos().saturating_add(answer.ends_nanos.min(asking.life))));
        let held = Held { ends, tokens: (granted - asking.own).min(MOST_TOKENS) };
        let held = keep(entry, kept.asking, &Fresh { held, life: asking.life, stocked: asking.stocked }, now);
        entry.note_left(answer.left);
        let spent = granted < asking.wanted && answer.left == 0;
        let rest = (answer.ends_nanos, now.nanos().saturating_sub(sent.nanos()));
        let known_spent = spent.then(|| size::spent_for(asking.size, &asking.promise, rest)).flatten();
        let state = known_spent
            .and_then(|nanos| State::refused(tick_from(now.nanos().saturating_add(nanos)), 1, true))
            .unwrap_or(State::Idle { low: asking.mark });
        // if the word is another's by now, it is none of ours
        let _ = entry.state.exchange(kept.asking, state.word());
        Look::Holds { left: held.left(now), low: is_low(held, state, now), ends: Ends(ends) }
    }

    /// Settles a question that the store said nothing to. What it charged, if anything, is lost.
    pub fn silent(&self, asking: Asking) {
        if let Some((entry, kept)) = self.kept(&asking) {
            let _ = entry.state.exchange(kept.asking, State::Idle { low: kept.low }.word());
        }
    }

    /// How many tokens are held and not yet spent. Reads the whole table: for a gauge.
    pub fn outstanding(&self, now: Timestamp) -> u64 {
        let entries = self.lines.iter().flat_map(|Line(entries)| entries);
        entries.map(|entry| u64::from(Held::of(entry.held.load()).left(now))).sum()
    }

    /// [`Leases::begin`] of a request that needs `least` and takes `own` of it.
    fn ask(&self, key: KeyHash, least: u32, own: u32, promise: &Promise, nodes: u32, now: Timestamp) -> Begin {
        let (line, tag) = self.place(key);
        let terms = Terms::new(promise, nodes);
        let nonce = self.nonces.fetch_add(1, Ordering::Relaxed) as u32;
        for attempt in 1..=ATTEMPTS {
            if let Some((number, entry, held)) = self.line(line).find(tag) {
                let look = known(Some((entry, held)), tag, least, promise, now);
                let needless =
                    own > 0 || !matches!(look, Look::Holds { low: true, .. } | Look::Refused { due: true, .. });
                if look != Look::Unknown && needless {
                    return Begin::Known(look);
                }
                match start(entry, tag, nonce, now) {
                    Start::Busy(question) => return Begin::Busy { question },
                    Start::Moved => C::pause(attempt),
                    Start::Ours { asking, low } => {
                        let demand = Demand::of(entry.demand.load()).per_second(now);
                        // read again: from here on nobody else adds to it
                        let left = Held::of(entry.held.load()).left(now);
                        let kept = Some(Kept { line, number, asking, low });
                        // who takes from what is held asks again, and so does who came twice in a second
                        let again = own == 0 || demand > own;
                        let asking = Asking::first(least, own, promise, kept);
                        let asking =
                            if again { asking.again(demand, left, &terms) } else { asking.with_one_more(&terms) };
                        return Begin::Ask(asking);
                    }
                }
                continue;
            }
            if own == 0 {
                return Begin::Known(Look::Unknown);
            }
            if least > promise.most() {
                return Begin::Known(Look::Refused { retry_nanos: None, due: false });
            }
            match self.claim(line, tag, least, State::Asking { since: tick(now), nonce, refused: false }, now) {
                Some((number, Claim::Ours(asking))) => {
                    let asking = Asking::first(least, own, promise, Some(Kept { line, number, asking, low: 0 }));
                    // of two entries one is left to keys that come again, whatever new keys there are
                    let roomy = self.line(line).0.get(1 - number).is_some_and(|other| other.is_free_at(now));
                    return Begin::Ask(match roomy {
                        true => Asking { life: LIFE, ..asking.with_one_more(&terms) },
                        false => asking,
                    });
                }
                Some(_) => C::pause(attempt),
                None => break,
            }
        }
        Begin::Ask(Asking::first(least, own, promise, None))
    }

    /// Tries to get an entry of the line; `None` when both are needed. That of the key with the lower demand is tried first: one in use
    /// has nothing in its entry from time to time, and two of one line would take the same entry from each other for ever
    /// while the other stays empty. Of two unused the key says which.
    fn claim(&self, line: usize, tag: u64, cost: u32, asking: State, now: Timestamp) -> Option<(usize, Claim)> {
        let Line(entries) = self.line(line);
        let demand = |entry: &Entry<C>| Demand::of(entry.demand.load()).per_second(now);
        let [left, right] = entries.each_ref().map(demand);
        // after the demand, which who claims writes before the tag: a new key's second request does not take the other entry
        for (number, entry) in entries.iter().enumerate() {
            if State::of(entry.state.load()) == State::Claimed || entry.tag.load() == tag {
                return Some((number, Claim::Moved));
            }
        }
        let first = if left == right { (tag >> 63) as usize } else { usize::from(right < left) };
        for number in [first, 1 - first] {
            let entry = entries.get(number)?;
            match entry.claim(tag, cost, asking, now) {
                // by another request of this key, between the two looks: who reads its state sees its tag
                Claim::Taken if entry.tag.load() == tag => return Some((number, Claim::Moved)),
                Claim::Taken => {}
                claim => return Some((number, claim)),
            }
        }
        None
    }
}
