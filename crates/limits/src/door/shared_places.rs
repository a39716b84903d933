//! [`Places`] between threads.
//!
//! While nobody waits, a place is taken and given back by an exchange of one word (*open*): the number that is held, beside who holds it in
//! a cell, if one is free. Whoever finds no place makes the door *busy* under its lock, counts what is held for those who hold it, and waits.
//! While it is busy all go through the lock; when nobody has waited for a while, it opens again. There are as many cells as there were places
//! at first: of places that were added later, those beyond the cells are named under the lock.
//!
//! A waiter is answered under the lock and woken when the lock is free again. One that is dropped looks what became of it first: a place that was
//! given to it meanwhile goes to the next.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use super::line::{Asks, Standing, Ticket};
use super::nodes::{LEVELS, Label, Path};
use super::outcomes::{Outcome, Outcomes};
use super::places::{Arrived, PlaceId, Places, PlacesSpec};
use super::reserved::Reserved;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::units::{Bytes, Criticality, Timestamp};

/// The door to an origin's places.
#[derive(Debug)]
pub struct PlaceDoor {
    /// Busy (1 bit), places there are (31), places held (32). While it is open anybody exchanges it; while it is busy only who has the lock.
    word: AtomicU64,
    /// The places that each class leaves free, as [`Reserved::word`] writes them. Relaxed: it says nothing of what else is in memory.
    reserved: AtomicU64,
    cells: OnceLock<Box<[Cell]>>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    places: Places,
    outcomes: Outcomes<PlaceId>,
    /// The place that each cell holds in its own name since it was counted.
    counted: Vec<Option<PlaceId>>,
    /// Whether each cell that is taken was counted for its holder.
    all_counted: bool,
    /// Whether somebody sees to [`PlaceDoor::tick`].
    ticking: bool,
    /// The latest time that was told.
    now: Timestamp,
}

/// A place that was taken while the door was open, and by whom.
#[derive(Debug, Default)]
struct Cell {
    state: AtomicU32,
    path: [AtomicU64; LEVELS],
    /// Nanoseconds, and in the two highest bits the class.
    since: AtomicU64,
    label: [AtomicU64; 3],
    /// The bits of a number.
    weight: AtomicU32,
}

/// Nanoseconds of 146 years.
const SINCE: u64 = (1 << 62) - 1;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const TAKEN: u32 = 2;
/// Its holder's nodes count it: it is given back under the lock.
const COUNTED: u32 = 3;

const BUSY: u64 = 1 << 63;
const MOST: u32 = PlacesSpec::UNCAPPED;

/// Places beyond so many are taken in nobody's name while the door is open.
const MOST_CELLS: u32 = 16_384;

/// The door opens when nobody has waited for so long: not sooner, as looking through the cells costs a microsecond.
const QUIET: Duration = Duration::from_millis(100);

/// A place at the door that gave it. It is given back once, by [`PlaceDoor::give_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place that is not given back is lost"]
pub struct Place(Way);

#[derive(Debug, PartialEq, Eq)]
enum Way {
    Cell(u32),
    Named(PlaceId),
    Nobodys,
}

/// What became of a request on its arrival.
#[derive(Debug)]
pub enum Entry {
    /// It may go on.
    Given(Place),
    /// It waits. `tick`: from now on the caller is to see to [`PlaceDoor::tick`].
    Waits {
        /// To be awaited.
        waiting: Waiting,
        /// Whether nobody else sees to the time.
        tick: bool,
    },
    /// There is no room to wait.
    NoRoom,
}

impl PlaceDoor {
    /// An empty door. With [`PlacesSpec::UNCAPPED`] places it only counts.
    pub fn new(spec: PlacesSpec) -> Arc<PlaceDoor> {
        let door = PlaceDoor {
            word: AtomicU64::new(0),
            reserved: AtomicU64::new(spec.reserved.word()),
            cells: OnceLock::new(),
            inner: Mutex::new(Inner {
                outcomes: Outcomes::new(spec.queue as usize + 1),
                places: Places::new(spec),
                counted: Vec::new(),
                all_counted: false,
                ticking: false,
                now: Timestamp::ZERO,
            }),
        };
        door.allot(&mut door.inner.lock());
        door.publish(&mut door.inner.lock());
        Arc::new(door)
    }

