//! One store as the gate sees it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use redis::{RedisError, Value};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::breaker::{Breaker, BreakerState, Pass};
use super::counters::{Counters, StoreStatus};
use super::fault::{Meaning, meaning, was_sent};
use super::lines::{Kind, Lines, Met};
use super::link::{Dialer, Link};
use super::members::Company;
use super::reach::{Line, Live, Servers};
use super::script::Script;
use super::{members, script};
use crate::limiter::cluster::{Answer, Question, Silence};
use crate::policy::Store;
use crate::serve::clock;
use crate::units::time::saturating_nanos;

/// How many questions may be on their way to one store; one more is [`Silence::Busy`].
pub const MOST_ON_THEIR_WAY: u32 = 1_024;

/// How soon a connection that could not be made is tried again at first; doubles up to [`LONGEST_PAUSE`], a fifth less or more.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long all servers together may take to make a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// The servers of a cluster of which one is missed are asked no more often whether they refuse us.
const BETWEEN_LOOKS: Duration = Duration::from_millis(800);

/// After so many stamps in a row that were not answered the connection is made anew.
const MOST_UNHEARD_STAMPS: u32 = 3;

/// How long a message of other gates is kept in the store, in milliseconds of its clock.
const MESSAGES_KEPT_MILLIS: i64 = 1_000;

/// How many messages are read at once.
const MOST_MESSAGES: i64 = 128;

/// How long at least the store is waited for when gates tell each other what they admitted: no request waits for that.
const PATIENCE_FOR_MESSAGES: Duration = Duration::from_millis(100);

/// What is needed to be let in, beside the policy's part.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The password of the store's user; UTF-8.
    pub password: Option<Vec<u8>>,
    /// Certificates, in PEM, of the authorities that alone may vouch for the servers; `None` for the system's. Only with TLS.
    pub authorities: Option<Vec<u8>>,
}

/// A store's client cannot be made from these settings.
#[derive(Debug)]
pub struct StoreFault(RedisError);

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for StoreFault {}

/// One store: asks it, leaves it alone when it is silent, and knows how many gates share it.
///
/// [`StoreClient::tend`] has to run all the time; without it every answer is [`Silence::Unreachable`]. So it is while there is no
/// connection, unless the store refused the user, the password or the rights when it was tried last: then it is [`Silence::Faulty`].
pub struct StoreClient {
    store: Store,
    dialer: Dialer,
    line: ArcSwap<Line>,
    /// Told when the connection in `line` is given up, or one of its servers is missed.
    given_up: Notify,
    /// Held for some nanoseconds, by questions that go over the network anyway.
    breaker: Mutex<Breaker>,
    on_their_way: AtomicU32,
    nodes: AtomicU32,
    name: String,
    counters: Counters,
    started: Instant,
    lines: Lines,
    last_fault: ArcSwapOption<(String, Instant)>,
}

impl StoreClient {
    /// A client that is not connected yet.
    ///
    /// # Errors
    /// A password that is not UTF-8, authorities that are no certificates, no server.
    pub fn new(store: &Store, access: &Access) -> Result<StoreClient, StoreFault> {
        Ok(StoreClient {
            dialer: Dialer::new(store, access).map_err(StoreFault)?,
            line: ArcSwap::from_pointee(Line::Down(Silence::Unreachable)),
            given_up: Notify::new(),
            breaker: Mutex::new(Breaker::new(store.breaker)),
            on_their_way: AtomicU32::new(0),
            nodes: AtomicU32::new(1),
            name: members::name(),
            counters: Counters::default(),
            started: Instant::now(),
            lines: Lines::new(),
            last_fault: ArcSwapOption::empty(),
            store: store.clone(),
        })
    }

