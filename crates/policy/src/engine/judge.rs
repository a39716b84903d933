//! Asks every limit, and charges none: [`charge`](super::charge) does that once all have agreed.

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderValue};

use super::ask::{Ask, Read};
use super::cluster::Settled;
use super::decision::{Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
use super::foresight::Foreseen;
use super::keys::Hashed;
use super::several::More;
use super::share::Shared;
use super::snapshot::Snapshot;
use crate::client::trust::X_FORWARDED_PROTO;
use crate::client::{self, Client};
use crate::limiter::{Hold, Judgement};
use crate::policy::route::KeyRoom;
use crate::policy::{FieldFault, Route, Undecided};
use crate::request::{Peer, Request};
use crate::sketch::KeyHash;
use crate::units::Timestamp;

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

/// A request that has been judged and not yet charged.
#[derive(Debug)]
pub struct Judged {
    /// The record so far. Its verdict says whether [`Snapshot::admit`] is worth asking.
    pub decision: Decision,
    pub(super) asks: ArrayVec<Option<Ask>, { Route::MAX_RULES }>,
    /// The further keys of a request that has several under a limit.
    pub(super) more: ArrayVec<More, { More::MOST }>,
    /// What the route's `fair_share` was offered.
    pub(super) shared: Option<Shared>,
    /// The readings that have been charged before the wait, a bit each.
    pub(super) charged: u8,
    /// The readings whose limits are shared through a store, a bit each.
    pub(super) shared_slots: u8,
    /// Those of which the store should be asked in the background, although they refused.
    pub(super) refills: u8,
    /// Which shared limits' keys have been told that the request came.
    pub(super) noted: u8,
    /// What became of those; nothing is allocated for a request without any.
    pub(super) settled: Vec<Settled>,
    /// Bytes of bodies that have passed so far, for limits that count them.
    pub(super) carried: u64,
}

impl Judged {
    /// Of a request that nobody has been asked about.
    #[inline]
    pub fn new(arrival: Arrival) -> Judged {
        let Arrival { id, at, dice } = arrival;
        Judged {
            decision: Decision {
                id,
                at,
                dice,
                client: None,
                route: None,
                readings: Readings::new(),
                delay_nanos: 0,
                verdict: Verdict::Refused(Refusal::NoRoute),
            },
            asks: ArrayVec::new(),
            more: ArrayVec::new(),
            shared: None,
            charged: 0,
            shared_slots: 0,
            refills: 0,
            noted: 0,
            settled: Vec::new(),
            carried: 0,
        }
    }

    /// The same in the place of another request, without moving what is large.
    fn begin(&mut self, arrival: Arrival) {
        let Judged { decision, asks, more, shared, charged, shared_slots, refills, noted, settled, carried } = self;
        (decision.id, decision.at, decision.dice) = (arrival.id, arrival.at, arrival.dice);
        (decision.client, decision.route, decision.delay_nanos) = (None, None, 0);
        decision.verdict = Verdict::Refused(Refusal::NoRoute);
        decision.readings.clear();
        asks.clear();
        more.clear();
        settled.clear();
        (*shared, *charged, *shared_slots, *refills, *noted, *carried) = (None, 0, 0, 0, 0, 0);
    }

    /// The hash of the key that the limit of the reading at this position was asked by, of several the one that it objects to
    /// most; `None` if it was not asked by one.
    pub fn key(&self, slot: usize) -> Option<KeyHash> {
        self.asks.get(slot)?.as_ref().map(|ask| ask.place.key)
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

impl Snapshot {
    /// Finds the client and the route, and reads every limit of it. Charges nothing, but for what a limit counts of its
    /// own refusals (`recent_average` with `count: all`) and of everything offered (`fair_share`).
    pub fn judge(&self, request: &Request, arrival: Arrival) -> Judged {
        let mut judged = Judged::new(arrival);
        let client = self.client(request.peer, request.headers);
        match self.as_sent_on(request) {
            None => self.judge_into(request, client, &mut judged),
            Some(headers) => self.judge_into(&Request { headers: &headers, ..*request }, client, &mut judged),
        }
        judged
    }

    /// Whose request it is; `None` for one that the policy refuses to serve because its address cannot be told.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<Client> {
        client::resolve(&self.policy().clients, peer, headers).ok()
    }

    /// The fields of a request as its origin gets them, and so as it is judged; `None`: as they are. What only the live gate knows,
    /// as the certificate of a client, is not in it.
    pub fn as_sent_on(&self, request: &Request) -> Option<HeaderMap> {
        let edits = self.fields().edits(&self.policy().clients, request.peer, request.headers);
        let by_tls = request.tls_sni.is_some() && self.fields().all().contains(&X_FORWARDED_PROTO);
        if edits.is_empty() && !by_tls {
            return None;
        }
        let mut headers = request.headers.clone();
        for (name, line) in edits {
            match line {
                Some(line) => drop(headers.insert(name, line)),
                None => drop(headers.remove(name)),
            }
        }
        if by_tls {
            headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static("https"));
        }
        Some(headers)
    }

    /// The same as [`judge`](Snapshot::judge) for a client that is known and fields that are [as sent on](Snapshot::as_sent_on).
    /// Nobody has been asked about the request: the record has its place already, as it is a kilobyte that need not be moved then.
    pub fn judge_into(&self, request: &Request, client: Option<Client>, judged: &mut Judged) {
        let found = self.policy().routes.find(request);
        self.judge_on(judged, found, &mut Hashed::default(), request, client);
    }

    /// The same for a client that is known already, as in a log; `None` for one that the policy refuses to serve because its
    /// address cannot be told.
    #[inline]
    pub fn judge_for(&self, request: &Request, client: Option<Client>, arrival: Arrival) -> Judged {
        // written where it is returned, as a decision is half a kilobyte
        let mut judged = Judged::new(arrival);
        let found = self.policy().routes.find(request);
        self.judge_on(&mut judged, found, &mut Hashed::default(), request, client);
        judged
    }

    /// The same for a request of which a [`Foresight`](super::Foresight) of the same policy and seed has found what it could, and
    /// which was [approached](Snapshot::approach) not long ago. What is in `judged` is forgotten first.
    pub fn judge_foreseen(
        &self,
        foreseen: &Foreseen,
        request: &Request,
        client: Client,
        arrival: Arrival,
        judged: &mut Judged,
    ) {
        judged.begin(arrival);
        let found = match foreseen.route() {
            Some(index) => Ok(self.policy().routes.route(index).map(|route| (index, route))),
            // there is none, or it could not be told
            None => self.policy().routes.find(request),
        };
        let mut hashed = Hashed::default();
        hashed.take_over(foreseen.keys());
        self.judge_on(judged, found, &mut hashed, request, Some(client));
    }

    #[inline]
    fn judge_on(
        &self,
        judged: &mut Judged,
        found: Result<Option<(usize, &Route)>, Undecided>,
        hashed: &mut Hashed,
        request: &Request,
        client: Option<Client>,
    ) {
        let found = match (self.fields().check(request.headers), found) {
            (Ok(()), Ok(found)) => Ok(found),
            (Err(FieldFault::Nominated), _) => Err(Refusal::NominatedField),
            (Err(FieldFault::Repeated), _) => Err(Refusal::RepeatedField),
            (Ok(()), Err(Undecided::Ambiguous)) => Err(Refusal::AmbiguousValue),
            (Ok(()), Err(Undecided::ValueTooLong)) => Err(Refusal::ValueTooLong),
        };
        judged.decision.route = found.ok().flatten().map(|(index, _)| index);
        let Some(client) = client else {
            judged.decision.verdict = Verdict::Refused(Refusal::ClientUnresolved);
            return;
        };
        judged.decision.client = Some(client);
        match found {
            Ok(Some((index, route))) => {
                judged.decision.verdict = self.read_limits(judged, request, &client, (index, route), hashed);
            }
            Ok(None) => {}
            Err(refusal) => judged.decision.verdict = Verdict::Refused(refusal),
        }
    }

    /// All steps at once, for requests that need no place at an origin and whose wait passes in no time: what waits for
    /// its end is charged as of then.
    pub fn decide(&self, request: &Request, arrival: Arrival) -> (Decision, Holds) {
        let mut judged = self.judge(request, arrival);
        self.reserve_all(&mut judged);
        let goes_on = judged.decision.goes_on();
        let (holds, _) = self.admit(&mut judged, goes_on);
        (judged.decision, holds)
    }

    fn read_limits(
        &self,
        judged: &mut Judged,
        request: &Request,
        client: &Client,
        (index, route): (usize, &Route),
        hashed: &mut Hashed,
    ) -> Verdict {
        let mut room = KeyRoom::new();
        let request = &route.counted(request, &mut room);
        let about = Read { request, client, route, index, at: judged.decision.at };
        // who has been approached is near
        let ahead = route.rules.len() > 1 && hashed.known().is_empty();
        let mut worst = None;
        // all are found before the first is asked: otherwise each would wait for main memory by itself, as nothing is loaded
        // ahead of the atomic exchanges of the one before it
        for &rule_index in &route.rules {
            if self.find_in_brief(rule_index, &about, ahead, judged, hashed) {
                continue;
            }
            if let Some(refusal) = self.find(rule_index, &about, ahead, judged, hashed) {
                worst = strictest(worst, refusal);
            }
        }
        let mut slot = 0;
        loop {
            let Judged { decision, asks, .. } = judged;
            let mut said = None;
            // on to the next that does not just say that the request fits
            for (reading, asked) in decision.readings.iter_mut().zip(asks).skip(slot) {
                slot += 1;
                said = self.ask(reading, asked, about.at);
                if said.is_some() {
                    break;
                }
            }
            let Some(said) = said else { break };
            if let Some(refusal) = self.take_in(slot - 1, said, &about, judged) {
                worst = strictest(worst, refusal);
            }
        }
        if !judged.more.is_empty()
            && let Some(refusal) = self.ask_more(&about, judged)
        {
            worst = strictest(worst, refusal);
        }
        if worst.is_none() {
            worst = self.ask_share(judged, &about, hashed);
        }
        if worst.is_some() {
            judged.decision.delay_nanos = 0;
        }
        worst.map_or(Verdict::Admitted, Verdict::Refused)
    }
}

/// Of two reasons the one that says most to the client: a malformed request before its own budget before our capacity.
pub(super) fn strictest(a: Option<Refusal>, b: Refusal) -> Option<Refusal> {
    let rank = |refusal: Refusal| match refusal {
        Refusal::KeyMissing | Refusal::AmbiguousValue => 0,
        Refusal::Penalty => 1,
        Refusal::Limit => 2,
        Refusal::Concurrency => 3,
        _ => 4,
    };
    Some(a.map_or(b, |a| if rank(b) < rank(a) { b } else { a }))
}

/// Copies what a limit said into its reading.
pub(super) fn fill(reading: &mut Reading, judgement: &Judgement) {
    reading.outcome = if judgement.admitted { Outcome::Admitted } else { Outcome::Refused };
    reading.remaining = judgement.remaining;
    reading.retry_nanos = judgement.retry_nanos;
    reading.next_unit = judgement.next_unit;
    reading.standing = judgement.standing;
}
