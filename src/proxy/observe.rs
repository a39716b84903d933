//! Reports each request to metrics and log, which read one decision record.

use std::borrow::Cow;

use arrayvec::ArrayVec;
use pingora::{Error, ErrorType};

use super::blame::is_of_origin;
use super::context::RequestContext;
use super::downstream::{Downstream, absence, answered_with};
use super::request_view::{RequestHead, RequestView};
use crate::answer::Fault;
use crate::answer::entry::{Entry, LimitEntry};
use crate::client::{Client, ClientAddress, Source};
use crate::edge::absence::Absence;
use crate::edge::connection_info::ConnectionInfo;
use crate::engine::{Decision, DecisionId, Outcome, Reading, Verdict};
use crate::limiter::sharing::StoreError;
use crate::observe::access_log::Said;
use crate::observe::client_errors::{self, About};
use crate::observe::decisions::Decisions;
use crate::observe::fair_share_log::{Shown, shown_client, shown_network};
use crate::observe::metrics::OriginError;
use crate::observe::notices::sample::Sample;
use crate::observe::state::Ending;
use crate::policy::Route;
use crate::request::Peer;
use crate::running::process::Process;
use crate::system::cause::cause_of;
use crate::system::clock::{roll, wall_nanos};
use crate::units::Criticality;
use tidegate_http::fault::AnswerFault;
use tidegate_http::fault::HeadFault;

/// Counts a connection to the origin, fresh or from the pool.
pub fn connected(context: &RequestContext, reused: bool) {
    if let Some(origin) = context.origin_index() {
        context.generation.metrics().origin_connection(origin, reused);
        if context.attempts > 1 {
            context.generation.metrics().origin_retry(origin);
        }
    }
}

/// Counts an attempt that failed on the origin's side.
pub fn origin_failed(context: &RequestContext, error: &Error) {
    if let Some(origin) = context.origin_index() {
        context.generation.metrics().origin_error(origin, origin_error(error));
    }
}

/// The end of a request, as far as its context does not know it.
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
    /// As the client's side has it.
    pub fn of(session: &'a impl Downstream) -> Ended<'a> {
        let head = session.head();
        let absence = absence(session);
        let unanswered = absence.is_some_and(Absence::left_unanswered);
        let discarded = absence.map_or(0, Absence::discarded);
        let written = answered_with(session);
        Ended {
            protocol: if session.is_http2() { "h2" } else { "h1" },
            method: head.method().as_str(),
            host: head.fields().get(http::header::HOST).map_or(b"".as_slice(), |host| host.as_bytes()),
            path: head.path().as_bytes(),
            status: written.filter(|_| !unanswered).map_or_else(aborted, |status| status.as_u16()),
            bytes_out: session.bytes_out().saturating_sub(discarded),
            head_fault: None,
        }
    }
}

/// Remembers a decision for `explain` and for the sample of requests, before the client can read the answer. `store_error`: why the
/// store of a shared limit did not answer.
pub fn decided(
    process: &Process,
    context: &RequestContext,
    info: Option<&ConnectionInfo>,
    head: &impl RequestHead,
    store_error: Option<StoreError>,
) {
    let Some(evaluation) = &context.evaluation else { return };
    let sampled = Sample::takes(evaluation);
    if !sampled && !Decisions::wants(evaluation) {
        return;
    }
    let (generation, view) = (&context.generation, RequestView::of(info, head));
    let how = (generation.book(), store_error);
    process.decisions.note(generation.engine(), evaluation, &view.request(), how, &process.pseudonyms);
    if sampled {
        generation.sample().note(generation.engine(), evaluation, &view.request());
    }
}

