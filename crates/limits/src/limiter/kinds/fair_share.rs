//! `type: fair_share`: so many per second in all. While there is enough for all it does nothing; else requests wait, and the next is the one
//! whose key and networks used least. [`door`](crate::door) says how.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::form::{Bound, Form, FromWords, LimitKind, Part, compared, own};
use super::rate::BURST;
use super::words::{Takes, Value, Word, Words};
use crate::door::{Asks, LEVELS, PlacesSpec, Reserved, TokenDoor, TokensSpec};
use crate::limiter::kind::Sketch;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::probe::{Probe, Seen};
use crate::limiter::{Gauges, Judgement, Kind, Lost, Moved, Place, Refuses, Spec, State, Taken};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{NextUnit, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Rate, Share, Timestamp};

/// At most `capacity·τ + burst` in every interval τ, whoever asks; who used least goes first.
#[derive(Debug, Clone, PartialEq)]
pub struct FairShare {
    /// What is shared.
    pub capacity: Rate,
    /// The most at one instant.
    pub burst: u32,
    /// The part of the burst that the heaviest leave to lighter ones.
    pub reserve: Share,
    /// The parts of the burst that less important requests leave to more important ones.
    pub reserved: Reserved,
    /// How many may wait.
    pub queue: u32,
    /// How long one may wait.
    pub wait: Duration,
    /// The networks around the key, by the length of their IPv4 prefix, the longest first; and for how many clients each stands.
    pub networks: Vec<(u8, u32)>,
}

const CAPACITY: Word = Word::new(
    "capacity",
    Takes::Capacity,
    "What is shared out: a rate such as `2000/s`. `origin:NAME` is read and does nothing: that origin's `inflight` shares out its places. \
     For `fair_share`; must be given.",
);

const QUEUE: Word = Word::new(
    "queue",
    Takes::Number(1..=65_536),
    "How many may wait; of a full queue the heaviest is refused. Default: a second's worth, 64 to 4096. For `fair_share`.",
);

const WAIT: Word = Word::new(
    "wait",
    Takes::Duration(Duration::from_millis(1)..=Duration::from_secs(60)),
    "How long one may wait before it is refused: {range}. Default `500ms`. For `fair_share`.",
);

const NETWORKS: Word = Word::new(
    "networks",
    Takes::Networks,
    "For how many clients a network around the client stands, by the length of its IPv4 prefix (IPv6: twice that): at most two; `{}` for \
     none. Default: `{24: 16, 16: 64}` where the key has a `client_ip`. For `fair_share`.",
);

const RESERVE: Word = Word::new(
    "reserve",
    Takes::Share,
    "The part of `burst` that the heaviest leave to lighter ones, at most `90%`. Default `50%`. For `fair_share`.",
);

const RESERVED: Word = Word::new(
    "reserved",
    Takes::Classes,
    "The parts of `burst` that less important requests leave free, whoever asks, for each `criticality`: `{ critical: 20% }`; at most `90%` \
     together. Default: none. For `fair_share`.",
);

/// The largest part that may be kept.
const MOST_KEPT: f64 = 0.9;

impl FairShare {
    /// How long one may wait where nothing is said about it.
    pub const WAIT: Duration = Duration::from_millis(500);

    /// The part that is kept where nothing is said about it.
    pub const RESERVE: Share = Share::HALF;

    /// A capacity, and everything else as it is when nothing is said about it.
    pub fn of(capacity: Rate) -> FairShare {
        let usual = TokensSpec::new(capacity.per_second());
        FairShare {
            capacity,
            burst: usual.burst as u32,
            reserve: FairShare::RESERVE,
            reserved: Reserved::default(),
            queue: usual.queue,
            wait: FairShare::WAIT,
            networks: Vec::new(),
        }
    }

