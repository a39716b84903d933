//! The state of limits over the end of a process: written from one engine, and read for the next.
//!
//! A start on saved state is a reload from the policy that was in force then: a limit keeps its state by the same [`Identity`], under the
//! numbers that it has now, and what became of each is told by the same [`Fate`]s.
//!
//! One section [`LIMITS`] describes all, one [`LIMIT`] for each follows in that order, then what was [`LEARNED`]. Stamps go on: whoever
//! reads them counts time from the same origin.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::core::Engine;
use super::drawn::Drawn;
use super::fate::{Carried, Fate, Reset, Succession};
use super::identity::{Identity, conditions, numbers, predecessor};
use super::learned::Remembered;
use super::numbers::Numbers;
use super::under_way::{Before, UnderWay};
use crate::limiter::{Elsewhere, HeldCells, Limiter, Moved, Spec};
use crate::policy::Policy;
use crate::saved::{Fault, Reader, Writer, restore_cells, save_cells};
use crate::sketch::Seed;
use crate::units::{OutOfRange, Timestamp};

/// The section that describes all limits.
pub const LIMITS: &str = "limits";

/// The sections of the limits, in the order in which they are described.
pub const LIMIT: &str = "limit";

/// What requests hold of the limit before it, for the process that takes this one's place.
const HELD: &str = "held";

/// What requests cost by their answers.
const LEARNED: &str = "learned";

/// The most cells of what is held.
const MOST_CELLS: u64 = 1 << 27;

/// The longest description: 1,000 limits of some kilobytes each.
const LONGEST: usize = 16 << 20;

/// All limits of an engine.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    generation: u64,
    limits: Vec<Limit>,
    /// The names of all routes and origins, in the policy's order.
    routes: Vec<String>,
    origins: Vec<String>,
}

/// A limit.
#[derive(Debug, Serialize, Deserialize)]
struct Limit {
    name: String,
    identity: Identity,
    /// Its own numbers and those of its tiers.
    numbers: Vec<String>,
    /// The conditions of its tiers.
    tiers: Vec<String>,
    drawn: Drawn,
}

/// The limits of a policy, on the state that was saved of another's.
#[derive(Debug)]
pub struct Restored {
    pub(super) generation: u64,
    /// Of each rule of the policy that has a successor's state: its limiter.
    pub(super) limiters: Vec<Option<(Arc<Limiter>, Drawn)>>,
    /// What became of them.
    pub(super) succession: Succession,
    pub(super) learned: Remembered,
    under_way: UnderWay,
}

impl Engine {
    /// Writes the state of all limits. Requests go on: each that was admitted before the call is in it, one that is admitted during the
    /// call may be in it or not.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        self.write(to, now, false)
    }

    /// Writes the state of all limits; for another process that goes on while requests are under way here, what they hold as well, and
    /// begins to note what happens from then on.
    pub(super) fn write(&self, to: &mut Writer<'_>, now: Timestamp, hands_over: bool) -> io::Result<()> {
        let limits = self.policy.rules.iter().zip(&self.drawn).map(|(rule, drawn)| Limit {
            name: rule.name.clone(),
            identity: Identity::of(rule, &self.policy),
            numbers: numbers(rule),
            tiers: conditions(rule),
            drawn: drawn.clone(),
        });
        let described = Described {
            generation: self.generation,
            limits: limits.collect(),
            routes: self.policy.routes.iter().map(|route| route.name.clone()).collect(),
            origins: self.policy.origins.iter().map(|origin| origin.name.clone()).collect(),
        };
        to.begin(LIMITS)?;
        to.text(&serde_json::to_string(&described)?)?;
        to.end()?;
        for limiter in &self.limiters {
            let held = hands_over.then(|| limiter.begin_journal());
            to.begin(LIMIT)?;
            limiter.save(to, now)?;
            to.end()?;
            if let Some(HeldCells { places, attempts }) = held {
                to.begin(HELD)?;
                for cells in [places, attempts] {
                    to.number(cells.len() as u64)?;
                    save_cells(to, cells.into_iter().map(u64::from))?;
                }
                to.end()?;
            }
        }
        to.begin(LEARNED)?;
        self.learned.save(&self.policy, to)?;
        to.end()
    }
}

