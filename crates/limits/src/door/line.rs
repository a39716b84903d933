//! Who waits, and who of them is next.
//!
//! The requests of one key wait one behind the other. Keys are compared by scanning all that wait: with 800 of them a hand-over takes
//! some microseconds, and it happens as often as the origin answers.

use super::class::Class;
use super::nodes::{Active, LEVELS, NONE, Nodes, Path};
use crate::units::Timestamp;

/// What a request asks with.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Its key and networks.
    pub path: Path,
    /// How many single clients its key stands for: 1 unless a tier says more.
    pub weight: f32,
    /// How much it matters.
    pub class: Class,
}

/// A request that waits. Of one line; a ticket that has been answered is never answered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its room in the line, to keep what belongs to it.
    pub slot: u32,
    serial: u64,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act<G> {
    /// It may go on, with what it was given.
    Given(Ticket, G),
    /// It was pushed out of a full line.
    PushedOut(Ticket),
}

/// One key's requests of one class, the oldest first.
#[derive(Debug, Clone, Copy)]
struct Group {
    nodes: Active,
    parts: [f32; LEVELS],
    class: Class,
    first: u32,
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    serial: u64,
    since: Timestamp,
    group: u32,
    before: u32,
    behind: u32,
}

const NOBODY: Waiter = Waiter { serial: 0, since: Timestamp::ZERO, group: NONE, before: NONE, behind: NONE };

/// A request that has left the line.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    pub(super) ticket: Ticket,
    pub(super) nodes: Active,
    pub(super) since: Timestamp,
    pub(super) score: f32,
}

/// The one who is next, and how heavy the heaviest of all is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    group: u32,
    pub class: Class,
    pub score: f32,
    pub top: f32,
}

/// The requests that wait, and the nodes by which they are compared.
#[derive(Debug)]
pub struct Line {
    pub(super) nodes: Nodes,
    /// How many single clients a network stands for, by level.
    shares: [f32; LEVELS],
    waiters: Box<[Waiter]>,
    free: Vec<u32>,
    groups: Vec<Group>,
    /// The groups of each active node that is a key, by class.
    of_key: Box<[[u32; 4]]>,
    waiting: [u32; 4],
    serial: u64,
    turn: u32,
    /// What a held place counts beside what was used: what it will have used when it ends.
    pub(super) held_counts: f32,
}

/// Of so many hand-overs one goes to the least important class.
const TURN: u32 = 16;

impl Line {
    /// Room for so many requests that wait, and one more, which is pushed out at once; `holding` more may hold something.
    pub(super) fn new(room: u32, holding: u32, shares: [f32; LEVELS]) -> Line {
        let rooms = room as usize + 1;
        let active = LEVELS * (rooms + holding as usize);
        Line {
            nodes: Nodes::new(active),
            shares,
            waiters: vec![NOBODY; rooms].into(),
            free: (0..=room).rev().collect(),
            groups: Vec::with_capacity(rooms),
            of_key: vec![[NONE; 4]; active].into(),
            waiting: [0; 4],
            serial: 0,
            turn: 0,
            held_counts: 0.0,
        }
    }

    /// Bytes, fixed.
    pub(super) fn memory(&self) -> usize {
        self.nodes.memory()
            + self.waiters.len() * (size_of::<Waiter>() + 4 + size_of::<Group>())
            + self.of_key.len() * size_of::<[u32; 4]>()
    }

    /// How many wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// How many wait, by class.
    pub fn waiting_by_class(&self) -> [u32; 4] {
        self.waiting
    }

    /// Adds a request; `None` if there is no room at all.
    pub(super) fn join(&mut self, asks: &Asks, now: Timestamp) -> Option<Ticket> {
        let slot = self.free.pop()?;
        self.serial += 1;
        let nodes = self.nodes.enter(&asks.path);
        self.nodes.wait(&nodes, 1.0);
        let group = self.group(nodes, asks);
        let before = self.groups.get_mut(group as usize).map_or(NONE, |group| {
            let before = group.last;
            group.last = slot;
            if before == NONE {
                group.first = slot;
            }
            before
        });
        if let Some(waiter) = self.waiters.get_mut(before as usize) {
            waiter.behind = slot;
        }
        if let Some(waiter) = self.waiters.get_mut(slot as usize) {
            *waiter = Waiter { serial: self.serial, since: now, group, before, behind: NONE };
        }
        if let Some(waiting) = self.waiting.get_mut(asks.class.position()) {
            *waiting += 1;
        }
        Some(Ticket { slot, serial: self.serial })
    }

    /// The group of the key and class; a new one at the end if there is none.
    fn group(&mut self, nodes: Active, asks: &Asks) -> u32 {
        let key = nodes.first().copied().unwrap_or(NONE);
        let parts = std::array::from_fn(|level| {
            1.0 / self.shares.get(level).copied().unwrap_or(1.0).max(asks.weight).max(f32::MIN_POSITIVE)
        });
        let known = self.of_key.get_mut(key as usize).and_then(|of| of.get_mut(asks.class.position()));
        let next = self.groups.len() as u32;
        match known {
            Some(at) if *at != NONE => {
                let at = *at;
                if let Some(group) = self.groups.get_mut(at as usize) {
                    group.parts = parts;
                }
                return at;
            }
            Some(at) => *at = next,
            // a key that found no room waits in a group of its own
            None => {}
        }
        self.groups.push(Group { nodes, parts, class: asks.class, first: NONE, last: NONE });
        next
    }

