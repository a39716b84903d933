//! The face of limits with `sharing: estimate`: tells the other gates what this one admitted, and charges what they tell.
//!
//! One task per store. Every 100 to 250 ms it puts one message into a stream of the store and reads what others put there since, both
//! in one question, which goes through the store's breaker. No request waits for it. While the store is silent requests go on
//! being counted; what the task has taken out already is one message, sent again until the store says that it has it,
//! under the same number, so that a message that was stored without an answer counts once.
//!
//! The key is `PREFIX{deltas}`: one stream for all limits and all gates, in one slot of a cluster. Messages are dropped
//! after a second of the store's clock, four of the longest periods; a gate that was away for longer missed them, and sees that by the numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::bounds::MOST_ANSWER;
use super::client::StoreClient;
use super::script::Heard as Letters;
use super::state::ExchangeState;
use crate::engine::Told;
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

/// How often a task without any limit to tell of looks whether there is one.
const IDLE: Duration = Duration::from_secs(1);

/// So often in a row a task that has more to hear asks without a pause.
const MOST_IN_A_ROW: usize = 16;

/// Why a message, or what it says of one limit, was not charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Dropped {
    /// Of another version of its form.
    Version,
    /// No message at all.
    Garbled,
    /// By a gate that names clients under another secret.
    Secret,
    /// It was charged before.
    Replay,
    /// Of a limit that this gate does not have, or does not share so.
    Limit,
    /// Of a limit of this name and another kind or window.
    Shape,
}

impl Dropped {
    /// All of them.
    pub const ALL: &'static [Dropped] = <Dropped as strum::VariantArray>::VARIANTS;

