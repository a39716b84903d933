//! A tower layer that holds each client to one limit: `cargo run --example tower_layer`.

use std::future::{Future, Ready, ready};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidegate_limits::limiter::{Kind, Limiter, Place, Spec, kinds};
use tidegate_limits::sketch::{KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};
use tower::{Layer, Service};

/// Holds requests against a limit by the address that `client` finds.
#[derive(Clone)]
pub struct LimitLayer<R> {
    limiter: Arc<Limiter>,
    seed: Seed,
    client: fn(&R) -> IpAddr,
    started: Instant,
}

/// A service behind a [`LimitLayer`].
pub struct Limited<S, R> {
    inner: S,
    limit: LimitLayer<R>,
}

/// An answer of the service, or the nanoseconds after which a refused client may come again.
pub type Outcome<A> = Result<A, Option<u64>>;

impl<R> LimitLayer<R> {
    /// `seed` is drawn at random when serving.
    pub fn new(kind: Kind, seed: Seed, client: fn(&R) -> IpAddr) -> Result<LimitLayer<R>, OutOfRange> {
        let limiter = Arc::new(Limiter::new(&Spec::new("per client", &[kind]), &seed)?);
        Ok(LimitLayer { limiter, seed, client, started: Instant::now() })
    }
}

impl<S, R: Clone> Layer<S> for LimitLayer<R> {
    type Service = Limited<S, R>;

    fn layer(&self, inner: S) -> Limited<S, R> {
        Limited { inner, limit: self.clone() }
    }
}

impl<R, S: Service<R>> Service<R> for Limited<S, R>
where
    S::Future: Send + 'static,
{
    type Response = Outcome<S::Response>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let LimitLayer { limiter, seed, client, started } = &self.limit;
        let mut hasher = KeyHasher::new(seed);
        match client(&request) {
            IpAddr::V4(address) => hasher.part(4, &address.octets()),
            // one host has a whole /64
            IpAddr::V6(address) => hasher.part(6, &address.octets()[..8]),
        }
        let place = Place { key: limiter.own_hash().of(hasher.finish()), ..Place::default() };
        let now = Timestamp::ZERO.after(started.elapsed());
        match limiter.commit(&limiter.probe(&place, now, Cost::ONE), now) {
            Ok((_, hold)) => {
                let answer = self.inner.call(request);
                Box::pin(async move {
                    // a place of an in-flight limit, given back after the answer
                    let _hold = hold;
                    answer.await.map(Ok)
                })
            }
            Err(lost) => {
                let retry = lost.judgement.retry_nanos;
                Box::pin(async move { Ok(Err(retry)) })
            }
        }
    }
}

/// A service that answers at once.
struct Hello;

impl Service<IpAddr> for Hello {
    type Response = &'static str;
    type Error = std::convert::Infallible;
    type Future = Ready<Result<&'static str, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: IpAddr) -> Self::Future {
        ready(Ok("hello"))
    }
}

/// Sends five requests at once against one request a minute with a burst of 3.
pub fn outcomes() -> Result<Vec<Outcome<&'static str>>, OutOfRange> {
    let kind =
        Kind::Rate(kinds::Rate { rate: Rate::new(1, Duration::from_secs(60))?, burst: 3, memory: Bytes(64 << 10) });
    let layer = LimitLayer::new(kind, Seed::from_bytes([7; 16]), |client: &IpAddr| *client)?;
    let mut service = layer.layer(Hello);
    let client = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
    let answers = (0..5).map(|_| match pin!(service.call(client)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(outcome)) => outcome,
        Poll::Pending => unreachable!("neither the layer nor the service waits"),
    });
    Ok(answers.collect())
}

pub fn main() -> Result<(), OutOfRange> {
    for outcome in outcomes()? {
        match outcome {
            Ok(answer) => println!("200 {answer}"),
            Err(Some(nanos)) => println!("429 retry after {} s", nanos.div_ceil(1_000_000_000)),
            Err(None) => println!("429"),
        }
    }
    Ok(())
}
