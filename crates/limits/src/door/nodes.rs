//! What is known of keys and networks: what they hold, how many of their requests wait, and what they used lately.
//!
//! A node that holds or waits is *active* and stands in dense rows, which one pass brings up to date. Of the others the use is
//! remembered in a table of buckets, where a heavier one takes the room of the lightest: nobody is forgotten for a lighter one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::units::Criticality;

/// The levels of a path: the key itself, its network, and the network around that.
pub const LEVELS: usize = 3;

/// The nodes of a request, as keyed hashes: its key, and the networks around it where it is an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path(pub [Option<u64>; LEVELS]);

/// Who a request is of, for people: three words that come back as they were given. Nothing is compared by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Label(pub [u64; 3]);

impl Label {
    /// Of nobody in particular.
    pub const NOBODY: Label = Label([0; 3]);
}

/// A key or a network that holds or waits, for people.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holder {
    /// The label of its latest request.
    pub label: Label,
    /// The level of the node: 0 is a key, 1 its network, 2 the network around that.
    pub level: u8,
    /// How much its latest request mattered.
    pub criticality: Criticality,
    /// What it holds.
    pub held: u32,
    /// How many of its requests wait.
    pub waiting: u32,
    /// What it used lately, an average.
    pub used: f32,
}

/// No node: of a level that the path does not have, or that found no room.
pub(super) const NONE: u32 = u32::MAX;

/// Positions of active nodes, one for each level.
pub(super) type Active = [u32; LEVELS];

/// Active and remembered nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Where an active node stands.
    index: HashMap<u64, u32, BuildHasherDefault<Keyed>>,
    hash: Box<[u64]>,
    held: Box<[f32]>,
    waiting: Box<[f32]>,
    used: Box<[f32]>,
    named: Box<[Named]>,
    /// Positions that are free, the lowest last.
    free: Vec<u32>,
    /// One past the highest position that is taken.
    end: usize,
    memory: Box<[Remembered]>,
    /// Half-lives that have passed.
    clock: f64,
    /// Uses that were forgotten for heavier ones.
    forgotten: u64,
    /// Levels of requests that found no room among the active.
    uncounted: u64,
}

/// What people are told of an active node.
#[derive(Debug, Clone, Copy)]
struct Named {
    label: Label,
    level: u8,
    criticality: Criticality,
}

const UNNAMED: Named = Named { label: Label::NOBODY, level: 0, criticality: Criticality::Default };

/// The use of a node that is not active.
#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    hash: u64,
    clock: f64,
    used: f32,
}

const BUCKET: usize = 4;

impl Nodes {
    /// Room for so many active nodes, and for so many remembered ones or a few more.
    pub fn new(active: usize, remembered: usize) -> Nodes {
        let memory = remembered.next_power_of_two().max(2 * BUCKET);
        Nodes {
            index: HashMap::with_capacity_and_hasher(active, BuildHasherDefault::default()),
            hash: vec![0; active].into(),
            held: vec![0.0; active].into(),
            waiting: vec![0.0; active].into(),
            used: vec![0.0; active].into(),
            named: vec![UNNAMED; active].into(),
            free: (0..u32::try_from(active).unwrap_or(NONE)).rev().collect(),
            end: 0,
            memory: vec![Remembered::default(); memory].into(),
            clock: 0.0,
            forgotten: 0,
            uncounted: 0,
        }
    }

    /// Bytes, fixed.
    pub fn memory(&self) -> usize {
        self.hash.len() * (8 + 4 + 4 + 4 + 4 + 17 + size_of::<Named>()) + self.memory.len() * size_of::<Remembered>()
    }

    /// How many are active.
    pub fn active(&self) -> usize {
        self.index.len()
    }

    /// Uses that were forgotten for heavier ones, and levels of requests that were not counted.
    pub fn losses(&self) -> (u64, u64) {
        (self.forgotten, self.uncounted)
    }

