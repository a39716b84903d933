//! The direct lane: requests of HTTP/1 and HTTP/2 to origins of HTTP/1.1. Those of HTTP/1 are served on the connection's own loop, those
//! of HTTP/2 in a task for each stream.
//!
//! Pingora gives each request a session, two channels and a task, parses both heads a second time, and moves what belongs to the
//! request about; that is two thirds of what a request costs. The lane forwards the head that the edge has judged on a connection
//! of its own ([`exchange`](crate::origins::exchange)), and passes on what the strict reader of origins lets through. It takes the
//! same steps as Pingora's phases ([`gate`](super::gate)), by the same functions, so that nobody can tell by which way a request went:
//!
//! | step | here | in Pingora's phases |
//! |---|---|---|
//! | judge | [`judge::at_head`] | the same, or in the session |
//! | admit, or answer | [`outcome::judged`] | the same, behind the judgement |
//! | an address, an attempt, and what comes of it | [`forward::attempt`], [`attempts`] | the same |
//! | the head for the origin | [`forward::head`] behind `LaneHead::travels_on` | behind Pingora's own |
//! | the head for the client | [`response::head`] | the same |
//! | the body of the request | [`forward::body`] for each piece (`Upload`) | the same |
//! | the body of the answer | [`response::body`] for each piece | the same |
//! | the end | [`response::failed`], [`response::ended`] | the same |
//!
//! Heads stay bytes: ranges over what came, edited by the functions that edit Pingora's heads, too ([`fields`](super::fields)), and written by
//! one writer ([`Lines`]). Nothing else of a head goes on.
//!
//! A client's side is what implements `Client`: `Http1` on a connection of its own, `Http2` on a stream. Whoever speaks a protocol to
//! clients makes a `LaneHead` of what came, has it judged, and calls `DirectLane::request` with its own side.
//!
//! What else there is goes Pingora's way: upgrades, and HTTP/2 to origins. `server.direct: off` sends everything there.

mod client;
mod head;
mod http2;
mod scratch;
mod upload;

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderValue, Version, header};
use pingora::Error;
use tokio::time::Instant;

use self::client::{Client, Http1};
use self::scratch::{OriginSide, Scratch};
use self::upload::Upload;
use super::context::RequestContext;
use super::fields::{Fields, Name};
use super::forward::{self, Target};
use super::judge::{self, AtHead};
use super::request_view::{RequestHead as _, WholeHead as _};
use super::{attempts, observe, outcome, response};
use crate::answer::Answer;
use crate::edge::idle_place::{Awaits, GaveWay, IdlePlace};
use crate::edge::requests::{Direct, Left, Requests};
use crate::edge::transport::Transport;
use crate::origins::connector;
use crate::origins::door::OriginPlace;
use crate::origins::exchange::{AnswerLines, Body, Exchange, Piece};
use crate::policy::{Action, Protocol};
use crate::running::process::Process;
use crate::system::timer::Alarm;
use crate::units::Timestamp;
use tidegate_http::head::{Body as RequestBody, Head};
use tidegate_http::lines::Lines;

/// The most attempts at one request, whatever a policy asks for.
const MOST_ATTEMPTS: u32 = 8;

/// A head that takes more is given up as soon as it is sent: of a hundred requests at once on a connection each would be held twice.
const LARGE_HEAD: usize = 8 << 10;

/// The lane of all connections.
pub struct DirectLane {
    process: Arc<Process>,
}

/// What comes behind a request.
enum Next {
    /// The next one.
    Another,
    /// The request itself, which is for somebody else, with the decision about it, if it was judged.
    Request(Option<Box<dyn Any + Send + Sync>>),
    /// Nothing of ours.
    Left(Left),
}

impl DirectLane {
    /// A lane over what all connections share.
    pub fn new(process: Arc<Process>) -> DirectLane {
        DirectLane { process }
    }

    /// Serves requests until one comes that is not for the lane, or the connection is to end.
    async fn run(&self, mut requests: Requests<'_, Transport>) -> Left {
        loop {
            let head = match requests.next().await {
                Ok(head) => head,
                Err(left) => return left,
            };
            if head.upgrade {
                return Left::Request(head, None);
            }
            let mut scratch = Scratch::take();
            let next = self.next(&mut requests, &head, &mut scratch).await;
            scratch.put();
            match next {
                Next::Another => {}
                Next::Request(context) => return Left::Request(head, context),
                Next::Left(left) => return left,
            }
        }
    }

