//! How a request begins on its connection.

use std::mem;

use bytes::{Buf, BytesMut};
use pingora::protocols::IO;

use super::reading::Reading;
use super::{Answer, Wire};
use tidegate_http::chunk::ChunkScanner;
use tidegate_http::head::{Body, Head};

impl<S: IO> Wire<S> {
    /// Begins the request whose head stands at the front of the inbox; returns the head for Pingora to parse, with the
    /// canonical target in the place of any other.
    pub fn begin(&mut self, head: &Head) -> BytesMut {
        self.restart(head);
        // taken whole where possible: splitting would turn the buffer into a shared one
        let taken =
            if head.end >= self.inbox.len() { mem::take(&mut self.inbox) } else { self.inbox.split_to(head.end) };
        head.written(taken)
    }

    /// The same for a head that was read.
    pub fn begin_read(&mut self, head: &Head) {
        self.restart(head);
        self.inbox.advance(head.end.min(self.inbox.len()));
    }

    fn restart(&mut self, head: &Head) {
        self.reading = match head.body {
            Body::None | Body::Length(0) => Reading::Complete,
            Body::Length(length) => Reading::Length(length),
            Body::Chunked => Reading::Chunked(ChunkScanner::new()),
        };
        self.answer = Answer::Awaited;
        self.client.restart();
        self.hop_by_hop = head.hop_by_hop;
        *self.refused.get_mut() = false;
        *self.body_limit.get_mut() = u64::MAX;
        self.may_switch = head.upgrade;
        self.holds_back = head.expect_continue;
        self.upload.restart();
        self.download.restart();
        self.stall.over();
        self.idle_place.begin();
        self.owes = false;
    }
}