    /// The word in metrics.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

/// What gates tell each other through one store; see the module.
pub struct Exchange {
    told: ArcSwap<Vec<Arc<Told>>>,
    talk: Mutex<Talk>,
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

/// How far the talk has come. Held by whoever talks.
struct Talk {
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

impl Exchange {
    /// One in which nothing is told yet.
    pub fn new(now: Timestamp) -> Exchange {
        let halves = [clock::roll().to_le_bytes(), clock::roll().to_le_bytes()];
        let mut node = NodeId([0; 16]);
        node.0.iter_mut().zip(halves.as_flattened()).for_each(|(to, from)| *to = *from);
        let talk = Talk { node, sequence: 0, outbox: None, read: (0, 0), peers: Peers::default(), listened: now };
        Exchange {
            told: ArcSwap::default(),
            talk: Mutex::new(talk),
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

    /// From now on these limits are told of.
    pub fn tell(&self, told: Vec<Arc<Told>>) {
        self.told.store(Arc::new(told));
    }

    /// Tells and hears; never returns. To be spawned once.
    pub async fn tend(&self, client: &StoreClient, clock: Clock) {
        loop {
            let told = self.told.load_full();
            if told.is_empty() {
                sleep(IDLE).await;
                continue;
            }
            let mut talk = self.talk.lock().await;
            for _ in 0..MOST_IN_A_ROW {
                if !self.exchange(&mut talk, &told, client, clock).await {
                    break;
                }
            }
            drop(talk);
            sleep(pause()).await;
        }
    }

    /// How it stands; `None` where nothing is told.
    pub fn state(&self, now: Timestamp) -> Option<ExchangeState> {
        if self.told.load().is_empty() {
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

    /// Sends what there is to tell, and charges what is heard. Says whether there is more to be sent or heard at once.
    async fn exchange(&self, talk: &mut Talk, told: &[Arc<Told>], client: &StoreClient, clock: Clock) -> bool {
        let sent = clock.now();
        if talk.outbox.is_none() {
            talk.outbox = Some(self.take(talk, told, sent));
        }
        let Some(outgoing) = &mut talk.outbox else { return false };
        let age = sent.nanos().saturating_sub(outgoing.taken.nanos()) / 1_000_000;
        set_age(&mut outgoing.bytes, u32::try_from(age).unwrap_or(u32::MAX));
        let tried = std::mem::replace(&mut outgoing.tried, true);
        // kept until the store says that it has it; it may have come in all the same: its number tells
        let Ok(letters) = client.exchange(talk.read, &talk.node.0, &outgoing.bytes, most_messages(told.len())).await
        else {
            return false;
        };
        add(&self.messages_sent, 1);
        add(&self.deltas_sent, outgoing.keys);
        talk.outbox = None;
        if tried {
            // the silence is over. What was admitted here in its time is told by what stands charged without that of others
            talk.outbox = Some(self.take(talk, told, clock.now()));
        }
        talk.read = letters.read;
        talk.listened = sent;
        let more = letters.more || talk.outbox.is_some();
        for (came, bytes) in &letters.messages {
            add(&self.messages_received, 1);
            if let Err(reason) = self.charge(talk, told, (*came, bytes), &letters, (sent, clock.now())) {
                self.dropped(reason);
            }
            tokio::task::yield_now().await;
        }
        self.known_until.store(talk.peers.known_until(talk.listened).nanos(), Ordering::Relaxed);
        more
    }

    /// Takes out what was admitted, as the next message.
    fn take(&self, talk: &mut Talk, told: &[Arc<Told>], now: Timestamp) -> Outgoing {
        talk.sequence += 1;
        let sections: Vec<_> = told.iter().map(|told| told.take(now)).collect();
        add(&self.units_unreported, told.iter().map(|told| told.take_unreported()).sum());
        let keys = sections.iter().map(|section| section.deltas.len() as u64).sum();
        let message = Message {
            secret: told.first().map_or(0, |told| told.secret()),
            node: talk.node,
            sequence: talk.sequence,
            age_millis: 0,
            sections: sections.into_iter().filter(|section| !section.deltas.is_empty()).collect(),
        };
        Outgoing { bytes: message.encode(), taken: now, keys, tried: false }
    }

    /// Charges one message that came into the store at this time, by its clock; it was asked for at `sent`.
    fn charge(
        &self,
        talk: &mut Talk,
        told: &[Arc<Told>],
        (came, bytes): (i64, &[u8]),
        letters: &Letters,
        (sent, now): (Timestamp, Timestamp),
    ) -> Result<(), Dropped> {
        let message = Message::decode(bytes).map_err(|unread| match unread {
            Unread::Version => Dropped::Version,
            Unread::Garbled => Dropped::Garbled,
        })?;
        if told.first().is_some_and(|told| told.secret() != message.secret) {
            return Err(Dropped::Secret);
        }
        let in_store = u64::try_from(letters.now.saturating_sub(came)).unwrap_or(0);
        let age = in_store.saturating_add(u64::from(message.age_millis)).saturating_mul(1_000_000);
        let taken = Timestamp::from_nanos(sent.nanos().saturating_sub(age));
        match talk.peers.hear(message.node, message.sequence, taken, now) {
            Heard::Replay => return Err(Dropped::Replay),
            Heard::Next { missed } => add(&self.messages_missed, missed),
        }
        for section in &message.sections {
            match told.iter().find(|told| told.limit().name == section.limit.name) {
                None => self.dropped(Dropped::Limit),
                Some(told) if told.limit() != section.limit => self.dropped(Dropped::Shape),
                Some(told) => {
                    told.charge(section, now);
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

/// How many messages may be read at once, where gates tell of so many limits: what one answer may take must do for them, or the
/// connection would end, again and again.
fn most_messages(limits: usize) -> i64 {
    /// What a key takes in a message: its name, its tier, and units of up to five bytes.
    const KEY: usize = 16 + 1 + 5;
    let message = limits.saturating_mul(Deltas::KEYS * KEY).saturating_add(1_024);
    i64::try_from((MOST_ANSWER / message).clamp(1, MOST_MESSAGES)).unwrap_or(1)
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// How long until the next message: jittered, so that gates that were started together do not speak together.
fn pause() -> Duration {
    let span = u64::try_from((LONGEST_PERIOD - SHORTEST_PERIOD).as_millis()).unwrap_or(0);
    SHORTEST_PERIOD + Duration::from_millis(clock::roll() % (span + 1))
}
