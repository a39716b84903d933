//! The task that keeps one server's connection: makes it, offers it to questions, and makes it anew when it is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{RedisResult, cmd};
use tokio::time::{sleep, timeout};

use super::{LinkState, Live, Shard};
use crate::limiter::sharing::StoreError;
use crate::store::breaker::BreakerState;
use crate::store::fault::{Meaning, meaning};
use crate::store::servers::Servers;
use crate::store::store_log::{Kind, Met};
use crate::store::wire::Wire;
use crate::store::{gate_count, script};
use crate::system::clock;

/// How soon a connection that could not be made is tried again at first; doubles up to [`LONGEST_PAUSE`], a fifth less or more.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long all servers together may take to make a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long the first answer over a connection is waited for, before questions go out by it all the same.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// After so many stamps in a row that were not answered the connection is made anew.
const MOST_UNHEARD_STAMPS: u32 = 3;

impl Shard {
    /// Connects, connects again when a connection is lost, and says once a second that this gate is there; never returns.
    pub async fn tend(&self, servers: &Servers) {
        let common = &servers.common;
        let mut pause = FIRST_PAUSE;
        loop {
            match timeout(CONNECTING, self.connect(servers)).await {
                Ok(Ok(wire)) => {
                    // a store that wants a password of one who has none lets itself be connected to, again and again
                    if self.serve(servers, wire).await {
                        pause = FIRST_PAUSE;
                    }
                }
                Ok(Err(error)) => {
                    let meaning = meaning(&error);
                    self.link.store(Arc::new(LinkState::Down(meaning.store_error)));
                    common.note(meaning, Met::Tending, self.address(), &format_args!("cannot connect: {error}"));
                }
                Err(_) => {
                    self.link.store(Arc::new(LinkState::Down(StoreError::Unreachable)));
                    let text = "cannot connect: no word from any server";
                    common.note(Kind::away(text), Met::Tending, self.address(), &text);
                }
            }
            self.tried.store(true, Ordering::Relaxed);
            if servers.is_home(self) {
                common.unheard();
            }
            // another server may have its slots by now
            common.look();
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self, servers: &Servers) -> RedisResult<Wire> {
        match &self.address {
            Some(address) => servers.common.dialer.server(address).await,
            None => servers.common.dialer.one().await,
        }
    }

    /// Offers the connection to questions, once the server has said something over it, until it is given up. Says whether it was
    /// offered.
    async fn serve(&self, servers: &Servers, mut wire: Wire) -> bool {
        let common = &servers.common;
        let number = common.counters.connected.fetch_add(1, Ordering::Relaxed) + 1;
        let live = Live { wire: wire.clone(), number };
        let (mut offered, mut unheard) = (false, 0);
        while unheard < MOST_UNHEARD_STAMPS && (!offered || self.is_live(number)) {
            let sent = Instant::now();
            let beaten = match offered {
                true => timeout(gate_count::PATIENCE, self.beat(servers, &mut wire)).await,
                false => timeout(FIRST_ANSWER, self.first_beat(servers, &mut wire)).await,
            };
            let heard = matches!(beaten, Ok(Ok(_)));
            match beaten {
                Ok(Ok(count)) => {
                    unheard = 0;
                    // whoever finds questions unanswered is not alone in that: others may miss their stamps by it
                    if servers.is_home(self) && self.breaker(common) != BreakerState::Closed {
                        common.unheard();
                    }
                    if let Some(count) = count {
                        common.counted(count);
                    }
                    // as soon as a question has to be answered
                    if sent.elapsed() <= common.store.timeout {
                        self.breaker.lock().sign_of_life();
                    }
                    self.heard.store(true, Ordering::Relaxed);
                }
                Ok(Err(error)) => {
                    let meaning = meaning(&error);
                    let Meaning { store_error, ends_link, text, .. } = meaning;
                    common.note(meaning, Met::Tending, self.address(), &format_args!("{text}: {error}"));
                    if ends_link {
                        match offered {
                            true => self.give_up(number, store_error),
                            false => self.link.store(Arc::new(LinkState::Down(store_error))),
                        }
                        return offered;
                    }
                    unheard = 0;
                    if servers.is_home(self) {
                        common.unheard();
                    }
                }
                Err(_) => {
                    unheard += 1;
                    if servers.is_home(self) {
                        common.unheard();
                    }
                }
            }
            let first = !std::mem::replace(&mut offered, true);
            if first {
                self.link.store(Arc::new(LinkState::Up(live.clone())));
                self.tried.store(true, Ordering::Relaxed);
            }
            if heard {
                servers.say_that_it_is_well(first);
            }
            tokio::select! {
                () = self.given_up.notified() => {}
                () = sleep(gate_count::next()) => {}
            }
        }
        self.give_up(number, StoreError::Unreachable);
        offered
    }

    /// A sign of life: this gate's stamp, where the key of the stamps is this server's.
    async fn beat(&self, servers: &Servers, wire: &mut Wire) -> RedisResult<Option<u32>> {
        match servers.is_home(self) {
            true => gate_count::stamp(wire, &servers.common.store.prefix, &servers.common.name).await,
            false => wire.ask(&cmd("PING")).await.map(|_| None),
        }
    }

    /// The first over a connection, which brings the scripts of questions along in the same breath.
    async fn first_beat(&self, servers: &Servers, wire: &mut Wire) -> RedisResult<Option<u32>> {
        let kept = script::to_keep();
        // a server that does not take them says so to the questions
        let keep = join_all(kept.iter().map(|script| {
            let mut wire = wire.clone();
            async move { wire.ask(script).await }
        }));
        let (_, beaten) = tokio::join!(keep, self.beat(servers, wire));
        beaten
    }
}

fn jittered(span: Duration) -> Duration {
    span * (800 + u32::try_from(clock::roll() % 401).unwrap_or(0)) / 1_000
}
