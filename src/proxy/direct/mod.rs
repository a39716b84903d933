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
//! | admit, or answer | [`outcome::decide`] | the same |
//! | an address, an attempt, and what comes of it | [`forward::attempt`], [`attempts`] | the same |
//! | the head for the origin | [`forward::head`] behind [`head::strip`] | behind Pingora's own |
//! | the head for the client | [`response::head`] | the same |
//! | the body | [`response::body`] for each piece | the same |
//! | the end | [`response::failed`], [`response::ended`] | the same |
//!
//! What else there is goes Pingora's way: bodies, upgrades, `Expect`, HTTP/1.0, HTTP/2 on either side. `server.direct: off`, the default, sends everything there.

mod client;
mod head;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use pingora::Error;
use pingora::protocols::http::v1::client::http_req_header_to_wire;

use self::client::Client;
use super::context::RequestContext;
use super::downstream::Downstream as _;
use super::forward::{self, Target};
use super::judge::{self, AtHead};
use super::{attempts, observe, outcome, response};
use crate::edge::requests::{Direct, Left, Requests};
use crate::edge::transport::Transport;
use crate::origins::connector;
use crate::origins::exchange::{Body, Exchange, Piece};
use crate::policy::{Action, Protocol};
use crate::running::process::Process;
use tidegate_http::head::{Body as RequestBody, Version};

/// The most attempts at one request, whatever a policy asks for.
const MOST_ATTEMPTS: u32 = 8;

/// The lane of all connections.
pub struct DirectLane {
    process: Arc<Process>,
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
            let stays = requests.may_stay(&head);
            let (wire, process) = (&*requests.wire, &self.process);
            let mut context = match judge::at_head(process, &wire.client().info, &head, wire.inbox(), stays) {
                AtHead::Forward(context) => context,
                AtHead::Unread => return Left::Request(head, None),
                AtHead::Answer { bytes, stay } => {
                    requests.begin(&head);
                    requests.wire.put(&bytes);
                    if !stay {
                        return Left::Linger;
                    }
                    if poll_fn(|cx| requests.wire.poll_flush(cx)).await.is_err() {
                        return Left::Nothing;
                    }
                    continue;
                }
            };
            if !is_for_us(&context) {
                return Left::Request(head, Some(context));
            }
            let taken = requests.begin(&head);
            let Some(fields) = head::request(taken.freeze()) else { return Left::Close };
            let mut client = Client::new(requests.wire, fields, head.hop_by_hop, stays);
            self.request(&mut client, &mut context).await;
            if !client.stays() {
                return Left::Close;
            }
        }
    }

    /// Serves one request to its log line.
    async fn request(&self, client: &mut Client<'_>, context: &mut RequestContext) {
        let process = &*self.process;
        let served = match outcome::decide(process, client, context).await {
            Ok(true) => Ok(()),
            Ok(false) => self.forward(client, context).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            response::failed(process, client, &error, context).await;
            client.close();
        }
        response::ended(process, client, context);
    }

    /// Takes a request to its origin, again where that is allowed.
    async fn forward(&self, client: &mut Client<'_>, context: &mut RequestContext) -> pingora::Result<()> {
        let mut attempts = 1;
        loop {
            match self.attempt(client, context).await {
                Err(error) if error.retry() && attempts < MOST_ATTEMPTS => attempts += 1,
                ended => return ended,
            }
        }
    }

    async fn attempt(&self, client: &mut Client<'_>, context: &mut RequestContext) -> pingora::Result<()> {
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
        let mut exchange = Exchange::new(stream, target.read);
        match self.exchange(client, context, &mut exchange, &target).await {
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
        client: &mut Client<'_>,
        context: &mut RequestContext,
        exchange: &mut Exchange,
        target: &Target,
    ) -> pingora::Result<()> {
        let mut upstream = client.head().clone();
        upstream.set_version(http::Version::HTTP_11);
        if client.has_hop_by_hop() {
            head::strip(&mut upstream);
        }
        forward::head(client, &mut upstream, context)?;
        if context.route().is_some_and(|route| !route.request_headers.is_empty()) {
            head::check(&mut upstream)?;
        }
        let bytes = http_req_header_to_wire(&upstream).ok_or_else(head::unwritable)?;
        exchange.send(&upstream.method, &bytes, target.write).await.map_err(Error::into_up)?;
        loop {
            let mut answer = either(client, |cx| exchange.poll_head(cx)).await?;
            let interim = answer.status.is_informational();
            if !interim && exchange.body() == Body::UntilClose {
                head::chunk(&mut answer)?;
            }
            response::head(&self.process, client, &mut answer, context).await?;
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
    client: &mut Client<'_>,
    mut origin: impl FnMut(&mut std::task::Context<'_>) -> Poll<pingora::Result<T>>,
) -> pingora::Result<T> {
    poll_fn(|cx| match origin(cx) {
        Poll::Ready(came) => Poll::Ready(came.map_err(Error::into_up)),
        Poll::Pending => client.poll_gone(cx).map(Err),
    })
    .await
}
