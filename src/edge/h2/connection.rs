//! The life of one connection that speaks HTTP/2: the preface and the first head within their time, then a task for every
//! request, until the client leaves, has nothing to ask for too long, or has had its share.
//!
//! One task drives the connection; the library moves bytes only while it is polled. It takes the requests, judges their heads
//! and answers those that are refused. The requests themselves run in tasks of their own, as each waits for its origin.
//!
//! The connection ends in one of three ways. *Leaving* (the process stops, the connection is old, the policy wants it): the
//! client is told by GOAWAY, takes its further requests elsewhere, and what is under way is finished. *Closing* (nothing asked
//! for too long): GOAWAY and the end. *Cutting off* (see [`Violation`]): GOAWAY with `ENHANCE_YOUR_CALM`, and whatever was under
//! way is given up, which releases its places at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::date::get_cached_date;
use pingora::protocols::{Digest, IO};
use pingora::server::ShutdownWatch;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use super::direct::{DirectStreams, Outcome};
use super::frame_tap::{FrameTap, TapState};
use super::session::Session;
use super::stream_io::{SEND_BUFFER, StreamIo};
use super::streams::{Stream, Streams};
use crate::edge::common::Edge;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::limits::ConnectionLimits;
use crate::edge::min_rate::TransferCredit;
use crate::request::Peer;
use tidegate_http::fault::HeadFault;
use tidegate_http::h2::frames::{Account, Allowance, Credit, Kind, PREFACE, SMALL_BUDGET, Violation};
use tidegate_http::h2::request::{self, Head};

/// Bytes of a request's body that the library may hold before the proxy takes them: the default of RFC 9113. Bounds a body
/// that is not read.
const STREAM_WINDOW: u32 = 65_535;
/// Bytes that the library may hold of all bodies of a connection.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Twice the largest head that is served, so that one that is too large is seen, answered and counted here; the library
/// answers still larger ones by itself.
const HEAD_LIST_FACTOR: u32 = 2;
/// How many requests may be refused for their head, or because too many are under way. Honest clients make none of the first,
/// and a hundred of the second at most, before they have read our settings.
const REFUSALS: Allowance = Allowance { count: 100, nanos: 100_000_000_000 };
/// How many streams the client may make us reset by breaking the protocol. The library never forgets one.
const RESETS_BY_FAULT: usize = 200;
/// From so many on it is they that made the library give up.
const MANY_RESETS: u32 = RESETS_BY_FAULT as u32 / 2;
/// How long a client that was told to leave may still begin requests, which it may have sent before it heard of it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Serves a connection until it ends. `first` are bytes of it that have been read already, `begun` is when it began. `direct` serves what
/// it can.
pub async fn serve<A, S>(
    (app, direct): (&Arc<A>, Option<Arc<dyn DirectStreams>>),
    transport: S,
    first: BytesMut,
    begun: Instant,
    info: Arc<ConnectionInfo>,
    edge: &Arc<Edge>,
    shutdown: &ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
    S: IO + 'static,
{
    let limits = &edge.limits;
    let digest = Arc::new(Digest {
        ssl_digest: transport.get_ssl_digest(),
        timing_digest: transport.get_timing_digest(),
        proxy_digest: transport.get_proxy_digest(),
        socket_digest: transport.get_socket_digest(),
    });
    let peer = info.peer;
    let tap_state = TapState::new(begun);
    let account = Account::new(limits.h2.frames(&limits.head), Duration::ZERO);
    // of all answers together; each has its own time besides
    let download = TransferCredit::new(limits.least_answer_rate, None);
    let streams = Arc::new(Streams::default());
    let (tap, mut home) =
        FrameTap::new(transport, first, PREFACE.len(), account, download, Arc::clone(&tap_state), Arc::clone(&streams));
    let abuse = match timeout_at(begun + limits.head_deadline, options(limits).handshake(tap)).await {
        Ok(Ok(connection)) => {
            let round = Round {
                app,
                direct,
                edge,
                shutdown,
                info,
                digest,
                tap_state: Arc::clone(&tap_state),
                streams,
                begun,
                taken: 0,
                refusals: Credit::new(REFUSALS, Duration::ZERO),
                left_at: None,
                quiet_since: begun,
            };
            round.run(connection).await
        }
        Ok(Err(error)) => abuse_of(&error, &tap_state),
        Err(_) => Some(Violation::Late),
    };
    tell_refused_by_library(edge, &tap_state, peer);
    if let Some(abuse) = abuse {
        edge.events.abused(abuse, peer);
    }
    if let Ok(transport) = home.try_recv() {
        linger(transport, limits).await;
    }
}

fn options(limits: &ConnectionLimits) -> Builder {
    let head_bytes = u32::try_from(limits.head.bytes).unwrap_or(u32::MAX);
    let mut options = Builder::new();
    options
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(SMALL_BUDGET)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(head_bytes.saturating_mul(HEAD_LIST_FACTOR))
        .max_concurrent_streams(limits.h2.streams)
        .max_pending_accept_reset_streams(usize::try_from(limits.h2.pending_resets).unwrap_or(usize::MAX))
        .max_local_error_reset_streams(Some(RESETS_BY_FAULT));
    options
}

/// What an error of the library says about the client; nothing when it merely left.
fn abuse_of(error: &h2::Error, tap_state: &TapState) -> Option<Violation> {
    if !error.is_library() {
        return None;
    }
    // it says that a bound was passed, and the frame that did it says which
    Some(match (error.reason(), tap_state.last()) {
        (Some(Reason::ENHANCE_YOUR_CALM), _) if tap_state.resets() >= MANY_RESETS => Violation::Refusals,
        (Some(Reason::ENHANCE_YOUR_CALM), Some(Kind::Data)) => Violation::EmptyData,
        (Some(Reason::ENHANCE_YOUR_CALM), Some(Kind::Continuation)) => Violation::Continuation,
        (Some(Reason::ENHANCE_YOUR_CALM | Reason::COMPRESSION_ERROR), Some(Kind::Headers)) => Violation::HeaderBomb,
        (Some(Reason::ENHANCE_YOUR_CALM), Some(Kind::Reset)) => Violation::Resets,
        (Some(Reason::ENHANCE_YOUR_CALM), _) => Violation::Refusals,
        _ => Violation::Protocol,
    })
}

/// One connection and what is known of it so far.
struct Round<'a, A> {
    app: &'a Arc<A>,
    direct: Option<Arc<dyn DirectStreams>>,
    edge: &'a Arc<Edge>,
    shutdown: &'a ShutdownWatch,
    info: Arc<ConnectionInfo>,
    digest: Arc<Digest>,
    tap_state: Arc<TapState>,
    streams: Arc<Streams>,
    begun: Instant,
    /// Requests so far, refused ones included.
    taken: u32,
    refusals: Credit,
    /// When the client was told to leave.
    left_at: Option<Instant>,
    /// Since when no request has been under way, as far as the loop has noticed.
    quiet_since: Instant,
}

