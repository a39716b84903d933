//! Explains why a request was, or would be, limited. Begin with [`Explanation`]. No limiter is asked and no clock is read.
//!
//! An [`Explanation`] is made from a [`Record`] (the remembered numbers of a decision), the [`Book`] (the policy that decided),
//! and [`Known`] (facts that the caller adds). It serves new decisions, decisions in the ring, and hypothetical requests.
//! [`text`] writes it for people; its serialisation is the document `tidegate.explain/1`, to which members may be added but not
//! removed.
//!
//! * [`BanPart`]: the ban of a client. [`record`]: a remembered decision, numbers and a pseudonym. [`book`]: its policy. [`asked`]: the request, if it is at hand.
//! * [`limit`]: the answer of one limit, and the change that would have let the request through.

pub mod asked;
mod ban;
pub mod book;
pub mod limit;
mod place;
pub mod queue;
pub mod record;
pub mod text;

use serde::{Deserialize, Serialize};

pub use asked::Answered;
pub use ban::BanPart;
pub use book::Book;
pub use limit::LimitPart;
pub use place::PlacePart;
pub use queue::{HeavyPart, QueuePart};
pub use record::{Beside, Found, Record, Said};

use crate::client::key::KeyPart;
use crate::client::{ClientAddress, Hop, Mark, Source, Standing, Trace};
use crate::engine::{DecisionId, Refusal, Scarce, Verdict};
use crate::units::Criticality;

/// What the first member of the document says.
pub const SCHEMA: &str = "tidegate.explain/1";

/// Why one decision came out as it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: String,
    /// The decision's id; none for a request that nobody sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it was decided, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What was asked for, as far as it is known.
    pub request: RequestPart,
    /// `admitted` or `refused`.
    pub verdict: String,
    /// The word for why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The status of the answer, where the gate gave it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Who asked.
    pub client: ClientPart,
    /// Which route took it; none when no route did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RoutePart>,
    /// How much it mattered, where that is not `default`: `critical`, `sheddable`, `background`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<String>,
    /// What each limit of the route said, in the route's order.
    pub limits: Vec<LimitPart>,
    /// How it stood in the queue of its origin, if it got no place there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePart>,
    /// The ban that refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban: Option<BanPart>,
    /// Where the counts are kept.
    pub store: String,
    /// The fields of the answer that tell about limits.
    pub sent: Vec<String>,
    /// What would have let it through, a line for each limit that forbade it. All of them are needed.
    pub change: Vec<String>,
    /// The policy that decided.
    pub config: ConfigPart,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// What was asked for. The gate remembers a method; host and path only of a request that is told to it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestPart {
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Who asked, and how that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientPart {
    /// The address, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The network that is counted, where it is not the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The pseudonym in the access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pseudonym: Option<String>,
    /// `peer` or `forwarded`: whose word the address is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `verified`, `degraded`, `short` or `all_trusted`: how sure it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The forwarding header that is read.
    pub header: String,
    /// Which element of it from the right the client is; 0 for the peer.
    pub hops: u8,
    /// Whether the peer may speak for others.
    pub peer_trusted: bool,
    /// Whether a peer that may not sent a forwarding header, which was not read.
    pub ignored_header: bool,
    /// The way from the peer to the client, where the addresses are known.
    pub chain: Vec<HopPart>,
}

/// One step of that way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopPart {
    /// The address; none for an element that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `trusted`, `counted`, `unreadable` or `end`.
    pub standing: String,
    /// By which entry of `trusted_proxies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_as: Option<String>,
}

/// Which route took the request, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoutePart {
    /// Its name.
    pub name: String,
    /// What of it the request matched: `path =/login, method POST`.
    pub why: String,
    /// The route that would have taken it next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PlacePart>,
}

/// The policy that decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfigPart {
    /// The fingerprint of its configuration.
    pub fingerprint: String,
    /// When it was loaded, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
    /// Whether another one is in force now.
    pub replaced: bool,
}

/// What the face knows beside what is remembered.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// The decision's id.
    pub id: Option<DecisionId>,
    /// When it was, RFC 3339.
    pub time: Option<String>,
    /// When the policy was loaded, RFC 3339.
    pub loaded: Option<String>,
    /// Method, host and path, where they are known.
    pub request: RequestPart,
    /// How the client was found, where the request is known.
    pub trace: Option<&'a Trace>,
    /// The client's address or network, where the operator asked for it by that.
    pub address: Option<String>,
    /// The client's pseudonym.
    pub pseudonym: Option<String>,
    /// Who had most of what was scarce, in the order of the record.
    pub heaviest: Vec<HeavyPart>,
    /// The ban that refused it, if it still holds.
    pub ban: Option<BanPart>,
    /// The status of the gate's own answer.
    pub status: Option<u16>,
    /// The fields of that answer that tell about limits.
    pub sent: Vec<String>,
    /// Whether another policy is in force now.
    pub replaced: bool,
}

