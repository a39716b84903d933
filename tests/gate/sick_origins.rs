//! One of several servers is sick: the others carry its load, at most the budgeted part is tried again, the client is told the
//! truth, and everything that was held comes back. All is counted; time decides nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::harness::origin::refusing;
use crate::harness::{Gate, Origin, Reply, wait_for};

const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
const DOWN: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ndown";

/// The time of a try where an origin stalls: so long that no origin that answers at once is taken for it on a busy
/// machine.
const TRY: &str = "timeouts: { try: 3s, request: 60s }";

/// Long ejections: an address that is out stays out for as long as a test takes.
const EJECTION: &str = "ejection: { consecutive_failures: 3, base: 1h, max: 1h }";

fn gate_before(addresses: &[SocketAddr], words: &[&str]) -> Gate {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    Gate::start(&format!(
        "origins:
  app:
    addresses: [{}]
    inflight: 300
    {}
routes:
  - name: site
    origin: app
",
        addresses.join(", "),
        words.join("\n    ")
    ))
}

/// A good origin, and one that does `reply` whenever it is sick, which it is from the start.
fn one_of_each(reply: Reply) -> (Origin, Origin, Arc<AtomicBool>) {
    let sick = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&sick);
    let bad = Origin::start(move |_| if asked.load(Ordering::Relaxed) { reply.clone() } else { Reply::Ok });
    (Origin::that(Reply::Ok), bad, sick)
}

fn in_use(gate: &Gate, address: SocketAddr) -> f64 {
    let labels = [("endpoint", &*address.to_string())];
    // it is looked up before it is told
    wait_for("the address to be known", || {
        let metrics = gate.metrics();
        let known = metrics.names().iter().any(|name| name.contains(labels[0].1));
        known.then(|| metrics.sum("tidegate_origin_endpoint_healthy", &labels))
    })
}

/// Waits until checks have taken this address out. An address that is not looked up yet is not in use either, so the
/// gate's log has to say so too.
fn taken_out(gate: &Gate, address: SocketAddr) {
    let says = |line: &str| line.contains("fails its health checks") && line.contains(&address.to_string());
    wait_for("the address to fail its checks", || gate.talk().lines().any(says).then_some(()));
    wait_for("the address to be taken out", || (in_use(gate, address) == 0.0).then_some(()));
}

fn retries(gate: &Gate) -> f64 {
    gate.metrics().sum("tidegate_origin_retries_total", &[])
}

/// The statuses of so many requests, one after the other, each on a connection of its own.
fn ask(gate: &Gate, method: &str, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| gate.connect().ask(method, "/", "", b"").status).collect()
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|other| **other == status).count()
}

#[test]
fn a_killed_address_costs_a_few_retries_and_nobody_an_answer() {
    let (killed, _guard) = refusing();
    let others = [Origin::that(Reply::Ok), Origin::that(Reply::Ok)];
    let mut gate = gate_before(&[killed, others[0].address(), others[1].address()], &[EJECTION]);
    for method in ["GET", "POST"] {
        let statuses = ask(&gate, method, 60);
        assert_eq!(count(&statuses, 200), 60, "{statuses:?}");
    }
    assert_eq!(retries(&gate), 3.0, "after three failures it is asked no more");
    assert_eq!(in_use(&gate, killed), 0.0);
    let metrics = gate.metrics();
    let endpoint = killed.to_string();
    assert_eq!(metrics.sum("tidegate_origin_endpoint_ejections_total", &[("endpoint", &endpoint)]), 1.0);
    let shares = others.each_ref().map(|origin| origin.count());
    assert_eq!(shares.iter().sum::<usize>(), 120);
    assert!(shares.iter().all(|share| *share >= 30), "its part is spread over the others: {shares:?}");
    gate.comes_to_rest();
}

#[test]
fn a_stalled_address_is_given_up_per_try_and_then_left_out() {
    let (good, stalled, _) = one_of_each(Reply::ThenStall(b""));
    let retry = "retries: { max: 1, on: [connect_error, timeout], budget: 50% }";
    let words = [EJECTION, retry, TRY];
    let mut gate = gate_before(&[stalled.address(), good.address()], &words);
    let statuses = ask(&gate, "GET", 30);
    assert_eq!(count(&statuses, 200), 30, "{statuses:?}");
    stalled.wait_for(3);
    assert_eq!((stalled.count(), retries(&gate)), (3, 3.0));
    assert_eq!(in_use(&gate, stalled.address()), 0.0);
    gate.comes_to_rest();
}

