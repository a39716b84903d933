//! A small HTTP/1.1 server for operators: the metrics page and the admin endpoints. Never for the public.
//!
//! It does not use Pingora, so that it answers while the proxy starts, drains or is overloaded. Its limits are fixed: one request
//! per connection, [`MAX_HEAD`] bytes of head, [`MAX_BODY`] of body, [`DEADLINE`] for the request and again for the answer,
//! [`MAX_CONNECTIONS`] at once. A body has a length, or is a stream that ends with its connection; see [`Body`].

pub mod answer;
pub mod hosts;
mod places;
pub mod request;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

pub use self::answer::{Answer, Body};
pub use self::hosts::Hosts;
use self::places::{Lost, Place, Places};
pub use self::request::{MAX_BODY, MAX_HEAD, Origin, Request};
use crate::edge::listening::{Acceptor, Listening};
use crate::system::socket::Socket;

/// How long a request may take to arrive, and its answer to be taken: each time so long. A connection that takes longer is
/// closed.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// So many connections at once. One more takes the place of the oldest that only waits.
pub const MAX_CONNECTIONS: usize = 64;

/// Knows the answers.
pub trait Answers: Send + Sync + 'static {
    /// The answer to this request. What it does is done even if the client has gone.
    fn answer(&self, request: Request) -> impl Future<Output = Answer> + Send;
}

/// Serves until `shutdown` is true or its sender is gone; answers under way are finished within [`DEADLINE`], streams end.
///
/// # Errors
/// The socket cannot be given to this runtime. Later faults concern single connections and are not errors.
pub async fn serve(socket: Listening, answers: impl Answers, mut shutdown: watch::Receiver<bool>) -> io::Result<()> {
    let listener = Acceptor::new(socket)?;
    let answers = Arc::new(answers);
    let places = Places::new(MAX_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            _ = shutdown.wait_for(|down| *down) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let (answers, shutdown) = (Arc::clone(&answers), shutdown.clone());
        tokio::spawn(async move {
            // broken, or too slow: the connection is closed, and there is nobody to tell
            let _ = converse(stream, &*answers, &place, shutdown).await;
        });
    }
    drop(listener);
    // all places are free when the last answer is done
    let _ = timeout(DEADLINE, places.all_free(MAX_CONNECTIONS)).await;
    Ok(())
}

async fn accept(listener: &Acceptor, places: &Arc<Places>) -> Option<(Socket, Place)> {
    match listener.accept().await.and_then(|(accepted, _)| accepted.watched()) {
        Ok(stream) => Some((stream, places.take().await?)),
        Err(_) => {
            // out of descriptors, mostly: trying again at once would not help and would take a core
            sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

impl From<Lost> for io::Error {
    fn from(_: Lost) -> io::Error {
        io::Error::other("another connection took the place")
    }
}

async fn converse(
    mut stream: Socket,
    answers: &impl Answers,
    place: &Place,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let origin = Origin::of(&stream)?;
    let asked = place.waiting(timeout(DEADLINE, request::read(&mut stream, origin))).await???;
    let (answer, head_only) = match asked {
        // went away before it had asked
        None => return Ok(()),
        Some(Err(refusal)) => (refusal, false),
        Some(Ok(request)) => {
            let head_only = request.method == http::Method::HEAD;
            (answers.answer(request).await, head_only)
        }
    };
    let head = answer.head();
    let Answer { body, witness, .. } = answer;
    match body {
        Body::Whole(body) => {
            let whole = if head_only { head } else { [&head, body.as_ref()].concat() };
            place.waiting(timeout(DEADLINE, stream.write_all(&whole))).await???;
        }
        Body::Stream(pieces) => {
            timeout(DEADLINE, stream.write_all(&head)).await??;
            if !head_only {
                pass_on(&mut stream, pieces, shutdown).await?;
            }
        }
    }
    drop(witness);
    let leaving = async {
        stream.shutdown().await?;
        // what the client still sends is read, or the kernel would reset the connection and could take our answer with it
        let mut rest = [0; 512];
        while stream.read(&mut rest).await? > 0 {}
        Ok(())
    };
    place.waiting(timeout(DEADLINE, leaving)).await??
}

/// Writes pieces as they come, until there are no more, the client leaves or the process ends.
async fn pass_on(
    stream: &mut Socket,
    mut pieces: mpsc::Receiver<bytes::Bytes>,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut unasked = [0; 512];
    loop {
        let piece = tokio::select! {
            piece = pieces.recv() => piece,
            read = stream.read(&mut unasked) => match read? {
                0 => None,
                _ => continue,
            },
            _ = shutdown.wait_for(|down| *down) => None,
        };
        let Some(piece) = piece else { return Ok(()) };
        // one that takes nothing for so long is gone
        timeout(DEADLINE, stream.write_all(&piece)).await??;
    }
}

#[cfg(test)]
mod tests;
