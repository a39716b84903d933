//! What goes from the thread that reads to the one that judges, and back again empty: no line costs an allocation, and there is
//! never more on the way than a fixed number of batches.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::line::Parsed;
use super::order::{Batch, Place};
use super::record::Record;
use super::source::Piece;
use crate::sketch::bring_near;

/// So many requests go from one thread to the other at once, and so many times that many may wait. Few enough for all that is on the
/// way to stay in the nearer caches.
pub const BATCH: usize = 512;
pub const WAITING: usize = 8;

/// So many pieces are kept for the next text; what is held back beyond that is given back to the system.
const SPARE_PIECES: usize = 8;

/// The reader's end.
#[derive(Debug)]
pub struct Belt {
    batches: SyncSender<Batch>,
    pieces: Receiver<Piece>,
    empty: Receiver<Batch>,
}

/// The other end.
#[derive(Debug)]
pub struct Ends {
    /// What comes.
    pub batches: Receiver<Batch>,
    /// Where it goes back.
    pub spent: Spent,
}

/// Takes back what has been seen.
#[derive(Debug)]
pub struct Spent {
    pieces: SyncSender<Piece>,
    empty: SyncSender<Batch>,
}

/// Both ends.
pub fn belt() -> (Belt, Ends) {
    let (batches, coming) = mpsc::sync_channel(WAITING);
    let (spent_pieces, pieces) = mpsc::sync_channel(SPARE_PIECES);
    let (spent_batches, empty) = mpsc::sync_channel(2 * WAITING);
    let spent = Spent { pieces: spent_pieces, empty: spent_batches };
    (Belt { batches, pieces, empty }, Ends { batches: coming, spent })
}

impl Belt {
    /// Hands on; `false` when nobody listens any more.
    pub fn send(&self, batch: Batch) -> bool {
        self.batches.send(batch).is_ok()
    }

    /// An empty piece.
    pub fn piece(&self) -> Piece {
        self.pieces.try_recv().unwrap_or_default()
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        self.empty.try_recv().unwrap_or_default()
    }
}

impl Spent {
    /// Empties a batch for the next. A piece in which other requests stand that have not been seen is left to them.
    pub fn give_back(&self, mut batch: Batch) {
        for piece in batch.pieces.drain(..).filter_map(Arc::into_inner) {
            // who has enough, or has ended, needs none
            let _ = self.pieces.try_send(piece.emptied());
        }
        batch.order.clear();
        let _ = self.empty.try_send(batch);
    }
}

/// A request where it stands. Its line is only looked into when somebody asks: another thread has taken it apart, so the first touch
/// is dear.
#[derive(Debug, Clone, Copy)]
pub struct Logged<'a> {
    place: &'a Place,
    piece: &'a Piece,
    parsed: &'a Parsed,
}

impl<'a> Logged<'a> {
    /// When it began, as [`Record::start`].
    #[inline]
    pub fn start(&self) -> u64 {
        self.place.start
    }

    /// Has brought near what is known of the line.
    #[inline]
    pub fn approach(&self) {
        bring_near(self.parsed);
        bring_near(&self.parsed.path);
    }

    /// Has brought near the middle of the line, after [`Logged::approach`].
    #[inline]
    pub fn approach_text(&self) {
        if let Some(byte) = self.piece.text.get(self.parsed.path.from()) {
            bring_near(byte);
        }
    }

    /// All that its line says.
    #[inline]
    pub fn record(&self) -> Record<'a> {
        let Logged { place, piece, parsed } = *self;
        let (from, to) = parsed.fields;
        let fields = piece.fields.get(from as usize..to as usize).unwrap_or_default();
        Record::new(place.start, place.late, &piece.text, parsed, fields, &piece.names)
    }
}

impl Batch {
    /// All requests, in their order.
    pub fn requests(&self) -> impl Iterator<Item = Logged<'_>> {
        self.order.iter().filter_map(|place| {
            let piece: &Piece = self.pieces.get(place.piece as usize)?;
            let parsed = piece.requests.get(place.index as usize)?;
            Some(Logged { place, piece, parsed })
        })
    }
}
