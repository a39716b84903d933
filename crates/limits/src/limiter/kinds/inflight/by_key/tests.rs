use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::sketch::KeyHasher;

const SMALLEST: Bytes = Bytes(4 << 10);

fn limiter(max: u32, memory: Bytes) -> Arc<InflightByKey> {
    Arc::new(InflightByKey::new(max, memory, Seed::from_bytes([5; 16])).unwrap())
}

fn key(limiter: &InflightByKey, number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(limiter.seed());
    hasher.part(1, &number.to_le_bytes());
    hasher.finish()
}

fn take(limiter: &Arc<InflightByKey>, number: u64) -> Result<(Judgement, KeyPermit), Lost> {
    limiter.admit(key(limiter, number), Cost::ONE, limiter.max())
}

#[test]
fn the_cap_holds_per_key_and_a_dropped_permit_is_a_free_place() {
    let limit = limiter(2, SMALLEST);
    let (first, a) = take(&limit, 1).unwrap();
    let (second, b) = take(&limit, 1).unwrap();
    assert_eq!((first.remaining, second.remaining, second.quota), (1, 0, 2));
    let refused = limit.probe(key(&limit, 1), Cost::ONE, 2);
    assert_eq!((refused.admitted, refused.remaining, refused.retry_nanos), (false, 0, None));
    assert_eq!(take(&limit, 1).unwrap_err(), Lost { judgement: refused, contended: false });
    assert!(limit.probe(key(&limit, 2), Cost::ONE, 2).admitted);
    assert_eq!((limit.held(key(&limit, 1)), limit.held_total()), (2, 2));
    drop(a);
    assert!(take(&limit, 1).is_ok());
    drop(b);
    assert_eq!((limit.held_total(), limit.faults()), (0, 0));
}

#[test]
fn a_tier_may_have_more_places_and_a_heavy_request_takes_several() {
    let limit = limiter(2, SMALLEST);
    let alice = key(&limit, 1);
    let three = Cost::new(3).unwrap();
    assert!(!limit.probe(alice, three, limit.max()).admitted);
    let (judgement, held) = limit.admit(alice, three, 7).unwrap();
    assert_eq!((judgement.remaining, judgement.quota), (1, 2));
    assert_eq!(limit.probe(alice, three, 7), limit.admit(alice, three, 7).unwrap().0);
    assert_eq!(limit.held(alice), 3);
    assert_eq!(limit.probe(alice, Cost::new(u32::MAX).unwrap(), u32::MAX).retry_nanos, None, "no overflow");
    drop(held);
    assert_eq!(limit.held_total(), 0);
}

#[test]
fn never_more_than_the_cap_under_contention() {
    let limit = limiter(3, SMALLEST);
    let inside = [(); 2].map(|()| AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (limit, inside) = (&limit, &inside);
            scope.spawn(move || {
                for round in 0..5_000 {
                    let number = (thread + round) % 2;
                    if let Ok((_, permit)) = take(limit, number) {
                        let count = &inside[number as usize];
                        assert!(count.fetch_add(1, Ordering::SeqCst) < 3, "a fourth is inside");
                        count.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                }
            });
        }
    });
    assert_eq!((limit.held_total(), limit.faults()), (0, 0));
}

/// What may happen to a request. `usize` picks one of those under way.
#[derive(Debug, Clone)]
enum Event {
    Start {
        key: u64,
        cost: u32,
    },
    /// The last byte is sent.
    Finish(usize),
    /// The client hangs up: the whole task is dropped with all it holds.
    Abort(usize),
    /// A hook panics while it holds the permit.
    Panic(usize),
    /// Another origin is tried: the composite key changes, and the new place is taken before the old one is given back.
    Retry(usize, u64),
    /// The connection becomes a stream, which is held under another limit.
    Upgrade(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_u64, 1..3_u32).prop_map(|(key, cost)| Event::Start { key, cost }),
        1 => any::<usize>().prop_map(Event::Finish),
        1 => any::<usize>().prop_map(Event::Abort),
        1 => any::<usize>().prop_map(Event::Panic),
        1 => (any::<usize>(), 0..4_u64).prop_map(|(which, key)| Event::Retry(which, key)),
        1 => any::<usize>().prop_map(Event::Upgrade),
    ]
}

