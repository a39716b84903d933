//! Bounds the decisions that are kept for long, for each client and each limit, so that a flood does not replace others.
//!
//! Two questions, each answered by a token bucket. *The limit's* part of the ring: what all limits may write in
//! [`KEPT_FOR`] together is the ring once round, so nothing in it is overwritten sooner. *The client's* own number: [`WHOLE`]
//! decisions, then one in every [`PERIOD`]; [`WHOLE_IN_A_CROWD`] once half of the limit's part is used, so that a thousand
//! clients that flood one limit leave room for one that does not.
//!
//! Clients are counted in a [`MonotoneTable`], which is never too low: a collision keeps fewer decisions of a client, no
//! flood keeps more.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::saved::{Fault, Reader, Writer, restore_cells, save_cells};
use crate::sketch::{Admission, Bucket, Cell, KeyHasher, Meter, MonotoneTable, Seed, monotone};
use crate::units::{Bytes, Cost, Rate, Timestamp};

/// What was kept is there for at least this long.
pub const KEPT_FOR: Duration = Duration::from_secs(600);

/// So many decisions of one client are kept whole.
pub const WHOLE: u32 = 16;

/// So many where half of the limit's part is used.
pub const WHOLE_IN_A_CROWD: u32 = 4;

/// And one more in each of these.
pub const PERIOD: Duration = Duration::from_secs(120);

/// The memory of the clients' counts.
pub const CLIENTS_MEMORY: Bytes = Bytes(128 << 10);

/// Counts of limits; those of a policy with more limits share some.
pub const LIMITS: usize = 256;

/// Whose part of the ring a decision is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The limit at this position, of so many: the first that objected.
    Limit(usize, usize),
    /// A refusal without a limit, such as that no route takes the request.
    Unlimited,
    /// The sample of what no limit objected to.
    Sample,
}

impl Part {
    /// Its count, and how many slots it may use at once, and again in [`KEPT_FOR`]. Limits have three quarters of the ring in
    /// equal parts; the others an eighth each. Half of a part is for the burst, and half for what comes after.
    fn bucket(self, slots: usize) -> (usize, usize) {
        match self {
            Part::Limit(at, of) => (at % LIMITS, slots * 3 / 8 / of.clamp(1, LIMITS)),
            Part::Unlimited => (LIMITS, slots / 16),
            Part::Sample => (LIMITS + 1, slots / 16),
        }
    }
}

/// What of their budgets clients and limits have used.
pub struct Budget {
    /// Slots of the ring.
    slots: usize,
    clients: Option<MonotoneTable>,
    parts: Box<[AtomicU64]>,
}

impl Budget {
    /// Nothing is used; for a ring of so many slots.
    pub fn new(slots: usize) -> Budget {
        Budget {
            slots,
            // a power of two: there is one
            clients: MonotoneTable::with_memory(CLIENTS_MEMORY).ok(),
            parts: (0..LIMITS + 2).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Takes `cost` slots for a decision about `client`, or says that the budget of one of the two is used up.
    pub fn take(&self, client: &[u8; 16], part: Part, cost: Cost, now: Timestamp) -> bool {
        self.taken(client, part, cost, now).unwrap_or(false)
    }

    /// Writes what limits have used: with it, what another process remembers stays as long as here.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>) -> io::Result<()> {
        save_cells(to, self.parts.iter().map(Cell::load))
    }

    /// Goes on from what was [saved](Budget::save), by stamps of the same axis.
    ///
    /// # Errors
    /// A damaged stream.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        restore_cells(from, self.parts.len(), |at, used| {
            if let Some(part) = self.parts.get(at) {
                part.store(used, Ordering::Release);
            }
        })
    }

    fn taken(&self, client: &[u8; 16], part: Part, cost: Cost, now: Timestamp) -> Option<bool> {
        let (at, room) = part.bucket(self.slots);
        let cell = self.parts.get(at)?;
        let room = u32::try_from(room).ok()?;
        let of_part = Bucket::new(Rate::new(room, KEPT_FOR).ok()?, room).ok()?;
        let used = Cell::load(cell);
        if of_part.admit(used, now, cost).is_none() {
            return Some(false);
        }
        let whole = if of_part.outlook(used, now).0 <= room / 2 { WHOLE_IN_A_CROWD } else { WHOLE };
        let of_client = Bucket::new(Rate::new(1, PERIOD).ok()?, whole).ok()?;
        // a pseudonym: nobody without the secret can choose two that collide
        let mut key = KeyHasher::new(&Seed::from_bytes([0; 16]));
        key.part(0, client);
        let admitted = |admission| matches!(admission, Admission::Admitted { .. });
        Some(
            admitted(self.clients.as_ref()?.admit(&of_client, key.finish(), now, Cost::ONE))
                && admitted(monotone::admit([cell], &of_part, now, cost)),
        )
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("slots", &self.slots).finish_non_exhaustive()
    }
}