    /// Judges the request that has come, and serves it if that is for the lane.
    async fn next(&self, requests: &mut Requests<'_, Transport>, head: &Head, scratch: &mut Scratch) -> Next {
        let Scratch { head: lane_head, context, text, origin, .. } = scratch;
        // in the place where it stays, as it is some kilobytes
        let judged = context.insert(RequestContext::new(self.process.generation(), Timestamp::ZERO));
        let names = judged.generation.engine().fields().all();
        if lane_head.read(head, requests.wire.inbox(), requests.wire.lines(), names).is_none() {
            return Next::Request(None);
        }
        let stays = requests.may_stay(head);
        let info = &requests.wire.client().info;
        let redirected = if head.body == RequestBody::None {
            match judge::at_head(&self.process, info, lane_head, judged, (stays, text)) {
                AtHead::Forward => None,
                AtHead::Unread => return Next::Request(None),
                AtHead::Answer { answer, stay } => {
                    requests.begin(head);
                    answer.parts().into_iter().for_each(|part| requests.wire.put(part));
                    *text = answer.memory();
                    if !stay {
                        // a client that has said that this is its last request sends nothing more
                        return Next::Left(if head.keep_alive { Left::Linger } else { Left::Close });
                    }
                    return match poll_fn(|cx| requests.wire.poll_flush(cx)).await {
                        Ok(()) => Next::Another,
                        Err(_) => Next::Left(Left::Nothing),
                    };
                }
            }
        } else {
            // it is answered only once it is begun, as its body has to be dealt with
            match judge::judge(&self.process, Some(info), lane_head, judged) {
                Ok(redirected) => redirected,
                Err(_) => return Next::Request(None),
            }
        };
        if !is_for_us(judged) {
            let context = context.take().map(|context| -> Box<dyn Any + Send + Sync> { Box::new(context) });
            return Next::Request(context);
        }
        requests.begin(head);
        let (wire, alarm) = requests.parts();
        let mut client = Http1::new(wire, lane_head, text, stays);
        // in a box, so that a connection that waits for its next request has no room for one
        Box::pin(self.request(&mut client, judged, redirected, (origin, alarm))).await;
        if client.drains() {
            // rare, and so in a box
            Box::pin(client.drain()).await;
        }
        if client.stays() { Next::Another } else { Next::Left(Left::Close) }
    }

    /// Serves one judged request to its log line.
    async fn request(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        redirected: Option<Box<Answer>>,
        side: (&mut OriginSide, &mut Alarm),
    ) {
        let process = &*self.process;
        let served = match outcome::judged(process, client, context, redirected).await {
            Ok(true) => Ok(()),
            Ok(false) => self.forward(client, context, side).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            Box::pin(response::failed(process, client, &error, context)).await;
            client.close();
        }
        response::ended(process, client, context);
    }

    /// Takes a request to its origin, again where that is allowed.
    async fn forward(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        (side, alarm): (&mut OriginSide, &mut Alarm),
    ) -> pingora::Result<()> {
        let mut attempts = 1;
        side.upload.begin(client.head().method().is_idempotent());
        side.idle_place.begin();
        loop {
            match self.attempt(client, context, (side, alarm)).await {
                Err(error) if error.retry() && attempts < MOST_ATTEMPTS => attempts += 1,
                ended => return ended,
            }
        }
    }