#[test]
fn what_may_have_been_done_is_never_done_twice() {
    for (reply, status) in [(Reply::ThenStall(b""), 504), (Reply::ThenClose(b""), 502), (Reply::ThenReset(b""), 502)] {
        let (good, bad, _) = one_of_each(reply);
        let retry = "retries: { max: 5, on: [connect_error, reset_before_answer, timeout], budget: 100% }";
        let words = [EJECTION, retry, TRY];
        let mut gate = gate_before(&[bad.address(), good.address()], &words);
        let statuses = ask(&gate, "POST", 30);
        assert_eq!((count(&statuses, status), count(&statuses, 200)), (3, 27), "{statuses:?}");
        bad.wait_for(3);
        assert_eq!((bad.count(), good.count(), retries(&gate)), (3, 27, 0.0));
        gate.comes_to_rest();
    }
}

#[test]
fn an_address_that_closes_before_it_answers_is_tried_elsewhere_if_the_policy_says_so() {
    for reply in [Reply::ThenClose(b""), Reply::ThenReset(b"")] {
        let (good, bad, _) = one_of_each(reply);
        let retry = "retries: { on: [reset_before_answer] }";
        let mut gate = gate_before(&[bad.address(), good.address()], &[EJECTION, retry]);
        let statuses = ask(&gate, "GET", 30);
        assert_eq!(count(&statuses, 200), 30, "{statuses:?}");
        assert_eq!((bad.count(), retries(&gate)), (3, 3.0));
        gate.comes_to_rest();
    }
}

#[test]
fn an_address_that_breaks_off_inside_answers_is_left_out() {
    for reply in [Reply::ThenReset(HALF), Reply::ThenClose(HALF)] {
        let (good, bad, _) = one_of_each(reply);
        let retry = "retries: { max: 5, on: [connect_error, reset_before_answer, timeout] }";
        let mut gate = gate_before(&[bad.address(), good.address()], &[EJECTION, retry]);
        let answers: Vec<_> = (0..30).map(|_| gate.fetch("/", "")).collect();
        let whole = answers.iter().filter(|answer| answer.status == 200 && answer.complete).count();
        // a reset may overtake the head that came before it, in which case nothing has begun and it is tried elsewhere
        assert_eq!(bad.count(), 3);
        assert!((27..=30).contains(&whole), "{answers:?}");
        assert!(answers.iter().all(|answer| !answer.complete || answer.text() == "ok"), "{answers:?}");
        assert_eq!(in_use(&gate, bad.address()), 0.0);
        gate.comes_to_rest();
    }
}

#[test]
fn an_address_that_answers_503_is_left_out_and_its_answers_pass() {
    let (good, bad, _) = one_of_each(Reply::Bytes(DOWN));
    let mut gate = gate_before(&[bad.address(), good.address()], &[EJECTION]);
    let statuses = ask(&gate, "GET", 30);
    assert_eq!((count(&statuses, 503), count(&statuses, 200)), (3, 27), "{statuses:?}");
    assert_eq!(bad.count(), 3);
    gate.comes_to_rest();
}

#[test]
fn a_flapping_address_is_found_by_its_share_of_errors() {
    let good = Origin::that(Reply::Ok);
    let turn = AtomicBool::new(false);
    let flapping =
        Origin::start(move |_| if turn.fetch_xor(true, Ordering::Relaxed) { Reply::Ok } else { Reply::ThenClose(b"") });
    let ejection =
        "ejection: { consecutive_failures: 100, error_share: 40%, min_requests: 10, window: 1h, base: 1h, max: 1h }";
    let retry = "retries: { on: [reset_before_answer], budget: 100% }";
    let mut gate = gate_before(&[flapping.address(), good.address()], &[ejection, retry]);
    let statuses = ask(&gate, "GET", 80);
    assert_eq!(count(&statuses, 200), 80, "{statuses:?}");
    // the window of an hour may turn once in the middle
    assert!((10..=20).contains(&flapping.count()), "{}", flapping.count());
    assert_eq!(in_use(&gate, flapping.address()), 0.0);
    gate.comes_to_rest();
}

#[test]
fn clients_that_do_not_send_what_they_promise_get_no_address_left_out() {
    // an origin gives up on them, and every such request looks like a broken answer
    let origins = [(); 2]
        .map(|()| Origin::start(|arrival| if arrival.target == "/slow" { Reply::ThenClose(b"") } else { Reply::Ok }));
    let mut gate = gate_before(&origins.each_ref().map(|origin| origin.address()), &[EJECTION]);
    for _ in 0..12 {
        let mut connection = gate.connect();
        connection.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").unwrap();
        assert_eq!(connection.answer_to("POST").unwrap().status, 502);
    }
    assert_eq!(gate.metrics().sum("tidegate_origin_endpoint_ejections_total", &[]), 0.0);
    assert_eq!(count(&ask(&gate, "GET", 6), 200), 6);
    gate.comes_to_rest();
}