/// A request under way, with what it holds and what a plain list remembers of that.
struct Request {
    key: u64,
    cost: u32,
    stream: bool,
    permit: KeyPermit,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_count_returns_to_nothing_whatever_becomes_of_the_requests(
        events in prop::collection::vec(event(), 1..60),
    ) {
        // the default memory, where a handful of keys does not collide: the counts are exact
        let limits = [limiter(4, Bytes(64 << 10)), limiter(2, Bytes(64 << 10))];
        let [requests, streams] = &limits;
        let mut under_way: Vec<Request> = Vec::new();
        for event in events {
            let pick = |which: usize| (!under_way.is_empty()).then(|| which % under_way.len());
            match event {
                Event::Start { key: number, cost } => {
                    let held: u32 = under_way.iter().filter(|r| !r.stream && r.key == number).map(|r| r.cost).sum();
                    let outcome = requests.admit(key(requests, number), Cost::new(cost).unwrap(), requests.max());
                    prop_assert_eq!(outcome.is_ok(), held + cost <= 4);
                    if let Ok((_, permit)) = outcome {
                        under_way.push(Request { key: number, cost, stream: false, permit });
                    }
                }
                Event::Finish(which) | Event::Abort(which) => {
                    if let Some(which) = pick(which) {
                        drop(under_way.swap_remove(which).permit);
                    }
                }
                Event::Panic(which) => if let Some(which) = pick(which) {
                    let request = under_way.swap_remove(which);
                    let unwound = catch_unwind(AssertUnwindSafe(|| {
                        let _permit = request.permit;
                        std::panic::resume_unwind(Box::new("in a hook"));
                    }));
                    prop_assert!(unwound.is_err());
                },
                Event::Retry(which, number) => if let Some(request) = pick(which).and_then(|i| under_way.get_mut(i)) {
                    let limit = Arc::clone(request.permit.limiter());
                    let cost = Cost::new(request.cost).unwrap();
                    if let Ok((_, permit)) = limit.admit(key(&limit, number), cost, limit.max()) {
                        request.permit = permit;
                        request.key = number;
                    }
                },
                Event::Upgrade(which) => if let Some(request) = pick(which).and_then(|i| under_way.get_mut(i)) {
                    let cost = Cost::new(request.cost).unwrap();
                    if let (false, Ok((_, permit))) =
                        (request.stream, streams.admit(key(streams, request.key), cost, streams.max()))
                    {
                        request.permit = permit;
                        request.stream = true;
                    }
                },
            }
            for (limit, stream) in limits.iter().zip([false, true]) {
                for number in 0..4 {
                    let mine = under_way.iter().filter(|r| r.stream == stream && r.key == number);
                    let held: u32 = mine.map(|r| r.cost).sum();
                    prop_assert_eq!(limit.held(key(limit, number)), held);
                    prop_assert!(held <= limit.max());
                }
                let all = under_way.iter().filter(|r| r.stream == stream).map(|r| u64::from(r.cost));
                prop_assert_eq!(limit.held_total(), all.sum::<u64>());
            }
        }
        drop(under_way);
        prop_assert_eq!(limits.each_ref().map(|limit| (limit.held_total(), limit.faults())), [(0, 0); 2]);
    }
}

#[test]
fn the_table_of_sizes_is_the_computed_one() {
    let busy = [100, 1_000, 10_000, 100_000];
    let rounded = |probabilities: [f64; 4]| probabilities.map(|p| format!("{p:.0e}"));
    let seed = Seed::from_bytes([0; 16]);
    let of_four = |columns| {
        let table = SummingTable::<AtomicU32, 4>::with_shape(columns, &seed).unwrap();
        (table.memory().to_string(), rounded(busy.map(|n| table.over_count_probability(n))))
    };
    let of_eight = |memory| {
        let table = SummingTable::with_memory(memory, &seed).unwrap();
        (table.columns(), rounded(busy.map(|n| table.over_count_probability(n))))
    };
    let row = |text: [&str; 4]| text.map(str::to_owned);
    assert_eq!(of_four(8_192), ("128KiB".to_owned(), row(["2e-8", "2e-4", "2e-1", "1e0"])));
    assert_eq!(of_four(65_536), ("1MiB".to_owned(), row(["5e-12", "5e-8", "4e-4", "4e-1"])));
    assert_eq!(of_four(524_288), ("8MiB".to_owned(), row(["1e-15", "1e-11", "1e-7", "9e-4"])));
    assert_eq!(of_eight(InflightByKey::DEFAULT_MEMORY), (65_536, row(["3e-23", "3e-15", "2e-7", "1e-1"])));
    assert_eq!(of_eight(Bytes(8 << 20)), (262_144, row(["4e-28", "4e-20", "4e-12", "1e-4"])));
}