    /// The numbers of its door.
    pub fn tokens(&self) -> TokensSpec {
        let mut shares = [PlacesSpec::SHARES[0]; LEVELS];
        for (share, (_, clients)) in shares.iter_mut().skip(1).zip(&self.networks) {
            *share = *clients as f32;
        }
        let burst = f64::from(self.burst);
        TokensSpec {
            rate: self.capacity.per_second(),
            burst,
            // one is to be had by everybody
            kept: (burst * self.reserve.get()).min(burst - 1.0),
            queue: self.queue,
            shares,
            reserved: self.reserved,
        }
    }

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        words: &[&CAPACITY, &BURST, &QUEUE, &WAIT, &NETWORKS, &RESERVE, &RESERVED],
        common: &["key"],
        has_sketch: false,
        no_delay: Some("it has a `queue` and a `wait` of its own"),
        no_stand_in: Some("a `fair_share` weighs all requests of a route, not some"),
        ..Form::new::<FairShare>(
            "fair_share",
            "at most `burst` + `capacity`·t requests in any time t, whoever asks; above it requests wait, and who used least goes first.",
            "{ type: fair_share, capacity: 20/s }",
        )
    };
}

impl FromWords for FairShare {
    fn from_words(words: &mut Words) -> Option<FairShare> {
        words.require(&[&CAPACITY]);
        let before = words.problems.len();
        let burst = words.value(&BURST).and_then(|(value, shown)| match value {
            Value::Amount(number) if (1..=u64::from(u32::MAX)).contains(&number) => u32::try_from(number).ok(),
            _ => {
                words.out_of_range(&BURST, &shown, "must be 1 to 4294967295 requests");
                None
            }
        });
        let reserve = words.value(&RESERVE).and_then(|(value, shown)| match value {
            Value::Share(share) if share.get() <= MOST_KEPT => Some(share),
            _ => {
                words.out_of_range(&RESERVE, &shown, "must be at most 90%");
                None
            }
        });
        let reserved = words.value(&RESERVED).and_then(|(value, shown)| match value {
            Value::Classes(reserved) if reserved.sum() <= MOST_KEPT => Some(reserved),
            _ => {
                words.out_of_range(&RESERVED, &shown, "must be at most 90% together");
                None
            }
        });
        let (queue, wait) = (words.number(&QUEUE), words.duration(&WAIT));
        let (Value::Rate(capacity), networks) = (words.value(&CAPACITY)?.0, words.value(&NETWORKS)) else {
            return None;
        };
        let networks = match networks {
            Some((Value::Networks(networks), _)) => networks,
            _ => Vec::new(),
        };
        let usual = FairShare::of(capacity);
        (words.problems.len() == before).then(|| FairShare {
            capacity,
            burst: burst.unwrap_or(usual.burst),
            reserve: reserve.unwrap_or(usual.reserve),
            reserved: reserved.unwrap_or_default(),
            queue: queue.unwrap_or(usual.queue),
            wait: wait.unwrap_or(usual.wait),
            networks,
        })
    }
}

impl LimitKind for FairShare {
    fn form(&self) -> &'static Form {
        &FairShare::FORM
    }

    fn state(&self, spec: &Spec<'_>, _seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        let tokens = own::<FairShare>(spec)?.tokens();
        Ok(Box::new(FairShareState { door: TokenDoor::new(tokens), tokens, wait: self.wait, changed: None }))
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound::Interval { burst: f64::from(self.burst), per_second: self.capacity.per_second() })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        None
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        None
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![
            ("capacity", Value::Rate(self.capacity)),
            ("burst", Value::Amount(u64::from(self.burst))),
            ("queue", Value::Number(u64::from(self.queue))),
            ("wait", Value::Duration(self.wait)),
            ("networks", Value::Networks(self.networks.clone())),
            ("reserve", Value::Share(self.reserve)),
        ];
        if self.reserved != Reserved::default() {
            settings.push(("reserved", Value::Classes(self.reserved)));
        }
        settings
    }

    fn needs(&self, _owed: Owed) -> Needs {
        Needs::default()
    }

    fn standing(&self) -> Vec<Part> {
        vec![Part::Text("its clients and networks used more than others that waited")]
    }

    fn summary(&self) -> String {
        "{capacity} in all".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &FairShare| self == other)
    }

    fn nodes_summary(&self) -> Option<String> {
        Some(match self.networks.len() {
            0 => "one key".to_owned(),
            1 => "a key and a network".to_owned(),
            more => format!("a key and {more} networks"),
        })
    }
}

