//! Who waits, and who of them is next.
//!
//! The requests of one key wait one behind the other. Keys are compared by scanning all that wait: with 800 of them a hand-over takes
//! some microseconds, and it happens as often as the origin answers.

mod out;
mod owed;

use super::nodes::{Active, Holder, LEVELS, Label, NONE, Nodes, Path};
use crate::units::{Criticality, Timestamp};

/// What a request asks with.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Its key and networks.
    pub path: Path,
    /// How many single clients its key stands for: 1 unless a tier says more.
    pub weight: f32,
    /// How much it matters.
    pub criticality: Criticality,
    /// Who it is of, for people.
    pub label: Label,
}

impl Asks {
    /// Of nobody in particular.
    pub const NOBODY: Asks =
        Asks { path: Path([None; LEVELS]), weight: 1.0, criticality: Criticality::Default, label: Label::NOBODY };
}

/// A request that waits. Of one line; a ticket that has been answered is never answered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// Its room in the line, to keep what belongs to it.
    pub slot: u32,
    serial: u64,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act<G> {
    /// It may go on, with what it was given.
    Given(Ticket, G),
    /// It was pushed out of a full line.
    PushedOut(Ticket, Standing),
}

/// How a request stood when it went without: the node that decided, and the one who was next.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// The level of the node that weighs most: 0 is the key, 1 its network, 2 the network around that.
    pub level: u8,
    /// What that node held.
    pub held: f32,
    /// How many of its requests waited, this one included.
    pub waiting: f32,
    /// What it used lately, an average.
    pub used: f32,
    /// For how many single clients it stands.
    pub share: f32,
    /// What it held and used, for each of those clients.
    pub score: f32,
    /// The same of the request that would have been next.
    pub next: f32,
    /// How many waited in all.
    pub line: u32,
    /// How many of them would have gone before it.
    pub ahead: u32,
}

/// One key's requests of one class, the oldest first.
#[derive(Debug, Clone, Copy)]
struct Group {
    nodes: Active,
    parts: [f32; LEVELS],
    weight: f32,
    criticality: Criticality,
    first: u32,
    last: u32,
    count: u32,
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

/// No group: its room is free.
const NO_GROUP: Group = Group {
    nodes: [NONE; LEVELS],
    parts: [0.0; LEVELS],
    weight: 1.0,
    criticality: Criticality::Default,
    first: NONE,
    last: NONE,
    count: 0,
};

/// A request that has left the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub ticket: Ticket,
    pub nodes: Active,
    pub weight: f32,
    pub since: Timestamp,
    pub standing: Standing,
}

/// The one who is next, and how heavy the heaviest of all is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    group: u32,
    pub criticality: Criticality,
    pub score: f32,
    pub top: f32,
    /// Whether it is the turn of the least important.
    pub is_turn: bool,
}

/// The requests that wait, and the nodes by which they are compared.
#[derive(Debug)]
pub struct Line {
    pub(super) nodes: Nodes,
    /// How many single clients a network stands for, by level.
    shares: [f32; LEVELS],
    waiters: Box<[Waiter]>,
    free: Vec<u32>,
    groups: Box<[Group]>,
    free_groups: Vec<u32>,
    /// One past the highest group that was ever taken since the line was empty.
    end: usize,
    /// The groups of each active node that is a key, by class.
    of_key: Box<[[u32; 4]]>,
    waiting: [u32; 4],
    serial: u64,
    turn: u32,
    /// What a held place counts beside what was used: what it will have used when it ends.
    pub(super) held_counts: f32,
    /// What was seen when all that wait were last compared to push one out.
    seen: Option<Seen>,
}

/// Who claimed most, and between which scores all lay.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Timestamp,
    most: (Criticality, f32),
    least: f32,
    top: f32,
}

/// So many of the heaviest are named where a request goes without.
pub const HEAVIEST: usize = 3;

/// Of so many hand-overs one goes to the least important class.
const TURN: u32 = 16;

