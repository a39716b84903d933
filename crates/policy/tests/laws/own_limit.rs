//! A client over its own limit is refused by that limit, also while `fair_share` holds it below; and no refused request is charged.

use tidegate_policy::engine::{Decision, Engine, Outcome, Refusal, Verdict};
use tidegate_policy::policy::{Mode, OnLimit, Rule};

use crate::book::{ask, book, fair_share, head, rate};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

/// What became of a client's requests.
#[derive(Debug, Default)]
struct Told {
    admitted: u32,
    own: u32,
    share: u32,
}

/// Three seconds of a client that asks `abuser` times a second, beside forty that ask twice; what became of its requests after the
/// first second. Each decision is looked at.
fn flood(engine: &Engine, abuser: u64, look: impl Fn(&Decision)) -> Told {
    let mut told = Told::default();
    let hot = head("198.51.100.66");
    let others: Vec<_> = (0..40).map(|n| head(&format!("10.{n}.0.1"))).collect();
    let step = SECOND / abuser;
    for n in 0..3 * abuser {
        let now = START + n * step;
        // eighty a second in all, whatever the steps are
        if n * 80 / abuser != (n + 1) * 80 / abuser {
            let _ = ask(engine, &others[(n * 80 / abuser) as usize % 40], now);
        }
        let (decision, _) = ask(engine, &hot, now);
        if n < abuser {
            continue;
        }
        look(&decision);
        match decision.verdict {
            Verdict::Admitted => told.admitted += 1,
            Verdict::Refused(Refusal::Limit) => told.own += 1,
            Verdict::Refused(Refusal::FairShare) => told.share += 1,
            Verdict::Refused(other) => panic!("{other:?}"),
        }
    }
    told
}

#[test]
fn a_client_over_its_own_limit_is_told_that_limit_wherever_it_stands() {
    // the fair share leaves it less than its limit does, so that the limit alone would never be used up
    for own_first in [true, false] {
        let (own, share) = (rate("own", 50, 50, Mode::Enforce), fair_share(100));
        let engine = book(if own_first { vec![own, share] } else { vec![share, own] });
        let (own, share) = if own_first { (0, 1) } else { (1, 0) };
        let told = flood(&engine, 1_000, |decision| {
            if decision.verdict == Verdict::Refused(Refusal::Limit) {
                let readings = [own, share].map(|rule| decision.readings.iter().find(|one| one.rule == rule).unwrap());
                assert_eq!(readings.map(|reading| reading.outcome), [Outcome::Refused, Outcome::Exempt]);
                let wait = readings[0].retry_nanos.expect("a wait that helps");
                assert!((1..5 * SECOND).contains(&wait), "{wait}");
            }
        });
        assert!(told.admitted > 0 && told.own > 1_900 && told.share == 0, "{told:?}");
        // nothing of what was refused was charged: when the pressure is over, the whole burst is there
        let later = START + 30 * SECOND;
        let (decision, _) = ask(&engine, &head("198.51.100.66"), later);
        assert_eq!(decision.verdict, Verdict::Admitted);
        assert_eq!(decision.readings.iter().find(|reading| reading.rule == own).unwrap().remaining, 49);
    }
}

#[test]
fn a_client_within_its_own_limit_is_never_told_that_it_is_over() {
    let engine = book(vec![rate("own", 1_000, 100, Mode::Enforce), fair_share(100)]);
    let told = flood(&engine, 500, |_| {});
    assert!(told.own == 0 && told.share > 500, "{told:?}");
}

#[test]
fn a_limit_that_refuses_nothing_is_not_told() {
    let tagging =
        Rule { action: OnLimit::Tag { header: "x-over".parse().unwrap() }, ..rate("own", 50, 50, Mode::Enforce) };
    for own in [rate("own", 50, 50, Mode::Shadow), tagging] {
        let told = flood(&book(vec![own, fair_share(100)]), 1_000, |_| {});
        assert!(told.own == 0 && told.share > 1_500, "{told:?}");
    }
}
