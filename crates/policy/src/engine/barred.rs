//! Refuses requests of clients that are banned, before any limit is asked.

use std::sync::Arc;

use super::core::Engine;
use super::decision::{Decision, Refusal, Verdict};
use super::evaluation::{Evaluation, Read};
use crate::bans::{Ban, BanTable};
use crate::client::ban_terms::BanTerms;
use crate::client::{Client, ClientNetwork, Mark};
use crate::policy::Route;
use crate::policy::route::KeyRoom;
use crate::request::Request;
use crate::units::{Prefix, Timestamp};

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

    /// Notes a request that the penalty of a limit refused which may end in a ban. Only a client whose address is its own can be banned for it:
    /// what anybody can bring about by an unreadable field bans no proxy.
    pub(super) fn strike(&self, terms: &Arc<BanTerms>, about: &Read<'_>) {
        if let (Mark::Verified, ClientNetwork::Prefix(network)) = (about.client.mark, about.client.network) {
            self.bans.strike(network, terms, about.at);
        }
    }

    /// Gives the bans that penalties have brought, and returns them. Trusted proxies and this machine's own addresses get none. Call it about
    /// once a second.
    pub fn settle_bans(&self, now: Timestamp) -> Vec<Arc<Ban>> {
        let trust = &self.policy.clients.trust;
        let is_own = |network: Prefix| network.address().is_loopback();
        let wall = self.unix_nanos_at_origin.saturating_add(now.nanos());
        self.bans.settle(|network| is_own(network) || trust.names(network), now, wall)
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
