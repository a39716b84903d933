//! Promotion and eviction, explored exhaustively: a small model of the protocol of `crates/limits/src/sketch/levels.rs`, every step of
//! which is one load, store or exchange, and every order of the steps of three admissions and an evictor.
//!
//! One key, two cells, two slots, levels that count. What loom checks on the real code with few preemptions, this checks
//! without any bound; and it shows which parts of the protocol carry it, as each shortcut is seen to fail.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

const CELLS: usize = 2;
const SLOTS: usize = 2;
const ADMISSIONS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Protocol {
    Real,
    /// The entry is looked for before the cells are read.
    FindsFirst,
    /// The slot is claimed after the cells were raised.
    ClaimsLate,
    /// Whoever kills a claim frees the slot, and marks carry no nonce.
    KillerFrees,
    /// A look for an open entry, then another for a claim.
    LooksTwice,
    /// The evictor closes the entry before it lifts the cells.
    ClosesFirst,
    /// The next key of a slot may open it at the level of the last.
    LevelsRepeat,
    /// An admission by cells does not mind a claim.
    NeverKills,
}

/// What happens to entries besides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Evictor {
    /// Frees every open entry that it meets, twice over.
    Frees,
    /// Evicts the entry and opens the slot for another key.
    Usurps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum State {
    #[default]
    Free,
    Open,
    Pending,
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Word {
    state: State,
    level: u8,
}

fn word(state: State, level: u8) -> Word {
    Word { state, level }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Slot {
    word: Word,
    /// Our key, or another one's.
    ours: bool,
}

/// Where a thread is: the step that it takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum At {
    #[default]
    LookWord,
    LookKey,
    ByEntry,
    Confirm,
    ReadCells,
    FindWord,
    FindKey,
    FindClaim,
    FindClaimKey,
    Kill,
    ChooseSlot,
    Claim,
    StoreKey,
    Raise,
    Open,
    Abandon,
    Done,
}

/// The registers of an admission. Those that a step does not use are kept at zero, so that equal states are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Admission {
    at: At,
    index: u8,
    word: Word,
    seen: [u8; CELLS],
    to: u8,
    /// The slot claimed, one-based, and its floor.
    claim: u8,
    floor: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum EvictorAt {
    #[default]
    Look,
    Lift,
    Exchange,
    StoreKey,
    Reopen,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Eviction {
    at: EvictorAt,
    slot: u8,
    word: Word,
    index: u8,
    rounds: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct World {
    cells: [u8; CELLS],
    slots: [Slot; SLOTS],
    admissions: [Admission; ADMISSIONS],
    eviction: Eviction,
    admitted: u8,
}

struct Model {
    protocol: Protocol,
    evictor: Evictor,
    limit: u8,
}

impl Model {
    /// One step of admission `n`.
    fn admission(&self, world: &mut World, n: usize) {
        let mut me = world.admissions[n];
        let slot = me.index as usize;
        match me.at {
            At::LookWord => {
                me.word = world.slots[slot].word;
                me.at = At::LookKey;
            }
            At::LookKey => {
                if world.slots[slot].ours && me.word.state == State::Open {
                    me.to = me.word.level + 1;
                    me.at = if me.to > self.limit { At::Confirm } else { At::ByEntry };
                } else if slot + 1 < SLOTS {
                    me = Admission { index: me.index + 1, ..Admission::default() };
                } else {
                    let at = if self.protocol == Protocol::FindsFirst { At::FindWord } else { At::ReadCells };
                    me = Admission { at, ..Admission::default() };
                }
            }
            At::ByEntry => {
                let admitted = exchange(&mut world.slots[slot].word, me.word, word(State::Open, me.to));
                world.admitted += u8::from(admitted);
                me = if admitted { done() } else { Admission::default() };
            }
            At::Confirm => {
                me = if world.slots[slot].word == me.word { done() } else { Admission::default() };
            }
            At::ReadCells => {
                me.seen[slot] = world.cells[slot];
                me.index += 1;
                if me.index as usize == CELLS {
                    me.index = 0;
                    me.at = At::FindWord;
                    if self.protocol == Protocol::FindsFirst {
                        me = self.judge(me);
                    }
                }
            }
            At::FindWord | At::FindClaim => {
                me.word = world.slots[slot].word;
                me.at = if me.at == At::FindWord { At::FindKey } else { At::FindClaimKey };
            }
            At::FindKey | At::FindClaimKey => {
                let ours = world.slots[slot].ours;
                let for_claims = me.at == At::FindClaimKey;
                let looks_twice = self.protocol == Protocol::LooksTwice;
                let minds_claims = self.protocol != Protocol::NeverKills && (for_claims || !looks_twice);
                if ours && me.word.state == State::Open && !for_claims {
                    me = Admission::default();
                } else if ours && me.word.state == State::Pending && minds_claims {
                    me.at = At::Kill;
                } else {
                    me.word = Word::default();
                    me.at = if for_claims { At::FindClaim } else { At::FindWord };
                    me.index += 1;
                    if me.index as usize == SLOTS {
                        me.index = 0;
                        me = match self.protocol {
                            Protocol::LooksTwice if !for_claims => Admission { at: At::FindClaim, ..me },
                            Protocol::FindsFirst => Admission { at: At::ReadCells, ..me },
                            _ => self.judge(me),
                        };
                    }
                }
            }
            At::Kill => {
                let state = if self.protocol == Protocol::KillerFrees { State::Free } else { State::Killed };
                exchange(&mut world.slots[slot].word, me.word, word(state, me.word.level));
                me = Admission::default();
            }
            At::ChooseSlot => {
                me.word = world.slots[slot].word;
                if me.word.state == State::Free && me.word.level < me.to {
                    me.at = At::Claim;
                } else {
                    me.word = Word::default();
                    me.index += 1;
                    if me.index as usize == SLOTS {
                        me = self.unclaimed(me);
                    }
                }
            }
            At::Claim => {
                if exchange(&mut world.slots[slot].word, me.word, word(State::Pending, me.word.level)) {
                    (me.claim, me.floor) = (me.index + 1, me.word.level);
                    me.at = At::StoreKey;
                } else {
                    me = self.unclaimed(me);
                }
            }
            At::StoreKey => {
                world.slots[slot].ours = true;
                let at = if self.protocol == Protocol::ClaimsLate { At::Open } else { At::Raise };
                me = Admission { at, index: 0, word: Word::default(), ..me };
            }
            At::Raise => {
                let cell = me.index as usize;
                if me.seen[cell] < me.to && !exchange(&mut world.cells[cell], me.seen[cell], me.to) {
                    me = if me.claim > 0 { Admission { at: At::Abandon, ..me } } else { Admission::default() };
                } else {
                    me.index += 1;
                    if me.index as usize == CELLS {
                        world.admitted += 1;
                        me.index = 0;
                        me = match (me.claim, self.protocol) {
                            (0, Protocol::ClaimsLate) if self.is_heavy(me.to) => {
                                Admission { at: At::ChooseSlot, to: me.to, ..Admission::default() }
                            }
                            (0, _) => done(),
                            _ => Admission { at: At::Open, ..me },
                        };
                    }
                }
            }
            At::Open => {
                let slot = &mut world.slots[me.claim as usize - 1].word;
                let opened = exchange(slot, word(State::Pending, me.floor), word(State::Open, me.to));
                let killer_frees = self.protocol == Protocol::KillerFrees;
                me = if opened || killer_frees { done() } else { Admission { at: At::Abandon, to: 0, ..me } };
            }
            At::Abandon => {
                let slot = &mut world.slots[me.claim as usize - 1].word;
                if self.protocol == Protocol::KillerFrees {
                    exchange(slot, word(State::Pending, me.floor), word(State::Free, me.floor));
                } else {
                    *slot = word(State::Free, me.floor);
                }
                // a request that was admitted ends here; another starts again
                me = if me.to == 0 { done() } else { Admission::default() };
            }
            At::Done => {}
        }
        world.admissions[n] = me;
        world.admissions.sort_unstable();
    }

    /// After the cells and the entry were read: what the estimate allows.
    fn judge(&self, me: Admission) -> Admission {
        let to = me.seen.into_iter().min().unwrap() + 1;
        if to > self.limit {
            return done();
        }
        let claims = self.is_heavy(to) && self.protocol != Protocol::ClaimsLate;
        Admission { at: if claims { At::ChooseSlot } else { At::Raise }, to, seen: me.seen, ..Admission::default() }
    }

    /// Without a slot the request goes on all the same.
    fn unclaimed(&self, me: Admission) -> Admission {
        if self.protocol == Protocol::ClaimsLate {
            return done();
        }
        Admission { at: At::Raise, seen: me.seen, to: me.to, ..Admission::default() }
    }

    fn is_heavy(&self, level: u8) -> bool {
        self.limit - level <= self.limit / 2
    }

    /// One step of the evictor.
    fn eviction(&self, world: &mut World) {
        let mut me = world.eviction;
        let slot = me.slot as usize;
        let closes_first = self.protocol == Protocol::ClosesFirst;
        let next = Eviction { slot: (me.slot + 1) % SLOTS as u8, rounds: me.rounds + 1, ..Eviction::default() };
        match me.at {
            EvictorAt::Look => {
                me.word = world.slots[slot].word;
                me.at = if closes_first { EvictorAt::Exchange } else { EvictorAt::Lift };
                if me.word.state != State::Open || !world.slots[slot].ours {
                    me = next;
                }
            }
            EvictorAt::Lift => {
                // an atomic maximum, as the loop of exchanges is
                let cell = &mut world.cells[me.index as usize];
                *cell = (*cell).max(me.word.level);
                me.index += 1;
                if me.index as usize == CELLS {
                    me = Eviction { at: EvictorAt::Exchange, index: 0, ..me };
                    if closes_first {
                        me = next;
                    }
                }
            }
            EvictorAt::Exchange => {
                let state = if self.evictor == Evictor::Usurps { State::Pending } else { State::Free };
                let evicted = exchange(&mut world.slots[slot].word, me.word, word(state, me.word.level));
                me = match (evicted, closes_first, self.evictor) {
                    (false, ..) => next,
                    (true, true, _) => Eviction { at: EvictorAt::Lift, ..me },
                    (true, false, Evictor::Usurps) => Eviction { at: EvictorAt::StoreKey, ..me },
                    (true, false, Evictor::Frees) => next,
                };
            }
            EvictorAt::StoreKey => {
                world.slots[slot].ours = false;
                me.at = EvictorAt::Reopen;
            }
            EvictorAt::Reopen => {
                let level = me.word.level + u8::from(self.protocol != Protocol::LevelsRepeat);
                if !exchange(&mut world.slots[slot].word, word(State::Pending, me.word.level), word(State::Open, level))
                {
                    world.slots[slot].word = word(State::Free, me.word.level);
                }
                me = next;
            }
            EvictorAt::Done => {}
        }
        if me.rounds == 2 * SLOTS as u8 {
            me = Eviction { at: EvictorAt::Done, ..Eviction::default() };
        }
        world.eviction = me;
    }

    /// Every world that can be reached from these cells, after so many were `admitted` by them; the first in which more were admitted than the limit, if any, and
    /// otherwise the number of worlds.
    fn explore(&self, admitted: u8, cells: [u8; CELLS]) -> Result<usize, World> {
        let start = World { cells, admitted, ..World::default() };
        let mut known: HashSet<World, BuildHasherDefault<Mix>> = HashSet::default();
        known.insert(start);
        let mut frontier = vec![start];
        while let Some(world) = frontier.pop() {
            if world.admitted > self.limit {
                return Err(world);
            }
            let steps = (0..=ADMISSIONS).map(|thread| {
                let mut next = world;
                if thread == ADMISSIONS {
                    self.eviction(&mut next)
                } else {
                    self.admission(&mut next, thread)
                }
                next
            });
            frontier.extend(steps.filter(|next| known.insert(*next)));
        }
        assert!(known.iter().any(|world| world.admitted > admitted), "nobody was ever admitted");
        let opened = |world: &World| world.slots.iter().any(|slot| slot.word.state == State::Open);
        assert!(known.iter().any(opened), "nothing was ever opened");
        Ok(known.len())
    }
}

fn done() -> Admission {
    Admission { at: At::Done, ..Admission::default() }
}

fn exchange<T: PartialEq>(place: &mut T, from: T, to: T) -> bool {
    let holds = *place == from;
    if holds {
        *place = to;
    }
    holds
}

/// A hasher for many small fields, quicker than the standard one.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u8(number as u8);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u8(number as u8);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

fn explore(protocol: Protocol, evictor: Evictor, limit: u8, cells: [u8; CELLS]) -> Result<usize, World> {
    // of a limit of three the first is spent, as three admissions alone cannot exceed it
    let found = Model { protocol, evictor, limit }.explore(limit - 2, cells);
    println!("{protocol:?}, {evictor:?}, limit {limit}, cells {cells:?}: {:?} worlds", found.as_ref().ok());
    found
}

#[test]
fn no_order_of_steps_admits_more_than_the_limit() {
    for evictor in [Evictor::Frees, Evictor::Usurps] {
        for (limit, cells) in [(2, [0, 0]), (2, [1, 0]), (2, [0, 2]), (3, [1, 1]), (3, [2, 1])] {
            let found = explore(Protocol::Real, evictor, limit, cells);
            assert!(found.is_ok(), "{:?}", found.err());
        }
    }
}

#[test]
fn every_shortcut_is_seen_to_fail() {
    for (protocol, evictor) in [
        (Protocol::FindsFirst, Evictor::Frees),
        (Protocol::ClaimsLate, Evictor::Frees),
        (Protocol::KillerFrees, Evictor::Frees),
        (Protocol::LooksTwice, Evictor::Frees),
        (Protocol::ClosesFirst, Evictor::Frees),
        (Protocol::LevelsRepeat, Evictor::Usurps),
        (Protocol::NeverKills, Evictor::Frees),
    ] {
        assert!(explore(protocol, evictor, 2, [0, 0]).is_err(), "{protocol:?} is not refuted");
        assert!(explore(protocol, evictor, 3, [1, 1]).is_err(), "{protocol:?} is not refuted");
    }
}
