//! One store as the gate sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{RedisError, Value};
use tokio::time::{Instant as TokioInstant, sleep, timeout_at};

use super::cluster;
use super::counters::{BUCKETS_MICROS, Counters};
use super::dialer::Access;
use super::fault::{Meaning, elsewhere, meaning};
use super::script::{self, Script, ScriptCall};
use super::servers::Servers;
use super::state::StoreState;
use super::store_log::{Kind, Met};
use super::wire::MOST_ON_THEIR_WAY;
use crate::limiter::sharing::{Amendment, Answer, Question, StoreError};
use crate::policy::{Store, StoreMode};

/// How many servers a question is sent to at most: a key may have moved, or be on its way.
const MOST_SENDINGS: usize = 4;

/// How long a message of other gates is kept in the store, in milliseconds of its clock.
const MESSAGES_KEPT_MILLIS: i64 = 1_000;

/// How long at least the gate waits for the store when gates publish what they admitted: no request waits for that.
const PATIENCE_FOR_MESSAGES: Duration = Duration::from_millis(100);

/// The same for bans, whose text is longer.
const PATIENCE_FOR_BANS: Duration = Duration::from_millis(500);

/// How often it is looked whether a store has answered that a start or a reload waits for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A store's client cannot be made from these settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreFault(RedisError);

/// One store: asks it, leaves a server alone that is silent, and knows how many gates share it.
///
/// [`StoreClient::tend`] has to run all the time; without it every answer is [`StoreError::Unreachable`]. So it is while there is no
/// connection to the key's server, unless that refused the user, the password or the rights when it was tried last: then it is
/// [`StoreError::Faulty`].
pub struct StoreClient {
    servers: Arc<Servers>,
    on_their_way: AtomicU32,
}

impl StoreClient {
    /// A client that is not connected yet.
    ///
    /// # Errors
    /// A password that is not UTF-8, authorities that are no certificates, no server.
    pub fn new(store: &Store, access: &Access) -> Result<StoreClient, StoreFault> {
        let servers = Servers::new(store, access).map_err(StoreFault)?;
        Ok(StoreClient { servers: Arc::new(servers), on_their_way: AtomicU32::new(0) })
    }

    /// Connects, connects again when a connection is lost, and writes this gate's stamp once a second; never returns. To be
    /// spawned once, on the runtime that is to drive the connections.
    pub async fn tend(&self) {
        if self.servers.common.store.mode == StoreMode::Cluster {
            return cluster::tend(&self.servers).await;
        }
        for shard in &self.servers.shards().list {
            shard.tend(&self.servers).await;
        }
    }

