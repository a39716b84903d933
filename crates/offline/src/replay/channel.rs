//! The channel from the thread that reads to the one that judges, and back for empty batches: no line costs an allocation, and a fixed
//! number of batches at most is on the way.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::line::Parsed;
use super::order::Batch;
use super::record::Record;
use super::source::Piece;
use crate::sketch::bring_near;

/// Requests of a batch, and batches that may wait: few enough for all of them to stay in the nearer caches.
pub const BATCH: usize = 512;
const WAITING: usize = 8;

/// Pieces that are kept for the next text; the system gets back what is beyond.
const SPARE_PIECES: usize = 8;

/// The reader's end.
#[derive(Debug)]
pub struct Sender {
    batches: SyncSender<Batch>,
    pieces: Receiver<Piece>,
    empty: Receiver<Batch>,
}

/// The caller's end.
#[derive(Debug)]
pub struct Batches {
    coming: Receiver<Batch>,
    pieces: SyncSender<Piece>,
    empty: SyncSender<Batch>,
}

/// Both ends.
pub fn channel() -> (Sender, Batches) {
    let (batches, coming) = mpsc::sync_channel(WAITING);
    let (spent_pieces, pieces) = mpsc::sync_channel(SPARE_PIECES);
    let (spent_batches, empty) = mpsc::sync_channel(2 * WAITING);
    (Sender { batches, pieces, empty }, Batches { coming, pieces: spent_pieces, empty: spent_batches })
}

impl Sender {
    /// Sends a batch; `false` when the caller has gone.
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

impl Batches {
    /// The next batch; none after the last.
    pub fn next(&self) -> Option<Batch> {
        self.coming.recv().ok()
    }

    /// Empties a batch for the next. A piece that holds requests of later batches is left to them.
    pub fn give_back(&self, mut batch: Batch) {
        for piece in batch.pieces.drain(..).filter_map(Arc::into_inner) {
            // a reader that has enough, or has ended, needs none
            let _ = self.pieces.try_send(piece.emptied());
        }
        batch.order.clear();
        let _ = self.empty.try_send(batch);
    }
}

/// A request is brought near so many requests before it is looked at: another thread has taken its line apart, so the first touch
/// is dear.
const AHEAD: usize = 12;

impl Batch {
    /// All requests, in their order.
    pub fn requests(&self) -> impl Iterator<Item = Record<'_>> {
        self.order.iter().enumerate().filter_map(|(at, place)| {
            if let Some((_, far)) = self.request(at + 2 * AHEAD) {
                bring_near(far);
                bring_near(&far.path);
            }
            if let Some((piece, near)) = self.request(at + AHEAD)
                && let Some(byte) = piece.text.get(near.path.from())
            {
                bring_near(byte);
            }
            let (piece, parsed) = self.request(at)?;
            let (from, to) = parsed.fields;
            let fields = piece.fields.get(from as usize..to as usize).unwrap_or_default();
            Some(Record::new(place.start, place.late, &piece.text, parsed, fields, &piece.names))
        })
    }

    fn request(&self, at: usize) -> Option<(&Piece, &Parsed)> {
        let place = self.order.get(at)?;
        let piece: &Piece = self.pieces.get(place.piece as usize)?;
        Some((piece, piece.requests.get(place.index as usize)?))
    }
}
