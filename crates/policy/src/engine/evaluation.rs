//! A request that has been judged: what was asked for it, and what it holds once it is charged.

use arrayvec::ArrayVec;

use super::decision::{Decision, DecisionId, Readings, Refusal, Verdict};
use super::shared_limit::SharedOutcome;
use crate::client::Client;
use crate::door::{Asks, Token};
use crate::limiter::{Hold, HoldElsewhere, Place, Probe};
use crate::policy::{Class, Route};
use crate::request::Request;
use crate::sketch::KeyHash;
use crate::units::{Cost, Timestamp};

/// What the face adds to a request: when it came, and one roll of the dice.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The request's identifier.
    pub id: DecisionId,
    /// The stamp that every limit judges by.
    pub at: Timestamp,
    /// A uniform random number.
    pub dice: u64,
}

/// The request that is judged, on its route.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    pub request: &'a Request<'a>,
    pub client: &'a Client,
    pub route: &'a Route,
    pub index: usize,
    pub at: Timestamp,
}

/// What a request asks the door of its rate with.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtRate {
    /// Position of the reading.
    pub slot: usize,
    pub asks: Asks,
}

/// One more key of a request under the limit of one reading. It is read again to be charged, which keeps the record small.
#[derive(Debug, Clone, Copy)]
pub struct More {
    /// Position of the reading.
    pub slot: usize,
    /// Where the request counts.
    pub place: Place,
    /// What it costs.
    pub cost: Cost,
}

impl More {
    /// The most of one request, under all its limits together; a request with more is refused.
    pub const MOST: usize = 12;
}

/// A request that has been judged and not yet charged.
#[derive(Debug)]
pub struct Evaluation {
    /// The record so far. Its verdict says whether [`Engine::admit`](super::Engine::admit) is worth asking.
    pub decision: Decision,
    /// What the limit of each reading was asked, to be charged by later.
    pub(super) probes: ArrayVec<Option<Probe>, { Route::MAX_RULES }>,
    /// The further keys of a request that has several under a limit.
    pub(super) more: ArrayVec<More, { More::MOST }>,
    /// The readings that have been charged before the wait, a bit each.
    pub(super) charged: u8,
    /// The readings whose limits are shared through a store, a bit each.
    pub(super) shared_slots: u8,
    /// The readings of whose limits the store should be asked for more in the background, a bit each.
    pub(super) refills: u8,
    /// What became of shared limits, with the positions of their readings. Empty, and so not allocated, without any.
    pub(super) settled: Vec<(usize, SharedOutcome)>,
    /// What stores granted to it, until it is admitted; of limits that count bytes until its end.
    pub(super) at_stores: Vec<Held>,
    /// Bytes of bodies that have passed so far, for limits that count them.
    pub(super) carried: u64,
    /// What it asks its origin's door with, if that has one.
    pub door: Option<Asks>,
    /// What it asks the door of its `fair_share` with, until it has.
    pub(super) rate: Option<AtRate>,
    /// The unit of its `fair_share`, until it goes on. Taken out, it is given back.
    pub token: Option<Token>,
}

impl Evaluation {
    /// Of a request that nobody has been asked about.
    #[inline]
    pub fn new(arrival: Arrival) -> Evaluation {
        let Arrival { id, at, dice } = arrival;
        Evaluation {
            decision: Decision {
                id,
                at,
                dice,
                client: None,
                route: None,
                class: Class::default(),
                answers_preflight: false,
                readings: Readings::new(),
                delay_nanos: 0,
                no_place: None,
                ban: None,
                verdict: Verdict::Refused(Refusal::NoRoute),
            },
            probes: ArrayVec::new(),
            more: ArrayVec::new(),
            charged: 0,
            shared_slots: 0,
            refills: 0,
            settled: Vec::new(),
            at_stores: Vec::new(),
            carried: 0,
            door: None,
            rate: None,
            token: None,
        }
    }

    /// Keeps what a store granted for the limit of the reading at this position, to be given back if the request is not admitted.
    pub fn keep(&mut self, slot: usize, hold: Box<dyn HoldElsewhere>) {
        self.at_stores.push(Held { slot, hold: Hold::Elsewhere(hold) });
    }

    /// Returns whether there is nothing to wait for and nothing to charge: no limit was asked.
    pub fn is_free(&self) -> bool {
        self.probes.iter().all(Option::is_none) && self.shared_slots == 0 && self.rate.is_none()
    }

    /// The hash of the key that the limit of the reading at this position was asked by, of several the one that it objects to
    /// most; `None` if it was not asked by one.
    pub fn key(&self, slot: usize) -> Option<KeyHash> {
        self.probes.get(slot)?.as_ref().map(|probe| probe.place.key)
    }

    /// The hashes of the further keys that the same limit was asked by.
    pub fn more_keys(&self, slot: usize) -> impl Iterator<Item = KeyHash> {
        self.more.iter().filter(move |more| more.slot == slot).map(|more| more.place.key)
    }
}

/// Something that an admitted request holds, and for which limit.
#[derive(Debug)]
pub struct Held {
    /// Position of the reading in [`Decision::readings`].
    pub(super) slot: usize,
    pub(super) hold: Hold,
}

impl Held {
    /// Whether it is a place, which comes back; an attempt is settled.
    pub fn is_place(&self) -> bool {
        self.hold.is_place()
    }
}

/// What an admitted request holds until its answer or its last byte.
pub type Holds = ArrayVec<Held, { Route::MAX_RULES + More::MOST }>;
