//! Pardoning a client, in every limit that counts it by nothing but who it is.

use std::time::Duration;

use http::{HeaderMap, Method};

use super::Engine;
use crate::client::{Client, ClientNetwork, KeyPart};
use crate::limiter::sharing::Sharing;
use crate::limiter::{FORMS, Full};
use crate::policy::{Rule, Shared};
use crate::request::{Peer, Request};
use crate::sketch::KeyHash;
use crate::units::{Prefix, Timestamp};

/// What became of a pardon in one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pardon {
    /// The limit's position in the policy.
    pub rule: usize,
    /// Until when it matters there, or why there is none.
    pub outcome: Result<Timestamp, NotPardoned>,
}

/// Why a limit pardons nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPardoned {
    /// It does not count by clients, or not by them alone.
    OtherKey,
    /// It is a `fair_share`, which counts no debt.
    FairShare,
    /// It counts running requests, and the client gets no exemption.
    Running,
    /// It counts smaller networks than the one that is to be pardoned.
    Narrower,
    /// It has as many pardons as it can.
    Full,
    /// Its count is in a store.
    Shared,
}

impl NotPardoned {
    /// Why, for people.
    pub fn text(self) -> &'static str {
        match self {
            NotPardoned::OtherKey => "does not count by the client alone",
            NotPardoned::FairShare => "has no debt to reset: a fair share follows the present load",
            NotPardoned::Running => "has no debt to reset: it counts running requests; exempt the client for a time",
            NotPardoned::Narrower => "counts smaller networks than this one; pardon these",
            NotPardoned::Full => "has as many pardons as it can",
            NotPardoned::Shared => "has its count in a store; exempt the client for a time, at each gate",
        }
    }
}

impl Engine {
    /// Forgets the client's debt, in every limit or in the one at this position, and exempts it from them until `exempt` is
    /// over. `network` is what is to be pardoned: the client's address, or a network around it.
    ///
    /// Limits that count by more than the client cannot be asked for all keys that it has there; they say so.
    pub fn pardon(
        &self,
        client: &Client,
        network: Option<Prefix>,
        only: Option<usize>,
        now: Timestamp,
        exempt: Duration,
    ) -> Vec<Pardon> {
        let asked = (0..self.policy().rules.len()).filter(|rule| only.is_none_or(|only| only == *rule));
        let pardon = |rule| Pardon { rule, outcome: self.pardon_one(client, network, rule, now, exempt) };
        asked.map(pardon).collect()
    }

    fn pardon_one(
        &self,
        client: &Client,
        network: Option<Prefix>,
        index: usize,
        now: Timestamp,
        exempt: Duration,
    ) -> Result<Timestamp, NotPardoned> {
        let (rule, limiter) = self.rule(index).ok_or(NotPardoned::OtherKey)?;
        if rule.kind.has_nodes() {
            return Err(NotPardoned::FairShare);
        }
        let key = self.key_of_client(index, client).ok_or(NotPardoned::OtherKey)?;
        let form = FORMS.iter().find(|form| form.word == rule.kind.word());
        if exempt.is_zero() && form.is_some_and(|form| form.gives_back) {
            return Err(NotPardoned::Running);
        }
        if let (Some(network), Some(ClientNetwork::Prefix(counted))) = (network, counted_as(rule, client))
            && (counted.length() > network.length() || is_translated(counted, network))
        {
            return Err(NotPardoned::Narrower);
        }
        let counts_elsewhere = |shared: &Shared| !matches!(shared.sharing, Sharing::Estimate);
        if exempt.is_zero() && rule.shared.as_ref().is_some_and(counts_elsewhere) {
            return Err(NotPardoned::Shared);
        }
        limiter.pardon(key, now, exempt).map_err(|Full| NotPardoned::Full)
    }

    /// Ends the pardons of the client; gives the positions of the limits in which it had one.
    pub fn revoke_pardon(&self, client: &Client, now: Timestamp) -> Vec<usize> {
        let had_one = |rule: &usize| {
            let limiter = self.limiter(*rule).zip(self.key_of_client(*rule, client));
            limiter.is_some_and(|(limiter, key)| limiter.revoke_pardon(key, now))
        };
        (0..self.policy().rules.len()).filter(had_one).collect()
    }

    /// The hash under which a limit counts the client, if it counts by clients alone.
    pub(super) fn key_of_client(&self, index: usize, client: &Client) -> Option<KeyHash> {
        let (rule, limiter) = self.rule(index)?;
        counted_as(rule, client)?;
        if !limiter.is_keyed() {
            return None;
        }
        let headers = HeaderMap::new();
        // nothing of it is read: the key is the client's alone
        let request = Request {
            peer: Peer::Unix,
            method: &Method::GET,
            host: "",
            path: "/",
            query: None,
            headers: &headers,
            tls_sni: None,
        };
        match self.peer_sync(index) {
            Some(sync) => Some(sync.key(sync.name_of_client(rule, &request, client)?)),
            None => self.keys().of_client((rule, limiter), &request, client).ok(),
        }
    }
}

/// Whether a network is of addresses that a translator (NAT64) wrote, each of which is a client.
fn is_translated(counted: Prefix, network: Prefix) -> bool {
    counted.address().is_ipv4() && !network.address().is_ipv4() && network.length() < 128
}

/// What a rule counts the client by, if it counts by clients alone.
fn counted_as(rule: &Rule, client: &Client) -> Option<ClientNetwork> {
    match rule.key.parts() {
        [KeyPart::ClientIp { ipv4_prefix, ipv6_prefix }] if !rule.by_origin => {
            Some(client.network_for(*ipv4_prefix, *ipv6_prefix))
        }
        _ => None,
    }
}
