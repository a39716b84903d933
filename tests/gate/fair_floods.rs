//! Three floods against `type: fair_share` through real sockets: one host, one /24, ten thousand hosts on one path.
//!
//! How much the generator and the gate can do together on this machine is measured first; the capacity is a twentieth
//! of that, and each flood offers a quarter of it: five times the capacity, while the rest is left for the bystanders. These
//! are forty clients in networks of their own, half of them IPv6, on paths of their own, who ask for a twelfth of the capacity
//! at most: five times a second each where that is less. They are paced by time, but judged
//! by counts alone: how many of their requests were refused, of those they asked. So a busy machine makes them ask less
//! often, and changes nothing else.
//!
//! A figure is printed for everything that the machine decides.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Connection, Gate, undisturbed, wait_for};

const BEFORE: Duration = Duration::from_secs(2);
const DURING: Duration = Duration::from_secs(5);
/// What is told apart of it, but counts as well.
const ONSET: Duration = Duration::from_secs(1);

/// The part of the flood that has to come.
const ENOUGH: f64 = 0.75;

/// Bystanders that may be refused because the machine stood still for a moment, after which much of the flood came at
/// once, beside the one in a hundred that `crates/limits/tests/fair_share` allows on a virtual clock, which knows no such moments.
const HICCUP: usize = 3;

const THREADS: usize = 2;
/// What comes at once, with all threads, is far less than what passes in a quarter of a second.
const CONNECTIONS: usize = 8;

const BYSTANDERS: usize = 40;
/// Each has a connection and as many bystanders as others have.
const BYSTANDER_THREADS: usize = 8;
/// Between two requests of one bystander, where the capacity allows it: five in a second.
const PACE: Duration = Duration::from_millis(200);
/// Of the capacity that all bystanders ask for at most: this part.
const MODEST: f64 = 1.0 / 12.0;

/// Who is refused has broken no promise of his own: the server is too busy.
const REFUSED: u16 = 503;

/// Who floods, and how the gate should call it.
struct Flood {
    name: &'static str,
    nodes: &'static str,
    /// The client and the path of the n-th request.
    request: fn(usize) -> (String, String),
    /// The node that has to be named.
    node: &'static str,
    prefix: Prefix,
}

/// What has to be named as the flood's origin.
enum Prefix {
    /// One client: by its pseudonym.
    Pseudonym,
    /// A network, which names nobody.
    Network(&'static str),
    /// The node does not count by networks.
    None,
}

const HOST: &str = "198.51.100.9";

const FLOODS: [Flood; 3] = [
    Flood {
        name: "one host",
        nodes: "",
        request: |_| (HOST.to_owned(), "/".to_owned()),
        node: "client_ip, route",
        prefix: Prefix::Pseudonym,
    },
    Flood {
        name: "one /24",
        nodes: "",
        request: |n| (format!("203.0.113.{}", 1 + n % 250), "/".to_owned()),
        node: "client_ip:ipv4_prefix=24,ipv6_prefix=48",
        prefix: Prefix::Network("203.0.113.0/24"),
    },
    Flood {
        name: "10,000 hosts on one path",
        nodes: "    nodes:
      - { key: [client_ip, path], multiplier: 1 }
      - { key: client_ip, multiplier: 1 }
      - { key: 'client_ip:ipv4_prefix=24,ipv6_prefix=48', multiplier: 16 }
      - { key: 'client_ip:ipv4_prefix=16,ipv6_prefix=32', multiplier: 64 }
      - { key: path, multiplier: 64 }
",
        request: |n| (scattered(n % 10_000), "/search".to_owned()),
        node: "path",
        prefix: Prefix::None,
    },
];

/// One after the other in one test, so that none of them floods the bystanders of another.
#[test]
fn bystanders_of_three_floods_keep_what_they_had() {
    let machine = machine_rate();
    let capacity = (machine / 20.0).max(200.0).floor();
    println!("generator and gate do {machine:.0}/s on this machine; capacity {capacity}/s");
    // a machine that is busy with something else keeps bystanders waiting, too: a gate at fault fails all three times
    let withstood = |flood: &Flood| {
        let once = || undisturbed("a flood of five times the capacity", || withstands(flood, capacity));
        let first = once();
        (0..2).fold(first, |told, _| told.or_else(|_| once()))
    };
    let told: Vec<String> = FLOODS.iter().filter_map(|flood| withstood(flood).err()).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// Requests per second of a flood that nothing holds back.
fn machine_rate() -> f64 {
    let gate = gate(1e6, FLOODS[0].nodes);
    let sends = |length| flood(&gate, FLOODS[0].request, None, length);
    sends(Duration::from_millis(500));
    let sent = sends(Duration::from_millis(1_500));
    sent.asked as f64 / sent.took.as_secs_f64()
}

fn gate(capacity: f64, nodes: &str) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  fair:
    type: fair_share
    capacity: {capacity}/s
{nodes}routes:
  - {{ name: site, limits: [fair], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ limited: 5%, other: 1%, refused: none }} }}
