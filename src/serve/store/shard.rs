//! One server that a store keeps its keys on: its connection, its breaker, and the task that keeps both. Of `single` and
//! `sentinel` there is one, of a cluster one for each server that has slots. What happens to one says nothing of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{RedisResult, cmd};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::breaker::{Breaker, BreakerState, Pass};
use super::common::Common;
use super::fault::{Meaning, meaning};
use super::lines::{Kind, Met};
use super::reach::{Line, Live};
use super::wire::{Address, Wire};
use super::{members, script};
use crate::limiter::cluster::Silence;
use crate::policy;
use crate::serve::clock;

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

/// One server; see the module.
pub struct Shard {
    /// Of a cluster.
    address: Option<Address>,
    line: ArcSwap<Line>,
    /// Told when the connection in `line` is given up.
    given_up: Notify,
    /// Held for some nanoseconds, by questions that go over the network anyway.
    breaker: Mutex<Breaker>,
    /// It has been connected to, or could not be.
    tried: AtomicBool,
    /// It has answered.
    heard: AtomicBool,
}

impl Shard {
    /// One that is not connected yet. `address` is that of a server of a cluster; another is found as the store's mode says.
    pub fn new(settings: policy::Breaker, address: Option<Address>) -> Shard {
        Shard {
            address,
            line: ArcSwap::from_pointee(Line::Down(Silence::Unreachable)),
            given_up: Notify::new(),
            breaker: Mutex::new(Breaker::new(settings)),
            tried: AtomicBool::new(false),
            heard: AtomicBool::new(false),
        }
    }

    /// Where it is, of a cluster.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// The connection, or what is said instead of an answer.
    pub fn live(&self) -> Result<Live, Silence> {
        match &**self.line.load() {
            Line::Up(live) => Ok(live.clone()),
            Line::Down(silence) => Err(*silence),
        }
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        matches!(**self.line.load(), Line::Up(_))
    }

    /// Whether it has been connected to, or could not be.
    pub fn was_tried(&self) -> bool {
        self.tried.load(Ordering::Relaxed)
    }

    /// Whether it has ever answered.
    pub fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Where its breaker stands.
    pub fn breaker(&self, common: &Common) -> BreakerState {
        self.breaker.lock().state(common.now())
    }

    /// Leave to ask it one thing.
    ///
    /// # Errors
    /// It is left alone.
    pub fn admit<'a>(&'a self, common: &'a Common) -> Result<Permit<'a>, Silence> {
        let pass = self.breaker.lock().admit(common.now());
        pass.map(|pass| Permit { shard: self, common, pass: Some(pass) }).ok_or(Silence::Breaker)
    }

