//! Publishes what this gate admitted of limits with `sharing: estimate`, and charges what other gates published.
//!
//! One task per store. Every 100 to 250 ms it adds one message to a stream in the store and reads what others added since, in one
//! question that goes through the store's breaker. No request waits for it. During an outage requests go on being counted. What the
//! task has taken out by then stays one message: it is sent again, under the same number, until the store says that it has it. So
//! a message that was stored although the answer was lost counts once.
//!
//! The key is `PREFIX{deltas}`: one stream for all limits and all gates, in one slot of a cluster. The store keeps messages for one
//! second of its clock, four of the longest periods. A gate that was away for longer misses them, and finds that by their numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::bounds::MOST_ANSWER;
use super::client::StoreClient;
use super::script::Published;
use super::state::{Dropped, ExchangeState};
use crate::engine::PeerSync;
use crate::engine::estimate::LONGEST_PERIOD;
use crate::limiter::sharing::deltas::Deltas;
use crate::limiter::sharing::deltas::message::{Message, NodeId, Unread, set_age};
use crate::limiter::sharing::deltas::peers::{Heard, Peers};
use crate::system::clock::{self, Clock};
use crate::units::Timestamp;

/// The shortest time between two messages; [`LONGEST_PERIOD`] is the longest.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// How many messages are read at once at most.
const MOST_MESSAGES: usize = 128;

/// How often a task without a limit to publish looks whether there is one.
const IDLE: Duration = Duration::from_secs(1);

/// How often in a row a task that has more to read asks without a pause.
const MOST_IN_A_ROW: usize = 16;

/// Synchronises the estimates of the gates at one store; see the module.
pub struct PeerExchange {
    limits: ArcSwap<Vec<Arc<PeerSync>>>,
    progress: Mutex<Progress>,
    /// Up to when everything is known, in nanoseconds of the clock.
    known_until: AtomicU64,
    messages_sent: AtomicU64,
    messages_received: AtomicU64,
    messages_missed: AtomicU64,
    messages_dropped: [AtomicU64; Dropped::ALL.len()],
    deltas_sent: AtomicU64,
    deltas_received: AtomicU64,
    units_unreported: AtomicU64,
}

/// How far the synchronisation has come; one task at a time holds it.
struct Progress {
    node: NodeId,
    sequence: u64,
    outbox: Option<Outgoing>,
    /// The last message that was read.
    read: (i64, i64),
    peers: Peers,
    /// When the store was last asked with success.
    listened: Timestamp,
}

/// A message that the store is not known to have.
struct Outgoing {
    bytes: Vec<u8>,
    taken: Timestamp,
    keys: u64,
    tried: bool,
}

impl PeerExchange {
    /// Publishes nothing yet.
    pub fn new(now: Timestamp) -> PeerExchange {
        let halves = [clock::roll().to_le_bytes(), clock::roll().to_le_bytes()];
        let mut node = NodeId([0; 16]);
        node.0.iter_mut().zip(halves.as_flattened()).for_each(|(to, from)| *to = *from);
        let progress =
            Progress { node, sequence: 0, outbox: None, read: (0, 0), peers: Peers::default(), listened: now };
        PeerExchange {
            limits: ArcSwap::default(),
            progress: Mutex::new(progress),
            known_until: AtomicU64::new(now.nanos()),
            messages_sent: AtomicU64::new(0),
            messages_received: AtomicU64::new(0),
            messages_missed: AtomicU64::new(0),
            messages_dropped: Default::default(),
            deltas_sent: AtomicU64::new(0),
            deltas_received: AtomicU64::new(0),
            units_unreported: AtomicU64::new(0),
        }
    }

    /// Publishes these limits from now on.
    pub fn publish(&self, limits: Vec<Arc<PeerSync>>) {
        self.limits.store(Arc::new(limits));
    }

    /// Sends and reads messages; never returns. To be spawned once.
    pub async fn tend(&self, client: &StoreClient, clock: Clock) {
        loop {
            let limits = self.limits.load_full();
            if limits.is_empty() {
                sleep(IDLE).await;
                continue;
            }
            let mut progress = self.progress.lock().await;
            for _ in 0..MOST_IN_A_ROW {
                if !self.sync(&mut progress, &limits, client, clock).await {
                    break;
                }
            }
            drop(progress);
            sleep(pause()).await;
        }
    }

    /// Returns how it stands; `None` where no limit is published.
    pub fn state(&self, now: Timestamp) -> Option<ExchangeState> {
        if self.limits.load().is_empty() {
            return None;
        }
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let stale = now.nanos().saturating_sub(load(&self.known_until));
        let dropped = Dropped::ALL.iter().zip(&self.messages_dropped);
        Some(ExchangeState {
            staleness_seconds: Duration::from_nanos(stale).as_secs_f64(),
            messages_sent: load(&self.messages_sent),
            messages_received: load(&self.messages_received),
            messages_missed: load(&self.messages_missed),
            messages_dropped: dropped.map(|(reason, count)| (reason.word(), load(count))).collect(),
            deltas_sent: load(&self.deltas_sent),
            deltas_received: load(&self.deltas_received),
            units_unreported: load(&self.units_unreported),
        })
    }

