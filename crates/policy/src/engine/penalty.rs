//! Whether a client is being kept out for long, asked before there is a request.
//!
//! A connection whose other end is the client itself can be refused at once, before it costs a TLS handshake, if the client's
//! requests would be refused for a good while to come. Only a limit that every request of the client runs into can say so,
//! whatever the request is: of type `recent_average`, by `client_ip` alone, enforced for all, without exceptions.

use http::HeaderMap;

use super::Engine;
use crate::client;
use crate::limiter::Place;
use crate::request::Peer;
use crate::units::{Cost, Timestamp};

impl Engine {
    /// How long the limit of this name will keep out the client at `peer`, in nanoseconds from now; zero when it would admit a
    /// request, does not exist, or cannot be asked before there is one ([`Rule::keeps_out`](crate::policy::Rule::keeps_out)). A read: it charges nothing, and
    /// does not count the connection against anybody.
    pub fn penalty_nanos(&self, limit: &str, peer: Peer, now: Timestamp) -> u64 {
        let index = self.policy().rules.iter().position(|rule| rule.name == limit);
        let Some((index, (rule, limiter))) = index.and_then(|index| Some((index, self.rule(index)?))) else { return 0 };
        if !rule.keeps_out() {
            return 0;
        }
        let headers = HeaderMap::new();
        let Ok(client) = client::resolve(&self.policy().clients, peer, &headers) else { return 0 };
        let Some(key) = self.key_of_client(index, &client) else { return 0 };
        if limiter.is_exempt(key, now) {
            return 0;
        }
        let judgement = limiter.probe(&Place { key, ..Place::default() }, now, Cost::ONE).judgement;
        if judgement.admitted { 0 } else { judgement.retry_nanos.unwrap_or(0) }
    }
}
