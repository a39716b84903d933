//! A ring of the last decisions, in fixed memory and without locks.
//!
//! A slot is twelve words, 96 bytes: a version, the decision's id, and ten words of a [`Record`]; a decision about more limits than fit
//! takes two or three slots in a row. Writers take positions from one counter, so the oldest is overwritten first.
//!
//! *Protocol* (a sequence lock per slot: Lamport, *Concurrent reading and writing*, 1977). The version says which position a slot
//! holds, and whether it is being written. A writer makes it odd by an exchange, writes, and makes it even again; it gives up
//! where another writer is at work, or a later position is already there. A reader copies the words between two looks at
//! the version, and takes the copy only if both say the same position, whole. So a record that was torn, or overwritten while it
//! was read, is never seen, and no thread ever waits.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use arrayvec::ArrayVec;

use crate::engine::DecisionId;
use crate::explain::Record;
use crate::units::Cost;

/// The ring.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[Slot]>,
    /// The position that is written next. The first is one round and one from zero, so that no empty slot is taken for written.
    next: AtomicU64,
}

/// Words of a record in one slot.
const WORDS: usize = 10;

/// The most slots that one record takes.
const MOST_SLOTS: usize = Record::MAX_WORDS.div_ceil(WORDS);

#[derive(Debug, Default)]
struct Slot {
    /// `position << 3 | part << 1 | writing`; zero before anything was written.
    version: AtomicU64,
    id: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Ring {
    /// What a slot takes.
    pub const SLOT_BYTES: usize = size_of::<Slot>();

    /// An empty ring of so many slots, at least `MOST_SLOTS`. Takes all of its memory at once.
    pub fn new(slots: usize) -> Ring {
        let slots = slots.max(MOST_SLOTS);
        Ring { slots: (0..slots).map(|_| Slot::default()).collect(), next: AtomicU64::new(slots as u64 + 1) }
    }

    /// How many slots a record of these words takes.
    pub fn cost(words: &[u64]) -> Cost {
        Cost::new(words.chunks(WORDS).len() as u32).unwrap_or(Cost::ONE)
    }

    /// Remembers a decision, by the words of its [`Record`].
    pub fn write(&self, id: DecisionId, words: &[u64]) {
        let parts = words.chunks(WORDS).len() as u64;
        // Relaxed: positions are only ever compared, and each slot publishes itself
        let first = self.next.fetch_add(parts, Ordering::Relaxed);
        for (part, words) in (0..parts).zip(words.chunks(WORDS)) {
            if !self.write_slot(first + part, part, id, words) {
                return;
            }
        }
    }

    fn write_slot(&self, position: u64, part: u64, id: DecisionId, words: &[u64]) -> bool {
        let Some(slot) = self.slot(position) else { return false };
        let version = position << 3 | part << 1;
        let before = slot.version.load(Ordering::Relaxed);
        if before & 1 == 1 || before >= version {
            return false;
        }
        // Acquire: what follows is not written before the version is ours
        if slot.version.compare_exchange(before, version | 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // whoever sees one of the words below sees the odd version too, when it looks for the second time
        fence(Ordering::Release);
        slot.id.store(id.0, Ordering::Relaxed);
        for (to, from) in slot.words.iter().zip(words) {
            to.store(*from, Ordering::Relaxed);
        }
        slot.version.store(version, Ordering::Release);
        true
    }

    /// The decision of this id, if it is still there; the last one, if it was decided about twice.
    pub fn find(&self, id: DecisionId) -> Option<Record> {
        self.latest_first().find(|(known, _)| *known == id).map(|(_, record)| record)
    }

    /// All that is remembered, the latest first.
    pub fn latest_first(&self) -> impl Iterator<Item = (DecisionId, Record)> + '_ {
        self.positions().rev().filter_map(|position| self.read(position))
    }

    /// All that is remembered, the oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = (DecisionId, Record)> + '_ {
        self.positions().filter_map(|position| self.read(position))
    }

    fn positions(&self) -> std::ops::Range<u64> {
        let end = self.next.load(Ordering::Relaxed);
        end.saturating_sub(self.slots.len() as u64)..end
    }

    /// How many slots were written so far.
    pub fn written(&self) -> u64 {
        self.next.load(Ordering::Relaxed).saturating_sub(self.slots.len() as u64 + 1)
    }