    /// Remembers what another table knows.
    pub fn inherit(&mut self, before: &Nodes) {
        self.clock = before.clock;
        for known in before.memory.iter().filter(|known| known.used > 0.0) {
            self.remember(known.hash, known.used * (known.clock - before.clock).exp2() as f32);
        }
        for (hash, at) in &before.index {
            self.remember(*hash, at_of(&before.used, *at));
        }
    }

    /// Adds what was used lately, by hash, of the next `most` nodes behind `from`; returns where to go on, `None` at the end. Active
    /// nodes come first and last, those that are remembered between them: so a node that becomes active or inactive meanwhile is given, and
    /// may be twice. One that does both, as for a request that comes and goes, may be missing.
    pub fn uses(&self, from: usize, most: usize, into: &mut Vec<(u64, f32)>) -> Option<usize> {
        let (active, remembered) = (self.hash.len(), self.memory.len());
        let parts = [(0, active), (active, remembered), (active + remembered, active)];
        let (begin, length) = parts.into_iter().rfind(|(begin, _)| *begin <= from)?;
        let (first, last) = (from - begin, (from - begin + most).min(length));
        if begin == active {
            let faded = |known: &Remembered| (known.hash, known.used * (known.clock - self.clock).exp2() as f32);
            let known = self.memory.get(first..last)?.iter().filter(|known| known.used > 0.0);
            into.extend(known.map(faded));
        } else {
            let rows = self.hash.get(first..last.min(self.end)).unwrap_or_default();
            // of a row that is free the hash is an old one
            let taken = rows.iter().filter_map(|hash| Some((*hash, *self.index.get(hash)?)));
            into.extend(taken.map(|(hash, at)| (hash, at_of(&self.used, at))));
        }
        let done = begin + last;
        // behind the last that is taken there are none
        let done = if begin != active && last >= self.end { begin + length } else { done };
        (done < 2 * active + remembered).then_some(done)
    }

    /// Remembers what was used lately, of a node that is not known.
    pub fn learn(&mut self, hash: u64, used: f32) {
        if used.is_finite() {
            self.remember(hash, used);
        }
    }

    /// Lets so many half-lives pass. Places that are held are added to what was used, by the part of them during which somebody waited.
    pub fn pass(&mut self, half_lives: f64, contended: f64) {
        self.clock += half_lives;
        let (fade, gain) = ((-half_lives).exp2() as f32, 1.0 - (-contended).exp2() as f32);
        for (used, held) in self.used.iter_mut().zip(&self.held).take(self.end) {
            *used = *used * fade + held * gain;
        }
    }

    /// Half-lives that have passed.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// The active nodes of a path, made active where they are not.
    pub fn enter(&mut self, path: &Path) -> Active {
        path.0.map(|hash| hash.map_or(NONE, |hash| self.activate(hash)))
    }

    /// The same of a request, whose name its nodes have from now on.
    pub fn enter_named(&mut self, path: &Path, label: Label, criticality: Criticality) -> Active {
        let nodes = self.enter(path);
        for (level, at) in (0..).zip(nodes) {
            if let Some(named) = self.named.get_mut(at as usize) {
                *named = Named { label, level, criticality };
            }
        }
        nodes
    }

    /// The path of active nodes, and their label and class.
    pub fn name(&self, nodes: &Active) -> (Path, Label, Criticality) {
        let [key, ..] = nodes;
        let Named { label, criticality, .. } = self.named.get(*key as usize).copied().unwrap_or(UNNAMED);
        (Path(nodes.map(|at| self.hash.get(at as usize).copied())), label, criticality)
    }

