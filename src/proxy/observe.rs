//! What became of a request, told to metrics and log. Both read the one decision record.

use std::borrow::Cow;
use std::fmt::Write;

use arrayvec::{ArrayString, ArrayVec};
use pingora::proxy::Session;
use pingora::{Error, ErrorType};

use super::downstream::{absence, answer_head, link_of};
use super::exchange::Exchange;
use super::facts::Facts;
use crate::answer::Fault;
use crate::answer::entry::{Entry, LimitEntry};
use crate::client::{Client, ClientAddress, Source};
use crate::config::settings::ClientInLog;
use crate::edge::absence::Absence;
use crate::edge::h2::talk::Stream;
use crate::engine::{Decision, DecisionId, Judged, Outcome, Reading, Verdict};
use crate::limiter::cluster::Silence;
use crate::observe::client_errors::{self, About};
use crate::observe::decisions::Decisions;
use crate::observe::fair_share_log::{Shown, shown_client, shown_network};
use crate::observe::metrics::OriginError;
use crate::observe::notices::sample::Sample;
use crate::policy::Route;
use crate::request::{Peer, Request};
use crate::running::generation::Installed;
use crate::running::process::Shared;
use crate::system::cause::cause_of;
use crate::system::clock::{roll, wall_nanos};
use tidegate_http::fault::AnswerFault;
use tidegate_http::fault::HeadFault;

/// A connection to the origin stands, fresh or from the pool.
pub fn connected(exchange: &Exchange, reused: bool) {
    if let Some(origin) = exchange.origin_index() {
        exchange.installed.metrics().origin_connection(origin, reused);
        if exchange.attempts > 1 {
            exchange.installed.metrics().origin_retry(origin);
        }
    }
}

/// An attempt failed on the origin's side.
pub fn origin_failed(exchange: &Exchange, error: &Error) {
    if let Some(origin) = exchange.origin_index() {
        exchange.installed.metrics().origin_error(origin, origin_error(error));
    }
}

/// How a request ended, as far as its exchange does not know.
#[derive(Debug)]
pub struct Ended<'a> {
    /// What the client spoke: `h1` or `h2`.
    pub protocol: &'static str,
    /// The method.
    pub method: &'a str,
    /// The `Host` field.
    pub host: &'a [u8],
    /// The canonical path.
    pub path: &'a [u8],
    /// The status of the answer; 499 when the client left before it.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Why its head was refused, if it was: nothing else is known of it then.
    pub head_fault: Option<HeadFault>,
}