    /// Waits until the store has answered, each server of a cluster, but no longer than so. Says whether it has.
    pub async fn answers_within(&self, span: Duration) -> bool {
        let began = Instant::now();
        loop {
            let heard = self.servers.was_heard();
            if heard || began.elapsed() >= span {
                return heard;
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Asks, for at most the store's time, and at most once unless the store says that it did not execute the question. `limit`
    /// is the limit's name, by which all gates know it. A caller that stops waiting leaves the outcome unknown.
    ///
    /// Returns the answer with the store's time of it in microseconds since 1970, and whether the question was sent: one that is
    /// not sent is answered at once. After [`StoreError::TimedOut`], and [`StoreError::Unreachable`] of a connection that broke,
    /// the question may have been charged.
    pub async fn ask(&self, question: &Question, limit: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        let mut sent = None;
        let outcome = self.try_ask(question, limit, &mut sent).await;
        self.heard(&outcome, sent);
        (outcome, sent.is_some())
    }

    fn heard(&self, outcome: &Result<(Answer, u64), StoreError>, sent: Option<Instant>) {
        let took = sent.map(|sent| sent.elapsed());
        self.servers.common.counters.heard(&outcome.map(|(answer, _)| answer), took);
    }

    async fn try_ask(
        &self,
        question: &Question,
        limit: &str,
        sent: &mut Option<Instant>,
    ) -> Result<(Answer, u64), StoreError> {
        let Ok((script, numbers)) = script::asks(question) else {
            let text = format!("limit `{limit}` has numbers that no store can count");
            self.servers.common.note(Kind::odd("numbers"), Met::Asking, None, &text);
            return Err(StoreError::Faulty);
        };
        self.run_about(question, (script, &numbers), limit, self.servers.common.store.timeout, sent).await
    }

    /// Runs a script about the key of a question.
    async fn run_about(
        &self,
        question: &Question,
        (script, numbers): (&Script, &[i64]),
        limit: &str,
        within: Duration,
        sent: &mut Option<Instant>,
    ) -> Result<(Answer, u64), StoreError> {
        let key = script::key(&self.servers.common.store.prefix, question, limit);
        let name = question.value.as_ref().map(|value| &value.0[..]);
        let call = ScriptCall { script, key: &key, numbers, rest: name.as_slice() };
        let value = self.run(&call, within, sent).await?;
        script::answer(value, question).ok_or_else(|| self.no_answer())
    }

    /// Tells what became of a grant, at most once unless the store says that it did not execute it. Returns the answer with the store's
    /// time of it, and whether it was sent: one that was not may be told again.
    pub async fn tell(&self, amendment: &Amendment, limit: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        let mut sent = None;
        let outcome = self.try_tell(amendment, limit, &mut sent).await;
        if sent.is_some() {
            self.heard(&outcome, sent);
        }
        (outcome, sent.is_some())
    }

    async fn try_tell(
        &self,
        amendment: &Amendment,
        limit: &str,
        sent: &mut Option<Instant>,
    ) -> Result<(Answer, u64), StoreError> {
        // it was granted by these numbers
        let (script, numbers) = script::tells(amendment).map_err(|_| StoreError::Faulty)?;
        let within = self.servers.common.store.timeout.max(PATIENCE_FOR_MESSAGES);
        self.run_about(&amendment.question, (script, &numbers), limit, within, sent).await
    }

    /// Publishes a message of this gate to the others, and returns at most `most` of those that others published after the one that
    /// was `read` last.
    ///
    /// # Errors
    /// There is no answer. After [`StoreError::TimedOut`], and [`StoreError::Unreachable`] of a connection that broke, the
    /// message may be there.
    pub async fn publish(
        &self,
        read: (i64, i64),
        node: &[u8],
        message: &[u8],
        most: i64,
    ) -> Result<script::Published, StoreError> {
        let store = &self.servers.common.store;
        let key = script::deltas_key(&store.prefix);
        let numbers = [read.0, read.1, MESSAGES_KEPT_MILLIS, most];
        let call = ScriptCall { script: &script::DELTAS, key: &key, numbers: &numbers, rest: &[node, message] };
        let value = self.run(&call, store.timeout.max(PATIENCE_FOR_MESSAGES), &mut None).await?;
        script::published(value).ok_or_else(|| self.no_answer())
    }

    /// Returns what is kept of bans at this place, if it is not the text that begins with `known`; otherwise keeps `text` instead, if it
    /// is not empty, for so long.
    ///
    /// # Errors
    /// There is no answer. The text may be there then.
    pub async fn keep_bans(
        &self,
        place: &str,
        known: &[u8],
        text: &[u8],
        keep: Duration,
    ) -> Result<script::KeptBans, StoreError> {
        let numbers = [i64::try_from(keep.as_millis()).unwrap_or(i64::MAX)];
        let call = ScriptCall { script: &script::BANS, key: place, numbers: &numbers, rest: &[known, text] };
        let value = self.run(&call, self.servers.common.store.timeout.max(PATIENCE_FOR_BANS), &mut None).await?;
        script::kept_bans(value).ok_or_else(|| self.no_answer())
    }

    fn no_answer(&self) -> StoreError {
        let text = "said something that is no answer";
        self.servers.common.note(Kind::odd(text), Met::Asking, None, &text);
        StoreError::Faulty
    }

    /// Runs a script on the server that has the key, unless that is left alone, and waits for so long; notes in `sent` when it
    /// was sent. Goes on to another server only where one says that it did not execute it, because the key is elsewhere.
    async fn run(
        &self,
        call: &ScriptCall<'_>,
        patience: Duration,
        sent: &mut Option<Instant>,
    ) -> Result<Value, StoreError> {
        let common = &self.servers.common;
        let shards = self.servers.shards();
        let (mut shard, mut ahead) = (shards.of(call.key)?, false);
        let mut live = shard.live()?;
        let _way = OnTheWay::begin(self)?;
        let end = TokioInstant::now() + patience;
        let mut sendings = 0;
        loop {
            let mut permit = shard.admit(common)?;
            let sent = *sent.get_or_insert_with(Instant::now);
            let Ok(heard) = timeout_at(end, live.wire.run(call, ahead)).await else {
                permit.failed(&live);
                return Err(StoreError::TimedOut);
            };
            let error = match heard {
                Ok(value) => {
                    common.answered();
                    match sent.elapsed() > common.store.timeout {
                        // nobody waits for this one, but requests would have waited in vain: it must not end their row of failures
                        true => permit.succeeded_late(),
                        false => permit.succeeded(),
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            sendings += 1;
            let next = shard.address().and_then(|address| elsewhere(&error, address));
            if next.is_some() {
                common.look();
            }
            // only a server that has slots by the word of the cluster is asked: one alone names nobody
            let next = next.and_then(|(address, ahead)| Some((shards.at(&address)?, ahead)));
            if let (Some((next, towards)), true) = (next, sendings < MOST_SENDINGS) {
                permit.succeeded();
                drop(permit);
                (shard, ahead) = (next, towards);
                live = shard.live()?;
                continue;
            }
            let meaning = meaning(&error);
            let Meaning { store_error, ends_link, text, .. } = meaning;
            common.note(meaning, Met::Asking, shard.address(), &format_args!("{text}: {error}"));
            match store_error {
                // it answered, if only that something is wrong
                StoreError::Faulty => permit.succeeded(),
                _ => permit.failed(&live),
            }
            if ends_link {
                shard.give_up(live.number, store_error);
            }
            return Err(store_error);
        }
    }

    /// How many gates share the store, as last heard; this one among them, so at least 1.
    pub fn nodes(&self) -> u32 {
        self.servers.common.nodes()
    }

    /// The operator's name for the store.
    pub fn name(&self) -> &str {
        &self.servers.common.store.name
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.servers.common.counters
    }

    /// Returns how the store stands, and what its client counted.
    pub fn status(&self) -> StoreState {
        let (common, counters) = (&self.servers.common, self.counters());
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ends = BUCKETS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let durations = ends.zip(&counters.durations).scan(0, |sum, (end, count)| {
            *sum += load(count);
            Some((end, *sum))
        });
        let (last_fault, ago) = common.last_fault().unzip();
        StoreState {
            name: common.store.name.clone(),
            connected: self.servers.is_connected(),
            breaker: self.servers.breaker(),
            servers: self.servers.statuses(),
            nodes: self.nodes(),
            questions: load(&counters.asked),
            answers: load(&counters.answered),
            last_fault,
            last_fault_seconds_ago: ago.map(|ago| ago.as_secs()),
            on_their_way: self.on_their_way.load(Ordering::Relaxed),
            standings: self.servers.standings().to_vec(),
            durations: durations.collect(),
            duration_seconds: Duration::from_nanos(load(&counters.duration_nanos)).as_secs_f64(),
            errors: StoreError::ALL.map(|store_error| (store_error.word(), counters.silent(store_error))).to_vec(),
            ..StoreState::default()
        }
    }
}

/// A question that is on its way; a caller that stops waiting drops it.
struct OnTheWay<'a>(&'a StoreClient);

impl<'a> OnTheWay<'a> {
    /// # Errors
    /// Too many are.
    fn begin(client: &'a StoreClient) -> Result<OnTheWay<'a>, StoreError> {
        // counts only; what the question says is published by the connection
        let way = OnTheWay(client);
        match client.on_their_way.fetch_add(1, Ordering::Relaxed) >= MOST_ON_THEIR_WAY {
            true => Err(StoreError::Busy),
            false => Ok(way),
        }
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        self.0.on_their_way.fetch_sub(1, Ordering::Relaxed);
    }
}