    /// The keys and networks that hold or wait, in no order.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        let rows = self.named.iter().zip(&self.held).zip(self.waiting.iter().zip(&self.used)).take(self.end);
        let rows = rows.filter(|((_, held), (waiting, _))| **held > 0.0 || **waiting > 0.0);
        rows.map(|((named, held), (waiting, used))| {
            let Named { label, level, criticality } = *named;
            Holder { label, level, criticality, held: *held as u32, waiting: *waiting as u32, used: *used }
        })
    }

    fn activate(&mut self, hash: u64) -> u32 {
        if let Some(&at) = self.index.get(&hash) {
            return at;
        }
        let Some(at) = self.free.pop() else {
            self.uncounted += 1;
            return NONE;
        };
        let used = self.recall(hash);
        self.index.insert(hash, at);
        let position = at as usize;
        self.end = self.end.max(position + 1);
        set(&mut self.hash, position, hash);
        set(&mut self.used, position, used);
        at
    }

    /// Takes the nodes of a path that neither hold nor wait any more into the memory.
    pub fn quit(&mut self, nodes: &Active) {
        for &at in nodes {
            let position = at as usize;
            let (Some(&hash), held, waits) = (self.hash.get(position), at_of(&self.held, at), at_of(&self.waiting, at))
            else {
                continue;
            };
            if held > 0.0 || waits > 0.0 || self.index.remove(&hash).is_none() {
                continue;
            }
            let used = at_of(&self.used, at);
            self.remember(hash, used);
            set(&mut self.used, position, 0.0);
            self.free.push(at);
            while self.end > 0 && !self.hash.get(self.end - 1).is_some_and(|hash| self.index.contains_key(hash)) {
                self.end -= 1;
            }
        }
    }

    /// Adds to what each node of a path holds.
    pub fn hold(&mut self, nodes: &Active, more: f32) {
        for &at in nodes {
            add(&mut self.held, at, more);
        }
    }

    /// Adds to how many requests of each node of a path wait.
    pub fn wait(&mut self, nodes: &Active, more: f32) {
        for &at in nodes {
            add(&mut self.waiting, at, more);
        }
    }

    /// Adds to what each node of a path has used.
    pub fn spend(&mut self, nodes: &Active, more: f32) {
        for &at in nodes {
            add(&mut self.used, at, more);
        }
    }

    /// The score: the greatest of what its nodes used and hold, each in parts of what it may.
    #[inline]
    pub fn score(&self, nodes: &Active, parts: &[f32; LEVELS], weight: f32) -> f32 {
        let of = |(at, part): (&u32, &f32)| (at_of(&self.used, *at) + weight * at_of(&self.held, *at)) * part;
        nodes.iter().zip(parts).map(of).fold(0.0, f32::max)
    }

    /// The score as the last of all that wait of its nodes.
    #[inline]
    pub fn claim(&self, nodes: &Active, parts: &[f32; LEVELS], weight: f32) -> f32 {
        let of = |(at, part): (&u32, &f32)| {
            let ahead = at_of(&self.held, *at) + (at_of(&self.waiting, *at) - 1.0).max(0.0);
            (at_of(&self.used, *at) + weight * ahead) * part
        };
        nodes.iter().zip(parts).map(of).fold(0.0, f32::max)
    }

    /// What an active node holds, how many of its requests wait, and what it used lately.
    pub fn numbers(&self, at: u32) -> Option<[f32; 3]> {
        let position = at as usize;
        Some([*self.held.get(position)?, *self.waiting.get(position)?, *self.used.get(position)?])
    }

    fn buckets(&self, hash: u64) -> [usize; 2] {
        let buckets = self.memory.len() / BUCKET;
        [hash as usize % buckets * BUCKET, (hash >> 32) as usize % buckets * BUCKET]
    }

    /// What was used, faded to now; the memory has it no more.
    fn recall(&mut self, hash: u64) -> f32 {
        let clock = self.clock;
        for first in self.buckets(hash) {
            for known in self.memory.iter_mut().skip(first).take(BUCKET) {
                if known.hash == hash && known.used > 0.0 {
                    let used = known.used * (known.clock - clock).exp2() as f32;
                    *known = Remembered::default();
                    return used;
                }
            }
        }
        0.0
    }

    fn remember(&mut self, hash: u64, used: f32) {
        // less than a thousandth of a place moves nothing
        if used < 1e-3 {
            return;
        }
        let clock = self.clock;
        let mut lightest = (f32::INFINITY, 0);
        for first in self.buckets(hash) {
            for (known, at) in self.memory.iter().skip(first).take(BUCKET).zip(first..) {
                let now = known.used * (known.clock - clock).exp2() as f32;
                if now < lightest.0 {
                    lightest = (now, at);
                }
            }
        }
        if lightest.0 > 1e-3 {
            self.forgotten += 1;
            if lightest.0 > used {
                return;
            }
        }
        if let Some(known) = self.memory.get_mut(lightest.1) {
            *known = Remembered { hash, clock, used };
        }
    }
}

