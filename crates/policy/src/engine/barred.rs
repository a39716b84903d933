//! Refuses requests of clients that are banned, before any limit is asked.

use super::core::Engine;
use super::decision::{Decision, Refusal, Verdict};
use super::evaluation::Evaluation;
use crate::bans::{Ban, BanTable};
use crate::client::Client;
use crate::policy::Route;
use crate::policy::route::KeyRoom;
use crate::request::Request;

impl Engine {
    /// Refuses a request of a client that is banned itself, or by its network; returns whether it did.
    #[inline]
    pub(super) fn bans_client(&self, client: &Client, decision: &mut Decision) -> bool {
        let bans = self.bans().table();
        !bans.is_empty() && bans.of_client(client, decision.at).is_some_and(|ban| refuse(ban, decision))
    }

    /// Refuses a request of a client that the route does not serve, or that counts under a banned key of one of its limits; returns
    /// whether it did.
    #[inline]
    pub(super) fn bars(&self, request: &Request<'_>, client: &Client, route: &Route, decision: &mut Decision) -> bool {
        if route.deny.lists(client) {
            decision.verdict = Verdict::Refused(Refusal::Denied);
            return true;
        }
        let bans = self.bans().table();
        bans.has_keys() && self.bans_key(&bans, request, client, route, decision)
    }

    /// Refuses a request whose client the listener does not serve, in a new record. Bans go before, so that they are counted.
    pub fn deny_into(&self, request: &Request<'_>, client: Client, evaluation: &mut Evaluation) {
        let decision = &mut evaluation.decision;
        decision.client = Some(client);
        decision.route = self.policy().routes.find(request, Some(&client)).ok().flatten().map(|(index, _)| index);
        if !self.bans_client(&client, decision) {
            decision.verdict = Verdict::Refused(Refusal::Denied);
        }
    }

    fn bans_key(
        &self,
        bans: &BanTable,
        request: &Request<'_>,
        client: &Client,
        route: &Route,
        decision: &mut Decision,
    ) -> bool {
        let mut room = KeyRoom::new();
        // as the limits count it
        let request = &route.counted(request, &mut room);
        let at = decision.at;
        let banned = |rule: usize| {
            let rule = self.policy().rules.get(rule)?;
            bans.has_keys_of(&rule.name)
                .then(|| bans.of_key((&rule.name, &rule.key), request, client, &route.name, at))?
        };
        // a request without its key counts under the limit that stands in
        let stands_in = |rule: &usize| self.policy().rules.get(*rule)?.instead;
        let mut all = route.rules.iter().flat_map(|rule| [Some(*rule), stands_in(rule)]).flatten();
        let found = all.find_map(banned);
        found.is_some_and(|ban| refuse(ban, decision))
    }
}

fn refuse(ban: &Ban, decision: &mut Decision) -> bool {
    decision.ban = Some(BanTable::refuse(ban));
    decision.verdict = Verdict::Refused(Refusal::Banned);
    true
}
