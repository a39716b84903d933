//! What a flood may take from the memory of decisions, and what it may not.

use super::*;
use crate::config;
use crate::engine::DecidedBy;
use crate::explain::Said;
use crate::limiter::Owed;
use crate::policy::Mode;
use crate::saved::Key as SavedKey;

const LIMITS: usize = 3;
const SECOND: u64 = 1_000_000_000;

fn decisions() -> Decisions {
    let policy = "listen: \":8080\"\nroutes: [{ respond: { status: 200 } }]\n";
    let loaded = config::load_text("a.yaml", policy, &|_| None, std::path::Path::new("."));
    let config = loaded.outcome.expect("a good policy");
    let decisions = Decisions::default();
    assert_eq!(decisions.open(Book::of(&config)), 0);
    decisions
}

/// A refusal by limit `rule`.
fn refusal(client: u64, rule: usize, nanos: u64) -> Record {
    let said = Said {
        rule: rule as u16,
        tier: 0,
        mode: Mode::Enforce,
        outcome: Outcome::Refused,
        node: None,
        by: DecidedBy::Gate,
        exact: false,
        remaining: 0,
        wait_nanos: Some(1),
        owed: Owed::default(),
    };
    Record {
        at: Timestamp::from_nanos(nanos),
        client: u128::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
        found: None,
        method: None,
        route: Some(0),
        alternative: None,
        runner_up: None,
        book: 0,
        criticality: Default::default(),
        verdict: Verdict::Refused(crate::engine::Refusal::Limit),
        retry_after: 0,
        delay_millis: 0,
        store_error: None,
        limits: std::iter::once(said).collect(),
        no_place: None,
        ban: None,
    }
}

/// Numbers decisions.
#[derive(Default)]
struct Ids(u64);

impl Ids {
    fn note(&mut self, decisions: &Decisions, record: &Record) -> DecisionId {
        self.0 += 1;
        decisions.remember(DecisionId(self.0), record, LIMITS);
        DecisionId(self.0)
    }
}

fn are_there(decisions: &Decisions, ids: &[DecisionId]) -> usize {
    let there: std::collections::HashSet<u64> = decisions.latest_first().map(|(id, _)| id.0).collect();
    ids.iter().filter(|id| there.contains(&id.0)).count()
}

#[test]
fn all_of_it_takes_three_mebibytes() {
    const { assert!((3 << 20) - (16 << 10) <= MEMORY && MEMORY <= 3 << 20) }
}

/// A million refusals of `floods` clients in ten minutes: what 64 others were refused for before, meanwhile and by other limits stays.
fn a_million_of(floods: u64, honest_by: usize) {
    const MILLION: u64 = 1_000_000;
    const HONEST: u64 = 64;
    let (decisions, mut ids) = (decisions(), Ids::default());
    let mut honest = Vec::new();
    for number in 0..MILLION {
        let now = SECOND + number * 600 * SECOND / MILLION;
        // each of them is refused twice, spread over the whole time, and some before
        if number % (MILLION / (2 * HONEST)) == 0 && (honest.len() as u64) < 2 * HONEST {
            let client = 1 + honest.len() as u64 % HONEST;
            honest.push(ids.note(&decisions, &refusal(client, honest_by, now)));
        }
        ids.note(&decisions, &refusal(1_000 + number % floods, 0, now));
    }
    assert_eq!(honest.len() as u64, 2 * HONEST);
    assert_eq!(are_there(&decisions, &honest), honest.len(), "of {floods} clients that flood");
    let first = decisions.find(honest[0]).expect("the first of all");
    assert_eq!(first, refusal(1, honest_by, SECOND));
    // and of the flood, too: its first, and its latest
    let flood: Vec<Record> =
        decisions.latest_first().map(|(_, record)| record).filter(|record| record.limits[0].rule == 0).collect();
    assert!(flood.len() > PASSING, "{}", flood.len());
    assert!(flood.first().is_some_and(|record| record.at.nanos() > 600 * SECOND), "the latest");
    assert!(flood.iter().any(|record| record.at.nanos() < 2 * SECOND), "the first");
}

