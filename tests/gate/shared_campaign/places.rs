//! Places of requests under way, of the campaign's keys: how many were taken at once at all gates, as the origin saw it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Event, Ground};
use crate::harness::client::request;
use crate::harness::shared::GATES;
use crate::harness::{Connection, wait_for};

/// How many requests of a key may be under way.
pub const MAX: usize = 2;
/// Clients that want a place, at each gate: all of them together want more than an emptied store may lend.
pub const CLIENTS: usize = 2;
const _: () = assert!(GATES * CLIENTS > 2 * MAX);

pub const LIMIT: &str = "  places: { type: inflight, key: header:x-key, missing: deny, store: shared, memory: 256KiB, max: 2, \
                         on_store_error: closed }\n";

/// How long a request keeps its place.
const HELD: Duration = Duration::from_millis(30);

/// Those of one key, at the origin.
#[derive(Default)]
pub struct Places {
    taken: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Places {
    /// A request of the key at the origin.
    pub fn hold(&self) {
        let taken = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(taken, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(HELD);
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Waits until places are lent again.
    pub fn are_lent(&self) {
        let before = self.all.load(Ordering::SeqCst);
        wait_for("a place", || (self.all.load(Ordering::SeqCst) > before).then_some(()));
    }
}

/// At most so many requests of a key are under way, whatever happens.
pub fn most(event: Event) -> usize {
    match event {
        // the store has forgotten which ones it lent
        Event::Emptied | Event::FailedOver => 2 * MAX,
        Event::Killed | Event::Restarted | Event::Upgraded => MAX,
    }
}

/// One key's places for each key of the campaign.
pub fn of_keys(count: usize) -> Arc<[Places]> {
    (0..count).map(|_| Places::default()).collect()
}

/// A client of one gate that wants a place all the time.
pub fn want(ground: &Ground, gate: usize) {
    while !ground.stop.load(Ordering::SeqCst) {
        let in_trouble = ground.trouble.load(Ordering::SeqCst);
        let Some(to) = ground.gates.lock().unwrap()[gate] else { continue };
        let lines = format!("Host: a\r\nConnection: close\r\nx-key: {}\r\n", ground.key.load(Ordering::SeqCst));
        let answer = Connection::try_open(to).and_then(|mut connection| {
            connection.send(&request("GET", "/places", &lines, b""))?;
            connection.answer_to("GET")
        });
        ground.asked.fetch_add(1, Ordering::SeqCst);
        match answer.map(|answer| answer.status) {
            Ok(200) => {}
            Ok(429) => std::thread::sleep(HELD / 2),
            Ok(503) => {
                ground.closed.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(HELD / 2);
            }
            _ if in_trouble || ground.trouble.load(Ordering::SeqCst) => std::thread::sleep(HELD / 2),
            _ => {
                ground.failed.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}
