//! The direct lane: requests of HTTP/1.1 without a body to origins of HTTP/1.1, served on the connection's own loop.
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
//! | the body | [`response::body`] for each piece | the same |
//! | the end | [`response::failed`], [`response::ended`] | the same |
//!
//! Heads stay bytes: ranges over what came, edited by the functions that edit Pingora's heads, too ([`fields`](super::fields)), and written by
//! one writer ([`Lines`](tidegate_http::lines::Lines)). Nothing else of a head goes on.
//!
//! A client's side is what implements `Client`: `Http1` on a connection of its own. Whoever speaks another protocol to clients makes a
//! `LaneHead` of what came, has it judged, and calls `DirectLane::request` with its own side.
//!
//! What else there is goes Pingora's way: bodies, upgrades, `Expect`, HTTP/1.0, HTTP/2 on either side. `server.direct: off`, the default, sends everything there.

mod client;
mod head;
mod scratch;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, header};
use pingora::Error;

use self::client::{Client, Http1};
use self::scratch::{OriginSide, Scratch};
use super::context::RequestContext;
use super::fields::{Fields, Name};
use super::forward::{self, Target};
use super::judge::{self, AtHead};
use super::request_view::RequestHead as _;
use super::{attempts, observe, outcome, response};
use crate::edge::requests::{Direct, Left, Requests};
use crate::edge::transport::Transport;
use crate::origins::connector;
use crate::origins::exchange::{AnswerLines, Body, Exchange, Piece};
use crate::policy::{Action, Protocol};
use crate::running::process::Process;
use tidegate_http::head::{Body as RequestBody, Head, Version};

/// The most attempts at one request, whatever a policy asks for.
const MOST_ATTEMPTS: u32 = 8;

/// The lane of all connections.
pub struct DirectLane {
    process: Arc<Process>,
}