fn at_of(values: &[f32], at: u32) -> f32 {
    values.get(at as usize).copied().unwrap_or(0.0)
}

fn add(values: &mut [f32], at: u32, more: f32) {
    if let Some(value) = values.get_mut(at as usize) {
        *value = (*value + more).max(0.0);
    }
}

fn set<T>(values: &mut [T], at: usize, new: T) {
    if let Some(value) = values.get_mut(at) {
        *value = new;
    }
}

/// Keys are keyed hashes already.
#[derive(Debug, Default, Clone, Copy)]
struct Keyed(u64);

impl Hasher for Keyed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn path(key: u64) -> Path {
        // keyed hashes: spread over all bits
        Path([Some((key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)), None, None])
    }

    fn part(nodes: &Nodes, next: &mut Option<usize>, most: usize, into: &mut Vec<(u64, f32)>) {
        let (before, from) = (into.len(), next.unwrap());
        *next = nodes.uses(from, most, into);
        assert!(into.len() - before <= most, "a part is no longer than it may be");
        assert!(next.is_none_or(|next| next > from));
    }

    proptest! {
        #[test]
        fn what_changes_once_meanwhile_is_in_one_of_the_parts(
            entered in proptest::collection::vec((0_u64..60, any::<bool>()), 0..60),
            moves in proptest::collection::vec((0_u64..60, any::<bool>()), 0..200),
            most in 1_usize..40,
        ) {
            let mut nodes = Nodes::new(24, 256);
            let mut holding: BTreeMap<u64, Active> = BTreeMap::new();
            let mut step = |nodes: &mut Nodes, (key, enters): (u64, bool)| {
                match holding.remove(&key) {
                    Some(active) => {
                        nodes.hold(&active, -1.0);
                        nodes.quit(&active);
                    }
                    None if enters => {
                        let active = nodes.enter(&path(key));
                        nodes.spend(&active, 2.0);
                        nodes.hold(&active, 1.0);
                        holding.insert(key, active);
                    }
                    None => {}
                }
            };
            entered.iter().for_each(|entered| step(&mut nodes, *entered));
            let hashes = |nodes: &Nodes| -> BTreeSet<u64> {
                let remembered = nodes.memory.iter().filter(|known| known.used > 0.0).map(|known| known.hash);
                remembered.chain(nodes.index.keys().copied()).collect()
            };
            let mut known = hashes(&nodes);
            let mut moved = BTreeSet::new();
            let mut moves = moves.into_iter().filter(|(key, _)| moved.insert(*key));
            let (mut found, mut next) = (Vec::new(), Some(0));
            while next.is_some() {
                part(&nodes, &mut next, most, &mut found);
                for one in moves.by_ref().take(3) {
                    step(&mut nodes, one);
                    known.retain(|hash| hashes(&nodes).contains(hash));
                }
            }
            let found: BTreeSet<u64> = found.iter().map(|(hash, _)| *hash).collect();
            prop_assert!(known.is_subset(&found), "{:?}", known.difference(&found));
        }
    }

    #[test]
    fn uses_are_those_of_now() {
        let mut nodes = Nodes::new(8, 64);
        for key in 0..20 {
            let active = nodes.enter(&path(key));
            nodes.spend(&active, 8.0);
            if key > 2 {
                nodes.quit(&active);
            }
        }
        nodes.pass(1.0, 0.0);
        let (mut found, mut next) = (Vec::new(), Some(0));
        while next.is_some() {
            part(&nodes, &mut next, 5, &mut found);
        }
        let found: BTreeMap<u64, f32> = found.into_iter().collect();
        assert_eq!(found.len(), 20);
        assert!(found.values().all(|used| *used == 4.0), "{found:?}");
    }
}
