//! Limits that change their mode, or are enforced for a part of their keys.

use super::*;

#[test]
fn a_change_of_mode_restarts_neither_series_nor_totals() {
    let in_mode = |mode| policy(vec![rule("login", mode)], vec![route("shop", vec![0])], Vec::new());
    let first = complete(&in_mode(Mode::Shadow));
    let refuse = |metrics: &Metrics, mode| {
        let readings = [reading(0, mode, Outcome::Refused)];
        metrics.decision(&decision(Some(0), Verdict::Admitted, &readings), None);
    };
    let counts = |metrics: &Metrics| {
        let limit = &metrics.state().limits[0];
        (limit.count(Outcome::Refused), limit.limited(), limit.shadowed())
    };
    refuse(&first, Mode::Shadow);
    refuse(&first, Mode::Shadow);
    assert_eq!(counts(&first), (2, 0, 2));
    let second = first.next(&in_mode(Mode::Enforce), "b");
    refuse(&second, Mode::Enforce);
    assert_eq!(counts(&second), (3, 1, 2));
    let third = second.next(&in_mode(Mode::Shadow), "c");
    refuse(&third, Mode::Shadow);
    assert_eq!(counts(&third), (4, 1, 3));
    let page = page(&third);
    let limited = |mode| {
        page.value(&format!(
            "tidegate_limit_decisions_total{{limit=\"login\",mode=\"{mode}\",route=\"shop\",verdict=\"limited\"}}"
        ))
    };
    assert_eq!((limited("enforce"), limited("shadow")), (1.0, 3.0));
}

#[test]
fn a_limit_that_is_enforced_in_part_counts_the_rest_as_shadow() {
    let part = Rule { enforced: Share::new(0.1).unwrap(), ..(*rule("login", Mode::Enforce)).clone() };
    let of = |rule| policy(vec![rule], vec![route("shop", vec![0])], Vec::new());
    let (policy, whole) = (of(Arc::new(part)), of(rule("login", Mode::Enforce)));
    let metrics = complete(&policy);
    metrics.decision(&decision(Some(0), Verdict::Admitted, &[reading(0, Mode::Shadow, Outcome::Refused)]), None);
    let limit = &metrics.state().limits[0];
    assert_eq!((limit.limited(), limit.shadowed()), (0, 1));
    let page = page(&metrics);
    let decisions = page.samples.keys().filter(|series| series.starts_with("tidegate_limit_decisions_total"));
    assert_eq!(decisions.count(), 10);
    assert_eq!(Metrics::series_bound(&policy, &settings()), Metrics::series_bound(&whole, &settings()) + 6);
}
