//! The door of an origin: its places, who waits for one, and the places of connections that were switched to another protocol.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use crate::door::{Asks, Entry, Path, Place, PlaceDoor, Places, PlacesSpec, Standing, UpgradedDoor, UpgradedPlace};
use crate::edge::idle_place::GivesWay;
use crate::engine::{NoPlace, NoPlaceReason};
use crate::policy::InflightCap;
use crate::system::clock::Clock;
use crate::units::{Bytes, Timestamp};

/// One for all that follow one another under a name.
#[derive(Debug)]
pub struct OriginDoor {
    places: Arc<PlaceDoor>,
    upgraded: UpgradedDoor,
    clock: Clock,
    division: Mutex<Division>,
}

/// How many of the places are this process's while another serves the same origin in its place.
#[derive(Debug)]
struct Division {
    /// The places of both.
    all: Count,
    /// The other's.
    elsewhere: Count,
    /// The most that this process may have.
    most: Count,
}

/// Places of requests, and of switched connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Of requests.
    pub places: u32,
    /// Of switched connections.
    pub upgraded: u32,
}

impl Count {
    /// More than any origin has.
    pub const ALL: Count = Count { places: u32::MAX, upgraded: u32::MAX };
}

impl Division {
    fn own(&self) -> Count {
        let own = |all: u32, elsewhere: u32, most: u32| all.saturating_sub(elsewhere).min(most);
        let Division { all, elsewhere, most } = self;
        if all.places >= PlacesSpec::UNCAPPED {
            return *all;
        }
        Count {
            places: own(all.places, elsewhere.places, most.places),
            upgraded: own(all.upgraded, elsewhere.upgraded, most.upgraded),
        }
    }
}

/// The word for a request whose client left while it waited.
pub const CLIENT_LEFT: &str = "client_left";

/// The word for a request that kept the origin waiting for its client, and let go of its place for others.
pub const GAVE_WAY: &str = "gave_way";

/// A place at an origin, held to the end of its work. Dropping it gives it to the next in the queue.
#[derive(Debug)]
#[must_use = "a place that is dropped at once limits nothing"]
pub struct OriginPlace {
    door: Arc<OriginDoor>,
    path: Path,
    place: Option<Place>,
    lent: Option<Arc<LentPlace>>,
    upgraded: Option<UpgradedPlace>,
}

impl OriginPlace {
    /// Exchanges the place for one of those for switched connections, if this key may have one more. Says whether it did; where there is no
    /// cap, the place stays what it is.
    pub fn upgrade(&mut self) -> bool {
        if !self.is_capped() {
            return true;
        }
        if self.upgraded.is_none() {
            self.upgraded = self.door.upgraded.take(&self.path);
        }
        if self.upgraded.is_some() {
            self.give_back();
        }
        self.upgraded.is_some()
    }

    /// Gives it to somebody who waits and is owed it by a request whose client keeps the origin waiting, for `long`: to anybody who holds
    /// nothing. Returns whether it did.
    pub fn give_way(&mut self, long: bool) -> bool {
        self.door.give_away(&mut self.place, long)
    }

    /// Lends the place to whoever waits for the request's client, who may give it away. `None` if there is no cap, or if it is lent already.
    pub fn lend(&mut self) -> Option<Arc<LentPlace>> {
        let place = if self.is_capped() { self.place.take() } else { None }?;
        let lent = Arc::new(LentPlace { door: Arc::clone(&self.door), place: Mutex::new(Some(place)) });
        self.lent = Some(Arc::clone(&lent));
        Some(lent)
    }

    /// Whether there is a cap.
    pub fn is_capped(&self) -> bool {
        self.door.places.max() < PlacesSpec::UNCAPPED
    }

    fn give_back(&mut self) {
        let lent = || self.lent.take()?.place.lock().take();
        if let Some(place) = self.place.take().or_else(lent) {
            self.door.places.give_back(place, || self.door.clock.now());
        }
    }
}

/// The same place in the hands of whoever waits for the request's client.
#[derive(Debug)]
pub struct LentPlace {
    door: Arc<OriginDoor>,
    /// Only one task asks for it, so it is never waited for.
    place: Mutex<Option<Place>>,
}

impl GivesWay for LentPlace {
    fn give_way(&self, long: bool) -> bool {
        self.door.give_away(&mut self.place.lock(), long)
    }
}

impl Drop for OriginPlace {
    fn drop(&mut self) {
        self.give_back();
        if let Some(place) = self.upgraded.take() {
            self.door.upgraded.give_back(place);
        }
    }
}

impl OriginDoor {
    /// Gives a place that is held to somebody who is owed it. Returns whether it did.
    fn give_away(&self, held: &mut Option<Place>, long: bool) -> bool {
        let Some(place) = held.take() else { return false };
        *held = self.places.give_way(place, long, || self.clock.now()).err();
        held.is_none()
    }

