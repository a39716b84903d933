//! What a request's connection and the gate tell each other, whichever HTTP the client speaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::absence::Absence;
use super::answer_deadline::AnswerDeadline;
use super::connection_info::ConnectionInfo;
use super::idle_place::Lent;
use crate::system::buffers::Share;

/// The client's side of one request. All of it can be changed through a shared reference, as Pingora lends a connection only so.
#[derive(Debug)]
pub struct ClientSide {
    /// What is known of the connection.
    pub info: Arc<ConnectionInfo>,
    /// By when the answer must have begun.
    pub deadline: AnswerDeadline,
    /// What happens when the client leaves.
    pub absence: Absence,
    /// What request and answer hold of the process's buffers.
    pub share: Share,
    /// The place at the origin, which the client may keep idle.
    pub lent: Lent,
    /// The answer was broken off, and only the end of the connection can say so.
    cut: AtomicBool,
}

impl ClientSide {
    /// Returns the side of a request of this connection.
    pub fn new(info: Arc<ConnectionInfo>) -> ClientSide {
        ClientSide {
            info,
            deadline: AnswerDeadline::default(),
            absence: Absence::default(),
            share: Share::default(),
            lent: Lent::default(),
            cut: AtomicBool::new(false),
        }
    }

    /// Forgets the request before the next one of the connection.
    pub fn restart(&mut self) {
        self.deadline.clear();
        self.absence = Absence::default();
        self.lent = Lent::default();
        self.share.clear();
    }

    /// Has the connection end in a reset, which nobody takes for the end of an answer.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end so.
    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Sets the time within which the answer must begin.
    pub fn answer_due_in(&self, time: Duration) {
        self.deadline.set(time);
    }
}