    async fn attempt(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        (side, alarm): (&mut OriginSide, &mut Alarm),
    ) -> pingora::Result<()> {
        let clock = &self.process.clock;
        let Target { way, address, connect, read, write, idle } = forward::attempt(&self.process, client, context)?;
        let mut now = Instant::now();
        let kept = context.attempt.as_ref().and_then(|attempt| attempt.kept().take(way.key(), now));
        let (stream, reused) = match kept {
            Some(stream) => (stream, true),
            // what is rare stands in a box of its own, so that every request's is small
            None => match Box::pin(connector::open(way, address, connect)).await {
                Ok(stream) => {
                    now = Instant::now();
                    (Box::new(stream), false)
                }
                Err(mut error) => {
                    error.as_up();
                    let again = attempts::not_connected(context, client, &error, clock);
                    error.set_retry(again);
                    return Err(error);
                }
            },
        };
        observe::connected(context, reused);
        let OriginSide { lines, values, text, upload, answer, buffers, idle_place } = side;
        let mut exchange = Exchange::new(stream, (now, read), (buffers, alarm));
        let ended = async {
            client.head().travels_on(lines)?;
            forward::head(client, lines, context, values)?;
            if context.route().is_some_and(|route| !route.request_headers.is_empty()) {
                head::check(lines)?;
            }
            client.head().write(lines, text);
            if reused {
                exchange.asks(client.head().method(), text, head::body(lines));
            }
            let (process, within) = (&*self.process, write);
            Run { process, client, context, upload, exchange: &mut exchange, within, idle_place: &mut *idle_place }
                .run((lines, text), (answer, values))
                .await
        };
        let ended = ended.await;
        idle_place.moved(0);
        match ended {
            Ok(()) => {
                if let (Some(attempt), Some(stream)) = (&context.attempt, exchange.kept()) {
                    attempt.kept().put(stream, idle);
                }
                Ok(())
            }
            Err(mut error) => {
                error.retry.decide_reuse(reused);
                let again = attempts::broke_off(context, client, &error, clock);
                error.set_retry(again);
                Err(error)
            }
        }
    }
}

/// One attempt on its connection.
struct Run<'a, 'b, C> {
    process: &'a Process,
    client: &'a mut C,
    context: &'a mut RequestContext,
    upload: &'a mut Upload,
    exchange: &'a mut Exchange<'b>,
    /// For one write to the origin.
    within: Duration,
    idle_place: &'a mut IdlePlace,
}

impl<C: Client> Run<'_, '_, C> {
    /// Sends the request and passes the answer on.
    async fn run(
        &mut self,
        (lines, request): (&mut Lines, &mut Vec<u8>),
        (answer, values): (&mut AnswerLines, &mut BytesMut),
    ) -> pingora::Result<()> {
        self.begin(request).await?;
        // what is large is not held while the origin thinks
        if request.capacity() > LARGE_HEAD {
            (*lines, *request) = (Lines::default(), Vec::new());
        }
        loop {
            self.either(|exchange, cx| exchange.poll_head(cx, answer)).await?;
            let interim = answer.status().is_informational();
            if !interim && self.exchange.body() == Body::UntilClose {
                // so that the client's connection can stay
                answer.speak_http11();
                let chunked = HeaderValue::from_static("chunked");
                Fields::set(&mut answer.lines, Name::Of(&header::TRANSFER_ENCODING), chunked)?;
            }
            response::head(self.process, self.client, answer, self.context, values).await?;
            // HTTP/1.0 has none, and takes one for the answer itself (RFC 9110 section 15.2)
            if !interim || self.client.head().version() != Version::HTTP_10 {
                self.client.write_head(answer).await?;
            }
            if !interim {
                break;
            }
        }
        self.body().await?;
        // An answer may come before the request has. The origin gets the rest all the same, as far as it takes it and for as long as the
        // client's side reads it; its place is another's meanwhile.
        if !self.upload.is_over() {
            self.context.answered_whole();
            poll_fn(|cx| self.poll_upload(cx)).await?;
        }
        Ok(())
    }

    /// Sends the head. What was read of the body in attempts before follows it.
    async fn begin(&mut self, request: &[u8]) -> pingora::Result<()> {
        let resent = self.upload.again();
        if resent > 0 {
            let hold = forward::body(self.process, self.client, resent, self.context)?;
            self.upload.hold(hold);
        }
        let method = self.client.head().method();
        self.exchange.begin(method, request, self.within).await.map_err(Error::into_up)
    }

    /// Passes the body of the answer on.
    async fn body(&mut self) -> pingora::Result<()> {
        if self.exchange.body() == Body::None {
            return self.client.write_piece(&[], true).await;
        }
        loop {
            let piece: Piece = self.either(|exchange, cx| exchange.poll_piece(cx)).await?;
            let length = self.exchange.data(&piece).len() as u64;
            if let Some(pause) = response::body(self.process, self.client, length, self.context)? {
                Box::pin(self.pause(pause)).await?;
            }
            self.deliver(&piece).await?;
            self.exchange.taken();
            if piece.ends {
                return Ok(());
            }
        }
    }

