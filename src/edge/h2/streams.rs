//! The streams of one connection: what they have in common, and what one of them shows the gate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use http::Extensions;
use tokio::sync::Notify;

use crate::edge::client_side::ClientSide;
use crate::edge::connection_info::ConnectionInfo;

/// What the streams of a connection have in common.
#[derive(Debug, Default)]
pub struct Streams {
    leaving: AtomicBool,
    open: AtomicUsize,
    /// Memory that the heads of requests under way take, in the measure of RFC 9113 section 6.5.2.
    head_bytes: AtomicUsize,
    /// Small DATA frames that the streams took since this was last looked at.
    small_frames: AtomicU32,
    /// Nothing is read until some are taken.
    choked: AtomicBool,
    /// The stream whose trailers hold a pseudo-header field, until it has looked; zero for none.
    bad_trailers: AtomicU32,
    news: Notify,
}

impl Streams {
    /// No new streams after this: the client is told to go elsewhere, what is under way goes on.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// Whether [`Streams::leave`] was called.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Requests under way.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The memory that their heads take.
    pub fn head_bytes(&self) -> usize {
        self.head_bytes.load(Ordering::Relaxed)
    }

    /// A stream has taken so many small DATA frames.
    pub fn took_small_frames(&self, count: u32) {
        self.small_frames.fetch_add(count, Ordering::Relaxed);
        if self.choked.swap(false, Ordering::Relaxed) {
            self.news.notify_one();
        }
    }

    /// Nothing is read until small DATA frames are taken; the loop is woken then.
    pub fn choke(&self) {
        self.choked.store(true, Ordering::Relaxed);
    }

    /// How many small DATA frames were taken since the last call.
    pub fn small_frames_taken(&self) -> u32 {
        self.small_frames.swap(0, Ordering::Relaxed)
    }

    /// The trailers of this stream hold a pseudo-header field. Returns `false` when another stream that has not looked yet
    /// does too.
    pub fn note_bad_trailers(&self, stream: u32) -> bool {
        self.bad_trailers.swap(stream, Ordering::Relaxed) == 0
    }

    /// Whether the trailers of this stream were noted.
    pub fn has_bad_trailers(&self, stream: u32) -> bool {
        self.bad_trailers.compare_exchange(stream, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends when something has changed that the loop should know.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// One more request with a head of this size.
    pub fn enter(self: &Arc<Streams>, head_bytes: usize) -> Present {
        // only the loop adds, and it is the loop that compares; the streams' tasks only take away
        self.open.fetch_add(1, Ordering::Relaxed);
        self.head_bytes.fetch_add(head_bytes, Ordering::Relaxed);
        Present { streams: Arc::clone(self), head_bytes }
    }
}

/// One request under way, counted until it is dropped, even by a panic.
#[derive(Debug)]
pub struct Present {
    streams: Arc<Streams>,
    head_bytes: usize,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.streams.head_bytes.fetch_sub(self.head_bytes, Ordering::Relaxed);
        if self.streams.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.streams.news.notify_one();
        }
    }
}

/// One stream, for the gate. Travels in the extensions of the request's head, as Pingora's session shows nothing of what lies below
/// it.
pub struct Stream {
    streams: Arc<Streams>,
    client: ClientSide,
}

impl Stream {
    /// Returns a stream of this connection.
    pub fn new(info: Arc<ConnectionInfo>, streams: Arc<Streams>) -> Arc<Stream> {
        Arc::new(Stream { streams, client: ClientSide::new(info) })
    }

    /// The stream that a request came on, if it came by HTTP/2.
    pub fn of(extensions: &Extensions) -> Option<&Stream> {
        extensions.get::<Arc<Stream>>().map(AsRef::as_ref)
    }

    /// The client's side of its request.
    pub fn client(&self) -> &ClientSide {
        &self.client
    }

    /// All streams of its connection.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Takes no new requests on the connection after this one; in HTTP/1 that is `Connection: close`.
    pub fn leave(&self) {
        self.streams.leave();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("info", &self.client.info).finish_non_exhaustive()
    }
}