    /// Connects, connects again when a connection is lost, and writes this gate's stamp once a second; never returns. To be
    /// spawned once, on the runtime that is to drive the connections.
    pub async fn tend(&self) {
        let mut pause = FIRST_PAUSE;
        let mut company = Company::new();
        loop {
            match timeout(CONNECTING, self.dialer.connect()).await {
                Ok(Ok((link, refusal))) => {
                    // a store that wants a password of one who has none lets itself be connected to, again and again
                    if self.serve((link, refusal), &mut company).await {
                        pause = FIRST_PAUSE;
                    }
                    company.unheard();
                }
                Ok(Err(error)) => {
                    let meaning = meaning(&error);
                    self.line.store(Arc::new(Line::Down(meaning.silence)));
                    self.note(meaning, Met::Tending, &format!("cannot connect: {error}"));
                }
                Err(_) => {
                    self.line.store(Arc::new(Line::Down(Silence::Unreachable)));
                    let text = "cannot connect: no word from any server";
                    self.note(Kind::away(text), Met::Tending, text);
                }
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Asks, for at most the store's time, and at most once unless the store says that it did not execute the question. `limit`
    /// is the limit's name, by which all gates know it. A caller that stops waiting leaves the outcome unknown.
    ///
    /// # Errors
    /// There is no answer. After [`Silence::TimedOut`], and [`Silence::Unreachable`] of a connection that broke, the
    /// question may have been charged.
    pub async fn ask(&self, question: &Question, limit: &str) -> Result<Answer, Silence> {
        self.ask_and_say(question, limit).await.0.map(|(answer, _)| answer)
    }

    /// As [`StoreClient::ask`], with the store's time of the answer in microseconds since 1970.
    ///
    /// # Errors
    /// As [`StoreClient::ask`].
    pub async fn ask_stamped(&self, question: &Question, limit: &str) -> Result<(Answer, u64), Silence> {
        self.ask_and_say(question, limit).await.0
    }

    /// As [`StoreClient::ask_stamped`], and whether the question was sent: one that is not is answered at once.
    pub async fn ask_and_say(&self, question: &Question, limit: &str) -> (Result<(Answer, u64), Silence>, bool) {
        let mut sent = None;
        let outcome = self.try_ask(question, limit, &mut sent).await;
        self.counters.heard(&outcome.map(|(answer, _)| answer), sent.map(|sent: Instant| sent.elapsed()));
        (outcome, sent.is_some())
    }

    async fn try_ask(
        &self,
        question: &Question,
        limit: &str,
        sent: &mut Option<Instant>,
    ) -> Result<(Answer, u64), Silence> {
        let Ok(terms) = question.promise.terms() else {
            let text = format!("limit `{limit}` has numbers that no store can count");
            self.note(Kind::odd("numbers"), Met::Asking, &text);
            return Err(Silence::Faulty);
        };
        let key = script::key(&self.store.prefix, question, limit);
        let (script, arguments) = script::asks(&terms, question.wanted, question.least);
        let value = self.run(script, &key, (&arguments, &[]), self.store.timeout, sent).await?;
        script::answer(value, question).ok_or_else(|| self.no_answer())
    }

    /// Puts a message of this gate among those of all gates, and says what others put there after the one that was `read` last.
    ///
    /// # Errors
    /// There is no answer. After [`Silence::TimedOut`], and [`Silence::Unreachable`] of a connection that broke, the
    /// message may be there.
    pub async fn exchange(&self, read: (i64, i64), node: &[u8], message: &[u8]) -> Result<script::Heard, Silence> {
        let arguments = [read.0, read.1, MESSAGES_KEPT_MILLIS, MOST_MESSAGES];
        let key = script::deltas_key(&self.store.prefix);
        let patience = self.store.timeout.max(PATIENCE_FOR_MESSAGES);
        let value = self.run(&script::DELTAS, &key, (&arguments, &[node, message]), patience, &mut None).await?;
        script::heard(value).ok_or_else(|| self.no_answer())
    }

    fn no_answer(&self) -> Silence {
        let text = "said something that is no answer";
        self.note(Kind::odd(text), Met::Asking, text);
        Silence::Faulty
    }

    /// Runs a script, unless the store is left alone, and waits for so long; notes in `sent` when it was sent.
    async fn run(
        &self,
        script: &Script,
        key: &str,
        (arguments, rest): (&[i64], &[&[u8]]),
        patience: Duration,
        sent: &mut Option<Instant>,
    ) -> Result<Value, Silence> {
        let mut live = match &**self.line.load() {
            Line::Up(live) => live.clone(),
            Line::Down(silence) => return Err(*silence),
        };
        let mut way = OnTheWay::begin(self).map_err(|silence| live.servers.excuse(silence))?;
        *sent = Some(Instant::now());
        let Ok(heard) = timeout(patience, live.link.run(script, key, arguments, rest)).await else {
            way.failed(&live);
            return Err(Silence::TimedOut);
        };
        let error = match heard {
            Ok(value) => {
                self.lines.answered(self.now());
                match sent.is_some_and(|sent| sent.elapsed() > self.store.timeout) {
                    // nobody waits for this one, but requests would have waited in vain: it must not end their row of failures
                    true => way.succeeded_late(),
                    false => way.succeeded(),
                }
                return Ok(value);
            }
            Err(error) => error,
        };
        sent.take_if(|_| !was_sent(&error));
        let meaning = meaning(&error);
        let Meaning { silence, ends_link, text, .. } = meaning;
        self.note(meaning, Met::Asking, &format!("{text}: {error}"));
        let to_one = live.link.is_to_one();
        if !to_one && silence == Silence::Unreachable && !live.servers.missed.swap(true, Ordering::Relaxed) {
            self.given_up.notify_one();
        }
        let meant = live.servers.excuse(silence);
        match (silence, meant) {
            // it answered, if only that something is wrong
            (Silence::Faulty, _) => way.succeeded(),
            (_, Silence::Faulty) => {}
            _ => way.failed(&live),
        }
        if ends_link && (silence == Silence::Faulty || to_one) {
            self.give_up(live.number, silence);
        }
        Err(meant)
    }

    /// How many gates share the store, as last heard; this one among them, so at least 1.
    pub fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// The operator's name for the store.
    pub fn name(&self) -> &str {
        &self.store.name
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How the store stands.
    pub fn status(&self) -> StoreStatus {
        let last_fault = self.last_fault.load_full();
        StoreStatus {
            name: self.store.name.clone(),
            connected: matches!(**self.line.load(), Line::Up(_)),
            breaker: self.breaker.lock().state(self.now()),
            nodes: self.nodes(),
            on_their_way: self.on_their_way.load(Ordering::Relaxed),
            asked: self.counters.asked.load(Ordering::Relaxed),
            answered: self.counters.answered.load(Ordering::Relaxed),
            last_fault: last_fault.map(|fault| (fault.0.clone(), fault.1.elapsed())),
        }
    }

    /// Offers the connection to questions, once the store has said something over it, until it is given up. Says whether it was
    /// offered.
    async fn serve(&self, (mut link, refusal): (Link, Option<RedisError>), company: &mut Company) -> bool {
        let number = self.counters.connected.fetch_add(1, Ordering::Relaxed) + 1;
        let live = Live { link: link.clone(), number, servers: Arc::default() };
        self.note_refusal(&live.servers, refusal);
        let mut looked = Instant::now();
        let (mut offered, mut unheard) = (false, 0);
        while unheard < MOST_UNHEARD_STAMPS && (!offered || self.is_live(number)) {
            let stamp = members::stamp(&mut link, &self.store.prefix, &self.name);
            let sent = Instant::now();
            let stamped = timeout(members::PATIENCE, stamp).await;
            let heard = matches!(stamped, Ok(Ok(_)));
            match stamped {
                Ok(Ok(count)) => {
                    unheard = 0;
                    // whoever finds questions unanswered is not alone in that: others may miss their stamps by it
                    if self.breaker.lock().state(self.now()) != BreakerState::Closed {
                        company.unheard();
                    }
                    if let Some(count) = count {
                        self.nodes.store(company.counted(count, self.now()), Ordering::Relaxed);
                    }
                    // as soon as a question has to be answered
                    if sent.elapsed() <= self.store.timeout {
                        self.breaker.lock().sign_of_life();
                    }
                }
                Ok(Err(error)) => {
                    company.unheard();
                    let meaning = meaning(&error);
                    let Meaning { silence, ends_link, text, .. } = meaning;
                    self.note(meaning, Met::Tending, &format!("{text}: {error}"));
                    // of a cluster it may be one server that is gone, and the questions be for the others
                    if ends_link && (offered || link.is_to_one() || silence == Silence::Faulty) {
                        match offered {
                            true => self.give_up(number, silence),
                            false => self.line.store(Arc::new(Line::Down(silence))),
                        }
                        return offered;
                    }
                    unheard = 0;
                    live.servers.missed.fetch_or(!link.is_to_one(), Ordering::Relaxed);
                }
                // of a cluster it may be one server that is silent, and not the one of the questions
                Err(_) => {
                    company.unheard();
                    unheard += u32::from(link.is_to_one());
                }
            }
            let missed =
                [&live.servers.missed, &live.servers.refuse].into_iter().any(|one| one.load(Ordering::Relaxed));
            if missed && looked.elapsed() >= BETWEEN_LOOKS {
                live.servers.missed.store(false, Ordering::Relaxed);
                self.note_refusal(&live.servers, self.dialer.refusal().await);
                looked = Instant::now();
            }
            let first = !std::mem::replace(&mut offered, true);
            if first {
                self.line.store(Arc::new(Line::Up(live.clone())));
            }
            if first && heard && self.lines.connected() {
                tracing::info!(store = self.store.name, "connected to the store");
            } else if heard && self.lines.well(self.now()) {
                tracing::info!(store = self.store.name, "the store answers again");
            }
            tokio::select! {
                () = self.given_up.notified() => {}
                () = sleep(members::next()) => {}
            }
        }
        self.give_up(number, Silence::Unreachable);
        offered
    }

    /// Keeps whether a server of a cluster refuses us.
    fn note_refusal(&self, servers: &Servers, refusal: Option<RedisError>) {
        servers.refuse.store(refusal.is_some(), Ordering::Relaxed);
        if let Some(error) = refusal {
            let meaning = meaning(&error);
            self.note(meaning, Met::Tending, &format!("{}: {error}", meaning.text));
        }
    }

    fn is_live(&self, number: u64) -> bool {
        matches!(&**self.line.load(), Line::Up(live) if live.number == number)
    }

    /// Offers this connection to nobody any more, and says that instead.
    fn give_up(&self, number: u64, silence: Silence) {
        let before = self.line.rcu(|line| match &**line {
            Line::Up(live) if live.number == number => Arc::new(Line::Down(live.servers.excuse(silence))),
            _ => Arc::clone(line),
        });
        if matches!(&*before, Line::Up(live) if live.number == number) {
            self.given_up.notify_one();
        }
    }

    /// Keeps what went wrong, and logs it unless the last line of this kind is young.
    fn note(&self, kind: impl Into<Kind>, met: Met, text: &str) {
        self.last_fault.store(Some(Arc::new((text.to_owned(), Instant::now()))));
        if self.lines.fault(kind.into(), met, self.now()) {
            tracing::warn!(store = self.store.name, "store: {text}");
        }
    }

    /// Nanoseconds of the breaker and the log.
    fn now(&self) -> u64 {
        saturating_nanos(self.started.elapsed())
    }
}

/// A question that is on its way; a caller that stops waiting drops it.
struct OnTheWay<'a> {
    client: &'a StoreClient,
    pass: Option<Pass>,
}

impl<'a> OnTheWay<'a> {
    /// # Errors
    /// Too many are, or the store is left alone.
    fn begin(client: &'a StoreClient) -> Result<OnTheWay<'a>, Silence> {
        // counts only; what the question says is published by the connection
        if client.on_their_way.fetch_add(1, Ordering::Relaxed) >= MOST_ON_THEIR_WAY {
            client.on_their_way.fetch_sub(1, Ordering::Relaxed);
            return Err(Silence::Busy);
        }
        let mut way = OnTheWay { client, pass: None };
        way.pass = client.breaker.lock().admit(client.now());
        if way.pass.is_some() { Ok(way) } else { Err(Silence::Breaker) }
    }

    fn succeeded(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.client.breaker.lock().succeeded(pass, self.client.now());
        }
    }

    /// The store is there, but slower than requests wait for it.
    fn succeeded_late(&mut self) {
        if self.pass.as_ref().is_some_and(Pass::is_probe) {
            self.succeeded();
        }
    }

    /// Gives up the connection if the breaker opened: a paused or replaced server leaves its connections hanging.
    fn failed(&mut self, live: &Live) {
        let Some(pass) = self.pass.take() else { return };
        let opened = self.client.breaker.lock().failed(pass, self.client.now(), clock::roll());
        if opened {
            self.client.counters.breaker_opened.fetch_add(1, Ordering::Relaxed);
            self.client.give_up(live.number, Silence::Unreachable);
            let text = "silent, and left alone for a while";
            self.client.note(Kind::away(text), Met::Asking, text);
        }
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        self.client.on_their_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(pass) = self.pass.take() {
            self.client.breaker.lock().unheard(pass);
        }
    }
}

fn jittered(span: Duration) -> Duration {
    span * (800 + u32::try_from(clock::roll() % 401).unwrap_or(0)) / 1_000
}