impl Explanation {
    /// The decision of this record in words.
    pub fn new(record: &Record, book: &Book, known: Known<'_>) -> Explanation {
        let mut request = known.request;
        request.method = request.method.or_else(|| record.method.as_ref().map(ToString::to_string));
        let mut limits: Vec<LimitPart> =
            record.limits.iter().filter_map(|said| LimitPart::new(said, record, book)).collect();
        // of other keys than the client nobody has kept what they were
        for limit in limits.iter_mut().filter(|limit| limit.key == KeyPart::CLIENT_IP.to_string()) {
            limit.key_pseudonym.clone_from(&known.pseudonym);
        }
        let mut notes = Vec::new();
        if known.replaced {
            notes.push("the policy was reloaded since: this is by the one that decided".to_owned());
        }
        if let Verdict::Refused(refusal) = record.verdict {
            notes.extend(advice(refusal, book).map(str::to_owned));
            if refusal == Refusal::StoreSilent && record.retry_after > 0 {
                notes.push(format!(
                    "it was told to come again in {} s, by when the store may be back",
                    record.retry_after
                ));
            }
        }
        let change = limits.iter().filter(|limit| limit.forbade()).filter_map(|limit| limit.change.clone());
        Explanation {
            schema: SCHEMA.to_owned(),
            id: known.id.map(|id| id.to_string()),
            time: known.time,
            verdict: if record.verdict == Verdict::Admitted { "admitted" } else { "refused" }.to_owned(),
            reason: match record.verdict {
                Verdict::Admitted => None,
                Verdict::Refused(refusal) => Some(refusal.word().to_owned()),
            },
            status: known.status,
            client: client(record, book, known.trace, known.address, known.pseudonym),
            route: record.route.and_then(|route| self::route(route, record, book)),
            criticality: (record.criticality != Criticality::Default).then(|| record.criticality.word().to_owned()),
            queue: queue_part(record, book, known.heaviest),
            ban: record.ban.map(|number| known.ban.unwrap_or_else(|| BanPart::ended(number))),
            change: change.collect(),
            store: store_words(&limits),
            limits,
            sent: known.sent,
            config: ConfigPart {
                fingerprint: book.fingerprint.clone(),
                loaded: known.loaded,
                replaced: known.replaced,
            },
            notes,
            request,
        }
    }

    /// The document, with its line break.
    pub fn to_json(&self) -> String {
        // nothing in it can fail to be written
        serde_json::to_string_pretty(self).map_or_else(|_| String::new(), |text| text + "\n")
    }
}

fn client(
    record: &Record,
    book: &Book,
    trace: Option<&Trace>,
    address: Option<String>,
    pseudonym: Option<String>,
) -> ClientPart {
    let resolved = trace.map(|trace| match &trace.client {
        Ok(client) => *client,
        Err(unresolved) => unresolved.client,
    });
    let found = record.found.or(resolved.as_ref().map(Found::of));
    let shown = resolved.map(|client| (client.address.to_string(), client.network.to_string()));
    let (address, network) = match shown {
        Some((address, network)) => (Some(address), Some(network)),
        None => (address, None),
    };
    ClientPart {
        network: network.filter(|network| Some(network) != address.as_ref()),
        address,
        pseudonym,
        source: found.map(|found| found.source.as_str().to_owned()),
        mark: found.map(|found| found.mark.as_str().to_owned()),
        header: book.header.clone(),
        hops: found.map_or(0, |found| found.hops),
        peer_trusted: found.is_some_and(|found| found.peer_trusted),
        ignored_header: found.is_some_and(|found| found.ignored_header),
        chain: trace.map(|trace| trace.hops.iter().map(|hop| self::hop(hop, book)).collect()).unwrap_or_default(),
    }
}

fn hop(hop: &Hop, book: &Book) -> HopPart {
    let trusted_as = match (hop.standing, hop.address) {
        (Standing::Trusted, Some(ClientAddress::Ip(address))) => book.places.trusted_as(address).map(str::to_owned),
        (Standing::Trusted, Some(ClientAddress::Unix)) => Some("unix".to_owned()),
        _ => None,
    };
    HopPart {
        address: hop.address.map(|address| address.to_string()),
        standing: hop.standing.as_str().to_owned(),
        trusted_as,
    }
}

