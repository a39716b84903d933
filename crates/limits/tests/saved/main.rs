//! State that was saved goes on as if nothing had happened: against the limiter that it was saved from, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::{Kind, Limiter, Moved, Place, RefusedCount, Spec, kinds};
use tidegate_limits::saved::{Fault, Reader, Writer};
use tidegate_limits::sketch::{KeyHash, KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Calendar, CalendarUnit, Cost, Period, Rate, Timestamp, Zone};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 400 * 86_400 * SECOND;
const SEED: Seed = Seed::from_bytes([7; 16]);
/// Where the stamps of these tests begin, in 2026.
const ORIGIN: u64 = 1_790_000_000 * SECOND - START;

fn hash(kind: u8, number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([9; 16]));
    hasher.part(kind, &number.to_le_bytes());
    hasher.finish()
}

/// Kinds with a state to save, under numbers that `change` changes as a reload may.
fn kinds(change: u32) -> Vec<Vec<Kind>> {
    let memory = Bytes(1 << 16);
    let (ten, minute) = (Duration::from_secs(10), Duration::from_secs(60));
    let per = |events: u32, period| Rate::new(events * (1 + change), period).unwrap();
    let rate = |events, burst| Kind::Rate(kinds::Rate { rate: per(events, ten), burst, memory });
    let quota = |max, window, sliding| Kind::Quota(kinds::Quota { max: max + change, window, sliding, memory });
    let average = |half_life, refused| {
        let rate = per(5, ten);
        Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused, memory })
    };
    let distinct = |max, sliding| {
        let (max, refused) = (max + change, RefusedCount::Admitted);
        Kind::Distinct(kinds::Distinct { max, window: minute, sliding, refused, memory })
    };
    let day = Calendar { unit: CalendarUnit::Day, zone: Zone::named("Europe/Berlin").unwrap() };
    vec![
        vec![rate(5, 5 + change)],
        // with tiers: tables of their own, and one that two share
        vec![rate(5, 5), rate(20, 20 + change), rate(20, 20 + change)],
        vec![quota(5, ten.into(), false)],
        vec![quota(5, ten.into(), false), quota(9, ten.into(), false)],
        vec![quota(5, Period::Calendar(day), false)],
        vec![quota(5, ten.into(), true)],
        vec![average(ten * (1 + change), RefusedCount::Admitted)],
        vec![average(ten, RefusedCount::All { max_penalty: minute })],
        vec![distinct(3, false)],
        vec![distinct(3, true)],
    ]
}

fn spec(kinds: &[Kind]) -> Spec<'_> {
    Spec { unix_nanos_at_origin: ORIGIN, ..Spec::new("tested", kinds) }
}

fn saved(limiter: &Limiter, now: u64) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &SEED.saved_key()).unwrap();
    writer.begin("limit").unwrap();
    limiter.save(&mut writer, Timestamp::from_nanos(now)).unwrap();
    writer.end().unwrap();
    writer.finish().unwrap();
    stream
}

fn restored(mut stream: &[u8], kinds: &[Kind], now: u64) -> Result<Arc<Limiter>, Fault> {
    let mut reader = Reader::new(&mut stream, &SEED.saved_key())?;
    reader.begin()?;
    let limiter = Limiter::restore(&spec(kinds), &SEED, &mut reader, &moved(kinds, now, &TIERS)).unwrap()?;
    reader.end()?;
    assert!(reader.begin()?.is_none());
    Ok(Arc::new(limiter))
}

const TIERS: [Option<u8>; 3] = [Some(0), Some(1), Some(2)];

fn moved<'a>(kinds: &[Kind], now: u64, tiers: &'a [Option<u8>]) -> Moved<'a> {
    Moved { routes: &[], origins: &[], tiers: &tiers[..kinds.len()], now: Timestamp::from_nanos(now) }
}

/// What is asked: after so many milliseconds, by a key and a tier, for a value, at a cost.
#[derive(Debug, Clone, Copy)]
struct Ask {
    after: u64,
    key: u64,
    tier: u8,
    value: u64,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = (prop_oneof![4 => 0..500_u64, 1 => 0..20_000_u64], 0..3_u64, 0..3_u8, 0..8_u64);
    prop::collection::vec(ask.prop_map(|(after, key, tier, value)| Ask { after, key, tier, value }), 1..60)
}