"
    ))
}

/// Lets the flood come over the bystanders. Prints what became of both; what should not have become of them is the error. `None` if
/// the machine was too busy to send more than a part of the flood, which does not make one that all the others stand out of.
fn withstands(what: &Flood, capacity: f64) -> Option<Result<(), String>> {
    let gate = gate(capacity, what.nodes);
    let offered = 5.0 * capacity;
    let pace = PACE.max(Duration::from_secs_f64(BYSTANDERS as f64 / (MODEST * capacity)));
    let over = AtomicBool::new(false);
    let (asks, flooded, from, until) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..BYSTANDER_THREADS)
            .map(|thread| {
                scope.spawn({
                    let (gate, over) = (&gate, &over);
                    move || bystanders(gate, thread, pace, over)
                })
            })
            .collect();
        sleep(BEFORE);
        let from = Instant::now();
        let flooded = flood(&gate, what.request, Some(offered), DURING);
        let until = Instant::now();
        over.store(true, Ordering::Relaxed);
        let asks: Vec<Ask> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (asks, flooded, from, until)
    });
    let within = |from: Option<Instant>, until: Instant| {
        let these = asks.iter().filter(|ask| from.is_none_or(|from| ask.sent >= from) && ask.sent < until);
        these.fold((0, 0), |(asked, passed), ask| (asked + 1, passed + usize::from(ask.passed)))
    };
    let (before, onset, during) = (within(None, from), within(Some(from), from + ONSET), within(Some(from), until));
    let part = |(asked, passed): (usize, usize)| passed as f64 / asked.max(1) as f64;
    let seconds = flooded.took.as_secs_f64();
    println!(
        "{}: capacity {capacity}/s, flood offered {:.0}/s, admitted {:.0}/s; bystanders {:.1} % of {} ({:.0}/s) before, \
         {:.1} % of {} ({:.0}/s) during, {:.1} % of {} in its first second",
        what.name,
        flooded.asked as f64 / seconds,
        flooded.passed as f64 / seconds,
        100.0 * part(before),
        before.0,
        before.0 as f64 / BEFORE.as_secs_f64(),
        100.0 * part(during),
        during.0,
        during.0 as f64 / seconds,
        100.0 * part(onset),
        onset.0,
    );
    if (flooded.asked as f64) < ENOUGH * offered * seconds {
        return None;
    }
    let mut faults = Vec::new();
    let mut claim = |holds: bool, otherwise: String| {
        if !holds {
            faults.push(format!("{}: {otherwise}", what.name));
        }
    };
    claim(before.0 > 0 && before.0 == before.1, format!("{before:?} asked and passed below the capacity"));
    claim(
        (during.1 + HICCUP) as f64 >= 0.99 * during.0 as f64,
        format!("{during:?} bystanders asked and passed; first second {onset:?}"),
    );
    // the promise of the whole, by our clock: its interval holds that of all stamps
    let most = capacity * (seconds + 0.25) + 1.0;
    let passed =
        flooded.passed + asks.iter().filter(|ask| ask.sent >= from && ask.answered < until && ask.passed).count();
    claim(passed as f64 <= most, format!("{passed} passed, {most} were promised"));
    claim(flooded.passed < flooded.asked, "the flood is held back".to_owned());

    let refused = flooded.asked - flooded.passed + asks.iter().filter(|ask| !ask.passed).count();
    gate.counts("tidegate_refused_requests_total", &[], refused as f64);
    let metrics = gate.metrics();
    let at = |node| metrics.sum("tidegate_fair_share_refused_total", &[("limit", "fair"), ("node", node)]);
    let all = metrics.sum("tidegate_fair_share_refused_total", &[("limit", "fair")]);
    println!("  {refused} refused, {all} by node, {} by {}", at(what.node), what.node);
    claim(all == refused as f64, format!("{all} refusals are counted by node, and {refused} requests were refused"));
    claim(at(what.node) >= 0.9 * refused as f64, format!("{} of {refused} refused by {}", at(what.node), what.node));
    let named = names_its_origin(&gate, what, refused);
    claim(named.is_ok(), named.err().unwrap_or_default());
    Some(if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) })
}

