//! An admitted decision of local limits allocates nothing, and neither does a refused one.

use tidegate::engine::Verdict;
use tidegate::policy::Mode;

use crate::book::{arrival, book, head, inflight, rate, request};

#[test]
fn a_decision_allocates_nothing() {
    let snapshot =
        book(vec![rate("a", 10, 3, Mode::Enforce), rate("b", 10, 5, Mode::Shadow), inflight("c", 5, Mode::Enforce)]);
    let headers = head("198.51.100.20, 203.0.113.9:51234, 127.0.0.3");
    let request = request(&headers);
    let mut verdicts = Vec::with_capacity(8);
    let measured = allocation_counter::measure(|| {
        for _ in 0..8 {
            let (decision, _permits) = snapshot.decide(&request, arrival(1 << 50));
            verdicts.push(decision.verdict == Verdict::Admitted);
        }
    });
    assert_eq!(verdicts, [true, true, true, false, false, false, false, false]);
    assert_eq!(measured.count_total, 0, "{measured:?}");
}