/// Asks as the engine does. What one is told is all that can be told from outside.
fn ask(limiter: &Arc<Limiter>, kinds: &[Kind], ask: Ask, now: u64) -> (bool, u32, Option<u64>) {
    let (key, value) = (hash(0, ask.key), hash(1, ask.value));
    let tier = ask.tier % u8::try_from(kinds.len()).unwrap();
    let own = limiter.own_hash();
    let place = Place { key: own.of(key), value: own.of_pair(key, value), tier, ..Place::default() };
    let now = Timestamp::from_nanos(now);
    let probe = limiter.probe(&place, now, Cost::ONE);
    if !probe.judgement.admitted {
        let counted = limiter.count_refusal(&place, now, Cost::ONE);
        let judgement = counted.map_or(probe.judgement, |(judgement, _)| judgement);
        return (false, judgement.remaining, judgement.retry_nanos);
    }
    match limiter.commit(&probe, now) {
        Ok((judgement, _)) => (true, judgement.remaining, judgement.retry_nanos),
        Err(lost) => (false, lost.judgement.remaining, lost.judgement.retry_nanos),
    }
}

fn run(limiter: &Arc<Limiter>, kinds: &[Kind], asks: &[Ask], now: &mut u64) -> Vec<(bool, u32, Option<u64>)> {
    let mut told = Vec::new();
    for each in asks {
        *now += each.after * 1_000_000;
        limiter.maintain(Timestamp::from_nanos(*now));
        told.push(ask(limiter, kinds, *each, *now));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// However long it was down.
    #[test]
    fn a_limiter_that_was_loaded_says_what_the_one_that_was_saved_would(
        before in asks(), after in asks(), down in prop_oneof![Just(0), 0..30_u64 * SECOND, 0..86_400 * SECOND]
    ) {
        for kinds in kinds(0) {
            let limiter = Arc::new(Limiter::new(&spec(&kinds), &SEED).unwrap());
            let mut now = START;
            run(&limiter, &kinds, &before, &mut now);
            let stream = saved(&limiter, now);
            now += down;
            let again = restored(&stream, &kinds, now).unwrap();
            let (mut one, mut other) = (now, now);
            prop_assert_eq!(run(&limiter, &kinds, &after, &mut one), run(&again, &kinds, &after, &mut other), "{:?}", kinds);
        }
    }

    /// A restart with another policy file is a reload of it, and a saved limiter may have been reloaded before.
    #[test]
    fn other_numbers_go_on_from_what_was_saved_as_a_reload_would(
        before in asks(), between in asks(), after in asks(), first in 0..3_u32, second in 0..3_u32
    ) {
        for (at, own) in kinds(0).into_iter().enumerate() {
            let (changed, again) = (kinds(first).swap_remove(at), kinds(second).swap_remove(at));
            let limiter = Arc::new(Limiter::new(&spec(&own), &SEED).unwrap());
            let mut now = START;
            run(&limiter, &own, &before, &mut now);
            let limiter = limiter.followed_by(&spec(&changed), &moved(&changed, now, &TIERS)).unwrap();
            limiter.take_over();
            let limiter = Arc::new(limiter);
            run(&limiter, &changed, &between, &mut now);
            let stream = saved(&limiter, now);
            let reloaded = Arc::new(limiter.followed_by(&spec(&again), &moved(&again, now, &TIERS)).unwrap());
            reloaded.take_over();
            let restarted = restored(&stream, &again, now).unwrap();
            let (mut one, mut other) = (now, now);
            let (reloaded, restarted) =
                (run(&reloaded, &again, &after, &mut one), run(&restarted, &again, &after, &mut other));
            for (reloaded, restarted) in reloaded.iter().zip(&restarted) {
                prop_assert_eq!((reloaded.0, reloaded.1), (restarted.0, restarted.1), "{:?}", again);
            }
        }
    }

    #[test]
    fn damaged_state_of_any_kind_is_refused(before in asks(), at: prop::sample::Index, bit in 0..8_u32, cut: bool) {
        for kinds in kinds(0) {
            let limiter = Arc::new(Limiter::new(&spec(&kinds), &SEED).unwrap());
            let mut now = START;
            run(&limiter, &kinds, &before, &mut now);
            let mut stream = saved(&limiter, now);
            let at = at.index(stream.len());
            if cut { stream.truncate(at) } else { stream[at] ^= 1_u8 << bit }
            prop_assert!(restored(&stream, &kinds, now).is_err());
        }
    }
}

/// What is saved of one kind cannot be taken for another's: a policy that says so was checked before, and what was not is refused here.
#[test]
fn state_of_another_kind_or_size_never_passes_for_ones_own_unseen() {
    let all = kinds(0);
    for (at, own) in all.iter().enumerate() {
        let limiter = Arc::new(Limiter::new(&spec(own), &SEED).unwrap());
        let mut now = START;
        run(&limiter, own, &[Ask { after: 1, key: 1, tier: 0, value: 1 }; 20], &mut now);
        let stream = saved(&limiter, now);
        for (other_at, other) in all.iter().enumerate() {
            // read to its end, with all that it allocates
            let end = restored(&stream, other, now).is_ok();
            assert!(end || at != other_at);
        }
        let larger: Vec<Kind> = own.iter().cloned().map(with_twice_the_memory).collect();
        let fault = restored(&stream, &larger, now).unwrap_err();
        assert!(matches!(fault, Fault::Unfit(_)), "{fault}");
    }
}

fn with_twice_the_memory(mut kind: Kind) -> Kind {
    if let Some(memory) = kind.memory_mut() {
        memory.0 *= 2;
    }
    kind
}

#[test]
fn a_pardon_is_a_pardon_after_a_restart() {
    let kinds = kinds(0).swap_remove(4);
    let limiter = Arc::new(Limiter::new(&spec(&kinds), &SEED).unwrap());
    let (mut now, one) = (START, Ask { after: 1, key: 1, tier: 0, value: 1 });
    assert_eq!(run(&limiter, &kinds, &[one; 8], &mut now).iter().filter(|told| told.0).count(), 5);
    let key = limiter.own_hash().of(hash(0, 1));
    limiter.pardon(key, Timestamp::from_nanos(now), Duration::ZERO).unwrap();
    assert!(run(&limiter, &kinds, &[one], &mut now)[0].0);
    let again = restored(&saved(&limiter, now), &kinds, now).unwrap();
    assert_eq!(run(&again, &kinds, &[one; 8], &mut now).iter().filter(|told| told.0).count(), 4);
    // another one gets another hash
    again.pardon(key, Timestamp::from_nanos(now), Duration::from_secs(10)).unwrap();
    let again = restored(&saved(&again, now), &kinds, now).unwrap();
    assert!(again.is_exempt(key, Timestamp::from_nanos(now)));
    now += 11 * SECOND;
    assert!(!again.is_exempt(key, Timestamp::from_nanos(now)));
    assert_eq!(run(&again, &kinds, &[one; 8], &mut now).iter().filter(|told| told.0).count(), 5);
}

/// While threads charge: each that was admitted before the call began is in what it wrote.
#[test]
fn what_was_admitted_before_the_call_is_saved_though_others_go_on() {
    let kinds = [Kind::Quota(kinds::Quota {
        max: 1_000_000,
        window: Duration::from_secs(86_400).into(),
        sliding: false,
        memory: Bytes(1 << 20),
    })];
    let limiter = Arc::new(Limiter::new(&spec(&kinds), &SEED).unwrap());
    let one = |key| Ask { after: 0, key, tier: 0, value: 1 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20_000).for_each(|at| assert!(ask(&limiter, &kinds, one(at % 50), START).0)));
        }
        for _ in 0..20 {
            let left = |limiter: &Arc<Limiter>| -> Vec<u32> {
                let place = |key| Place { key: limiter.own_hash().of(hash(0, key)), ..Place::default() };
                let probe = |key| limiter.probe(&place(key), Timestamp::from_nanos(START), Cost::ONE);
                (0..50).map(|key| probe(key).judgement.remaining).collect()
            };
            let before = left(&limiter);
            let stream = saved(&limiter, START);
            let again = restored(&stream, &kinds, START).unwrap();
            assert!(left(&again).iter().zip(&before).all(|(saved, before)| saved <= before));
        }
    });
}

/// The writer offers the processor to others as often as there are chunks in the tables, whatever is in them.
#[test]
fn what_is_saved_of_any_kind_is_saved_with_rests() {
    let share = Kind::FairShare(kinds::FairShare {
        queue: 4_096,
        ..kinds::FairShare::of(Rate::new(100, Duration::from_secs(1)).unwrap())
    });
    for mut kinds in kinds(0).into_iter().chain([vec![share]]) {
        kinds.iter_mut().filter_map(|kind| kind.memory_mut()).for_each(|memory| *memory = Bytes(4 << 20));
        let limiter = Arc::new(Limiter::new(&spec(&kinds), &SEED).unwrap());
        let (mut stream, mut rests) = (Vec::new(), 0);
        let mut rest = || rests += 1;
        let mut writer = Writer::new(&mut stream, &SEED.saved_key()).unwrap().with_rests(&mut rest);
        writer.begin("limit").unwrap();
        limiter.save(&mut writer, Timestamp::from_nanos(START)).unwrap();
        writer.end().unwrap();
        writer.finish().unwrap();
        let chunks = limiter.memory().0 / (64 << 10);
        assert!(chunks > 40 && rests >= chunks / 2, "{kinds:?}: {rests} rests in {chunks} chunks");
    }
}