    /// Connects, connects again when a connection is lost, and says once a second that this gate is there; never returns.
    pub async fn tend(&self, common: &Common) {
        let mut pause = FIRST_PAUSE;
        loop {
            match timeout(CONNECTING, self.connect(common)).await {
                Ok(Ok(wire)) => {
                    // a store that wants a password of one who has none lets itself be connected to, again and again
                    if self.serve(common, wire).await {
                        pause = FIRST_PAUSE;
                    }
                }
                Ok(Err(error)) => {
                    let meaning = meaning(&error);
                    self.line.store(Arc::new(Line::Down(meaning.silence)));
                    common.note(meaning, Met::Tending, self.address(), &format_args!("cannot connect: {error}"));
                }
                Err(_) => {
                    self.line.store(Arc::new(Line::Down(Silence::Unreachable)));
                    let text = "cannot connect: no word from any server";
                    common.note(Kind::away(text), Met::Tending, self.address(), &text);
                }
            }
            self.tried.store(true, Ordering::Relaxed);
            if common.is_home(self) {
                common.unheard();
            }
            // another server may have its slots by now
            common.look();
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self, common: &Common) -> RedisResult<Wire> {
        match &self.address {
            Some(address) => common.dialer.server(address).await,
            None => common.dialer.one().await,
        }
    }

    /// Offers the connection to questions, once the server has said something over it, until it is given up. Says whether it was
    /// offered.
    async fn serve(&self, common: &Common, mut wire: Wire) -> bool {
        let number = common.counters.connected.fetch_add(1, Ordering::Relaxed) + 1;
        let live = Live { wire: wire.clone(), number };
        let (mut offered, mut unheard) = (false, 0);
        while unheard < MOST_UNHEARD_STAMPS && (!offered || self.is_live(number)) {
            let sent = Instant::now();
            let beaten = match offered {
                true => timeout(members::PATIENCE, self.beat(common, &mut wire)).await,
                false => timeout(FIRST_ANSWER, self.first_beat(common, &mut wire)).await,
            };
            let heard = matches!(beaten, Ok(Ok(_)));
            match beaten {
                Ok(Ok(count)) => {
                    unheard = 0;
                    // whoever finds questions unanswered is not alone in that: others may miss their stamps by it
                    if common.is_home(self) && self.breaker(common) != BreakerState::Closed {
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
                    let Meaning { silence, ends_link, text, .. } = meaning;
                    common.note(meaning, Met::Tending, self.address(), &format_args!("{text}: {error}"));
                    if ends_link {
                        match offered {
                            true => self.give_up(number, silence),
                            false => self.line.store(Arc::new(Line::Down(silence))),
                        }
                        return offered;
                    }
                    unheard = 0;
                    if common.is_home(self) {
                        common.unheard();
                    }
                }
                Err(_) => {
                    unheard += 1;
                    if common.is_home(self) {
                        common.unheard();
                    }
                }
            }
            let first = !std::mem::replace(&mut offered, true);
            if first {
                self.line.store(Arc::new(Line::Up(live.clone())));
                self.tried.store(true, Ordering::Relaxed);
            }
            if heard {
                common.say_that_it_is_well(first);
            }
            tokio::select! {
                () = self.given_up.notified() => {}
                () = sleep(members::next()) => {}
            }
        }
        self.give_up(number, Silence::Unreachable);
        offered
    }

    /// A sign of life: this gate's stamp, where the key of the stamps is this server's.
    async fn beat(&self, common: &Common, wire: &mut Wire) -> RedisResult<Option<u32>> {
        match common.is_home(self) {
            true => members::stamp(wire, &common.store.prefix, &common.name).await,
            false => wire.ask(&cmd("PING")).await.map(|_| None),
        }
    }

    /// The first over a connection, which brings the scripts of questions along in the same breath.
    async fn first_beat(&self, common: &Common, wire: &mut Wire) -> RedisResult<Option<u32>> {
        let [rate, quota, deltas] = script::to_keep();
        let (mut one, mut two, mut three) = (wire.clone(), wire.clone(), wire.clone());
        // a server that does not take them says so to the questions
        let keep = async { tokio::join!(one.ask(&rate), two.ask(&quota), three.ask(&deltas)) };
        let (_, beaten) = tokio::join!(keep, self.beat(common, wire));
        beaten
    }

    fn is_live(&self, number: u64) -> bool {
        matches!(&**self.line.load(), Line::Up(live) if live.number == number)
    }

    /// Offers this connection to nobody any more, and says that instead.
    pub fn give_up(&self, number: u64, silence: Silence) {
        let before = self.line.rcu(|line| match &**line {
            Line::Up(live) if live.number == number => Arc::new(Line::Down(silence)),
            _ => Arc::clone(line),
        });
        if matches!(&*before, Line::Up(live) if live.number == number) {
            self.given_up.notify_one();
        }
    }
}

/// Leave to ask one thing; a caller that stops waiting drops it.
pub struct Permit<'a> {
    shard: &'a Shard,
    common: &'a Common,
    pass: Option<Pass>,
}

impl Permit<'_> {
    /// It answered.
    pub fn succeeded(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.shard.breaker.lock().succeeded(pass, self.common.now());
        }
    }

    /// It is there, but slower than requests wait for it.
    pub fn succeeded_late(&mut self) {
        if self.pass.as_ref().is_some_and(Pass::is_probe) {
            self.succeeded();
        }
    }

    /// Gives up the connection if the breaker opened: a paused or replaced server leaves its connections hanging.
    pub fn failed(&mut self, live: &Live) {
        let Some(pass) = self.pass.take() else { return };
        let opened = self.shard.breaker.lock().failed(pass, self.common.now(), clock::roll());
        if opened {
            self.common.counters.breaker_opened.fetch_add(1, Ordering::Relaxed);
            self.shard.give_up(live.number, Silence::Unreachable);
            let text = "silent, and left alone for a while";
            self.common.note(Kind::away(text), Met::Asking, self.shard.address(), &text);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.shard.breaker.lock().unheard(pass);
        }
    }
}

fn jittered(span: Duration) -> Duration {
    span * (800 + u32::try_from(clock::roll() % 401).unwrap_or(0)) / 1_000
}
