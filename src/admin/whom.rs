//! Whom an operator means: an address, a network, `unix`, or a name from log and lists.
//!
//! A pseudonym cannot be led back to an address, so it is looked for among the clients that the limits refuse most. Its first characters
//! are enough, at least [`SHORTEST`](crate::observe::pseudonym::Pseudonym::SHORTEST), if one client alone is called so.

use std::net::Ipv6Addr;

use http::{HeaderMap, StatusCode};

use super::context::Context;
use crate::client::trust::parse_cidr_or_everyone;
use crate::client::{self, Client, ClientNetwork, ClientRules, Mark};
use crate::config::settings::ClientInLog;
use crate::request::Peer;
use crate::small_server::Answer;
use crate::units::Prefix;

/// Whom an operator means.
pub(super) struct Found {
    /// As log and lists have it.
    pub(super) name: String,
    /// The client, once for every mark under which it is counted.
    pub(super) clients: Vec<Client>,
    /// What was given, if it was an address or a network.
    pub(super) network: Option<Prefix>,
}

/// The answer about a beginning that several pseudonyms have.
pub(super) fn several(text: &str) -> Answer {
    Answer::error(StatusCode::CONFLICT, format!("the names of several clients begin with `{text}`: write more of it"))
}

/// Finds whom a text means.
///
/// # Errors
/// Nobody that is known, or several; the answer says so.
pub(super) fn find(context: &Context, text: &str) -> Result<Found, Answer> {
    let generation = context.process.generation();
    let lately = generation.refused().list(context.process.clock.now()).entries;
    let Some(network) = network(text) else {
        let meant = |client: &Client| {
            context.process.pseudonyms.all_of(client).any(|name| name.is_meant(text))
                || client.network.to_string() == text
        };
        let mut found: Vec<Client> = Vec::new();
        for client in lately.iter().map(|entry| entry.payload).filter(meant) {
            if !found.iter().any(|known| (known.network, known.mark) == (client.network, client.mark)) {
                found.push(client);
            }
        }
        return match found.as_slice() {
            [] => Err(unknown(text)),
            [client] => Ok(Found { name: context.name_of(client), clients: vec![*client], network: None }),
            _ => Err(several(text)),
        };
    };
    let rules = &generation.engine().policy().clients;
    let client = of_network(rules, network);
    let mut clients = vec![client];
    // what its requests were counted under when its address could be told less well
    for seen in lately.iter().map(|entry| entry.payload).filter(|seen| seen.network == client.network) {
        if clients.iter().all(|known| known.mark != seen.mark) {
            let mut client = client;
            client.mark = seen.mark;
            clients.push(client);
        }
    }
    // an address inside of what counts as one client is that client; a network of addresses that a translator (NAT64) wrote is many clients
    let network = network.map(|network| match client.network {
        ClientNetwork::Prefix(counted)
            if counted.length() < network.length() && (counted.contains(network.address()) || is_address(network)) =>
        {
            counted
        }
        _ => network,
    });
    Ok(Found { name: context.name_of(&client), clients, network })
}

/// The network that lists call so, or whose pseudonym begins so, among those that the limits refuse most; `None`: none.
///
/// # Errors
/// Several networks, or a network and a client, are called so.
pub(super) fn network_called(context: &Context, text: &str) -> Result<Option<Prefix>, Answer> {
    if context.process.clients_in_log() == ClientInLog::Address {
        return Ok(None);
    }
    let lately = context.process.generation().refused().list(context.process.clock.now());
    let mut named = lately
        .networks
        .iter()
        .map(|network| network.prefix)
        .filter(|network| context.process.pseudonyms.of_network(*network).is_meant(text));
    let Some(found) = named.next() else { return Ok(None) };
    let is_client = |client: &Client| context.process.pseudonyms.all_of(client).any(|name| name.is_meant(text));
    if named.next().is_some() || lately.entries.iter().any(|entry| is_client(&entry.payload)) {
        return Err(several(text));
    }
    Ok(Some(found))
}

/// The network that a text says; `Some(None)` for `unix`, `None` for a text that says none.
pub(super) fn network(text: &str) -> Option<Option<Prefix>> {
    if text == "unix" {
        return Some(None);
    }
    // an address of IPv6 stands in brackets in URLs and forwarding headers
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let bracketed = bracketed.filter(|text| text.parse::<Ipv6Addr>().is_ok());
    let address = bracketed.unwrap_or(text).parse().ok().map(|address| Prefix::around(address, 32, 128));
    address.or_else(|| parse_cidr_or_everyone(text).ok().map(|(prefix, _)| prefix)).map(Some)
}

fn is_address(network: Prefix) -> bool {
    network.length() == if network.address().is_ipv4() { 32 } else { 128 }
}

/// The client at the first address of a network; without one, the client of UNIX sockets.
fn of_network(rules: &ClientRules, network: Option<Prefix>) -> Client {
    let peer = network.map_or(Peer::Unix, |network| Peer::Ip(network.address()));
    let mut client = client::resolve(rules, peer, &HeaderMap::new()).unwrap_or_else(|unresolved| unresolved.client);
    client.mark = Mark::Verified;
    client
}

fn unknown(text: &str) -> Answer {
    let why = format!(
        "unknown client `{text}`: write an address (203.0.113.7), a network (203.0.113.0/24), or a name from `tidegate top`, which has \
         the clients that limits refused lately"
    );
    Answer::error(StatusCode::NOT_FOUND, why)
}