/// What a turn of the library came to.
#[expect(clippy::large_enum_variant, reason = "taken apart as soon as it is made, once for each request")]
enum Turn {
    Request(Request<RecvStream>, SendResponse<Bytes>),
    /// A head that became no request: the library refused it.
    Refused,
    /// The client sends what it should not.
    Violation(Violation),
    /// The connection is over.
    End,
    Broken(h2::Error),
}

/// What is to be done with the connection.
enum Fate {
    GoOn,
    /// GOAWAY, and the end.
    Close,
    /// GOAWAY with blame, and the end.
    CutOff(Violation),
}

impl<A> Round<'_, A>
where
    A: HttpServerApp + Send + Sync + 'static,
{
    /// Drives the connection to its end; says why, if the client is to blame.
    async fn run<S: IO>(mut self, mut connection: Connection<FrameTap<S>, Bytes>) -> Option<Violation> {
        let mut stopping = self.shutdown.clone();
        let stopping = async move {
            // a vanished sender means that the process is past stopping
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        tokio::pin!(stopping);
        let mut stopped = false;
        let mut timer: Pin<Box<Sleep>> = Box::pin(sleep_until(self.deadline()));
        loop {
            if self.streams.is_leaving() && self.left_at.is_none() {
                self.left_at = Some(Instant::now());
                connection.graceful_shutdown();
            }
            let deadline = self.deadline();
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            let streams = Arc::clone(&self.streams);
            let fate = tokio::select! {
                biased;
                turn = poll_fn(|cx| turn(&mut connection, &self.tap_state, cx)) => match turn {
                    Turn::Request(request, respond) => self.take(request, respond),
                    Turn::Refused => self.refused(),
                    Turn::Violation(abuse) => Fate::CutOff(abuse),
                    Turn::End => return self.tap_state.abuse(),
                    Turn::Broken(error) => return self.tap_state.abuse().or_else(|| abuse_of(&error, &self.tap_state)),
                },
                () = streams.news() => {
                    if self.streams.open() == 0 {
                        self.quiet_since = Instant::now();
                    }
                    Fate::GoOn
                }
                () = &mut stopping, if !stopped => {
                    stopped = true;
                    self.streams.leave();
                    Fate::GoOn
                }
                () = timer.as_mut() => self.rung(),
            };
            match fate {
                Fate::GoOn => {}
                Fate::Close => {
                    farewell(connection, Reason::NO_ERROR, &self.edge.limits).await;
                    return None;
                }
                Fate::CutOff(abuse) => {
                    self.tap_state.stop(abuse);
                    farewell(connection, Reason::ENHANCE_YOUR_CALM, &self.edge.limits).await;
                    return Some(abuse);
                }
            }
        }
    }

    /// When there is something to do even if nothing happens.
    fn deadline(&self) -> Instant {
        let limits = &self.edge.limits;
        let head = match self.tap_state.head_since() {
            Some(since) => Some(since + limits.head_deadline),
            None if self.taken == 0 => Some(self.begun + limits.head_deadline),
            None => None,
        };
        let quiet = self.may_be_quiet().then(|| self.quiet_until());
        let old = limits.lifetime.filter(|_| self.left_at.is_none()).map(|lifetime| self.begun + lifetime);
        // a year is as good as never
        let never = self.begun + Duration::from_secs(365 * 86_400);
        [head, quiet, old].into_iter().flatten().min().unwrap_or(never)
    }

    /// Whether the connection has nothing to do and only so much time for that. Before its first request it has that of a head,
    /// unless it was told to leave: nothing would come of waiting then.
    fn may_be_quiet(&self) -> bool {
        self.streams.open() == 0 && (self.taken > 0 || self.left_at.is_some())
    }

    /// Until when a connection without requests is kept: what was answered last may still be on its way.
    fn quiet_until(&self) -> Instant {
        let limits = &self.edge.limits;
        let idle = if self.left_at.is_some() { limits.idle_while_draining } else { limits.idle };
        self.quiet_since.max(self.tap_state.written()).max(self.left_at.unwrap_or(self.begun)) + idle
    }

    /// A deadline is over, or was when it was set.
    fn rung(&self) -> Fate {
        let now = Instant::now();
        let limits = &self.edge.limits;
        let late = |since: Instant| now >= since + limits.head_deadline;
        if self.tap_state.head_since().is_some_and(late) {
            return Fate::CutOff(Violation::Late);
        }
        // browsers connect before they know what they want, and may never want anything
        if self.taken == 0 && late(self.begun) {
            return Fate::Close;
        }
        if self.may_be_quiet() && now >= self.quiet_until() {
            return Fate::Close;
        }
        if limits.lifetime.is_some_and(|lifetime| now >= self.begun + lifetime) {
            self.streams.leave();
        }
        Fate::GoOn
    }

    /// Another request: judged here, served in a task of its own.
    fn take(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Fate {
        self.taken = self.taken.saturating_add(1);
        self.quiet_since = Instant::now();
        if self.left_at.is_some_and(|since| since.elapsed() > LAST_REQUESTS) {
            // it may ask elsewhere, since nothing was done (RFC 9113 section 8.7)
            respond.send_reset(Reason::REFUSED_STREAM);
            return Fate::GoOn;
        }
        if self.taken >= self.edge.limits.requests {
            self.streams.leave();
        }
        self.tap_state.take(respond.stream_id().as_u32());
        let (mut parts, body) = request.into_parts();
        let bytes = request::bytes(&parts);
        let budget = self.edge.limits.h2.head_bytes;
        let over = self.streams.open() > 0 && self.streams.head_bytes().saturating_add(bytes) > budget;
        let evaluation =
            if over { Err(HeadFault::TooLarge) } else { request::read(&mut parts, &self.edge.head_limits()) };
        match evaluation {
            Ok(expect_continue) => {
                self.spawn(Head { parts, expect_continue, bytes }, body, respond);
                Fate::GoOn
            }
            Err(fault) => {
                let answer = self.edge.events.refused_request(fault, &parts);
                self.edge.events.noticed(fault.reason(), self.info.peer);
                refuse(&mut respond, answer);
                if over { Fate::GoOn } else { self.refused() }
            }
        }
    }

    fn spawn(&self, head: Head, body: RecvStream, respond: SendResponse<Bytes>) {
        let present = self.streams.enter(head.bytes);
        let stream = Stream::new(Arc::clone(&self.info), Arc::clone(&self.streams));
        let Head { parts, expect_continue, .. } = head;
        let mut io = StreamIo::new((&parts, expect_continue), body, respond, stream, Arc::clone(self.edge));
        let (app, direct, shutdown) = (Arc::clone(self.app), self.direct.clone(), self.shutdown.clone());
        let digest = Arc::clone(&self.digest);
        tokio::spawn(async move {
            let _present = present;
            let evaluation = match &direct {
                Some(direct) => match direct.serve_stream(&parts, &mut io).await {
                    Outcome::Served => return,
                    Outcome::Left(evaluation) => evaluation,
                },
                None => None,
            };
            let session = Session::new(parts, io, digest, evaluation);
            app.process_new_http(ServerSession::new_custom(Box::new(session)), &shutdown).await;
        });
    }

    fn refused(&mut self) -> Fate {
        tell_refused_by_library(self.edge, &self.tap_state, self.info.peer);
        // a client that was told to leave and has not heard of it sends requests that the library ignores
        if self.left_at.is_some() || self.refusals.take(1, self.begun.elapsed()) {
            Fate::GoOn
        } else {
            Fate::CutOff(Violation::Refusals)
        }
    }
}

/// Counts and writes down the heads that the library has refused by itself.
fn tell_refused_by_library(edge: &Edge, tap_state: &TapState, peer: Peer) {
    for fault in tap_state.refused_by_library() {
        edge.events.refused_elsewhere(fault);
        edge.events.noticed(fault.reason(), peer);
    }
}

/// Moves the connection on until there is something for the loop.
fn turn<S: IO>(
    connection: &mut Connection<FrameTap<S>, Bytes>,
    tap_state: &TapState,
    cx: &mut Context<'_>,
) -> Poll<Turn> {
    let accepted = connection.poll_accept(cx);
    // whatever became of the head that was handed on, the next one may come
    let held = tap_state.release();
    if let Some(abuse) = tap_state.abuse() {
        return Poll::Ready(Turn::Violation(abuse));
    }
    match accepted {
        Poll::Ready(Some(Ok((request, respond)))) => Poll::Ready(Turn::Request(request, respond)),
        Poll::Ready(Some(Err(error))) => Poll::Ready(Turn::Broken(error)),
        Poll::Ready(None) => Poll::Ready(Turn::End),
        Poll::Pending if held => Poll::Ready(Turn::Refused),
        Poll::Pending => Poll::Pending,
    }
}

/// Answers a request that the proxy never sees. What does not fit the client's window stays with the library until it does,
/// or until the connection ends.
fn refuse(respond: &mut SendResponse<Bytes>, answer: crate::answer::Answer) {
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    response.headers_mut().extend(answer.headers);
    if let Ok(date) = http::HeaderValue::from_bytes(get_cached_date().as_bytes()) {
        response.headers_mut().insert(http::header::DATE, date);
    }
    // a client that has left meanwhile needs no answer
    if let Ok(mut send) = respond.send_response(response, answer.body.is_empty())
        && !answer.body.is_empty()
    {
        let _ = send.send_data(answer.body, true);
    }
}

/// Says goodbye, if the client takes it, and gives up what is under way.
async fn farewell<S: IO>(mut connection: Connection<FrameTap<S>, Bytes>, reason: Reason, limits: &ConnectionLimits) {
    connection.abrupt_shutdown(reason);
    let _ = timeout(limits.linger, poll_fn(|cx| connection.poll_closed(cx))).await;
}

/// Ends our side and gives the client a moment to read what was said before the connection goes: bytes of it that are never
/// read would make the kernel cut it off at once.
async fn linger<S: IO>(mut transport: S, limits: &ConnectionLimits) {
    let farewell = async {
        transport.shutdown().await;
        let mut space = [0; 4096];
        let mut drained = 0;
        while drained <= limits.linger_bytes {
            let read = poll_fn(|cx| {
                let mut buf = ReadBuf::new(&mut space);
                let read = Pin::new(&mut transport).poll_read(cx, &mut buf);
                read.map(|read| read.map(|()| buf.filled().len()))
            });
            match read.await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => drained += bytes,
            }
        }
    };
    let _ = timeout(limits.linger, farewell).await;
}

#[cfg(test)]
mod tests;