/// Both logs name the node and the network of the flood.
fn names_its_origin(gate: &Gate, what: &Flood, refused: usize) -> Result<(), String> {
    let refusals = || -> Vec<Value> {
        let text = gate.log_text();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        lines.filter(|line| line["verdict"] == "refused").collect()
    };
    // a twentieth is logged; that a quarter of it comes is not a matter of luck
    let refusals = wait_for("refusals in the access log", || {
        let lines = refusals();
        (lines.len() >= refused / 80).then_some(lines)
    });
    let names = |line: &Value| {
        let limit = &line["limits"][0];
        let prefix = match what.prefix {
            Prefix::Pseudonym => limit["prefix"] == line["client"],
            Prefix::Network(network) => limit["prefix"] == network,
            Prefix::None => limit["prefix"].is_null(),
        };
        limit["node"] == what.node && prefix && line["reason"] == "fair_share"
    };
    let named = refusals.iter().filter(|line| names(line)).count();
    if (named as f64) < 0.9 * refusals.len() as f64 {
        return Err(format!(
            "{named} of {} lines name the flood; the last: {}",
            refusals.len(),
            refusals[refusals.len() - 1]
        ));
    }
    let talk = gate.talk();
    let warned = talk.lines().any(|line| {
        let network = match what.prefix {
            Prefix::Pseudonym => refusals.iter().find(|line| names(line)).and_then(|line| line["client"].as_str()),
            Prefix::Network(network) => Some(network),
            Prefix::None => None,
        };
        line.contains("over its capacity") && line.contains(what.node) && network.is_none_or(|name| line.contains(name))
    });
    if !warned {
        return Err(format!("no warning names the flood: {talk}"));
    }
    if matches!(what.prefix, Prefix::Pseudonym) && (talk.contains(HOST) || gate.log_text().contains(HOST)) {
        return Err("a log names the client".to_owned());
    }
    Ok(())
}

/// An address in a provider's network of its own (/16 and /32), nearly: half of them IPv4, half IPv6.
fn scattered(host: usize) -> String {
    let number = (host as u32).wrapping_mul(0x9E37_79B1);
    match host % 2 {
        // 32.0.0.0 to 95.255.255.255, none of it special
        0 => std::net::Ipv4Addr::from(0x2000_0000 + (number >> 2)).to_string(),
        _ => format!("2{:03x}:{host:x}:7::9", 0x400 + (number >> 22)),
    }
}

/// One request of a bystander.
struct Ask {
    sent: Instant,
    answered: Instant,
    passed: bool,
}

/// A part of the bystanders, evenly spaced, until it is over. One who is late does not make up for it.
fn bystanders(gate: &Gate, thread: usize, pace: Duration, over: &AtomicBool) -> Vec<Ask> {
    const EACH: usize = BYSTANDERS / BYSTANDER_THREADS;
    let requests: Vec<Vec<u8>> = (0..EACH)
        .map(|place| {
            let client = thread * EACH + place;
            let address = match client % 2 {
                0 => format!("150.{client}.7.9"),
                _ => format!("2b00:{client:x}:7::9"),
            };
            request_of(&address, &format!("/item/{client}"))
        })
        .collect();
    let gap = pace / EACH as u32;
    let mut connection = gate.connect();
    let mut asks = Vec::new();
    let mut due = Instant::now() + gap * thread as u32 / BYSTANDER_THREADS as u32;
    for request in requests.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        connection.send(request).expect("a request is sent");
        let passed = passed(gate, &mut connection);
        asks.push(Ask { sent, answered: Instant::now(), passed });
        due = sent.max(due) + gap;
    }
    asks
}

#[derive(Default)]
struct Tally {
    asked: usize,
    passed: usize,
    took: Duration,
}

/// Sends for so long: at so many per second if that is given, otherwise as fast as answers come.
fn flood(gate: &Gate, who: fn(usize) -> (String, String), per_second: Option<f64>, length: Duration) -> Tally {
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    let gap = per_second.map(|rate| Duration::from_secs_f64((CONNECTIONS * THREADS) as f64 / rate));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (next, total) = (&next, &total);
            scope.spawn(move || {
                let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| gate.connect()).collect();
                let mut tally = Tally::default();
                let mut due = start + gap.unwrap_or_default() * thread as u32 / THREADS as u32;
                while start.elapsed() < length {
                    let first = next.fetch_add(CONNECTIONS, Ordering::Relaxed);
                    for (n, connection) in (first..).zip(&mut connections) {
                        let (client, path) = who(n);
                        connection.send(&request_of(&client, &path)).expect("a request is sent");
                    }
                    for connection in &mut connections {
                        tally.asked += 1;
                        tally.passed += usize::from(passed(gate, connection));
                    }
                    if let Some(gap) = gap {
                        // one wave late is made up for, more is not: it would be another kind of flood
                        due = (due + gap).max(Instant::now().checked_sub(gap).unwrap_or(due));
                        sleep(due.saturating_duration_since(Instant::now()));
                    }
                }
                let mut total = total.lock().unwrap();
                total.asked += tally.asked;
                total.passed += tally.passed;
            });
        }
    });
    Tally { took: start.elapsed(), ..total.into_inner().unwrap() }
}

fn request_of(client: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: gate.example\r\nX-Forwarded-For: {client}\r\n\r\n").into_bytes()
}

/// Reads the answer and says whether it is the page.
fn passed(gate: &Gate, connection: &mut Connection) -> bool {
    let answer = connection.answer_to("GET").expect("an answer comes");
    assert!(matches!(answer.status, 200 | REFUSED), "{answer:?}");
    if !answer.keeps_connection() {
        *connection = gate.connect();
    }
    answer.status == 200
}