    /// Sends what was admitted, and charges what others sent. Returns whether there is more to send or read at once.
    async fn sync(
        &self,
        progress: &mut Progress,
        limits: &[Arc<PeerSync>],
        client: &StoreClient,
        clock: Clock,
    ) -> bool {
        let sent = clock.now();
        if progress.outbox.is_none() {
            progress.outbox = Some(self.take(progress, limits, sent));
        }
        let Some(outgoing) = &mut progress.outbox else { return false };
        let age = sent.nanos().saturating_sub(outgoing.taken.nanos()) / 1_000_000;
        set_age(&mut outgoing.bytes, u32::try_from(age).unwrap_or(u32::MAX));
        let tried = std::mem::replace(&mut outgoing.tried, true);
        // kept until the store says that it has it; it may have come in all the same: its number tells
        let Ok(published) =
            client.publish(progress.read, &progress.node.0, &outgoing.bytes, most_messages(limits.len())).await
        else {
            return false;
        };
        add(&self.messages_sent, 1);
        add(&self.deltas_sent, outgoing.keys);
        progress.outbox = None;
        if tried {
            // the outage is over: before others' units are charged, take out what was admitted meanwhile
            progress.outbox = Some(self.take(progress, limits, clock.now()));
        }
        progress.read = published.read;
        progress.listened = sent;
        let more = published.more || progress.outbox.is_some();
        for (came, bytes) in &published.messages {
            add(&self.messages_received, 1);
            if let Err(reason) = self.charge(progress, limits, (*came, bytes), &published, (sent, clock.now())) {
                self.dropped(reason);
            }
            tokio::task::yield_now().await;
        }
        self.known_until.store(progress.peers.known_until(progress.listened).nanos(), Ordering::Relaxed);
        more
    }

    /// Takes out what was admitted, as the next message.
    fn take(&self, progress: &mut Progress, limits: &[Arc<PeerSync>], now: Timestamp) -> Outgoing {
        progress.sequence += 1;
        let sections: Vec<_> = limits.iter().map(|limit| limit.take(now)).collect();
        add(&self.units_unreported, limits.iter().map(|limit| limit.take_unreported()).sum());
        let keys = sections.iter().map(|section| section.deltas.len() as u64).sum();
        let message = Message {
            secret: limits.first().map_or(0, |limit| limit.secret()),
            node: progress.node,
            sequence: progress.sequence,
            age_millis: 0,
            sections: sections.into_iter().filter(|section| !section.deltas.is_empty()).collect(),
        };
        Outgoing { bytes: message.encode(), taken: now, keys, tried: false }
    }

    /// Charges one message that came into the store at this time, by its clock; it was asked for at `sent`.
    fn charge(
        &self,
        progress: &mut Progress,
        limits: &[Arc<PeerSync>],
        (came, bytes): (i64, &[u8]),
        published: &Published,
        (sent, now): (Timestamp, Timestamp),
    ) -> Result<(), Dropped> {
        let message = Message::decode(bytes).map_err(|unread| match unread {
            Unread::Version => Dropped::Version,
            Unread::Garbled => Dropped::Garbled,
        })?;
        if limits.first().is_some_and(|limit| limit.secret() != message.secret) {
            return Err(Dropped::Secret);
        }
        let in_store = u64::try_from(published.now.saturating_sub(came)).unwrap_or(0);
        let age = in_store.saturating_add(u64::from(message.age_millis)).saturating_mul(1_000_000);
        let taken = Timestamp::from_nanos(sent.nanos().saturating_sub(age));
        match progress.peers.hear(message.node, message.sequence, taken, now) {
            Heard::Replay => return Err(Dropped::Replay),
            Heard::Next { missed } => add(&self.messages_missed, missed),
        }
        for section in &message.sections {
            match limits.iter().find(|limit| limit.id().name == section.limit.name) {
                None => self.dropped(Dropped::Limit),
                Some(limit) if limit.id() != section.limit => self.dropped(Dropped::Shape),
                Some(limit) => {
                    limit.charge(section, now);
                    add(&self.deltas_received, section.deltas.len() as u64);
                }
            }
        }
        Ok(())
    }

    fn dropped(&self, reason: Dropped) {
        let counts = Dropped::ALL.iter().zip(&self.messages_dropped);
        counts.filter(|(known, _)| **known == reason).for_each(|(_, count)| add(count, 1));
    }
}

/// How many messages may be read at once, where gates publish so many limits: more than one answer may hold would end the connection,
/// again and again.
fn most_messages(limits: usize) -> i64 {
    /// What a key takes in a message: its name, its tier, and units of up to five bytes.
    const KEY: usize = 16 + 1 + 5;
    let message = limits.saturating_mul(Deltas::KEYS * KEY).saturating_add(1_024);
    i64::try_from((MOST_ANSWER / message).clamp(1, MOST_MESSAGES)).unwrap_or(1)
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// How long until the next message: jittered, so that gates that were started together do not send together.
fn pause() -> Duration {
    let span = u64::try_from((LONGEST_PERIOD - SHORTEST_PERIOD).as_millis()).unwrap_or(0);
    SHORTEST_PERIOD + Duration::from_millis(clock::roll() % (span + 1))
}
