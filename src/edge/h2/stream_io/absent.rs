//! A stream whose client has left while its answer is awaited: closed towards the client, open towards who serves it.

use h2::Reason;
use pingora::Result;

use super::{StreamIo, enough};

impl StreamIo {
    /// Whether the client has gone and its answer is awaited.
    pub fn is_gone(&self) -> bool {
        self.stream.client().absence.is_gone()
    }

    /// The client has left, or was given up. Says whether its request goes on; then the stream is closed and who
    /// serves it hears nothing of it. Only for requests that have been read whole: of the others the origin has a part that it cannot
    /// answer.
    pub(super) fn leave(&mut self) -> bool {
        if self.ended
            || !self.is_body_complete()
            || self.idle_place.gave_way()
            || !self.departure.note(&self.stream.client().absence, self.begun)
        {
            return false;
        }
        // does nothing to a stream that the client has closed
        self.respond.send_reset(Reason::CANCEL);
        self.send = None;
        true
    }

    /// Takes the head of an answer that no client is there for.
    pub(super) fn discard_head(&mut self, end: bool) -> Result<()> {
        self.begun = true;
        self.departure.begin(&self.stream.client().absence);
        self.discard(0, end)
    }

    /// Takes a part of its body; `end`: the last one.
    pub(super) fn discard(&mut self, bytes: usize, end: bool) -> Result<()> {
        if !self.departure.discard(&self.stream.client().absence, bytes) {
            return Err(enough());
        }
        self.sent += bytes;
        self.ended |= end;
        Ok(())
    }
}