fn route(index: u16, record: &Record, book: &Book) -> Option<RoutePart> {
    let route = book.routes.get(usize::from(index))?;
    let place = book.places.routes.get(usize::from(index)).map(PlacePart::from);
    let runner_up = record.runner_up.and_then(|other| book.routes.get(usize::from(other)));
    Some(RoutePart {
        name: route.name.clone(),
        why: route.why(record.alternative),
        runner_up: runner_up.map(|other| other.name.clone()),
        place,
    })
}

fn queue_part(record: &Record, book: &Book, heaviest: Vec<HeavyPart>) -> Option<QueuePart> {
    let place = record.no_place.as_ref()?;
    let tier = usize::from(place.tier).checked_sub(1).and_then(|tier| book.tiers.get(tier));
    match place.of {
        Scarce::Places { .. } => {
            let queue = book.routes.get(usize::from(record.route?))?.queue.as_ref()?;
            Some(QueuePart::new(place, &queue.origin, &queue.levels, tier, heaviest))
        }
        Scarce::Units { .. } => {
            let rules = record.limits.iter().map(|said| usize::from(said.rule));
            let mut rules = rules.filter_map(|at| Some((book.rules.get(at)?, book.keys.get(at)?)));
            let (rule, counted) = rules.find(|(rule, _)| rule.kind.has_nodes())?;
            Some(QueuePart::new(place, &rule.name, &counted.nodes, tier, heaviest))
        }
    }
}

/// Whose word the limits' readings are, where it is not this gate's alone.
fn store_words(limits: &[LimitPart]) -> String {
    let by_store = |limit: &&LimitPart| limit.by.as_ref().is_some_and(|by| !by.store.is_empty());
    let shared = limits.iter().filter(by_store);
    let shared = shared.filter_map(|limit| Some(format!("{} {}", limit.name, limit.by.as_ref()?.words())));
    let shared: Vec<String> = shared.collect();
    if shared.is_empty() { "none (local)".to_owned() } else { shared.join("; ") }
}

/// What to do about a refusal that no limit of the route gave.
fn advice(refusal: Refusal, book: &Book) -> Option<&'static str> {
    match refusal {
        Refusal::NoRoute if book.routes.is_empty() => Some("the policy has no routes"),
        Refusal::NoRoute => Some("no route takes this host, path and method"),
        Refusal::ClientUnresolved => {
            Some("the forwarding header could not be read, and `trusted_proxies` says `reject`: ask the proxy in front")
        }
        Refusal::ValueTooLong => Some("a field or parameter that a route's expression reads is longer than 4 KiB"),
        Refusal::KeyMissing => Some("the request lacks the key of a limit that says `missing: deny`"),
        Refusal::AmbiguousValue => Some(
            "the request has several values of a cookie or parameter: more than a limit counts, or some that fit a route's match and some that do not",
        ),
        Refusal::RepeatedField => Some(
            "a header field that a route or limit reads came in several lines: `repeated_fields` says which of them counts, if any",
        ),
        Refusal::NominatedField => {
            Some("the request's `Connection` named a field that the policy reads, which no origin would have got")
        }
        Refusal::OriginFull => {
            Some("no place was free at the origin, nor came free in time: its `inflight`, not a limit of the client")
        }
        Refusal::Overload => Some(
            "the gate itself had more to do than it could, and refused the least important and the heaviest: not a limit of the client",
        ),
        Refusal::StoreSilent => Some(
            "not the client's doing: the limit's store was silent, and the limit is closed then; `tidegate status` has the store's last fault",
        ),
        Refusal::Penalty => {
            Some("refused requests count here: the client is let in when it pauses for as long as it was told")
        }
        Refusal::Banned => Some("banned: `tidegate unban` with the ban's number lets it in again"),
        Refusal::Denied => Some("`deny` in the policy names its network: no limit was asked"),
        Refusal::Limit | Refusal::Concurrency | Refusal::Inflight | Refusal::FairShare => None,
    }
}

/// What a mark says of an address, for people; `None` for the ordinary one.
fn doubt(mark: &str) -> Option<&'static str> {
    [
        (Mark::Degraded, "an unreadable element ended the walk; counted apart"),
        (Mark::Short, "fewer hops than promised; the peer, counted apart"),
        (Mark::AllTrusted, "nothing but trusted proxies; counted apart"),
    ]
    .into_iter()
    .find(|(known, _)| known.as_str() == mark)
    .map(|(_, words)| words)
}

/// Whether an address is the word of a proxy.
fn is_forwarded(source: Option<&String>) -> bool {
    source.is_some_and(|source| source == Source::Forwarded.as_str())
}

#[cfg(test)]
mod tests;
