//! Requests that keep their origin waiting for their client, and what they owe to those who wait for a place.
//!
//! A place is for the origin's work. Who sends a request slowly, or takes an answer slowly, holds one without any; with a few bytes a second
//! one client could hold them all. So a request whose client was waited for longer than [`PATIENCE`] in all [gives its place
//! away](OriginPlace::give_way) as soon as somebody is owed it, and ends.

use std::task::{Context, Poll};
use std::time::Duration;

use pingora::{Error, ErrorType};
use tokio::time::Instant;

use super::super::context::RequestContext;
use crate::origins::door::{GAVE_WAY, OriginPlace};
use crate::system::timer::Alarm;

/// Long enough for pauses of the network.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it looks from then on whether somebody waits.
const LOOK: Duration = Duration::from_millis(250);

/// How long a request's client was waited for.
#[derive(Debug, Default)]
pub struct IdlePlace {
    /// Since when it is waited for.
    since: Option<Instant>,
    /// Before that.
    before: Duration,
    /// When it looks again.
    next: Option<Instant>,
    alarm: Alarm,
}

impl IdlePlace {
    /// Forgets the request before.
    pub fn begin(&mut self) {
        (self.since, self.before, self.next) = (None, Duration::ZERO, None);
    }

    /// It is not the client that is waited for.
    pub fn over(&mut self) {
        if let Some(since) = self.since.take() {
            self.before += since.elapsed();
        }
    }

    /// The client is waited for. `Ready` once the place was given away.
    pub fn poll(&mut self, place: Option<&mut OriginPlace>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(place) = place.filter(|place| place.is_capped()) else { return Poll::Pending };
        let since = *self.since.get_or_insert_with(Instant::now);
        let first = since + PATIENCE.saturating_sub(self.before);
        loop {
            let due = self.next.map_or(first, |next| next.max(first));
            if self.alarm.poll(due, cx).is_pending() {
                return Poll::Pending;
            }
            if place.give_way() {
                return Poll::Ready(());
            }
            self.next = Some(Instant::now() + LOOK);
        }
    }
}

/// Ends the request for another's sake.
pub fn gave_way(context: &mut RequestContext) -> Box<Error> {
    // nothing is kept for what the origin may still do: it waits for the client
    context.at_work = false;
    context.place = None;
    if let (Some(origin), Some(evaluation)) = (context.origin_index(), &context.evaluation) {
        context.generation.metrics().origin_shed(origin, GAVE_WAY, evaluation.decision.class.criticality);
    }
    Error::explain(ErrorType::ReadTimedout, "others wait for the place that its client leaves idle").into_down()
}
