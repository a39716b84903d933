//! Puts requests in the order in which they began. Servers log a request at its end, and some deliver lines late: a line may
//! come after others that began later. Requests are held back for a window of log time, in a bucket for every second.
//!
//! What is held is bounded by the text that it stands in; beyond that the window is cut short, and that is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::source::Piece;
use super::stamp::SECOND;

/// So much text is held back at most.
const MOST_HELD: usize = 256 << 20;

/// The room of so many seconds is kept for others.
const SPARE: usize = 64;

/// Requests whose order is settled.
#[derive(Debug, Default)]
pub struct Batch {
    /// What they stand in.
    pub pieces: Vec<Arc<Piece>>,
    /// Which come in which order.
    pub order: Vec<Place>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// When it began.
    pub start: u64,
    /// Which piece it stands in: in a batch its position there.
    pub piece: u32,
    /// Its position in the piece.
    pub index: u32,
    /// It came too late to be put in order, and has the time of what was given last.
    pub late: bool,
}

/// The calendar.
#[derive(Debug)]
pub struct Calendar {
    window: u64,
    seconds: BTreeMap<u64, Vec<Place>>,
    /// Room of seconds that are over, for those that come.
    spare: Vec<Vec<Place>>,
    /// Pieces that somebody still stands in; the first has number `gone`.
    pieces: VecDeque<Held>,
    gone: u32,
    held: usize,
    /// Everything before this has been given.
    given: u64,
    /// Requests that came too late.
    pub late: u64,
    /// The window was cut short for want of room.
    pub shortened: bool,
}

#[derive(Debug)]
struct Held {
    piece: Arc<Piece>,
    left: usize,
}

impl Calendar {
    /// With a window of so many nanoseconds.
    pub fn new(window: u64) -> Calendar {
        Calendar {
            window,
            seconds: BTreeMap::new(),
            spare: Vec::new(),
            pieces: VecDeque::new(),
            gone: 0,
            held: 0,
            given: 0,
            late: 0,
            shortened: false,
        }
    }

    /// Takes in what a piece says.
    pub fn add(&mut self, piece: Piece) {
        if piece.requests.is_empty() {
            return;
        }
        let number = self.gone.wrapping_add(self.pieces.len() as u32);
        let (mut second, mut open) = (u64::MAX, Vec::new());
        for (request, index) in piece.requests.iter().zip(0_u32..) {
            let late = request.start < self.given;
            self.late += u64::from(late);
            let start = request.start.max(self.given);
            if start / SECOND != second {
                self.close(second, open);
                second = start / SECOND;
                open = self.seconds.remove(&second).or_else(|| self.spare.pop()).unwrap_or_default();
            }
            open.push(Place { start, piece: number, index, late });
        }
        self.close(second, open);
        self.held += piece.text.len();
        self.pieces.push_back(Held { left: piece.requests.len(), piece: Arc::new(piece) });
    }

    fn close(&mut self, second: u64, places: Vec<Place>) {
        if !places.is_empty() {
            self.seconds.insert(second, places);
        }
    }

    /// Moves what is settled into `batch`, as no line will be put before the window's length ahead of `reached`, the time that
    /// all logs have come to. `false` when nothing more is settled; more may be left when the batch is full.
    pub fn settle(&mut self, reached: u64, batch: &mut Batch) -> bool {
        let until = reached.saturating_sub(self.window);
        let Some(first) = self.seconds.first_entry() else { return false };
        let end = first.key().saturating_add(1).saturating_mul(SECOND);
        if end > until && self.held <= MOST_HELD {
            return false;
        }
        self.shortened |= end > until && reached < u64::MAX;
        let mut places = first.remove();
        self.given = self.given.max(end);
        self.give(&mut places, batch);
        places.clear();
        if self.spare.len() < SPARE {
            self.spare.push(places);
        }
        true
    }

    fn give(&mut self, places: &mut [Place], batch: &mut Batch) {
        // the lines of one instant stay as they are in the log
        places.sort_by_key(|place| place.start);
        let mut known = None;
        for place in &*places {
            let number = place.piece;
            let slot = match known {
                Some((same, slot)) if same == number => slot,
                _ => self.slot(number, batch),
            };
            known = Some((number, slot));
            batch.order.push(Place { piece: slot, ..*place });
            if let Some(held) = self.pieces.get_mut(number.wrapping_sub(self.gone) as usize) {
                held.left = held.left.saturating_sub(1);
            }
        }
        while self.pieces.front().is_some_and(|held| held.left == 0)
            && let Some(held) = self.pieces.pop_front()
        {
            self.gone = self.gone.wrapping_add(1);
            self.held = self.held.saturating_sub(held.piece.text.len());
        }
    }

    /// The position in the batch of the piece of this number.
    fn slot(&self, number: u32, batch: &mut Batch) -> u32 {
        let Some(held) = self.pieces.get(number.wrapping_sub(self.gone) as usize) else { return u32::MAX };
        // most stand in the last few
        let known = batch.pieces.iter().rposition(|piece| Arc::ptr_eq(piece, &held.piece));
        let slot = known.unwrap_or_else(|| {
            batch.pieces.push(Arc::clone(&held.piece));
            batch.pieces.len() - 1
        });
        slot as u32
    }
}