/// What comes behind a request.
enum Next {
    /// The next one.
    Another,
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
            let is_plain = head.version == Version::Http11 && head.body == RequestBody::None;
            if !is_plain || head.upgrade || head.expect_continue {
                return Left::Request(head, None);
            }
            let mut scratch = Scratch::take();
            let next = self.next(&mut requests, head, &mut scratch).await;
            scratch.put();
            if let Next::Left(left) = next {
                return left;
            }
        }
    }

    /// Judges the request that has come, and serves it if that is for the lane.
    async fn next(&self, requests: &mut Requests<'_, Transport>, head: Head, scratch: &mut Scratch) -> Next {
        let context = RequestContext::boxed(self.process.generation());
        let names = context.generation.engine().fields().all();
        if scratch.head.read(&head, requests.wire.inbox(), names).is_none() {
            return Next::Left(Left::Request(head, None));
        }
        let stays = requests.may_stay(&head);
        let info = &requests.wire.client().info;
        let mut context = match judge::at_head(&self.process, info, &mut scratch.head, context, stays) {
            AtHead::Forward(context) => context,
            AtHead::Unread => return Next::Left(Left::Request(head, None)),
            AtHead::Answer { answer, stay } => {
                requests.begin(&head);
                answer.parts().into_iter().for_each(|part| requests.wire.put(part));
                if !stay {
                    // a client that has said that this is its last request sends nothing more
                    return Next::Left(if head.keep_alive { Left::Linger } else { Left::Close });
                }
                return match poll_fn(|cx| requests.wire.poll_flush(cx)).await {
                    Ok(()) => Next::Another,
                    Err(_) => Next::Left(Left::Nothing),
                };
            }
        };
        if !is_for_us(&context) {
            return Next::Left(Left::Request(head, Some(context)));
        }
        requests.begin(&head);
        let mut client = Http1::new(requests.wire, &mut scratch.head, &mut scratch.text, stays);
        // in a box, so that a connection that waits for its next request has no room for one
        Box::pin(self.request(&mut client, &mut context, &mut scratch.origin)).await;
        if client.stays() { Next::Another } else { Next::Left(Left::Close) }
    }

    /// Serves one judged request to its log line.
    async fn request(&self, client: &mut impl Client, context: &mut RequestContext, side: &mut OriginSide) {
        let process = &*self.process;
        let served = match outcome::judged(process, client, context).await {
            Ok(true) => Ok(()),
            Ok(false) => self.forward(client, context, side).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            response::failed(process, client, &error, context).await;
            client.close();
        }
        response::ended(process, client, context);
    }

    /// Takes a request to its origin, again where that is allowed.
    async fn forward(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        side: &mut OriginSide,
    ) -> pingora::Result<()> {
        let mut attempts = 1;
        loop {
            match self.attempt(client, context, side).await {
                Err(error) if error.retry() && attempts < MOST_ATTEMPTS => attempts += 1,
                ended => return ended,
            }
        }
    }

    async fn attempt(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        side: &mut OriginSide,
    ) -> pingora::Result<()> {
        let clock = &self.process.clock;
        let target = forward::attempt(&self.process, client, context)?;
        let kept = context.attempt.as_ref().and_then(|attempt| attempt.kept().take(target.way.key()));
        let (stream, reused) = match kept {
            Some(stream) => (stream, true),
            None => match connector::open(Arc::clone(&target.way), target.address, target.connect).await {
                Ok(stream) => (Box::new(stream), false),
                Err(mut error) => {
                    error.as_up();
                    let again = attempts::not_connected(context, client, &error, clock);
                    error.set_retry(again);
                    return Err(error);
                }
            },
        };
        observe::connected(context, reused);
        let OriginSide { lines, text, answer, buffers } = side;
        let mut exchange = Exchange::new(stream, target.read, buffers);
        let ended = async {
            client.head().travels_on(lines);
            forward::head(client, lines, context)?;
            if context.route().is_some_and(|route| !route.request_headers.is_empty()) {
                head::check(lines)?;
            }
            client.head().write(lines, text);
            self.exchange(client, context, &mut exchange, (text, answer), &target).await
        };
        match ended.await {
            Ok(()) => {
                if let (Some(attempt), Some(stream)) = (&context.attempt, exchange.kept()) {
                    attempt.kept().put(stream, target.idle);
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

    /// Sends the request and passes the answer on.
    async fn exchange(
        &self,
        client: &mut impl Client,
        context: &mut RequestContext,
        exchange: &mut Exchange<'_>,
        (request, answer): (&[u8], &mut AnswerLines),
        target: &Target,
    ) -> pingora::Result<()> {
        exchange.send(client.head().method(), request, target.write).await.map_err(Error::into_up)?;
        loop {
            either(client, |cx| exchange.poll_head(cx, answer)).await?;
            let interim = answer.status().is_informational();
            if !interim && exchange.body() == Body::UntilClose {
                // so that the client's connection can stay
                answer.speak_http11();
                let chunked = HeaderValue::from_static("chunked");
                Fields::set(&mut answer.lines, Name::Of(&header::TRANSFER_ENCODING), chunked)?;
            }
            response::head(&self.process, client, answer, context).await?;
            client.write_head(answer).await?;
            if !interim {
                break;
            }
        }
        if exchange.body() == Body::None {
            return client.write_piece(&[], true).await;
        }
        if !exchange.has_more() {
            client.flush_head().await?;
        }
        loop {
            let piece: Piece = either(client, |cx| exchange.poll_piece(cx)).await?;
            let data = exchange.data(&piece);
            if let Some(pause) = response::body(&self.process, client, data.len() as u64, context)? {
                tokio::time::sleep(pause).await;
            }
            client.write_piece(exchange.data(&piece), piece.ends).await?;
            exchange.taken();
            if piece.ends {
                return Ok(());
            }
        }
    }
}

impl Direct<Transport> for DirectLane {
    fn serve<'a>(&'a self, requests: Requests<'a, Transport>) -> Pin<Box<dyn Future<Output = Left> + Send + 'a>> {
        Box::pin(self.run(requests))
    }
}

/// Whether the lane can serve an admitted request.
fn is_for_us(context: &RequestContext) -> bool {
    match context.route().map(|route| &route.action) {
        Some(Action::Forward(_)) => context.origin().is_some_and(|origin| origin.way().protocol() == Protocol::Http1),
        Some(Action::Respond(_)) | None => true,
    }
}

/// Waits for the origin, or until the client has gone or its answer is late.
async fn either<T>(
    client: &mut impl Client,
    mut origin: impl FnMut(&mut Context<'_>) -> Poll<pingora::Result<T>>,
) -> pingora::Result<T> {
    poll_fn(|cx| match origin(cx) {
        Poll::Ready(came) => Poll::Ready(came.map_err(Error::into_up)),
        Poll::Pending => client.poll_gone(cx).map(Err),
    })
    .await
}
