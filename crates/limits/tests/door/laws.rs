//! What holds under any sequence of requests.

use proptest::prelude::*;
use tidegate_limits::door::{
    Act, Arrived, Asks, Label, PlaceId, Places, PlacesSpec, Reserve, Reserved, Ticket, Tokens, TokensSpec,
};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::world::{MS, path};

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive(u8, u8),
    GiveBack(u8),
    Leave(u8),
    SetMax(u8),
    Wait(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..12_u8, 0..4_u8).prop_map(|(host, class)| Step::Arrive(host, class)),
        4 => any::<u8>().prop_map(Step::GiveBack),
        1 => any::<u8>().prop_map(Step::Leave),
        1 => (0..6_u8).prop_map(Step::SetMax),
        2 => (0..2_000_u16).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..300)
}

/// A door, and all that is known of it from outside.
struct Watched {
    door: Places,
    now: u64,
    waits: Vec<Ticket>,
    holds: Vec<PlaceId>,
    answered: u32,
    refused: u32,
    asked: u32,
}

impl Watched {
    fn new(spec: PlacesSpec) -> Watched {
        let (waits, holds) = Default::default();
        Watched { door: Places::new(spec), now: 1, waits, holds, answered: 0, refused: 0, asked: 0 }
    }

    fn step(&mut self, step: Step) {
        let mut acts = Vec::new();
        let now = Timestamp::from_nanos(self.now);
        let mut note = |act| acts.push(act);
        match step {
            Step::Arrive(host, class) => {
                let criticality = Criticality::ALL[usize::from(class)];
                let asks = Asks {
                    path: path(0x0a00_0000 + u32::from(host) * 0x4001),
                    weight: 1.0,
                    criticality,
                    ..Asks::NOBODY
                };
                self.asked += 1;
                match self.door.arrive(&asks, now, &mut note) {
                    Arrived::Given(place) => self.given(place),
                    Arrived::Waits(ticket) => self.waits.push(ticket),
                    Arrived::NoRoom => panic!("there is always room for one more than may wait"),
                }
            }
            Step::GiveBack(at) if !self.holds.is_empty() => {
                let place = self.holds.swap_remove(usize::from(at) % self.holds.len());
                self.door.give_back(place, now, &mut note);
                // twice is as good as once
                self.door.give_back(place, now, &mut note);
            }
            Step::Leave(at) if !self.waits.is_empty() => {
                let ticket = self.waits.swap_remove(usize::from(at) % self.waits.len());
                assert!(self.door.leave(ticket, now, &mut note).is_some(), "it waited");
                assert!(self.door.leave(ticket, now, &mut |_| panic!("it has left")).is_none());
                self.refused += 1;
            }
            Step::SetMax(max) => {
                let max = u32::from(max).min(self.door.spec().most);
                self.door.set_max(max, now, &mut note);
            }
            Step::Wait(ms) => {
                self.now += u64::from(ms) * MS;
                self.door.tick(Timestamp::from_nanos(self.now), &mut note);
            }
            Step::GiveBack(_) | Step::Leave(_) => {}
        }
        for act in acts {
            let (Act::Given(ticket, _) | Act::PushedOut(ticket, _)) = act;
            let at = self.waits.iter().position(|waits| *waits == ticket).expect("who waits is answered, once");
            self.waits.swap_remove(at);
            match act {
                Act::Given(_, place) => self.given(place),
                Act::PushedOut(..) => self.refused += 1,
            }
        }
    }

    fn given(&mut self, place: PlaceId) {
        assert!(!self.holds.contains(&place), "a place is given once");
        self.holds.push(place);
        self.answered += 1;
        assert!(self.holds.len() as u32 <= self.door.max(), "never more than there are");
    }
}