impl<'a> Ended<'a> {
    /// As Pingora's session has it.
    pub fn of(session: &'a Session) -> Ended<'a> {
        let head = session.req_header();
        let absence = absence(session);
        let unanswered = absence.is_some_and(Absence::left_unanswered);
        let discarded = absence.map_or(0, Absence::discarded);
        let written = answer_head(session);
        Ended {
            protocol: if Stream::of(&head.extensions).is_some() { "h2" } else { "h1" },
            method: head.method.as_str(),
            host: head.headers.get(http::header::HOST).map_or(b"".as_slice(), |host| host.as_bytes()),
            path: head.uri.path().as_bytes(),
            status: written.filter(|_| !unanswered).map_or(ABORTED, |head| head.status.as_u16()),
            bytes_out: (session.body_bytes_sent() as u64).saturating_sub(discarded),
            head_fault: None,
        }
    }
}

/// The verdict is known: it is remembered for those who ask why, before the client can read it and ask. `silence` is what the
/// store of a shared limit met it with.
pub fn decided(
    shared: &Shared,
    installed: &Installed,
    judged: &Judged,
    request: &Request<'_>,
    silence: Option<Silence>,
) {
    let how = (installed.book(), silence);
    shared.decisions.note(installed.snapshot(), judged, request, how, &shared.pseudonyms);
    if Sample::takes(judged) {
        installed.sample().note(installed.snapshot(), judged, request);
    }
}

/// The same for a request that is Pingora's.
pub fn decided_about(
    shared: &Shared,
    installed: &Installed,
    judged: &Judged,
    session: &Session,
    silence: Option<Silence>,
) {
    if Decisions::wants(judged) || Sample::takes(judged) {
        let facts = Facts::read(link_of(session), session.req_header());
        decided(shared, installed, judged, &facts.request(), silence);
    }
}

/// The request has ended, one way or another.
pub fn done(shared: &Shared, exchange: &Exchange, end: &Ended<'_>) {
    if let Some(judged) = &exchange.judged {
        warn_of_flood(shared, exchange, &judged.decision);
    }
    if end.status == ABORTED {
        let client = exchange.judged.as_ref().and_then(|judged| judged.decision.client);
        let peer = client.map_or(Peer::Unix, |client| match client.address {
            ClientAddress::Ip(address) => Peer::Ip(address),
            ClientAddress::Unix => Peer::Unix,
        });
        shared.noise(exchange.listener).note(About::Request, client_errors::ABORTED, peer);
    }
    let Some(ended) = shared.now_if_watched() else { return };
    let metrics = exchange.installed.metrics();
    let duration = ended.since(exchange.started);
    let status = end.status;
    let decision = exchange.judged.as_ref().map(|judged| &judged.decision);
    let listener = exchange.listener;
    metrics.request_done(listener, decision.and_then(|decision| decision.route), status, duration);
    if let (Some(origin), Some(forwarded)) = (exchange.origin_index(), exchange.forwarded) {
        metrics.origin_done(origin, exchange.answered.unwrap_or(ended).since(forwarded));
    }
    let Some((log, client_in_log)) = &shared.access_log else { return };
    let limited = decision.is_some_and(is_limited);
    // a head that was refused has no decision, and no dice with it
    if !log.wants(limited, decision.map_or_else(|| end.head_fault.map_or(0, |_| roll()), |decision| decision.dice)) {
        return;
    }
    let policy = exchange.installed.snapshot().policy();
    let client = decision.and_then(|decision| decision.client);
    // the longest address has 45 characters, a pseudonym 22
    let shown = client.map(|client| shown_client(&client, *client_in_log, &shared.pseudonyms));
    let mut address = ArrayString::<64>::new();
    let _ = exchange.address.map_or(Ok(()), |tried| write!(address, "{tried}"));
    let readings = decision.map(|decision| decision.readings.as_slice()).unwrap_or_default();
    let networks: ArrayVec<Option<Shown>, { Route::MAX_RULES }> =
        readings.iter().map(|reading| network_at(shared, exchange, decision?, reading)).collect();
    let limits: ArrayVec<_, _> = readings
        .iter()
        .zip(&networks)
        .filter_map(|(reading, network)| {
            Some(LimitEntry {
                name: Cow::Borrowed(policy.rules.get(reading.rule)?.name.as_str()),
                mode: reading.mode,
                tier: reading.tier,
                outcome: reading.outcome,
                remaining: reading.remaining,
                retry_nanos: reading.retry_nanos,
                node: node_at(exchange, reading).map(Cow::Borrowed),
                prefix: network.as_ref().map(|network| Cow::Borrowed(network.as_str())),
            })
        })
        .collect();
    let entry = Entry {
        time_unix_nanos: wall_nanos().saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(0)),
        at: exchange.started,
        at_zero: Some(shared.clock.unix_nanos_at_zero()),
        id: decision.map_or(DecisionId(0), |decision| decision.id),
        listener: Cow::Borrowed(shared.settings.listeners.get(listener).map_or("", |listener| listener.name.as_str())),
        protocol: Some(Cow::Borrowed(end.protocol)),
        client: shown.as_ref().map(|shown| Cow::Borrowed(shown.as_str())),
        client_source: client.map(|client| Cow::Borrowed(source_of(&client, exchange))),
        client_mark: client.map(|client| Cow::Borrowed(client.mark.as_str())),
        method: Cow::Borrowed(end.method),
        host: Cow::Borrowed(end.host),
        path: Cow::Borrowed(end.path),
        route: exchange.route().map(|route| Cow::Borrowed(route.name.as_str())),
        status,
        verdict: decision.map(|decision| decision.verdict),
        limits,
        origin: exchange
            .origin()
            .filter(|_| exchange.attempts > 0)
            .map(|origin| Cow::Borrowed(origin.spec().name.as_str())),
        origin_address: exchange.address.map(|tried| {
            let unix = exchange.origin().and_then(|origin| origin.way().unix_name(tried));
            Cow::Borrowed(unix.unwrap_or(address.as_str()))
        }),
        delay_nanos: decision.map_or(0, delay_nanos),
        attempts: exchange.attempts,
        duration_nanos: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        origin_nanos: exchange
            .forwarded
            .zip(exchange.answered)
            .map(|(from, to)| u64::try_from(to.since(from).as_nanos()).unwrap_or(u64::MAX)),
        bytes_in: exchange.body_bytes,
        bytes_out: end.bytes_out,
        error: end.head_fault.map(HeadFault::reason).or(exchange.fault.map(Fault::word)).map(Cow::Borrowed),
    };
    log.line(|line| entry.write(line));
}