impl Line {
    /// Room for so many requests that wait, and one more, which is pushed out at once; `holding` more may hold something.
    pub(super) fn new(room: u32, holding: u32, shares: [f32; LEVELS]) -> Line {
        let rooms = room as usize + 1;
        let active = LEVELS * (rooms + holding as usize);
        Line {
            nodes: Nodes::new(active, 8 * active),
            shares,
            waiters: vec![NOBODY; rooms].into(),
            free: (0..=room).rev().collect(),
            groups: vec![NO_GROUP; rooms].into(),
            free_groups: (0..=room).rev().collect(),
            end: 0,
            of_key: vec![[NONE; 4]; active].into(),
            waiting: [0; 4],
            serial: 0,
            turn: 0,
            held_counts: 0.0,
            seen: None,
        }
    }

    /// The same line with other words. Those who wait keep their rooms; the nodes of those who hold are exchanged for the new ones.
    pub(super) fn rebuilt<'a>(
        &mut self,
        room: u32,
        holding: u32,
        shares: [f32; LEVELS],
        held: impl Iterator<Item = &'a mut Active>,
    ) -> Line {
        let rooms = self.waiters.len().max(room as usize + 1);
        let mut new = Line::new(rooms as u32 - 1, holding, shares);
        new.nodes.inherit(&self.nodes);
        for nodes in held {
            let (path, label, criticality) = self.nodes.name(nodes);
            *nodes = new.nodes.enter_named(&path, label, criticality);
            new.nodes.hold(nodes, 1.0);
        }
        let mut waiting: Vec<_> =
            (0..).zip(self.waiters.iter().copied()).filter(|(_, one)| one.group != NONE).collect();
        waiting.sort_by_key(|(_, one)| one.serial);
        for (slot, one) in waiting {
            let Some(group) = self.groups.get(one.group as usize) else { continue };
            let (path, label, _) = self.nodes.name(&group.nodes);
            let asks = Asks { path, weight: group.weight, criticality: group.criticality, label };
            new.free.retain(|free| *free != slot);
            new.sit(slot, one.serial, &asks, one.since);
        }
        (new.serial, new.turn, new.held_counts) = (self.serial, self.turn, self.held_counts);
        new
    }

    /// Bytes, fixed.
    pub(super) fn memory(&self) -> usize {
        self.nodes.memory()
            + self.waiters.len() * (size_of::<Waiter>() + 4 + size_of::<Group>() + 4)
            + self.of_key.len() * size_of::<[u32; 4]>()
    }

    /// How many wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// How many wait of each class, in the order of [`Criticality::ALL`].
    pub fn waiting_by_class(&self) -> [u32; 4] {
        self.waiting
    }

    /// What keys and networks used lately, by hash, part by part: as the nodes give them.
    pub fn uses(&self, from: usize, most: usize, into: &mut Vec<(u64, f32)>) -> Option<usize> {
        self.nodes.uses(from, most, into)
    }

    /// How many nodes hold something or wait.
    pub fn holding(&self) -> usize {
        self.nodes.active()
    }

    /// The keys and networks that hold or wait, in no order.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        self.nodes.holders()
    }

    /// Who holds or used most of those that are here: a network first, if it has more than each key, then keys.
    pub fn heaviest(&self) -> [Option<Holder>; HEAVIEST] {
        let weight = |holder: &Option<Holder>| holder.map_or(0.0, |holder| holder.held as f32 + holder.used);
        let (mut keys, mut network): ([Option<Holder>; HEAVIEST], Option<Holder>) = ([None; HEAVIEST], None);
        for holder in self.holders().map(Some) {
            if holder.is_some_and(|holder| holder.level > 0) {
                let best = weight(&network);
                // of two that have the same, the narrower
                let narrower = holder.map(|holder| holder.level) < network.map(|network| network.level);
                if weight(&holder) > best || weight(&holder) == best && narrower {
                    network = holder;
                }
            } else if let Some(at) = keys.iter().position(|key| weight(key) < weight(&holder)) {
                put_at(&mut keys, at, holder);
            }
        }
        if weight(&network) > keys.first().map_or(0.0, weight) {
            put_at(&mut keys, 0, network);
        }
        keys
    }

    /// Uses that were forgotten for heavier ones, and levels of requests that found no room to be counted.
    pub fn losses(&self) -> (u64, u64) {
        self.nodes.losses()
    }

    /// Adds a request; `None` if there is no room at all.
    pub(super) fn join(&mut self, asks: &Asks, now: Timestamp) -> Option<Ticket> {
        let slot = self.free.pop()?;
        self.serial += 1;
        self.sit(slot, self.serial, asks, now)
    }

    /// Puts a request into a room.
    fn sit(&mut self, slot: u32, serial: u64, asks: &Asks, since: Timestamp) -> Option<Ticket> {
        let nodes = self.nodes.enter_named(&asks.path, asks.label, asks.criticality);
        let Some(at) = self.group(nodes, asks) else {
            // as many groups as rooms: cannot be
            self.nodes.quit(&nodes);
            self.free.push(slot);
            return None;
        };
        self.nodes.wait(&nodes, 1.0);
        let before = self.groups.get_mut(at as usize).map_or(NONE, |group| {
            let before = std::mem::replace(&mut group.last, slot);
            if before == NONE {
                group.first = slot;
            }
            group.count += 1;
            before
        });
        self.change(before, |waiter| waiter.behind = slot);
        self.change(slot, |waiter| *waiter = Waiter { serial, since, group: at, before, behind: NONE });
        if let Some(waiting) = self.waiting.get_mut(asks.criticality.position()) {
            *waiting += 1;
        }
        Some(Ticket { slot, serial })
    }

    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Waiter)) {
        if let Some(waiter) = self.waiters.get_mut(slot as usize) {
            change(waiter);
        }
    }

    /// For which part of a client each level of a request counts.
    fn parts(&self, asks: &Asks) -> [f32; LEVELS] {
        std::array::from_fn(|level| {
            1.0 / self.shares.get(level).copied().unwrap_or(1.0).max(asks.weight).max(f32::MIN_POSITIVE)
        })
    }

    /// How a request stands that does not join, and its nodes, which are active until the caller lets them [quit](Nodes::quit).
    pub(super) fn look(&mut self, asks: &Asks) -> (Active, Standing) {
        let nodes = self.nodes.enter_named(&asks.path, asks.label, asks.criticality);
        (nodes, self.standing(&nodes, &self.parts(asks)))
    }

    /// The group of the key and class, a new one if there is none.
    fn group(&mut self, nodes: Active, asks: &Asks) -> Option<u32> {
        let parts = self.parts(asks);
        let [key, ..] = nodes;
        // a key that found no room among the active waits in a group of its own
        let of_key = self.of_key.get_mut(key as usize).and_then(|of| of.get_mut(asks.criticality.position()));
        if let Some(at) = of_key.as_deref().copied().filter(|at| *at != NONE) {
            if let Some(group) = self.groups.get_mut(at as usize) {
                (group.parts, group.weight) = (parts, asks.weight);
            }
            return Some(at);
        }
        let at = self.free_groups.pop()?;
        if let Some(of_key) = of_key {
            *of_key = at;
        }
        if let Some(group) = self.groups.get_mut(at as usize) {
            *group = Group { nodes, parts, weight: asks.weight, criticality: asks.criticality, ..NO_GROUP };
        }
        self.end = self.end.max(at as usize + 1);
        Some(at)
    }

    /// Whether the ticket's request still waits.
    pub fn waits(&self, ticket: Ticket) -> bool {
        self.waiters
            .get(ticket.slot as usize)
            .is_some_and(|waiter| waiter.group != NONE && waiter.serial == ticket.serial)
    }

    /// Takes a request out of the line. Its nodes stay active; the caller lets them [quit](Nodes::quit).
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Left> {
        if !self.waits(ticket) {
            return None;
        }
        let waiter = *self.waiters.get(ticket.slot as usize)?;
        let group = *self.groups.get(waiter.group as usize)?;
        let standing = self.standing(&group.nodes, &group.parts);
        self.change(waiter.before, |before| before.behind = waiter.behind);
        self.change(waiter.behind, |behind| behind.before = waiter.before);
        self.change(ticket.slot, |gone| *gone = NOBODY);
        self.free.push(ticket.slot);
        self.nodes.wait(&group.nodes, -1.0);
        if let Some(waiting) = self.waiting.get_mut(group.criticality.position()) {
            *waiting = waiting.saturating_sub(1);
        }
        let mut empty = false;
        if let Some(group) = self.groups.get_mut(waiter.group as usize) {
            group.count = group.count.saturating_sub(1);
            if group.first == ticket.slot {
                group.first = waiter.behind;
            }
            if group.last == ticket.slot {
                group.last = waiter.before;
            }
            empty = group.first == NONE;
        }
        if empty {
            self.drop_group(waiter.group, &group);
        }
        Some(Left { ticket, nodes: group.nodes, weight: group.weight, since: waiter.since, standing })
    }

    fn drop_group(&mut self, at: u32, group: &Group) {
        let [key, ..] = group.nodes;
        if let Some(of) = self.of_key.get_mut(key as usize).and_then(|of| of.get_mut(group.criticality.position())) {
            *of = NONE;
        }
        if let Some(room) = self.groups.get_mut(at as usize) {
            *room = NO_GROUP;
        }
        self.free_groups.push(at);
        if self.waiting() == 0 {
            self.end = 0;
        }
    }

    /// The groups that wait.
    fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        (0..).zip(&self.groups).take(self.end).filter(|(_, group)| group.first != NONE)
    }

    fn score(&self, group: &Group) -> f32 {
        self.nodes.score(&group.nodes, &group.parts, self.held_counts)
    }

    /// How requests of these nodes stand, but for who would be next.
    fn standing(&self, nodes: &Active, parts: &[f32; LEVELS]) -> Standing {
        let mut standing = Standing { line: self.waiting(), score: -1.0, ..Standing::default() };
        for (level, (node, part)) in (0..).zip(nodes.iter().zip(parts)) {
            let Some([held, waiting, used]) = self.nodes.numbers(*node) else { continue };
            let score = (used + self.held_counts * held) * part;
            if score > standing.score {
                standing = Standing { level, held, waiting, used, share: part.recip(), score, ..standing };
            }
        }
        standing.score = standing.score.max(0.0);
        standing
    }

    /// The request that is next, of those that may go. Of so many turns one looks at the classes in reverse; it goes to the others where that
    /// one may not. Looking is no turn: only who may go takes one.
    pub(super) fn next_of(&mut self, may_go: impl Fn(&Next) -> bool) -> Option<Next> {
        let turn = self.turn.wrapping_add(1);
        let last = if turn.is_multiple_of(TURN) { self.best(true) } else { None };
        let last = last.map(|next| Next { is_turn: true, ..next }).filter(&may_go);
        let next = last.or_else(|| self.best(false).filter(may_go))?;
        self.turn = turn;
        Some(next)
    }

    /// The least important class that waits. A request that matters more leaves nothing to lighter ones: they would not get it, it would only
    /// be less important ones'.
    pub(super) fn least_important(&self) -> Criticality {
        let last = self.waiting.iter().rposition(|waiting| *waiting > 0);
        last.and_then(|at| Criticality::ALL.get(at)).copied().unwrap_or(Criticality::Critical)
    }

    fn best(&self, reverse: bool) -> Option<Next> {
        let mut best: Option<(u8, f32, u64, Next)> = None;
        let mut top: f32 = 0.0;
        for (at, group) in self.groups() {
            let score = self.score(group);
            top = top.max(score);
            let class = if reverse { 3 - group.criticality as u8 } else { group.criticality as u8 };
            if best.is_some_and(|(c, s, ..)| (class, score) > (c, s)) {
                continue;
            }
            let serial = self.waiters.get(group.first as usize).map_or(u64::MAX, |waiter| waiter.serial);
            if best.is_none_or(|(c, s, n, _)| (class, score, serial) < (c, s, n)) {
                let criticality = group.criticality;
                best = Some((class, score, serial, Next { group: at, criticality, score, top: 0.0, is_turn: false }));
            }
        }
        best.map(|(.., next)| Next { top, ..next })
    }

    /// The oldest request of the one who is next.
    pub(super) fn oldest(&self, next: &Next) -> Option<Ticket> {
        let slot = self.groups.get(next.group as usize)?.first;
        Some(Ticket { slot, serial: self.waiters.get(slot as usize)?.serial })
    }

    /// Up to which part of a reserve a request must leave to lighter ones: none up to half of the heaviest, all for the heaviest.
    pub(super) fn part(score: f32, top: f32) -> f32 {
        if top <= 0.0 { 0.0 } else { (2.0 * score / top - 1.0).clamp(0.0, 1.0) }
    }
}

/// Puts an item into a list; the last one has no room then.
fn put_at<T>(list: &mut [T], at: usize, item: T) {
    if let Some(rest) = list.get_mut(at..) {
        rest.rotate_right(1);
        if let Some(first) = rest.first_mut() {
            *first = item;
        }
    }
}
