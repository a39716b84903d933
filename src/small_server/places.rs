//! Places for connections, and which connection loses its place when all are taken.
//!
//! A connection that only waits (for its request, for its client to take the answer or to leave) can lose its place to a new
//! one, the oldest first: connections that do nothing cannot keep anybody out. One whose request is being answered, or
//! whose answer is a stream, keeps its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// It waits, or has only just come.
const WAITING: u8 = 0;
/// It has something to do that must not be cut short.
const BUSY: u8 = 1;
/// It waited, and has to go.
const GOING: u8 = 2;

/// All places of one socket.
#[derive(Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    /// How many want a place and have none.
    wanted: AtomicUsize,
    /// By their age, the oldest first.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_age: BTreeMap<u64, Arc<State>>,
}

#[derive(Debug, Default)]
struct State {
    what: AtomicU8,
    go: Notify,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    age: u64,
    state: Arc<State>,
    places: Arc<Places>,
    _permit: OwnedSemaphorePermit,
}

/// The connection has lost its place, and is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl Places {
    /// So many.
    pub fn new(count: usize) -> Arc<Places> {
        Arc::new(Places { free: Arc::new(Semaphore::new(count)), wanted: AtomicUsize::new(0), taken: Mutex::default() })
    }

    /// A place: a free one, or that of the oldest connection that waits. Waits itself only while every connection is being
    /// answered.
    pub async fn take(self: &Arc<Self>) -> Option<Place> {
        let free = Arc::clone(&self.free);
        let permit = match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                // SeqCst, as in `waiting`: one of the two sees the other
                self.wanted.fetch_add(1, Ordering::SeqCst);
                let _wanted = Wanted(&self.wanted);
                self.send_one_away();
                // never closed
                free.acquire_owned().await.ok()?
            }
        };
        let state = Arc::new(State::default());
        let mut taken = self.taken.lock();
        let age = taken.next;
        taken.next += 1;
        taken.by_age.insert(age, Arc::clone(&state));
        drop(taken);
        Some(Place { age, state, places: Arc::clone(self), _permit: permit })
    }

    fn send_one_away(&self) {
        let taken = self.taken.lock();
        let turn = |state: &&Arc<State>| {
            state.what.compare_exchange(WAITING, GOING, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        if let Some(state) = taken.by_age.values().find(turn) {
            state.go.notify_one();
        }
    }

    /// Returns when all of these `count` places are free.
    pub async fn all_free(&self, count: usize) {
        let _ = self.free.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
    }
}

impl Place {
    /// Waits for `what`, ready to lose the place meanwhile.
    ///
    /// # Errors
    /// The place is lost.
    pub async fn waiting<T>(&self, what: impl Future<Output = T>) -> Result<T, Lost> {
        let turn = |from, to| self.state.what.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed);
        if turn(BUSY, WAITING).is_ok() && self.places.wanted.load(Ordering::SeqCst) > 0 {
            // it came when all were busy
            self.places.send_one_away();
        }
        let done = tokio::select! {
            biased;
            done = what => done,
            () = self.state.go.notified() => return Err(Lost),
        };
        turn(WAITING, BUSY).map_err(|_| Lost)?;
        Ok(done)
    }
}

/// Counts one that wants a place for as long as it is there.
struct Wanted<'p>(&'p AtomicUsize);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().by_age.remove(&self.age);
    }
}