    /// All places free.
    pub fn new(cap: Option<&InflightCap>, places: u32, clock: Clock) -> Arc<OriginDoor> {
        let spec = spec(cap);
        let door = PlaceDoor::new(spec);
        if places < spec.most {
            door.set_max(places, clock.now());
        }
        let all = Count { places: places.min(spec.most), upgraded: cap.map_or(0, |cap| cap.upgraded) };
        let upgraded = UpgradedDoor::new(all.upgraded, spec.shares);
        let division = Mutex::new(Division { all, elsewhere: Count::default(), most: Count::ALL });
        Arc::new(OriginDoor { places: door, upgraded, clock, division })
    }

    /// Other words, and another number of places from now on; `None`: as many as there are.
    pub fn follow(&self, cap: Option<&InflightCap>, places: Option<u32>) {
        let spec = spec(cap);
        let mut division = self.division.lock();
        division.all.places = places.unwrap_or(division.all.places).min(spec.most);
        division.all.upgraded = cap.map_or(0, |cap| cap.upgraded);
        let own = division.own();
        self.places.follow(spec, own.places, self.clock.now());
        self.upgraded.set_max(own.upgraded);
    }

    /// Requests under way.
    pub fn held(&self) -> u32 {
        self.places.held()
    }

    /// How many places this process has.
    pub fn max(&self) -> u32 {
        self.places.max()
    }

    /// How many places there are, those of another process included.
    pub fn all(&self) -> u32 {
        self.division.lock().all.places
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        Bytes(self.places.memory().0 + self.upgraded.memory().0)
    }

    /// Reads the numbers of those who hold and wait.
    pub fn look<R>(&self, look: impl FnOnce(&Places) -> R) -> R {
        self.places.look(look)
    }

    /// The same, after all that hold a place were counted for who they are.
    pub fn look_at_all<R>(&self, look: impl FnOnce(&Places) -> R) -> R {
        self.places.look_at_all(self.clock.now(), look)
    }

    /// Another number of places, which an adaptive cap has found.
    pub fn set_max(&self, max: u32) {
        self.divide(|division| division.all.places = max);
    }

    /// So many of the places are another process's from now on.
    pub fn set_elsewhere(&self, elsewhere: Count) {
        self.divide(|division| division.elsewhere = elsewhere);
    }

    /// Keeps as many places as are in use or waited for, `spare` at least, and never more again. Returns how many; the others are another
    /// process's.
    pub fn keep_used(&self, spare: bool) -> Count {
        let places = self.look(|places| places.line().waiting()).saturating_add(self.places.held());
        let used = Count { places, upgraded: self.upgraded.held() };
        self.divide(|division| {
            let own = division.own();
            let keep = |own: u32, used: u32| used.max(if spare { (own / 4).clamp(1, 8) } else { 0 }).min(own);
            division.most =
                Count { places: keep(own.places, used.places), upgraded: keep(own.upgraded, used.upgraded) };
            division.most
        })
    }

    fn divide<R>(&self, change: impl FnOnce(&mut Division) -> R) -> R {
        let mut division = self.division.lock();
        let result = change(&mut division);
        let own = division.own();
        if own.places != self.places.max() {
            self.places.set_max(own.places, self.clock.now());
        }
        self.upgraded.set_max(own.upgraded);
        result
    }

    /// A place, at once if one is free and nobody waits, else in the order of the queue.
    ///
    /// # Errors
    /// No place, now or within `longest`. Nothing is held then.
    pub async fn place(
        self: &Arc<Self>,
        asks: &Asks,
        now: Timestamp,
        longest: Duration,
    ) -> Result<OriginPlace, NoPlace> {
        let held = |place| OriginPlace {
            door: Arc::clone(self),
            path: asks.path,
            place: Some(place),
            lent: None,
            upgraded: None,
        };
        let (mut waiting, tick) = match self.places.arrive(asks, now) {
            Entry::Given(place) => return Ok(held(place)),
            Entry::NoRoom => return Err(self.refused(NoPlaceReason::PushedOut, asks, &Standing::default())),
            Entry::Waits { waiting, tick } => (waiting, tick),
        };
        if tick {
            tokio::spawn(keep_time(Arc::clone(&self.places), self.clock));
        }
        // in a box, as most do not wait and should have no room for it
        match Box::pin(timeout(longest, &mut waiting)).await {
            Ok(answer) => answer.map(held).map_err(|standing| self.refused(NoPlaceReason::PushedOut, asks, &standing)),
            Err(_) => {
                let answer = waiting.give_up(self.clock.now());
                answer.map(held).map_err(|standing| self.refused(NoPlaceReason::QueueTimeout, asks, &standing))
            }
        }
    }

    fn refused(&self, reason: NoPlaceReason, asks: &Asks, standing: &Standing) -> NoPlace {
        self.places.look(|places| {
            // who finds no queue is pushed out of it
            let reason = if places.spec().queue == 0 { NoPlaceReason::Full } else { reason };
            NoPlace::new(reason, asks.criticality, standing, places)
        })
    }
}

/// Has a door look again while somebody waits at it.
async fn keep_time(door: Arc<PlaceDoor>, clock: Clock) {
    while let Some(wait) = door.tick(clock.now()) {
        sleep(wait).await;
    }
}

fn spec(cap: Option<&InflightCap>) -> PlacesSpec {
    cap.map_or_else(PlacesSpec::uncapped, InflightCap::places)
}

#[cfg(test)]
mod tests;