    /// Makes cells, the first time that there is a number of places.
    fn allot(&self, inner: &mut Inner) {
        let most = inner.places.spec().most;
        if most < PlacesSpec::UNCAPPED {
            let cells = self.cells.get_or_init(|| (0..most.min(MOST_CELLS)).map(|_| Cell::default()).collect());
            inner.counted.resize(cells.len(), None);
        }
    }

    fn cells(&self) -> &[Cell] {
        self.cells.get().map_or(&[], AsRef::as_ref)
    }

    /// How many places are taken.
    pub fn held(&self) -> u32 {
        held(self.word.load(Ordering::Relaxed))
    }

    /// How many places there are.
    pub fn max(&self) -> u32 {
        max(self.word.load(Ordering::Relaxed))
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        let inner = self.inner.lock();
        let cells = self.cells().len() * (size_of::<Cell>() + size_of::<Option<PlaceId>>());
        Bytes(inner.places.memory().0 + (inner.outcomes.memory() + cells) as u64)
    }

    /// Reads the numbers of those who hold and wait.
    pub fn look<R>(&self, look: impl FnOnce(&Places) -> R) -> R {
        look(&self.inner.lock().places)
    }

    /// The same, after all that hold a place were counted. While nobody waits that makes each of them give its place back under the lock.
    pub fn look_at_all<R>(&self, now: Timestamp, look: impl FnOnce(&Places) -> R) -> R {
        self.locked(now, |inner, _| {
            self.count(inner);
            look(&inner.places)
        })
    }