/// What nginx calls it when the client left before the answer.
const ABORTED: u16 = 499;

/// Whose word the client's address is.
fn source_of(client: &Client, exchange: &Exchange) -> &'static str {
    match client.source {
        Source::Peer if exchange.conveyed => "proxy_protocol",
        source => source.as_str(),
    }
}

/// Whether the request did not fit a limit, obeyed or not.
fn is_limited(decision: &Decision) -> bool {
    decision.readings.iter().any(|reading| matches!(reading.outcome, Outcome::Refused | Outcome::Tagged))
}

/// What a request was held back for; one that was refused after all went at once.
fn delay_nanos(decision: &Decision) -> u64 {
    if decision.verdict == Verdict::Admitted { decision.delay_nanos } else { 0 }
}

/// The word for the node at which `fair_share` refused.
fn node_at<'a>(exchange: &'a Exchange, reading: &Reading) -> Option<&'a str> {
    exchange.installed.flood(reading.rule)?.node(reading.node?)
}

/// The client's network at that node.
fn network_at(shared: &Shared, exchange: &Exchange, decision: &Decision, reading: &Reading) -> Option<Shown> {
    let node = usize::from(reading.node?);
    let rule = exchange.installed.snapshot().policy().rules.get(reading.rule)?;
    let as_what = shared.access_log.as_ref().map_or(ClientInLog::Pseudonym, |(_, as_what)| *as_what);
    shown_network(&decision.client?, rule.nodes.get(node)?, as_what, &shared.pseudonyms)
}

/// Says in the process's log where refusals of `fair_share` come from, now and then.
fn warn_of_flood(shared: &Shared, exchange: &Exchange, decision: &Decision) {
    for reading in decision.violated() {
        let Some((flood, node)) = exchange.installed.flood(reading.rule).zip(reading.node) else { continue };
        let Some(refused) = flood.refused(node, decision.at) else { continue };
        let rules = &exchange.installed.snapshot().policy().rules;
        let limit = rules.get(reading.rule).map_or("", |rule| rule.name.as_str());
        let network = network_at(shared, exchange, decision, reading);
        flood.tell(limit, node, network.as_ref().map(Shown::as_str), refused);
    }
}

fn origin_error(error: &Error) -> OriginError {
    use ErrorType::{
        ConnectError, ConnectNoRoute, ConnectRefused, ConnectTimedout, ConnectionClosed, H1Error, InvalidHTTPHeader,
        ReadError, ReadTimedout, SocketError, TLSHandshakeFailure, WriteError, WriteTimedout,
    };
    if let Some(fault) = cause_of::<AnswerFault>(error) {
        return refused_answer(fault);
    }
    match error.etype() {
        TLSHandshakeFailure => OriginError::Tls,
        ConnectTimedout | ConnectRefused | ConnectNoRoute | ConnectError | SocketError => OriginError::Connect,
        ReadTimedout | WriteTimedout => OriginError::Timeout,
        ReadError | WriteError | ConnectionClosed => OriginError::Reset,
        InvalidHTTPHeader | H1Error => OriginError::Invalid,
        _ => OriginError::Other,
    }
}

/// What a refused answer is counted as.
fn refused_answer(fault: AnswerFault) -> OriginError {
    use AnswerFault as Is;
    match fault {
        Is::StatusLine | Is::Version | Is::LineEnding | Is::FieldName | Is::FieldValue | Is::Folding => {
            OriginError::AnswerHead
        }
        Is::HeadTooLarge | Is::TooManyFields => OriginError::AnswerSize,
        Is::ContentLength | Is::TransferEncoding | Is::LengthAndEncoding | Is::BodyWhereNone => {
            OriginError::AnswerFraming
        }
        Is::TooManyInterim => OriginError::AnswerInterim,
        Is::Switch => OriginError::AnswerSwitch,
        Is::ChunkSize | Is::ChunkExtension | Is::ChunkEnding | Is::Trailer => OriginError::AnswerChunks,
        Is::Cut => OriginError::Reset,
        Is::Unasked => OriginError::Unasked,
        Is::Protocol => OriginError::Tls,
    }
}