/// The state of one `fair_share` limit.
#[derive(Debug)]
struct FairShareState {
    /// One for all that follow one another.
    door: Arc<TokenDoor>,
    tokens: TokensSpec,
    wait: Duration,
    /// Since when these numbers are others than those before.
    changed: Option<Timestamp>,
}

impl State for FairShareState {
    /// Whether there is a unit for whoever asks.
    fn probe(&self, at: &Place, now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let there = self.door.units(now) - self.tokens.kept;
        let judgement = if there >= 1.0 {
            Judgement::admitted((there - 1.0) as u32, self.tokens.burst as u32)
        } else {
            self.too_few(there)
        };
        Probe::new(at, cost, judgement, Seen::Nothing)
    }

    /// Takes a unit at once, as one among many. Who can wait comes to the [door](State::rate_door).
    fn commit(&self, _probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let token = self.door.take(&Asks::NOBODY, now);
        let there = self.door.units(now) - self.tokens.kept;
        let token = token.ok_or_else(|| Lost::refused(self.too_few(there)))?;
        token.spend();
        Ok((Judgement::admitted(there.max(0.0) as u32, self.tokens.burst as u32), None))
    }

    fn charge(&self, _at: &Place, now: Timestamp, _cost: Cost) {
        self.door.take_anyway(now);
    }

    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        to.number(now.nanos())?;
        self.door.save(to, now)
    }

    fn restore(&mut self, from: &mut Reader<'_>, _spec: &Spec<'_>, _moved: &Moved<'_>) -> Result<(), Fault> {
        let saved = Timestamp::from_nanos(from.number()?);
        self.door.restore(from, saved)
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let kind = own::<FairShare>(spec)?;
        let (door, tokens) = (Arc::clone(&self.door), kind.tokens());
        Ok(Box::new(FairShareState { door, tokens, wait: kind.wait, changed: Some(moved.now) }))
    }

    fn take_over(&self) {
        if let Some(now) = self.changed {
            self.door.follow(self.tokens, now);
        }
    }

    fn rate_door(&self) -> Option<(&Arc<TokenDoor>, Duration)> {
        Some((&self.door, self.wait))
    }

    fn owed(&self, _: &Kind, _: u8, _: u64, _: Cost) -> Owed {
        Owed::default()
    }

    fn refuses(&self) -> Refuses {
        Refuses::Share
    }

    fn is_keyed(&self) -> bool {
        false
    }

    fn gauge(&self, gauges: &mut Gauges, now: Timestamp) {
        let (capacity, kept, waiting) = self.door.look(|tokens| {
            let spec = tokens.spec();
            (spec.rate, spec.kept, tokens.line().waiting())
        });
        gauges.capacity = Some(capacity);
        gauges.tokens = Some(self.door.units(now));
        gauges.kept = Some(kept);
        gauges.waiting = Some(u64::from(waiting));
    }

    fn memory(&self) -> Bytes {
        self.door.memory()
    }
}

impl FairShareState {
    fn too_few(&self, there: f64) -> Judgement {
        let nanos = ((1.0 - there).max(0.0) / self.tokens.rate * 1e9) as u64;
        let wait = Some(nanos.max(1));
        Judgement {
            quota: self.tokens.burst as u32,
            retry_nanos: wait,
            next_unit: NextUnit::Known(wait),
            ..Judgement::REFUSED
        }
    }
}