    /// Hands a piece of the answer to the client, who may take his time with it as long as nobody waits for his place.
    async fn deliver(&mut self, piece: &Piece) -> pingora::Result<()> {
        let Run { client, context, exchange, idle_place, .. } = self;
        let (length, awaits) = (exchange.data(piece).len(), Awaits::Room(client.connection()));
        let mut write = pin!(client.write_piece(exchange.data(piece), piece.ends));
        poll_fn(|cx| match write.as_mut().poll(cx) {
            Poll::Ready(written) => {
                idle_place.moved(length);
                Poll::Ready(written)
            }
            Poll::Pending => {
                if piece.ends {
                    // its work is over
                    context.place = None;
                }
                poll_idle((idle_place, awaits), context.place.as_mut(), cx).map(|()| Err(GaveWay::error()))
            }
        })
        .await
    }

    /// Holds the answer back for so long, or until the client has gone.
    async fn pause(&mut self, time: Duration) -> pingora::Result<()> {
        self.idle_place.moved(0);
        poll_fn(|cx| self.client.poll_flush(cx)).await?;
        tokio::select! {
            biased;
            gone = poll_fn(|cx| self.client.poll_gone(cx)) => Err(gone),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    /// Waits for the origin while the body of the request goes on to it, or until the client has gone or its answer is late.
    async fn either<T>(
        &mut self,
        mut origin: impl FnMut(&mut Exchange<'_>, &mut Context<'_>) -> Poll<pingora::Result<T>>,
    ) -> pingora::Result<T> {
        poll_fn(|cx| {
            if let Poll::Ready(Err(error)) = self.poll_upload(cx) {
                return Poll::Ready(Err(error));
            }
            match origin(self.exchange, cx) {
                Poll::Ready(Ok(came)) => Poll::Ready(Ok(came)),
                // it may have answered although it took no more; if it has not, that is the reason
                Poll::Ready(Err(error)) => Poll::Ready(Err(self.upload.failed().unwrap_or(error.into_up()))),
                Poll::Pending => {
                    // nobody knows when more comes
                    if let Poll::Ready(Err(error)) = self.client.poll_flush(cx) {
                        return Poll::Ready(Err(error));
                    }
                    self.client.poll_gone(cx).map(Err)
                }
            }
        })
        .await
    }

    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<pingora::Result<()>> {
        let Run { process, client, context, upload, exchange, within, idle_place } = self;
        if upload.is_over() {
            return Poll::Ready(Ok(()));
        }
        let before = upload.read();
        let passes = |client: &C, bytes| forward::body(process, client, bytes, context);
        let polled = upload.poll(*client, exchange, *within, passes, cx);
        let awaits_client = polled.is_pending() && upload.awaits_client() && !client.may_pause();
        if !awaits_client || upload.read() > before {
            idle_place.moved(usize::try_from(upload.read() - before).unwrap_or(usize::MAX));
        }
        if awaits_client && poll_idle((idle_place, Awaits::Upload), context.place.as_mut(), cx).is_ready() {
            return Poll::Ready(Err(GaveWay::error()));
        }
        polled
    }
}

impl Direct<Transport> for DirectLane {
    fn serve<'a>(&'a self, requests: Requests<'a, Transport>) -> Pin<Box<dyn Future<Output = Left> + Send + 'a>> {
        Box::pin(self.run(requests))
    }
}

/// The client is waited for. `Ready` once the place was given away.
fn poll_idle(
    (idle, awaits): (&mut IdlePlace, Awaits),
    place: Option<&mut OriginPlace>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    match place.filter(|place| place.is_capped()) {
        Some(place) => idle.poll(awaits, |long| place.give_way(long), cx),
        None => Poll::Pending,
    }
}

/// Whether the lane can serve an admitted request.
fn is_for_us(context: &RequestContext) -> bool {
    match context.route().map(|route| &route.action) {
        Some(Action::Forward(_)) => context.origin().is_some_and(|origin| origin.way().protocol() == Protocol::Http1),
        Some(Action::Respond(_)) | None => true,
    }
}