proptest! {
    /// Each request is answered once or still waits; never more places are given than there are; nobody waits beside a free place.
    #[test]
    fn nothing_is_lost_and_the_cap_holds(steps in steps(), most in 1..6_u32, queue in 0..8_u32) {
        let spec = PlacesSpec { queue, reserve: Reserve::None, ..PlacesSpec::new(most) };
        let mut watched = Watched::new(spec);
        for step in steps {
            watched.step(step);
            let (door, waits) = (&watched.door, watched.waits.len() as u32);
            prop_assert_eq!(door.held(), watched.holds.len() as u32);
            prop_assert_eq!(door.line().waiting(), waits);
            prop_assert!(waits <= queue);
            prop_assert_eq!(watched.answered + watched.refused + waits, watched.asked);
            prop_assert!(waits == 0 || door.held() >= door.max(), "{} wait, {} of {} held", waits, door.held(), door.max());
        }
    }

    /// With a reserve, a place stays free while somebody waits only if it is one of the reserve.
    #[test]
    fn only_the_reserve_is_left_free(steps in steps(), most in 1..6_u32) {
        let mut watched = Watched::new(PlacesSpec::new(most));
        for step in steps {
            watched.step(step);
            let door = &watched.door;
            let free = door.max().saturating_sub(door.held());
            prop_assert!(door.line().waiting() == 0 || f64::from(free) <= f64::from(door.reserve()));
        }
    }

    /// With places for classes, one stays free while somebody waits only if it is kept for more important requests than all that wait.
    #[test]
    fn only_what_is_kept_for_more_important_ones_is_left_free(
        steps in steps(),
        most in 1..12_u32,
        shares in [0.0..0.4_f64, 0.0..0.3_f64, 0.0..0.2_f64],
    ) {
        let [critical, default, sheddable] = shares;
        let reserved = Reserved::new([critical, default, sheddable, 0.0]);
        let mut watched = Watched::new(PlacesSpec { reserve: Reserve::None, reserved, ..PlacesSpec::new(most) });
        for step in steps {
            watched.step(step);
            let door = &watched.door;
            let free = door.max().saturating_sub(door.held());
            let waiting = Criticality::ALL.into_iter().zip(door.line().waiting_by_class());
            for (class, _) in waiting.filter(|(_, waiting)| *waiting > 0) {
                let kept = reserved.before(class, door.max());
                prop_assert!(free <= kept, "{class:?} waits beside {free} free places, {kept} of them kept");
            }
        }
    }

    /// Among keys that go on asking, none holds much more than its part, whatever the order of arrival.
    #[test]
    fn keys_that_wait_get_equal_parts(pauses in prop::collection::vec(0..40_u64, 400..800), takes in 10..200_u64) {
        let spec = PlacesSpec { reserve: Reserve::None, queue: 64, shares: [1.0, 1e6, 1e6], ..PlacesSpec::new(4) };
        let mut door = Places::new(spec);
        let mut waits: Vec<(Ticket, u32)> = Vec::new();
        let mut holds: Vec<(PlaceId, u32, u64)> = Vec::new();
        let mut served = [0_u32; 4];
        let mut now = MS;
        let mut pauses = pauses.into_iter().cycle();
        while now < 200 * takes * MS {
            let mut acts = Vec::new();
            // each key has at least five that wait
            for host in 0..4 {
                while waits.iter().filter(|(_, of)| *of == host).count() < 5 {
                    let asks = Asks { path: path(host << 16), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY };
                    match door.arrive(&asks, Timestamp::from_nanos(now), &mut |act| acts.push(act)) {
                        Arrived::Given(place) => holds.push((place, host, now + takes * MS)),
                        Arrived::Waits(ticket) => waits.push((ticket, host)),
                        Arrived::NoRoom => unreachable!(),
                    }
                }
            }
            let done: Vec<_> = holds.extract_if(.., |(_, _, until)| *until <= now).collect();
            for (place, ..) in done {
                door.give_back(place, Timestamp::from_nanos(now), &mut |act| acts.push(act));
            }
            for act in acts {
                if let Act::Given(ticket, place) = act {
                    let at = waits.iter().position(|(waits, _)| *waits == ticket).unwrap();
                    let (_, host) = waits.swap_remove(at);
                    served[host as usize] += 1;
                    holds.push((place, host, now + takes * MS));
                }
            }
            now += takes * MS / 4 + pauses.next().unwrap_or(0) * MS;
        }
        let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        // the first to come took all four places, and its use fades
        prop_assert!(most - least <= 8, "{served:?}");
    }

    /// In no interval more go on than the rate and the burst promise; and what stays within them is neither refused nor waits.
    #[test]
    fn a_rate_keeps_its_promise(
        gaps in prop::collection::vec((0..400_u64, 0..30_u8), 50..400),
        per_second in 5.0..200.0_f64,
    ) {
        let spec = TokensSpec::new(per_second);
        let (mut door, bucket) = (Tokens::new(spec), spec.bucket());
        let mut now = 3_600_000 * MS;
        let mut went = Vec::new();
        let mut waits = Vec::new();
        for (gap, host) in gaps {
            now += gap * MS / 20;
            let mut acts = Vec::new();
            let stamp = Timestamp::from_nanos(now);
            door.tick(&bucket, stamp, &mut |act| acts.push(act));
            let asks = Asks { path: path(u32::from(host) << 12), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY };
            match door.arrive(&bucket, &asks, stamp, &mut |act| acts.push(act)) {
                Arrived::Given(_) => went.push(now),
                Arrived::Waits(ticket) => waits.push(ticket),
                Arrived::NoRoom => unreachable!(),
            }
            for act in acts {
                let (Act::Given(ticket, _) | Act::PushedOut(ticket, _)) = act;
                let at = waits.iter().position(|waits| *waits == ticket).expect("it waited");
                waits.swap_remove(at);
                if let Act::Given(..) = act {
                    went.push(now);
                }
            }
        }
        for (at, first) in went.iter().enumerate() {
            for (more, last) in went[at..].iter().enumerate() {
                let most = (last - first) as f64 / 1e9 * per_second + spec.burst;
                prop_assert!((more + 1) as f64 <= most + 1e-6, "{} in {} ms", more + 1, (last - first) / MS);
            }
        }
    }

    /// What stays below the capacity is neither refused nor waits.
    #[test]
    fn idle_capacity_is_refused_to_nobody(
        gaps in prop::collection::vec((0..100_u64, 0..4_u8), 50..400),
        per_second in 5.0..200.0_f64,
    ) {
        let spec = TokensSpec::new(per_second);
        let (mut door, bucket) = (Tokens::new(spec), spec.bucket());
        let mut now = 3_600_000 * MS;
        // a bucket of the stated depth says what stays within the law
        let mut level = 0.0;
        for (gap, host) in gaps {
            now += gap * MS;
            level = f64::max(level - gap as f64 / 1e3 * per_second, 0.0);
            if level + 1.0 > spec.burst - spec.kept - 1e-3 {
                continue;
            }
            level += 1.0;
            let asks = Asks { path: path(u32::from(host)), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY };
            let arrived = door.arrive(&bucket, &asks, Timestamp::from_nanos(now), &mut |_| {});
            prop_assert!(matches!(arrived, Arrived::Given(_)), "{arrived:?}");
        }
    }
}

