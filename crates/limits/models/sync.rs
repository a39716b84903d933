//! `tidegate_limits::sync` on loom's words, each of whose orderings can be taken away for a while.
//!
//! [`weakened`] runs a model as if one place of the source said `Relaxed`, or had no fence. A model that passes nevertheless
//! does not need that ordering, or cannot see what needs it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;

/// A line of the product that orders something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// From the root of the repository.
    pub file: &'static str,
    pub line: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Which half of an ordering is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Acquire,
    Release,
    Fence,
}

thread_local! {
    /// Loom runs all threads of a model on one of the machine's.
    static WEAK: RefCell<Option<(Site, Without)>> = const { RefCell::new(None) };
    static STEPWISE: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<BTreeMap<Site, Vec<Without>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Runs a model with this half of this ordering taken away.
pub fn weakened<R>(site: Site, without: Without, run: impl FnOnce() -> R) -> R {
    WEAK.set(Some((site, without)));
    let result = run();
    WEAK.set(None);
    result
}

/// What `run` ordered, and where.
pub fn orderings(run: impl FnOnce()) -> BTreeMap<Site, Vec<Without>> {
    SEEN.take();
    run();
    SEEN.take()
}

loom::lazy_static! {
    static ref STEPS: atomic::AtomicU32 = atomic::AtomicU32::new(0);
}

/// Runs a model in small steps. Loom looks for a race with the latest access to a word only, so a thread that reads a word before it
/// writes it hides its write from earlier readers; a relaxed step on a word of everybody's before each access shows all orders,
/// and orders nothing itself.
pub fn stepwise(run: impl FnOnce()) {
    STEPWISE.set(true);
    run();
    STEPWISE.set(false);
}

fn step() {
    if STEPWISE.get() {
        STEPS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether this half of the caller's ordering stands.
#[track_caller]
fn stands(half: Without) -> bool {
    let caller = Location::caller();
    let file = caller.file().split_once("src/").map_or(caller.file(), |(_, file)| file);
    let site = Site { file, line: caller.line() };
    SEEN.with_borrow_mut(|seen| {
        let halves = seen.entry(site).or_default();
        if !halves.contains(&half) {
            halves.push(half);
        }
    });
    WEAK.with_borrow(|weak| *weak != Some((site, half)))
}

#[track_caller]
fn order(asked: Ordering) -> Ordering {
    let acquires = matches!(asked, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) && stands(Without::Acquire);
    let releases = matches!(asked, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) && stands(Without::Release);
    match (acquires, releases) {
        // loom has no order of all `SeqCst` accesses, only of its fences
        (true, true) => Ordering::AcqRel,
        (true, false) => Ordering::Acquire,
        (false, true) => Ordering::Release,
        (false, false) => Ordering::Relaxed,
    }
}

/// As [`std::sync::atomic::fence`].
#[track_caller]
pub fn fence(asked: Ordering) {
    if stands(Without::Fence) {
        atomic::fence(asked);
    }
}

macro_rules! words {
    ($($name:ident: $value:ty),*) => {$(
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, asked: Ordering) -> $value {
                step();
                // a load releases nothing
                let acquires = order(asked) != Ordering::Relaxed && asked != Ordering::Relaxed;
                self.0.load(if acquires { Ordering::Acquire } else { Ordering::Relaxed })
            }

            #[track_caller]
            pub fn store(&self, value: $value, asked: Ordering) {
                step();
                self.0.store(value, order(asked));
            }

            #[track_caller]
            pub fn swap(&self, value: $value, asked: Ordering) -> $value {
                step();
                self.0.swap(value, order(asked))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self, from: $value, to: $value, asked: Ordering, failed: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(from, to, order(asked), order(failed))
            }

            #[track_caller]
            pub fn fetch_update(
                &self, asked: Ordering, failed: Ordering, change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                step();
                self.0.fetch_update(order(asked), order(failed), change)
            }
        }
    )*};
}

words! { AtomicBool: bool, AtomicU32: u32, AtomicU64: u64 }

/// So many words at zero: each of loom's is made on its own.
pub fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::default()).collect()
}

macro_rules! numbers {
    ($($name:ident: $value:ty),*) => {$(
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, value: $value, asked: Ordering) -> $value {
                step();
                self.0.fetch_add(value, order(asked))
            }

            #[track_caller]
            pub fn fetch_sub(&self, value: $value, asked: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, order(asked))
            }

            #[track_caller]
            pub fn fetch_min(&self, value: $value, asked: Ordering) -> $value {
                step();
                self.0.fetch_min(value, order(asked))
            }

            #[track_caller]
            pub fn fetch_max(&self, value: $value, asked: Ordering) -> $value {
                step();
                self.0.fetch_max(value, order(asked))
            }
        }
    )*};
}

numbers! { AtomicU32: u32, AtomicU64: u64 }

/// A list that is replaced whole, as [arc-swap] promises it: who loads a list sees what was done before it was stored, and every
/// thread sees the lists in one order. Nothing else is ordered by it.
///
/// [arc-swap]: https://docs.rs/arc-swap
#[derive(Debug)]
pub struct ArcSwap<T> {
    newest: atomic::AtomicU32,
    versions: std::sync::Mutex<Vec<Arc<T>>>,
}

impl<T: Default> Default for ArcSwap<T> {
    fn default() -> Self {
        ArcSwap { newest: atomic::AtomicU32::new(0), versions: std::sync::Mutex::new(vec![Arc::default()]) }
    }
}

impl<T> ArcSwap<T> {
    pub fn load(&self) -> Arc<T> {
        let number = self.newest.load(Ordering::Acquire);
        self.versions.lock().unwrap()[number as usize].clone()
    }

    pub fn store(&self, list: Arc<T>) {
        let number = {
            let mut versions = self.versions.lock().unwrap();
            versions.push(list);
            versions.len() as u32 - 1
        };
        self.newest.swap(number, Ordering::AcqRel);
    }
}

/// As parking_lot's.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}