    /// A request has come: it takes a place at once if nobody waits and one is free.
    pub fn arrive(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> Entry {
        match self.take(asks, now) {
            Some(place) => Entry::Given(place),
            None => self.queue(asks, now),
        }
    }

    /// A place, while the door is open.
    fn take(&self, asks: &Asks, now: Timestamp) -> Option<Place> {
        let Asks { path, weight, criticality, label } = asks;
        let reserved = Reserved::from_word(self.reserved.load(Ordering::Relaxed));
        // Acquire and release: who takes a place that another gave back sees its cell free
        let leaves = |max: u32| reserved.before(*criticality, max);
        let free = |word: u64| {
            (word & BUSY == 0 && held(word).saturating_add(leaves(max(word))) < max(word)).then(|| word + 1)
        };
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, free).ok()?;
        let cells = self.cells();
        let [key, ..] = path.0;
        let first = key.unwrap_or_default() as usize % cells.len().max(1);
        let (before, from) = cells.split_at_checked(first)?;
        for (cell, at) in from.iter().zip(first..).chain(before.iter().zip(0..)) {
            // a look costs less than an exchange that fails
            if cell.state.load(Ordering::Relaxed) != FREE
                || cell.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                continue;
            }
            for (word, hash) in cell.path.iter().zip(path.0) {
                word.store(hash.unwrap_or_default(), Ordering::Relaxed);
            }
            for (word, part) in cell.label.iter().zip(label.0) {
                word.store(part, Ordering::Relaxed);
            }
            cell.weight.store(weight.to_bits(), Ordering::Relaxed);
            cell.since.store(now.nanos() & SINCE | (*criticality as u64) << 62, Ordering::Relaxed);
            // Release: who counts it reads what was written
            cell.state.store(TAKEN, Ordering::Release);
            return Some(Place(Way::Cell(at as u32)));
        }
        if cells.len() < self.max().min(MOST_CELLS) as usize {
            // a reload has added places: those beyond the cells are named at once
            return Some(Place(Way::of(self.locked(now, |inner, now| inner.places.adopt(asks, now, now)))));
        }
        Some(Place(Way::Nobodys))
    }

    fn queue(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> Entry {
        self.locked(now, |inner, now| {
            self.count(inner);
            let outcomes = &mut inner.outcomes;
            match inner.places.arrive(asks, now, &mut |act| outcomes.note(act)) {
                Arrived::Given(place) => Entry::Given(Place(Way::of(place))),
                Arrived::NoRoom => Entry::NoRoom,
                Arrived::Waits(ticket) => {
                    let outcome = outcomes.begin(ticket);
                    let tick = !std::mem::replace(&mut inner.ticking, true);
                    Entry::Waits { waiting: Waiting { door: Arc::clone(self), ticket, outcome, over: false }, tick }
                }
            }
        })
    }

    /// A place is given back, after the end of the origin's work. The time is asked for only where somebody may wait.
    pub fn give_back(&self, place: Place, now: impl FnOnce() -> Timestamp) {
        let cell = match place.0 {
            Way::Cell(at) => self.cells().get(at as usize).zip(Some(at as usize)),
            Way::Named(_) | Way::Nobodys => None,
        };
        // AcqRel: who takes the cell next writes after this, and who counted it is seen
        let uncounted = |(cell, _): &(&Cell, usize)| {
            cell.state.compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let counted = cell.filter(|cell| !uncounted(cell));
        let named = match place.0 {
            Way::Named(place) => Some(place),
            Way::Cell(_) | Way::Nobodys => None,
        };
        let open = |word: u64| (word & BUSY == 0).then(|| word.saturating_sub(1));
        if counted.is_none()
            && named.is_none()
            && self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, open).is_ok()
        {
            return;
        }
        self.locked(now(), |inner, now| {
            let place = counted.map_or(named, |(cell, at)| {
                let place = inner.counted.get_mut(at).and_then(Option::take);
                // Release: who takes the cell next finds it uncounted
                cell.state.store(FREE, Ordering::Release);
                place
            });
            let outcomes = &mut inner.outcomes;
            inner.places.give_back(place.unwrap_or(PlaceId::NOBODYS), now, &mut |act| outcomes.note(act));
        });
    }

    /// The holder of this place keeps the origin waiting: gives it back if somebody who waits is owed it, after a `long` time anybody who
    /// holds nothing. Costs a lock where somebody waits.
    ///
    /// # Errors
    /// The place, which stays the holder's.
    pub fn give_way(&self, place: Place, long: bool, now: impl FnOnce() -> Timestamp) -> Result<(), Place> {
        if self.word.load(Ordering::Relaxed) & BUSY == 0 {
            return Err(place);
        }
        self.locked(now(), |inner, now| {
            self.count(inner);
            let id = match place.0 {
                Way::Cell(at) => inner.counted.get(at as usize).copied().flatten(),
                Way::Named(place) => Some(place),
                Way::Nobodys => None,
            };
            let Some(id) = id.filter(|id| inner.places.gives_way(*id, long)) else { return Err(place) };
            if let Way::Cell(at) = place.0
                && let (Some(cell), Some(counted)) = (self.cells().get(at as usize), inner.counted.get_mut(at as usize))
            {
                *counted = None;
                // Release: who takes the cell next finds it uncounted
                cell.state.store(FREE, Ordering::Release);
            }
            let outcomes = &mut inner.outcomes;
            inner.places.give_back(id, now, &mut |act| outcomes.note(act));
            Ok(())
        })
    }

    /// Time has passed. Says when to look again; `None` when nobody waits, after which the caller need see to nothing.
    pub fn tick(&self, now: Timestamp) -> Option<Duration> {
        self.locked(now, |inner, now| {
            let outcomes = &mut inner.outcomes;
            inner.places.tick(now, &mut |act| outcomes.note(act));
            inner.ticking = inner.places.line().waiting() > 0;
            inner.ticking.then_some(Places::LOOK_AGAIN)
        })
    }

    /// Another number of places from now on. Requests that hold more go on to their end.
    pub fn set_max(&self, max: u32, now: Timestamp) {
        self.locked(now, |inner, now| {
            let outcomes = &mut inner.outcomes;
            inner.places.set_max(max.min(MOST), now, &mut |act| outcomes.note(act));
        });
    }

    /// Other words, and another number of places from now on. Those who hold and who wait stay, and what was used is remembered.
    pub fn follow(&self, spec: PlacesSpec, max: u32, now: Timestamp) {
        self.locked(now, |inner, now| {
            inner.outcomes.grow(spec.queue as usize + 1);
            self.reserved.store(spec.reserved.word(), Ordering::Relaxed);
            let outcomes = &mut inner.outcomes;
            inner.places.follow(spec, max.min(MOST), now, &mut |act| outcomes.note(act));
            self.allot(inner);
        });
    }

    /// Does something under the lock, while nobody takes or gives without it.
    fn locked<R>(&self, now: Timestamp, work: impl FnOnce(&mut Inner, Timestamp) -> R) -> R {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.now = inner.now.max(now);
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| Some(word | BUSY));
        inner.places.set_held(held(word.unwrap_or_else(|word| word)));
        let result = work(inner, inner.now);
        self.publish(inner);
        let woken = inner.outcomes.woken();
        drop(guard);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }

    /// Counts each place that was taken while the door was open for who holds it.
    fn count(&self, inner: &mut Inner) {
        if std::mem::replace(&mut inner.all_counted, true) {
            return;
        }
        for (cell, counted) in self.cells().iter().zip(&mut inner.counted) {
            if cell.state.compare_exchange(TAKEN, COUNTED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // not written yet, or given back: its place is in nobody's name
                continue;
            }
            let path = Path(std::array::from_fn(|level| {
                cell.path.get(level).map(|hash| hash.load(Ordering::Relaxed)).filter(|hash| *hash != 0)
            }));
            let label = Label(cell.label.each_ref().map(|word| word.load(Ordering::Relaxed)));
            let since = cell.since.load(Ordering::Relaxed);
            let criticality = Criticality::ALL.get((since >> 62) as usize).copied().unwrap_or_default();
            let weight = f32::from_bits(cell.weight.load(Ordering::Relaxed));
            let asks = Asks { path, weight, criticality, label };
            *counted = Some(inner.places.adopt(&asks, Timestamp::from_nanos(since & SINCE), inner.now));
        }
    }

    /// Tells what is held, and whether it may be taken without the lock.
    fn publish(&self, inner: &mut Inner) {
        let places = &inner.places;
        let open = places.is_quiet() && inner.now.since(places.waited()) >= QUIET;
        inner.all_counted &= !open;
        let busy = if open { 0 } else { BUSY };
        let word = busy | u64::from(places.max().min(MOST)) << 32 | u64::from(places.held());
        self.word.store(word, Ordering::Release);
    }
}