    /// The record that begins at this position, whole; `None` also where one goes on that began before.
    fn read(&self, position: u64) -> Option<(DecisionId, Record)> {
        let (id, first) = self.read_slot(position, 0)?;
        if let Some(record) = Record::unpack(&first) {
            return Some((id, record));
        }
        // it goes on: as far as it has to
        let mut words: ArrayVec<u64, { MOST_SLOTS * WORDS }> = first.into_iter().collect();
        for part in 1..MOST_SLOTS as u64 {
            let (same, more) = self.read_slot(position + part, part)?;
            if same != id {
                return None;
            }
            words.try_extend_from_slice(&more).ok()?;
            if let Some(record) = Record::unpack(&words) {
                return Some((id, record));
            }
        }
        None
    }

    fn read_slot(&self, position: u64, part: u64) -> Option<(DecisionId, [u64; WORDS])> {
        let slot = self.slot(position)?;
        let version = position << 3 | part << 1;
        // Acquire: the words are not read before this
        if slot.version.load(Ordering::Acquire) != version {
            return None;
        }
        let id = slot.id.load(Ordering::Relaxed);
        let words = slot.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        // nor after this
        fence(Ordering::Acquire);
        (slot.version.load(Ordering::Relaxed) == version).then_some((DecisionId(id), words))
    }

    fn slot(&self, position: u64) -> Option<&Slot> {
        let slot = position.checked_rem(self.slots.len() as u64)?;
        self.slots.get(usize::try_from(slot).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::engine::DecidedBy;
    use crate::engine::{Outcome, Verdict};
    use crate::explain::Said;
    use crate::limiter::Owed;
    use crate::policy::Mode;
    use crate::units::Timestamp;

    /// A record all of whose numbers are one number.
    fn record(number: u64, limits: usize) -> Record {
        let said = Said {
            rule: number as u16,
            tier: 1,
            mode: Mode::Enforce,
            outcome: Outcome::Refused,
            node: None,
            by: DecidedBy::Gate,
            exact: false,
            remaining: number as u32,
            wait_nanos: Some(number),
            owed: Owed::from_word(number),
        };
        Record {
            at: Timestamp::from_nanos(number),
            client: u128::from(number).to_be_bytes(),
            found: None,
            method: None,
            route: None,
            alternative: None,
            runner_up: None,
            book: number as u16,
            criticality: Default::default(),
            verdict: Verdict::Admitted,
            retry_after: 0,
            delay_millis: 0,
            store_error: None,
            limits: std::iter::repeat_n(said, limits).collect(),
            no_place: None,
            ban: None,
        }
    }

    #[test]
    fn a_slot_is_ninety_six_bytes() {
        assert_eq!(Ring::SLOT_BYTES, 96);
    }

    #[test]
    fn the_last_are_remembered_and_the_oldest_are_forgotten() {
        let ring = Ring::new(8);
        assert_eq!(ring.latest_first().count(), 0);
        for number in 1..=20 {
            ring.write(DecisionId(number), &record(number, 1).pack());
        }
        let ids: Vec<u64> = ring.latest_first().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [20, 19, 18, 17, 16, 15, 14, 13]);
        assert_eq!(ring.find(DecisionId(17)), Some(record(17, 1)));
        assert_eq!(ring.find(DecisionId(12)), None);
    }

    #[test]
    fn records_of_any_length_stand_side_by_side() {
        let ring = Ring::new(64);
        for limits in 0..=8 {
            ring.write(DecisionId(limits as u64), &record(7 + limits as u64, limits).pack());
        }
        for limits in 0..=8 {
            assert_eq!(ring.find(DecisionId(limits as u64)), Some(record(7 + limits as u64, limits)), "{limits}");
        }
        // the end of one that was overwritten in part is no record
        let ring = Ring::new(4);
        ring.write(DecisionId(1), &record(1, 8).pack());
        ring.write(DecisionId(2), &record(2, 8).pack());
        let ids: Vec<u64> = ring.latest_first().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [2]);
    }

    #[test]
    fn a_decision_that_turned_later_is_told_as_it_ended() {
        let ring = Ring::new(8);
        ring.write(DecisionId(1), &record(1, 1).pack());
        ring.write(DecisionId(1), &record(2, 1).pack());
        assert_eq!(ring.find(DecisionId(1)), Some(record(2, 1)));
    }

    #[test]
    fn what_is_read_while_others_write_is_whole() {
        let ring = Arc::new(Ring::new(16));
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let (ring, stop) = (Arc::clone(&ring), Arc::clone(&stop));
                thread::spawn(move || {
                    let mut number = writer;
                    while !stop.load(Ordering::Relaxed) {
                        ring.write(DecisionId(number), &record(number, (number % 9) as usize).pack());
                        number += 3;
                    }
                })
            })
            .collect();
        let mut seen = 0;
        while seen < 20_000 {
            for (id, found) in ring.latest_first() {
                assert_eq!(found, record(id.0, (id.0 % 9) as usize));
                seen += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
}
