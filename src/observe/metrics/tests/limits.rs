//! How many series there are, and what is counted of each kind of limit.

use super::*;
use crate::engine::{NoPlace, NoPlaceReason, Scarce};

#[test]
fn the_bound_on_series_is_what_a_full_page_has_at_most() {
    for policy in [shop(), fair_shop(), policy(Vec::new(), Vec::new(), vec![origin("backend")])] {
        let limits = policy.rules.iter().map(|rule| full(&rule.name)).collect();
        let page = complete(&policy).render(&State { limits, ..all_read() });
        assert_eq!(Page::read(&page).samples.len(), Metrics::series_bound(&policy, &settings()));
    }
}

#[test]
fn the_bound_on_series_is_as_documented() {
    let policy = fair_shop();
    // `by_key` hands on to `per_client`, which so counts on the route `api` too
    let (listeners, routes, forwarding, slots, limits, nodes, origins, addresses) = (2, 2, 1, 5, 4, 2 + 2, 1, 2);
    let documented = (36 + 6 * listeners) * (routes + 1)
        + 2 * routes
        + 26 * forwarding
        + 6 * slots
        + 54 * origins
        + 2 * addresses
        + 14 * limits
        + nodes
        + 28 * listeners
        + 14
        + 2
        + 1
        + 44
        + 96;
    assert_eq!(Metrics::series_bound(&policy, &settings()), documented);
}

#[test]
fn what_delays_marks_and_shares_out_is_counted() {
    let metrics = complete(&fair_shop());
    let fair = |node, mode| Reading { node: Some(node), ..reading(2, mode, Outcome::Refused) };
    let refused = Verdict::Refused(Refusal::FairShare);
    metrics.decision(&decision(Some(0), refused, &[fair(0, Mode::Enforce)]), None);
    let timed_out = decision(Some(0), refused, &[fair(1, Mode::Enforce)]);
    metrics.decision(&Decision { no_place: Some(late()), ..timed_out }, None);
    metrics.decision(&decision(Some(0), Verdict::Admitted, &[fair(1, Mode::Shadow)]), None);
    metrics.decision(&decision(Some(0), refused, &[fair(9, Mode::Enforce)]), None);
    for nanos in [250_000_000, 1_250_000_000] {
        let waited = decision(Some(0), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Delayed)]);
        metrics.decision(&Decision { delay_nanos: nanos, ..waited }, None);
    }
    // one that lost its place while it was to wait did not wait
    let shed = decision(Some(0), Verdict::Refused(Refusal::OriginFull), &[]);
    metrics.decision(&Decision { delay_nanos: 1, ..shed }, None);
    let marked = decision(Some(0), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Tagged)]);
    metrics.decision(&marked, None);
    // a limit in the place of another
    metrics.decision(&decision(Some(1), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Admitted)]), None);
    let page = page(&metrics);
    let node = |node: &str| page.value(&format!("tidegate_fair_share_refused_total{{limit=\"fair\",node=\"{node}\"}}"));
    assert_eq!((node("client_ip"), node("client_ip:ipv4_prefix=24,ipv6_prefix=48")), (1.0, 2.0));
    let shed =
        |why: &str| page.value(&format!("tidegate_fair_share_shed_requests_total{{limit=\"fair\",reason=\"{why}\"}}"));
    assert_eq!((shed("rate_timeout"), shed("rate_pushed_out")), (1.0, 0.0));
    assert_eq!(page.value("tidegate_delays_total{route=\"shop\"}"), 2.0);
    assert_eq!(page.value("tidegate_delay_seconds_total{route=\"shop\"}"), 1.5);
    assert_eq!(page.value("tidegate_delays_total{route=\"api\"}"), 0.0);
    let verdicts = |route, verdict| {
        page.value(&format!(
            "tidegate_limit_decisions_total{{limit=\"per_client\",mode=\"enforce\",route=\"{route}\",verdict=\"{verdict}\"}}"
        ))
    };
    assert_eq!((verdicts("shop", "delayed"), verdicts("shop", "tagged"), verdicts("api", "allowed")), (2.0, 1.0, 1.0));
}

/// A request that waited for a unit for too long.
fn late() -> NoPlace {
    NoPlace {
        reason: NoPlaceReason::RateTimeout,
        of: Scarce::Units { capacity: 10_000, tokens: 0, kept: 20_000, reserved: 0 },
        waiting: 5,
        level: 1,
        own_waiting: 4,
        own_used: 0,
        share: 16,
        score: 0,
        next: 0,
        half_life: 1_000,
        round: 1_000,
        tier: 0,
        ahead: 0,
        heaviest: [None; 3],
    }
}

#[test]
fn counting_a_decision_allocates_nothing() {
    let metrics = complete(&fair_shop());
    let fair = Reading { node: Some(1), ..reading(2, Mode::Shadow, Outcome::Refused) };
    let waited = decision(Some(0), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Delayed), fair]);
    let waited = Decision { delay_nanos: 1, ..waited };
    assert_eq!(allocation_counter::measure(|| metrics.decision(&waited, None)).count_total, 0);
}
