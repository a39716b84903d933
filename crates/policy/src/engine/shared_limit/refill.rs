//! Questions in the background: for a lease that runs low, or one that is spent.

use super::Errand;
use crate::client::Client;
use crate::engine::core::Engine;
use crate::engine::evaluation::Evaluation;
use crate::limiter::sharing::Begin;
use crate::request::Request;
use crate::units::Timestamp;

impl Engine {
    /// Whether [`Engine::refill`] may have an errand for any limit of the request.
    pub fn refills(&self, evaluation: &Evaluation) -> bool {
        evaluation.refills != 0
    }

    /// The errand that should be run in the background for a limit that refused this request, or that had to be asked for it,
    /// if nobody is on it.
    pub fn refill(
        &self,
        evaluation: &Evaluation,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        nodes: u32,
        now: Timestamp,
    ) -> Option<Errand> {
        let (rule, shared_limit, ask) =
            self.shared_at(evaluation, slot).filter(|_| evaluation.refills >> slot & 1 == 1)?;
        let (key, promise) = shared_limit.held_by(&ask.place);
        let Begin::Ask(asking) = shared_limit.leases.refill(key, &promise, nodes, now) else { return None };
        let numbers = (asking.wanted(), asking.least());
        self.errand(
            (rule, shared_limit, &ask),
            (request, client, evaluation.decision.route),
            Some(asking),
            numbers,
            now,
        )
    }
}
