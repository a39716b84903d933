//! The wire of a client that has left while its answer is awaited: closed towards the client, open towards Pingora.

use std::io::{self, IoSlice};

use bytes::BytesMut;
use pingora::protocols::IO;

use super::{Answer, Reading, Wire};

impl<S: IO> Wire<S> {
    /// The client has left. Says whether its request goes on; then the connection is closed and Pingora hears nothing of it.
    /// Only for requests that have been read whole: of the others the origin has a part that it cannot answer.
    pub(super) fn leave(&mut self) -> bool {
        let begun = self.answer == Answer::Begun;
        if self.reading != Reading::Complete
            || self.idle_place.gave_way()
            || !self.departure.note(&self.client.absence, begun)
        {
            return false;
        }
        self.ended = true;
        self.transport = None;
        self.inbox = BytesMut::new();
        self.outbox = BytesMut::new();
        self.client.info.leave();
        true
    }

    /// Takes a part of the answer that no client is there for.
    pub(super) fn discard(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut of_body = length;
        if self.answer == Answer::Awaited {
            let head: &[u8] = parts.first().map_or(&[], |head| head);
            of_body = 0;
            self.note_status(head);
            if head.get(9..12) == Some(b"101") {
                // no client will ever speak the other protocol
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.answer == Answer::Begun {
                self.departure.begin(&self.client.absence);
            }
        }
        let goes_on = self.departure.discard(&self.client.absence, of_body);
        goes_on.then_some(length).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}
