//! What is left on either side of a connection: of what the client sent, and of what it is to get.

use std::time::Duration;

use pingora::protocols::IO;
use rustix::net::sockopt::set_socket_linger;

use super::reading::Reading;
use super::{Answer, Wire};
use crate::edge::transport::Transport;

impl<S: IO> Wire<S> {
    /// Whether the client should be given time to read its answer before the connection closes: it has one, is still
    /// there, and bytes of it that were never read would make the kernel reset the connection instead.
    pub fn has_unread_bytes(&self) -> bool {
        let unread = !self.inbox.is_empty() || !matches!(self.reading, Reading::Complete | Reading::Switched);
        unread && self.answer == Answer::Begun && !self.ended
    }

    /// Whether something of the answer was written since the client was last seen to have taken all.
    pub fn is_unflushed(&self) -> bool {
        self.owes || !self.outbox.is_empty()
    }

    /// Whether the kernel may hold bytes of the client that were not read.
    pub fn may_hold_more(&self) -> bool {
        let transport = self.transport.as_ref().and_then(|transport| transport.as_any().downcast_ref());
        transport.is_none_or(Transport::may_hold_more)
    }

    /// Whether the client waits for `100 Continue` before it sends its body.
    pub fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Has the kernel reset the connection when it is closed.
    pub fn reset(&self) {
        let transport = self.transport.as_ref().and_then(|transport| transport.as_any().downcast_ref());
        if let Some(socket) = transport.and_then(Transport::descriptor) {
            // a UNIX socket knows no reset, and takes this for nothing
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}