#[test]
fn one_client_that_floods_takes_nothing_from_others() {
    a_million_of(1, 0);
}

#[test]
fn a_thousand_clients_that_flood_a_limit_take_nothing_from_clients_of_others() {
    a_million_of(1_000, 1);
}

/// What the process remembers that takes this one's place.
fn handed_over(decisions: &Decisions) -> Decisions {
    let (mut stream, key, taken) = (Vec::new(), SavedKey::from_bytes(*b"a secret of ours"), self::decisions());
    let fingerprint = decisions.books.load().books[0].fingerprint.clone();
    let mut writer = Writer::new(&mut stream, &key).unwrap();
    writer.begin("decisions").unwrap();
    decisions.save(&fingerprint, &mut writer).unwrap();
    writer.end().unwrap();
    writer.finish().unwrap();
    let mut stream = &stream[..];
    let mut reader = Reader::new(&mut stream, &key).unwrap();
    assert!(reader.begin().unwrap().is_some());
    taken.restore(&mut reader).unwrap();
    taken
}

#[test]
fn what_is_kept_stays_for_ten_minutes_whoever_sends_what() {
    is_kept_for_ten_minutes(|decisions, _| decisions);
}

#[test]
fn what_is_kept_stays_for_ten_minutes_over_upgrades() {
    is_kept_for_ten_minutes(|decisions, number| match number % 100_000 {
        0 => handed_over(&decisions),
        _ => decisions,
    });
}

/// `goes_on`: whose memory it is when the decision of this number is made.
fn is_kept_for_ten_minutes(goes_on: impl Fn(Decisions, u64) -> Decisions) {
    let (mut decisions, mut ids) = (decisions(), Ids::default());
    // every client is new, every limit and every other part is flooded
    let mut kept = Vec::new();
    for number in 0..400_000_u64 {
        decisions = goes_on(decisions, number);
        let now = SECOND + number * 1_200 * SECOND / 400_000;
        let record = refusal(number, (number % 4) as usize, now);
        let record = match number % 4 {
            3 => Record { limits: Default::default(), ..record },
            _ => record,
        };
        let before = decisions.kept.written();
        let id = ids.note(&decisions, &record);
        if decisions.kept.written() > before {
            kept.push((now, id));
        }
        if number % 50_000 == 49_999 {
            let young: Vec<DecisionId> =
                kept.iter().filter(|(at, _)| now - at <= 600 * SECOND).map(|(_, id)| *id).collect();
            assert_eq!(are_there(&decisions, &young), young.len(), "after {number}");
        }
    }
    // each limit has a sample of each minute
    for rule in 0..LIMITS {
        let minutes: std::collections::HashSet<u64> = decisions
            .latest_first()
            .filter(|(_, record)| record.limits.first().is_some_and(|said| usize::from(said.rule) == rule))
            .map(|(_, record)| record.at.nanos() / (60 * SECOND))
            .collect();
        assert!((11..=20).all(|minute| minutes.contains(&minute)), "{rule}: {minutes:?}");
    }
}

#[test]
fn one_that_turned_later_is_found_as_it_ended() {
    let (decisions, mut ids) = (decisions(), Ids::default());
    // the budget of its client is used up in between
    for _ in 0..budget::WHOLE - 1 {
        ids.note(&decisions, &refusal(7, 0, SECOND));
    }
    let admitted = Record { verdict: Verdict::Admitted, ..refusal(7, 0, SECOND) };
    let id = ids.note(&decisions, &admitted);
    decisions.remember(id, &refusal(7, 0, SECOND), LIMITS);
    assert_eq!(decisions.find(id), Some(refusal(7, 0, SECOND)));
}

#[test]
fn both_rings_are_read_as_one_the_latest_first() {
    let (decisions, mut ids) = (decisions(), Ids::default());
    for number in 0..200 {
        ids.note(&decisions, &refusal(number % 3, 0, SECOND + number));
    }
    let order: Vec<u64> = decisions.latest_first().map(|(id, _)| id.0).collect();
    assert_eq!(order, (1..=200).rev().collect::<Vec<_>>());
}