fn held(word: u64) -> u32 {
    word as u32
}

fn max(word: u64) -> u32 {
    (word >> 32) as u32 & MOST
}

impl Way {
    fn of(place: PlaceId) -> Way {
        if place == PlaceId::NOBODYS { Way::Nobodys } else { Way::Named(place) }
    }
}

/// A request that waits for a place. Dropping it takes it out of the line.
#[derive(Debug)]
#[must_use = "who does not wait is dropped out of the line"]
pub struct Waiting {
    door: Arc<PlaceDoor>,
    ticket: Ticket,
    outcome: Arc<Outcome<PlaceId>>,
    over: bool,
}

impl Future for Waiting {
    type Output = Result<Place, Standing>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.outcome.poll(context);
        self.over = outcome.is_ready();
        outcome.map_ok(|place| Place(Way::of(place)))
    }
}

impl Waiting {
    /// Its time is over.
    ///
    /// # Errors
    /// How it stood, unless it was given a place meanwhile.
    pub fn give_up(&mut self, now: Timestamp) -> Result<Place, Standing> {
        let (ticket, outcome) = (self.ticket, Arc::clone(&self.outcome));
        self.over = true;
        self.door.locked(now, |inner, now| {
            if let Some(answer) = outcome.answer() {
                return answer.map(|place| Place(Way::of(place)));
            }
            let outcomes = &mut inner.outcomes;
            outcomes.forget(ticket);
            Err(inner.places.leave(ticket, now, &mut |act| outcomes.note(act)).unwrap_or_default())
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let now = self.door.inner.lock().now;
        if let Ok(place) = self.give_up(now) {
            self.door.give_back(place, || now);
        }
    }
}