#[test]
fn a_third_try_goes_to_a_third_address() {
    let ((first, _one), (second, _two)) = (refusing(), refusing());
    let good = Origin::that(Reply::Ok);
    let mut gate = gate_before(&[first, second, good.address()], &["retries: { max: 2 }"]);
    let statuses = ask(&gate, "POST", 30);
    assert_eq!(count(&statuses, 200), 30, "{statuses:?}");
    gate.comes_to_rest();
}

#[test]
fn the_last_address_is_never_left_out() {
    let only = Origin::that(Reply::ThenClose(b""));
    let mut gate = gate_before(&[only.address()], &[EJECTION]);
    let statuses = ask(&gate, "POST", 12);
    assert_eq!(count(&statuses, 502), 12);
    assert_eq!((only.count(), in_use(&gate, only.address())), (12, 1.0));
    gate.comes_to_rest();
}

#[test]
fn retries_stay_within_their_budget_while_everything_is_down() {
    let origins = [Origin::that(Reply::ThenClose(b"")), Origin::that(Reply::ThenClose(b""))];
    let retry = "retries: { max: 5, on: [connect_error, reset_before_answer], budget: 10% }";
    let mut gate = gate_before(&origins.each_ref().map(|origin| origin.address()), &[retry]);
    let start = Instant::now();
    let statuses = ask(&gate, "GET", 100);
    let most = 0.1 * 100.0 + 10.0 + 3.0 * (start.elapsed().as_secs_f64() + 1.0) + 3.0;
    assert_eq!(count(&statuses, 502), 100);
    let made = retries(&gate);
    assert!((10.0..=most).contains(&made), "{made} retries, at most {most}");
    assert_eq!(origins.iter().map(Origin::count).sum::<usize>(), 100 + made as usize);
    assert!(gate.metrics().sum("tidegate_origin_retries_refused_total", &[]) > 0.0);
    gate.comes_to_rest();
}

#[test]
fn a_try_has_a_time_of_its_own_and_the_request_one_for_all() {
    let stalled = Origin::that(Reply::ThenStall(b""));
    let retry = "retries: { max: 2, on: [timeout], budget: 100% }";
    let mut gate = gate_before(&[stalled.address()], &[retry, "timeouts: { try: 500ms, request: 60s }"]);
    assert_eq!(gate.fetch("/", "").status, 504);
    // the origin notes a request on a thread of its own, which may run after the gate has given the request up
    stalled.wait_for(3);
    assert_eq!(stalled.count(), 3, "one, and two more");
    gate.comes_to_rest();
    let mut gate = gate_before(&[stalled.address()], &[retry, "timeouts: { try: 1h, request: 2s }"]);
    assert_eq!(gate.fetch("/", "").status, 504);
    stalled.wait_for(4);
    assert_eq!(stalled.count(), 4, "no time is left for a second one");
    gate.comes_to_rest();
}

#[test]
fn a_slow_body_is_not_cut_by_the_time_of_a_try() {
    // the head comes at once, the rest never: only `read` may end that
    let stalled = Origin::that(Reply::ThenStall(HALF));
    let retry = "retries: { max: 2, on: [timeout, reset_before_answer], budget: 100% }";
    let times = "timeouts: { try: 3s, read: 5s, request: 60s }";
    let mut gate = gate_before(&[stalled.address()], &[retry, times]);
    let start = Instant::now();
    let answer = gate.fetch("/", "");
    assert_eq!((answer.status, answer.complete), (200, false));
    assert!(start.elapsed().as_millis() >= 4_900, "it had the time of a read");
    assert_eq!(stalled.count(), 1);
    gate.comes_to_rest();
}