#[test]
fn those_who_hold_and_wait_are_named_the_heaviest_first_and_a_network_before_its_keys() {
    let mut places = Places::new(PlacesSpec::new(3));
    let now = Timestamp::from_nanos(1);
    let mut ask = |host: u32, name: u64, criticality| {
        let asks = Asks { path: path(host), criticality, label: Label([name, 0, 0]), ..Asks::NOBODY };
        places.arrive(&asks, now, &mut |_| {});
    };
    // two of one network hold three places together, and one of another waits
    let [first, second, other] = [0x0a00_0001, 0x0a00_0002, 0x0b00_0001];
    ask(first, 1, Criticality::Default);
    ask(first, 1, Criticality::Background);
    ask(second, 2, Criticality::Critical);
    ask(other, 3, Criticality::Default);
    let told =
        places.line().heaviest().map(|holder| holder.map(|one| (one.label.0[0], one.level, one.held, one.waiting)));
    assert_eq!(told, [Some((2, 1, 3, 0)), Some((1, 0, 2, 0)), Some((2, 0, 1, 0))]);
    let mut all: Vec<_> = places
        .line()
        .holders()
        .filter(|one| one.level == 0)
        .map(|one| (one.label.0[0], one.held, one.waiting))
        .collect();
    all.sort_unstable();
    assert_eq!(all, [(1, 2, 0), (2, 1, 0), (3, 0, 1)]);
    assert_eq!(places.held_by_class(), [1, 1, 0, 1]);
}

#[test]
fn a_full_line_pushes_out_the_heaviest_whether_it_came_last_or_not() {
    let mut places = Places::new(PlacesSpec { queue: 3, ..PlacesSpec::new(1) });
    let at = |micros: u64| Timestamp::from_nanos(3_600_000_000_000 + micros * 1_000);
    let mut ask = |host: u32, name: u64, micros: u64| {
        let asks = Asks { path: path(host << 16), label: Label([name, 0, 0]), ..Asks::NOBODY };
        let mut out = Vec::new();
        let arrived = places.arrive(&asks, at(micros), &mut |act| out.extend(pushed_out(act)));
        (arrived, out)
    };
    let (heavy, light, other) = (0x0a00, 0x0b00, 0x0c00);
    // one holds the place and fills the line
    (0..4).for_each(|_| assert!(ask(heavy, 1, 0).1.is_empty()));
    let stays = |(arrived, out): (Arrived, Vec<Ticket>)| matches!(arrived, Arrived::Waits(own) if !out.contains(&own));
    assert!(!stays(ask(heavy, 1, 1)), "all are compared, and its newest goes");
    assert!(!stays(ask(heavy, 1, 2)), "it claims what the one before claimed");
    let (arrived, out) = ask(light, 2, 3);
    assert_eq!(out.len(), 1, "somebody else goes");
    assert!(stays((arrived, out)), "who claims less is compared with all");
    assert!(stays(ask(other, 3, 4)));
    assert!(!stays(ask(heavy, 1, 5)), "the heaviest is still the one");
    // of three that claim the same, the newest goes, a moment later and long after
    let third = 0x0d00;
    assert!(stays(ask(third, 4, 6)), "the last one of the heaviest goes");
    for (name, micros) in [(5, 7), (6, 8), (7, 5_000)] {
        assert!(!stays(ask(0x0e00 + name, u64::from(name), micros)), "{name}");
    }
}

fn pushed_out<G>(act: Act<G>) -> Option<Ticket> {
    match act {
        Act::PushedOut(ticket, _) => Some(ticket),
        Act::Given(..) => None,
    }
}
