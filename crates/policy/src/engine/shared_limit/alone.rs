//! A request that waits for another's question, and asks by itself in the end.

use super::Errand;
use crate::client::Client;
use crate::engine::core::Engine;
use crate::engine::evaluation::Evaluation;
use crate::request::Request;
use crate::units::Timestamp;

impl Engine {
    /// The errand of a request that [waits](super::Step::Wait) for another's and has seen one come home with too little for it, while the
    /// store had enough left: asked for by itself, so that no request waits for more than two questions, one after the
    /// other. `seen` is what this has noted of the wait so far. Of a key that is spent nobody asks so.
    pub fn alone(
        &self,
        evaluation: &Evaluation,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        seen: &mut Option<u64>,
        now: Timestamp,
    ) -> Option<Errand> {
        let (rule, shared_limit, ask) = self.shared_at(evaluation, slot)?;
        let key = ask.place.key.of_tier(ask.place.tier);
        let question = shared_limit.leases.question(key)?;
        if *seen.get_or_insert(question) == question || shared_limit.leases.left_in_store(key) < ask.cost.get() {
            return None;
        }
        let numbers = (ask.cost.get(), ask.cost.get());
        self.errand((rule, shared_limit, &ask), (request, client, evaluation.decision.route), None, numbers, now)
    }
}