    /// Whether the ticket's request still waits.
    pub fn waits(&self, ticket: Ticket) -> bool {
        self.waiters.get(ticket.slot as usize).is_some_and(|waiter| waiter.group != NONE && waiter.serial == ticket.serial)
    }

    /// Takes a request out of the line. Its nodes stay active; the caller lets them [quit](Nodes::quit).
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Left> {
        if !self.waits(ticket) {
            return None;
        }
        let waiter = *self.waiters.get(ticket.slot as usize)?;
        let group = *self.groups.get(waiter.group as usize)?;
        let score = self.nodes.score(&group.nodes, &group.parts, self.held_counts);
        let link = |waiters: &mut [Waiter], at: u32, change: &dyn Fn(&mut Waiter)| {
            if let Some(waiter) = waiters.get_mut(at as usize) {
                change(waiter);
            }
        };
        link(&mut self.waiters, waiter.before, &|before| before.behind = waiter.behind);
        link(&mut self.waiters, waiter.behind, &|behind| behind.before = waiter.before);
        if let Some(group) = self.groups.get_mut(waiter.group as usize) {
            if group.first == ticket.slot {
                group.first = waiter.behind;
            }
            if group.last == ticket.slot {
                group.last = waiter.before;
            }
        }
        link(&mut self.waiters, ticket.slot, &|gone| *gone = NOBODY);
        self.free.push(ticket.slot);
        self.nodes.wait(&group.nodes, -1.0);
        if let Some(waiting) = self.waiting.get_mut(group.class.position()) {
            *waiting = waiting.saturating_sub(1);
        }
        if self.groups.get(waiter.group as usize).is_some_and(|group| group.first == NONE) {
            self.drop_group(waiter.group);
        }
        Some(Left { ticket, nodes: group.nodes, since: waiter.since, score })
    }

    /// The last group takes the room of the one that is empty.
    fn drop_group(&mut self, at: u32) {
        let Some(gone) = self.groups.get(at as usize).copied() else { return };
        self.groups.swap_remove(at as usize);
        self.point(&gone, NONE);
        let Some(moved) = self.groups.get(at as usize).copied() else { return };
        self.point(&moved, at);
        let mut slot = moved.first;
        while let Some(waiter) = self.waiters.get_mut(slot as usize) {
            waiter.group = at;
            slot = waiter.behind;
        }
    }

    fn point(&mut self, group: &Group, at: u32) {
        let key = group.nodes.first().copied().unwrap_or(NONE);
        if let Some(of) = self.of_key.get_mut(key as usize).and_then(|of| of.get_mut(group.class.position())) {
            *of = at;
        }
    }

    /// The request that is next, if one waits. `turn`: this is a hand-over, of which one in sixteen looks at the classes in reverse.
    pub(super) fn next(&mut self) -> Option<Next> {
        self.turn = self.turn.wrapping_add(1);
        let reverse = self.turn.is_multiple_of(TURN);
        let mut best: Option<(u8, f32, u64, Next)> = None;
        let mut top: f32 = 0.0;
        for (at, group) in (0..).zip(&self.groups) {
            let score = self.nodes.score(&group.nodes, &group.parts, self.held_counts);
            top = top.max(score);
            let class = if reverse { 3 - group.class as u8 } else { group.class as u8 };
            let serial = self.waiters.get(group.first as usize).map_or(u64::MAX, |waiter| waiter.serial);
            if best.is_none_or(|(c, s, n, _)| (class, score, serial) < (c, s, n)) {
                best = Some((class, score, serial, Next { group: at, class: group.class, score, top: 0.0 }));
            }
        }
        best.map(|(.., next)| Next { top, ..next })
    }

    /// The oldest request of the one who is next.
    pub(super) fn oldest(&self, next: &Next) -> Option<Ticket> {
        let slot = self.groups.get(next.group as usize)?.first;
        Some(Ticket { slot, serial: self.waiters.get(slot as usize)?.serial })
    }

    /// Who is pushed out: of the least important class the one with the greatest claim, of equal ones the newest.
    pub(super) fn last(&self) -> Option<Ticket> {
        let mut worst: Option<(Class, f32, u64, u32)> = None;
        for group in &self.groups {
            let claim = self.nodes.claim(&group.nodes, &group.parts, self.held_counts.max(f32::MIN_POSITIVE));
            let serial = self.waiters.get(group.last as usize).map_or(0, |waiter| waiter.serial);
            if worst.is_none_or(|(class, most, newest, _)| (group.class, claim, serial) > (class, most, newest)) {
                worst = Some((group.class, claim, serial, group.last));
            }
        }
        worst.map(|(_, _, serial, slot)| Ticket { slot, serial })
    }

    /// The greatest score of any that waits.
    pub(super) fn top(&self) -> f32 {
        let scores = self.groups.iter().map(|group| self.nodes.score(&group.nodes, &group.parts, self.held_counts));
        scores.fold(0.0, f32::max)
    }

    /// Up to which part of a reserve a request must leave to lighter ones: none up to half of the heaviest, all for the heaviest.
    pub(super) fn part(score: f32, top: f32) -> f32 {
        if top <= 0.0 { 0.0 } else { (2.0 * score / top - 1.0).clamp(0.0, 1.0) }
    }
}