#[test]
fn under_load_a_server_that_goes_down_is_carried_by_the_others() {
    let sick = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&sick);
    let bad = Origin::start(move |_| if asked.load(Ordering::Relaxed) { Reply::ThenReset(b"") } else { Reply::Ok });
    let others = [Origin::that(Reply::Ok), Origin::that(Reply::Ok)];
    let addresses = [bad.address(), others[0].address(), others[1].address()];
    let retry = "retries: { max: 2, on: [connect_error, reset_before_answer], budget: 20% }";
    let mut gate = gate_before(&addresses, &[EJECTION, retry]);
    let failed: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let mut connection = gate.connect();
                let sick = &sick;
                scope.spawn(move || {
                    let mut failed = 0;
                    for n in 0..100 {
                        if n == 30 {
                            sick.store(true, Ordering::Relaxed);
                        }
                        let answer = connection.ask("GET", "/", "", b"");
                        failed += usize::from(answer.status != 200 || answer.text() != "ok");
                    }
                    failed
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(failed, 0, "of 800");
    // three in a row end it; those that were under way then may fail too
    assert!((3.0..=20.0).contains(&retries(&gate)), "{}", retries(&gate));
    assert_eq!(in_use(&gate, bad.address()), 0.0);
    gate.comes_to_rest();
}

#[test]
fn health_checks_take_an_address_out_and_bring_it_back() {
    let (good, bad, sick) = one_of_each(Reply::Bytes(DOWN));
    sick.store(false, Ordering::Relaxed);
    // three failures in a row: one or two late answers of a good address on a busy machine change nothing
    let health = "health: { path: /healthz, every: 1s, timeout: 1s, unhealthy_after: 3, healthy_after: 2 }";
    let mut gate = gate_before(&[good.address(), bad.address()], &[health]);
    let served = |origin: &Origin| origin.arrivals().iter().filter(|arrival| arrival.target == "/").count();
    for _ in 0..2 {
        let before = served(&bad);
        assert_eq!(count(&ask(&gate, "GET", 20), 200), 20);
        assert!(served(&bad) > before, "it takes part");
        sick.store(true, Ordering::Relaxed);
        wait_for("the address to be taken out", || (in_use(&gate, bad.address()) == 0.0).then_some(()));
        let before = served(&bad);
        assert_eq!(count(&ask(&gate, "GET", 20), 200), 20, "nobody meets it any more");
        assert_eq!(served(&bad), before);
        sick.store(false, Ordering::Relaxed);
        wait_for("the address to come back", || (in_use(&gate, bad.address()) == 1.0).then_some(()));
    }
    let address = bad.address().to_string();
    let of_it = |line: &&str| line.contains("fails its health checks") && line.contains(&address);
    let told = || gate.talk().lines().filter(of_it).count();
    wait_for("both changes to be told", || (told() >= 2).then_some(()));
    assert_eq!(told(), 2, "once per change:\n{}", gate.talk());
    gate.comes_to_rest();
}

#[test]
fn an_address_that_comes_back_starts_slowly() {
    let (good, bad, sick) = one_of_each(Reply::Bytes(DOWN));
    // three failures in a row: if the good address were taken out too, both would start slowly
    let health = "health: { path: /healthz, every: 1s, timeout: 1s, unhealthy_after: 3, healthy_after: 1 }";
    let mut gate = gate_before(&[good.address(), bad.address()], &[health, "slow_start: 1h"]);
    let served = |origin: &Origin| origin.arrivals().iter().filter(|arrival| arrival.target == "/").count();
    taken_out(&gate, bad.address());
    sick.store(false, Ordering::Relaxed);
    wait_for("the address to come back", || (in_use(&gate, bad.address()) == 1.0).then_some(()));
    let before = served(&bad);
    assert_eq!(count(&ask(&gate, "GET", 300), 200), 300);
    let part = served(&bad) - before;
    assert!((5..=60).contains(&part), "a tenth of its half would be about 15 to 30 of 300: {part}");
    gate.comes_to_rest();
}

#[test]
fn a_check_asks_for_what_the_policy_says() {
    let origin = Origin::that(Reply::Ok);
    let health = "health: { path: /alive, host: shop.example, every: 100ms, timeout: 100ms }";
    let _gate = gate_before(&[origin.address()], &[health]);
    origin.wait_for(1);
    let check = &origin.arrivals()[0];
    assert_eq!((check.method.as_str(), check.target.as_str()), ("GET", "/alive"));
    assert_eq!(check.lines("host"), ["shop.example"]);
}

#[test]
fn a_check_that_only_connects_finds_a_dead_address() {
    let (dead, _guard) = refusing();
    let good = Origin::that(Reply::Ok);
    // three failures in a row: where both addresses are out, both are asked
    let health = "health: { every: 1s, timeout: 1s, unhealthy_after: 3 }";
    let mut gate = gate_before(&[dead, good.address()], &[health]);
    taken_out(&gate, dead);
    let before = retries(&gate);
    assert_eq!(count(&ask(&gate, "GET", 20), 200), 20);
    assert_eq!(retries(&gate), before, "it is not even tried");
    gate.comes_to_rest();
}

#[test]
fn where_every_address_fails_its_checks_all_are_asked() {
    let origins = [(); 2]
        .map(|()| Origin::start(|arrival| if arrival.target == "/healthz" { Reply::Bytes(DOWN) } else { Reply::Ok }));
    let health = "health: { path: /healthz, every: 100ms, timeout: 100ms, unhealthy_after: 1 }";
    let mut gate = gate_before(&origins.each_ref().map(|origin| origin.address()), &[health]);
    origins.iter().for_each(|origin| taken_out(&gate, origin.address()));
    assert_eq!(count(&ask(&gate, "GET", 20), 200), 20, "a check that is wrong everywhere stops nobody");
    assert_eq!(gate.metrics().sum("tidegate_origin_all_unhealthy_requests_total", &[]), 20.0);
    gate.comes_to_rest();
}