impl Restored {
    /// Reads a stream to its end, for a policy whose engine is made next with the same seed and the same origin of stamps. `now` is on the
    /// axis of the saved stamps, and not earlier than when they were saved. `other` reads what a section of another name has, and says
    /// whether it did.
    ///
    /// # Errors
    /// A damaged stream: nothing of it is to be used. A limit whose numbers its limiter refuses, by name, is left to [`Engine::next`].
    pub fn read(
        from: &mut Reader<'_>,
        (policy, seed, unix_nanos_at_origin): (&Policy, &Seed, u64),
        now: Timestamp,
        other: &mut dyn FnMut(&str, &mut Reader<'_>) -> Result<bool, Fault>,
    ) -> Result<Restored, Fault> {
        let numbers = Numbers::of(policy, unix_nanos_at_origin);
        let mut restored = Restored::nothing(policy);
        let mut described: Option<(Vec<Limit>, usize)> = None;
        while let Some(name) = from.begin()? {
            match (name.as_str(), &mut described) {
                (LIMITS, None) => {
                    let text = from.text(LONGEST)?;
                    let told: Described = serde_json::from_str(&text).map_err(|_| UNREADABLE)?;
                    restored.generation = told.generation;
                    restored.match_up(policy, &told.limits);
                    restored.under_way = UnderWay {
                        limits: told.limits.iter().map(|_| None).collect(),
                        routes: told
                            .routes
                            .iter()
                            .map(|name| policy.routes.iter().position(|new| new.name == *name))
                            .collect(),
                        origins: (told.origins.iter())
                            .map(|name| policy.origins.iter().position(|new| new.name == *name))
                            .collect(),
                    };
                    described = Some((told.limits, 0));
                }
                (LIMIT, Some((limits, next))) => {
                    let was = limits.get(*next).ok_or(UNREADABLE)?;
                    *next += 1;
                    if !restored.read_limit(from, (policy, &numbers, seed), was, now)? {
                        from.skip()?;
                        continue;
                    }
                }
                (HELD, Some((limits, next))) => {
                    let (at, held) = (next.checked_sub(1).ok_or(UNREADABLE)?, read_held(from)?);
                    restored.hold(policy, limits, at, &held);
                }
                (LEARNED, Some(_)) => restored.learned = Remembered::read(from)?,
                (name, _) => {
                    if !other(name, from)? {
                        from.skip()?;
                        continue;
                    }
                }
            }
            from.end()?;
        }
        match described {
            Some((limits, read)) if read == limits.len() => Ok(restored),
            _ => Err(UNREADABLE),
        }
    }

    /// What requests of the process that wrote it hold, the first time it is asked. To be kept until that process has ended.
    pub fn take_under_way(&mut self) -> UnderWay {
        std::mem::take(&mut self.under_way)
    }

    /// Counts what requests hold of the limit at this position of the old policy.
    fn hold(&mut self, policy: &Policy, limits: &[Limit], at: usize, held: &HeldCells) {
        let Some(was) = limits.get(at) else { return };
        let Some(rule) = self.succession.limits.iter().position(|carried| carried.goes_on_from(&was.name)) else {
            return;
        };
        let (Some(Some((limiter, _))), Some(new)) = (self.limiters.get(rule), policy.rules.get(rule)) else { return };
        let same = |positions: &[Option<usize>], count: usize| {
            positions.len() == count && positions.iter().enumerate().all(|(at, now)| *now == Some(at))
        };
        let UnderWay { routes, origins, .. } = &self.under_way;
        // exact places are told by position
        let in_place = same(routes, policy.routes.len()) && same(origins, policy.origins.len());
        let mut held = held.clone();
        if !in_place && !limiter.is_keyed() {
            held.places = vec![0; held.places.len()];
        }
        let tier = |when: &String| {
            let position = conditions(new).iter().position(|other| other == when);
            position.and_then(|position| u8::try_from(position + 1).ok()).unwrap_or(0)
        };
        let tiers = std::iter::once(0).chain(was.tiers.iter().map(tier)).collect();
        let before = Before { rule, tiers, held: Elsewhere::new(Arc::clone(limiter), &held) };
        if let Some(place) = self.under_way.limits.get_mut(at) {
            *place = Some(before);
        }
    }

    /// What became of the limits.
    pub fn succession(&self) -> &Succession {
        &self.succession
    }

    fn nothing(policy: &Policy) -> Restored {
        let new = |name: &String| Carried { name: name.clone(), fate: Fate::New };
        Restored {
            generation: 0,
            limiters: policy.rules.iter().map(|_| None).collect(),
            succession: Succession {
                limits: policy.rules.iter().map(|rule| new(&rule.name)).collect(),
                removed: Vec::new(),
            },
            learned: Remembered::default(),
            under_way: UnderWay::default(),
        }
    }

    /// Finds what becomes of each limit.
    fn match_up(&mut self, policy: &Policy, was: &[Limit]) {
        let names: Vec<&str> = was.iter().map(|limit| limit.name.as_str()).collect();
        let mut taken = vec![false; was.len()];
        for (rule, carried) in policy.rules.iter().zip(&mut self.succession.limits) {
            let Some(at) = predecessor(&names, rule).filter(|at| taken.get(*at) == Some(&false)) else { continue };
            taken.iter_mut().skip(at).take(1).for_each(|taken| *taken = true);
            let Some(was) = was.get(at) else { continue };
            let from = (was.name != rule.name).then(|| was.name.clone());
            let same = |(at, numbers): (usize, &String)| {
                let before = match at.checked_sub(1) {
                    None => Some(0),
                    Some(tier) => conditions(rule).get(tier).and_then(|when| was.tier(when)).map(usize::from),
                };
                before.is_none_or(|before| was.numbers.get(before) == Some(numbers))
            };
            carried.fate = match was.identity.changed(&Identity::of(rule, policy)) {
                Some(reset) => Fate::Reset(reset),
                None if numbers(rule).iter().enumerate().all(same) => Fate::Kept { from },
                None => Fate::Rerated { from },
            };
        }
        let left = names.iter().zip(taken).filter(|(_, taken)| !taken);
        self.succession.removed = left.map(|(name, _)| (*name).to_owned()).collect();
    }

    /// Reads the state of the limit that goes on from this one, if there is one; says whether it was read to its end.
    fn read_limit(
        &mut self,
        from: &mut Reader<'_>,
        (policy, numbers, seed): (&Policy, &Numbers<'_>, &Seed),
        was: &Limit,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let goes_on = |carried: &Carried| carried.goes_on_from(&was.name);
        let Some(at) = self.succession.limits.iter().position(goes_on) else { return Ok(false) };
        let Some(rule) = policy.rules.get(at) else { return Ok(false) };
        let tiers: Vec<Option<u8>> =
            std::iter::once(Some(0)).chain(conditions(rule).iter().map(|when| was.tier(when))).collect();
        let moved = Moved { routes: &[], origins: &[], tiers: &tiers, now };
        let made: Result<Result<Limiter, Fault>, OutOfRange> = numbers.with_spec(rule, |spec| {
            let spec = Spec { name: &was.drawn.name, ..*spec };
            Limiter::restore(&spec, &was.drawn.seed(seed), from, &moved)
        });
        match made {
            Ok(Ok(limiter)) => {
                let place = self.limiters.get_mut(at).ok_or(UNREADABLE)?;
                *place = Some((Arc::new(limiter), was.drawn.clone()));
                Ok(true)
            }
            // as it was written, and of no use to this limit
            Ok(Err(Fault::Unfit(_))) | Err(_) => {
                let carried = self.succession.limits.get_mut(at).ok_or(UNREADABLE)?;
                carried.fate = Fate::Reset(Reset::Unfit);
                Ok(false)
            }
            Ok(Err(fault)) => Err(fault),
        }
    }
}

impl Limit {
    /// The tier of this condition, of those from 1 on.
    fn tier(&self, when: &str) -> Option<u8> {
        (1_u8..).zip(&self.tiers).find(|(_, other)| *other == when).map(|(number, _)| number)
    }
}

fn read_held(from: &mut Reader<'_>) -> Result<HeldCells, Fault> {
    let mut cells = || -> Result<Vec<u32>, Fault> {
        let count = usize::try_from(from.number_up_to(MOST_CELLS)?).map_err(|_| UNREADABLE)?;
        let mut cells = vec![0; count];
        restore_cells(from, count, |at, held| {
            cells.iter_mut().skip(at).take(1).for_each(|cell| *cell = u32::try_from(held).unwrap_or(u32::MAX));
        })?;
        Ok(cells)
    };
    Ok(HeldCells { places: cells()?, attempts: cells()? })
}

const UNREADABLE: Fault = Fault::Unfit("the description of the limits cannot be read");
