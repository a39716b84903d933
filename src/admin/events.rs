//! Streams of events: answers that go on until the client leaves or the process stops.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::small_server::Answer;

/// So many streams may be open; one more is answered 503.
pub const MOST_STREAMS: usize = 16;

/// Pieces that a client may be behind before [`Events::send`] waits for it.
const BEHIND: usize = 16;

/// One place for each stream that may be open.
#[derive(Debug)]
pub struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Streams {
        Streams(Arc::new(Semaphore::new(MOST_STREAMS)))
    }
}

impl Streams {
    /// Begins a stream: the answer is for the client, the sending end for whoever feeds it, in a task of its own.
    ///
    /// # Errors
    /// There are too many already; the answer says so.
    pub fn begin(&self) -> Result<(Events, Answer), Answer> {
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else {
            let why = format!("{MOST_STREAMS} streams are open already");
            return Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        let (pieces, read) = mpsc::channel(BEHIND);
        Ok((Events { pieces, _place: place }, Answer::events(read)))
    }
}

/// The sending end of a stream. It takes one of the [`MOST_STREAMS`] places until it is dropped, which ends the stream.
#[derive(Debug)]
pub struct Events {
    pieces: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

/// The client has left, or the process stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl Events {
    /// Sends one or more whole events, each ending in an empty line. Waits for a client that is behind.
    ///
    /// # Errors
    /// There is nobody to send to.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Gone> {
        self.pieces.send(piece.into()).await.map_err(|_| Gone)
    }

    /// Returns when there is nobody to send to any more.
    pub async fn gone(&self) {
        self.pieces.closed().await;
    }
}