/// Reports a request that has ended.
pub fn done(process: &Process, context: &RequestContext, end: &Ended<'_>) {
    if let Some(evaluation) = &context.evaluation {
        warn_of_flood(process, context, &evaluation.decision);
    }
    if end.status == aborted() {
        let client = context.evaluation.as_ref().and_then(|evaluation| evaluation.decision.client);
        let peer = client.map_or(Peer::Unix, |client| match client.address {
            ClientAddress::Ip(address) => Peer::Ip(address),
            ClientAddress::Unix => Peer::Unix,
        });
        process.noise(context.listener).note(About::Request, client_errors::ABORTED, peer);
    }
    let Some(ended) = process.now_if_watched() else { return };
    let metrics = context.generation.metrics();
    let duration = ended.since(context.started);
    let status = end.status;
    let decision = context.evaluation.as_ref().map(|evaluation| &evaluation.decision);
    let listener = context.listener;
    let route = decision.and_then(|decision| decision.route);
    metrics.request_done(listener, route, status, duration);
    if let (Some(route), Some(forwarded)) = (route, context.forwarded) {
        metrics.origin_done(route, ending(context), context.answered.unwrap_or(ended).since(forwarded));
    }
    let Some(log) = &process.access_log else { return };
    // a head that was refused has no decision, and no dice with it
    let dice = decision.map_or_else(|| end.head_fault.map_or(0, |_| roll()), |decision| decision.dice);
    let Some(wanted) = log.wants(said(decision, end), dice, ended) else { return };
    let policy = context.generation.engine().policy();
    let client = decision.and_then(|decision| decision.client);
    // the longest address has 45 characters, a pseudonym 22
    let shown = client.map(|client| shown_client(&client, log.clients(), &process.pseudonyms));
    let readings = decision.map(|decision| decision.readings.as_slice()).unwrap_or_default();
    let networks: ArrayVec<Option<Shown>, { Route::MAX_RULES }> =
        readings.iter().map(|reading| network_at(process, context, decision?, reading)).collect();
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
                node: node_at(context, reading).map(Cow::Borrowed),
                prefix: network.as_ref().map(|network| Cow::Borrowed(network.as_str())),
            })
        })
        .collect();
    let entry = Entry {
        time_unix_nanos: wall_nanos().saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(0)),
        at: context.started,
        at_zero: Some(process.clock.unix_nanos_at_zero()),
        id: decision.map_or(DecisionId(0), |decision| decision.id),
        listener: Cow::Borrowed(process.settings.listeners.get(listener).map_or("", |listener| listener.name.as_str())),
        protocol: Some(Cow::Borrowed(end.protocol)),
        client: shown.as_ref().map(|shown| Cow::Borrowed(shown.as_str())),
        client_source: client.map(|client| Cow::Borrowed(source_of(&client, context))),
        client_mark: client.map(|client| Cow::Borrowed(client.mark.as_str())),
        method: Cow::Borrowed(end.method),
        host: Cow::Borrowed(end.host),
        path: Cow::Borrowed(end.path),
        route: context.route().map(|route| Cow::Borrowed(route.name.as_str())),
        criticality: decision
            .map(|decision| decision.class.criticality)
            .filter(|criticality| *criticality != Criticality::Default)
            .map(|criticality| Cow::Borrowed(criticality.word())),
        status,
        verdict: decision.map(|decision| decision.verdict),
        limits,
        origin: context
            .origin()
            .filter(|_| context.attempts > 0)
            .map(|origin| Cow::Borrowed(origin.spec().name.as_str())),
        origin_address: context.address.as_deref().map(Cow::Borrowed),
        delay_nanos: decision.map_or(0, delay_nanos),
        attempts: context.attempts,
        duration_nanos: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        origin_nanos: context
            .forwarded
            .zip(context.answered)
            .map(|(from, to)| u64::try_from(to.since(from).as_nanos()).unwrap_or(u64::MAX)),
        bytes_in: context.body_bytes,
        bytes_out: end.bytes_out,
        error: end.head_fault.map(HeadFault::reason).or(context.fault.map(Fault::word)).map(Cow::Borrowed),
        sampled: wanted.sampled,
    };
    log.line(&entry);
}

/// What came of a request that was forwarded; `None` if that says nothing of the origin, as when the client left before the answer.
fn ending(context: &RequestContext) -> Option<Ending> {
    let origin_failed = context.fault.is_some_and(is_of_origin);
    match context.answered_with {
        Some(_) if origin_failed => Some(Ending::Cut),
        Some(status) => Some(Ending::Status(status)),
        None => origin_failed.then_some(Ending::Failed),
    }
}

/// The status of a request whose client left before the answer.
fn aborted() -> u16 {
    Fault::ClientGone.meaning().status.as_u16()
}

/// Where the client's address comes from.
fn source_of(client: &Client, context: &RequestContext) -> &'static str {
    match client.source {
        Source::Peer if context.conveyed => "proxy_protocol",
        source => source.as_str(),
    }
}

/// Returns what the log has to know of the end. A head that was refused was refused without a decision.
fn said(decision: Option<&Decision>, end: &Ended<'_>) -> Said {
    let Some(decision) = decision else { return Said { limited: false, refused: end.head_fault.is_some() } };
    let over = |reading: &Reading| matches!(reading.outcome, Outcome::Refused | Outcome::Tagged);
    let refused = matches!(decision.verdict, Verdict::Refused(_));
    Said { limited: decision.readings.iter().any(over), refused }
}

/// How long a request was held back; zero for one that was refused.
fn delay_nanos(decision: &Decision) -> u64 {
    if decision.verdict == Verdict::Admitted { decision.delay_nanos } else { 0 }
}

/// The word for the node at which `fair_share` refused.
fn node_at<'a>(context: &'a RequestContext, reading: &Reading) -> Option<&'a str> {
    context.generation.flood(reading.rule)?.node(reading.node?)
}

/// The client's network at that node.
fn network_at(process: &Process, context: &RequestContext, decision: &Decision, reading: &Reading) -> Option<Shown> {
    let node = usize::from(reading.node?);
    let rule = context.generation.engine().policy().rules.get(reading.rule)?;
    shown_network(&decision.client?, rule.nodes.get(node)?, process.clients_in_log(), &process.pseudonyms)
}

/// Logs now and then where refusals of `fair_share` come from.
fn warn_of_flood(process: &Process, context: &RequestContext, decision: &Decision) {
    for reading in decision.violated() {
        let Some((flood, node)) = context.generation.flood(reading.rule).zip(reading.node) else { continue };
        let Some(refused) = flood.refused(decision.at) else { continue };
        let rules = &context.generation.engine().policy().rules;
        let limit = rules.get(reading.rule).map_or("", |rule| rule.name.as_str());
        let network = network_at(process, context, decision, reading);
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
