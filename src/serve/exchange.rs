//! One request's life inside the gate, from its head to its log line: Pingora's `CTX`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::installed::Installed;
use super::origin::{Attempt, OriginPlace, OriginState};
use crate::answer::Fault;
use crate::engine::{Judged, Permits};
use crate::policy::{Action, Route};
use crate::sketch::KeyHash;
use crate::units::Timestamp;

/// Everything that must be remembered between Pingora's phases. Whatever it holds is given back when it is dropped, so
/// that neither an abort nor a panic nor a forced stop leaks a place.
pub struct Exchange {
    /// The policy that serves this request from start to end, whatever is installed meanwhile.
    pub installed: Arc<Installed>,
    /// When the head was complete.
    pub started: Timestamp,
    /// Position of the listener in the settings.
    pub listener: usize,
    /// The decision record; `None` if the request never got that far.
    pub judged: Option<Judged>,
    /// Places of `inflight` limits.
    pub permits: Permits,
    /// The place at the origin.
    pub place: Option<OriginPlace>,
    /// The attempt under way.
    pub attempt: Option<Attempt>,
    /// The address of the last attempt, kept for the log.
    pub address: Option<SocketAddr>,
    /// How many attempts there were.
    pub attempts: u32,
    /// The key of `balance: hash`.
    pub balance_key: KeyHash,
    /// Bytes of the request's body seen so far.
    pub body_bytes: u64,
    /// What went wrong on our way to the origin and back, for the answer and the log.
    pub fault: Option<Fault>,
    /// When the request was handed to the origin.
    pub forwarded: Option<Timestamp>,
    /// When the origin's answer began.
    pub answered: Option<Timestamp>,
}

impl Exchange {
    /// A request whose head has just arrived.
    pub fn new(installed: Arc<Installed>, started: Timestamp) -> Exchange {
        Exchange {
            installed,
            started,
            listener: 0,
            judged: None,
            permits: Permits::new(),
            place: None,
            attempt: None,
            address: None,
            attempts: 0,
            balance_key: KeyHash::default(),
            body_bytes: 0,
            fault: None,
            forwarded: None,
            answered: None,
        }
    }

    /// The route that took the request.
    pub fn route(&self) -> Option<&Route> {
        let index = self.judged.as_ref()?.decision.route?;
        self.installed.snapshot().policy().routes.route(index)
    }

    /// Position in the policy of the origin that the route forwards to.
    pub fn origin_index(&self) -> Option<usize> {
        match self.route()?.action {
            Action::Forward(origin) => Some(origin),
            Action::Respond(_) => None,
        }
    }

    /// The origin that the route forwards to.
    pub fn origin(&self) -> Option<&Arc<OriginState>> {
        self.installed.origin(self.origin_index()?)
    }

    /// Gives everything back. Pingora keeps the context for a while after the request's end, reading what is left of a
    /// body; places must not wait for that.
    pub fn release(&mut self) {
        self.attempt = None;
        self.place = None;
        self.permits.clear();
    }
}
