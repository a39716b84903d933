//! What a decision of every kind of limit costs through the whole engine: the client found behind a trusted
//! `X-Forwarded-For`, the route, the key's hash, the limit asked and charged.
//!
//! The heads are made before the clock starts, as a gate has read them before it decides. What a decision lends is given
//! back inside the measured time; limits that are charged at the answer get it inside as well.

use std::sync::Mutex;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tidegate::config;
use tidegate::engine::{Arrival, DecisionId, Engine, Evaluation, Holds, Verdict};
use tidegate::request::{Peer, Request};
use tidegate::sketch::{MonotoneTable, Seed, SummingTable};
use tidegate::units::{Bytes, Timestamp};

use super::allocations::Usage;
use super::measure::{Batches, Dice, Figure, nanos_in_batches, now};
use super::neighbours::highest_alone;
use super::{Budgets, Effort, WARM_UP};

/// Clients in every row, unless it says otherwise.
const CLIENTS: u32 = 10_000;

/// How many clients are spent while so many others, who never asked before, are looked at for wrong refusals.
const SPENT: u32 = 1_000;
const FRESH: u32 = 100_000;

/// The row that all others are compared with.
const SINGLE: &str = "rate";

/// What the value of the field `x-name` is, which `distinct` counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The same in every request of a client.
    Same,
    /// Another in every request.
    New,
}

/// One route: its limits once with more room than any client asks for, and once used up by every client.
struct Row {
    name: &'static str,
    ample: &'static [&'static str],
    spent: &'static [&'static str],
    /// Of the ample limits: what is done to the limits before measuring.
    before: Before,
    names: Names,
    clients: u32,
    /// The stated probability that an innocent is refused beside [`SPENT`] keys at their limit.
    stated: fn() -> f64,
}

/// What happened before an admitted decision is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// Two tables of levels serve side by side, as for some time every ten minutes.
    Rekeying,
    /// Every client has spent more than half, and so has an entry of its own.
    HalfSpent,
}

const RATE: &str = "type: rate, key: client_ip, rate: 10000/s, burst: 10000";
const RATE_SPENT: &str = "type: rate, key: client_ip, rate: 1/h, burst: 1";
const QUOTA: &str = "type: quota, key: client_ip, max: 1000000, window: 1h";
const AVERAGE: &str = "type: recent_average, key: client_ip, rate: 10000/s, half_life: 1m";
const AVERAGE_SPENT: &str = "type: recent_average, key: client_ip, rate: 1/h, half_life: 1h";
const DISTINCT: &str = "type: distinct, key: client_ip, of: header:x-name, missing: deny, max: 1000000, window: 1h";
const DISTINCT_SPENT: &str = "type: distinct, key: client_ip, of: header:x-name, missing: deny, max: 1, window: 24h";
const BY_KEY: &str = "type: inflight, key: client_ip, max: 1000";
const SHARE: &str = "type: fair_share, capacity: 10000000/s";

fn levels() -> f64 {
    MonotoneTable::with_memory(MonotoneTable::DEFAULT_MEMORY).expect("a valid size").false_refusal(u64::from(SPENT))
}

fn a_quarter_of_the_levels() -> f64 {
    MonotoneTable::with_memory(Bytes(1 << 20)).expect("a valid size").false_refusal(u64::from(SPENT))
}

fn sums() -> f64 {
    let table = SummingTable::with_memory(SummingTable::DEFAULT_MEMORY, &Seed::from_bytes([0; 16]));
    table.expect("a valid size").over_count_probability(u64::from(SPENT))
}

fn exact() -> f64 {
    0.0
}

/// It refuses by share, not by key.
fn no_such_error() -> f64 {
    f64::NAN
}

const PLAIN: Row = Row {
    name: "no limit",
    ample: &[],
    spent: &[],
    before: Before::Nothing,
    names: Names::Same,
    clients: CLIENTS,
    stated: exact,
};

const ROWS: [Row; 18] = [
    PLAIN,
    Row { name: SINGLE, ample: &[RATE], spent: &[RATE_SPENT], stated: levels, ..PLAIN },
    Row { name: "rate, two tables at once", ample: &[RATE], before: Before::Rekeying, stated: levels, ..PLAIN },
    Row {
        name: "rate, exact (1,000 clients)",
        ample: &["type: rate, key: client_ip, rate: 1/s, burst: 100000000, cost: { POST: 60000000, other: 1 }"],
        spent: &[RATE_SPENT],
        before: Before::HalfSpent,
        clients: 1_000,
        stated: exact,
        ..PLAIN
    },
    Row {
        name: "rate, counted by answers",
        ample: &["type: rate, key: client_ip, rate: 10000/s, burst: 10000, count: responses 401"],
        spent: &["type: rate, key: client_ip, rate: 1/h, burst: 1, count: responses 401"],
        stated: levels,
        ..PLAIN
    },
    Row {
        name: "quota",
        ample: &[QUOTA],
        spent: &["type: quota, key: client_ip, max: 1, window: 744h"],
        stated: levels,
        ..PLAIN
    },
    Row {
        name: "quota, sliding",
        ample: &["type: quota, key: client_ip, max: 1000000, window: 1h, sliding: true"],
        spent: &["type: quota, key: client_ip, max: 1, window: 24h, sliding: true"],
        stated: levels,
        ..PLAIN
    },
    Row {
        name: "recent_average, admitted",
        ample: &["type: recent_average, key: client_ip, rate: 10000/s, half_life: 1m, count: admitted"],
        spent: &["type: recent_average, key: client_ip, rate: 1/h, half_life: 1h, count: admitted"],
        stated: levels,
        ..PLAIN
    },
    Row { name: "recent_average, all", ample: &[AVERAGE], spent: &[AVERAGE_SPENT], stated: levels, ..PLAIN },
    Row {
        name: "distinct, new values",
        ample: &[DISTINCT],
        spent: &[DISTINCT_SPENT],
        names: Names::New,
        stated: a_quarter_of_the_levels,
        ..PLAIN
    },
    Row { name: "distinct, repeats", ample: &[DISTINCT], stated: a_quarter_of_the_levels, ..PLAIN },
    Row {
        name: "fair_share",
        ample: &[SHARE],
        spent: &["type: fair_share, capacity: 1/s"],
        stated: no_such_error,
        ..PLAIN
    },
    Row {
        name: "inflight",
        ample: &["type: inflight, max: 1000"],
        spent: &["type: inflight, max: 1"],
        stated: no_such_error,
        ..PLAIN
    },
    Row {
        name: "inflight by client",
        ample: &[BY_KEY],
        spent: &["type: inflight, key: client_ip, max: 1"],
        stated: sums,
        ..PLAIN
    },
    Row { name: FIVE, ample: &[RATE, QUOTA, AVERAGE, DISTINCT, BY_KEY], spent: ALL_SPENT, stated: levels, ..PLAIN },
    Row { name: FIVE_NEW, ample: &[RATE, QUOTA, AVERAGE, DISTINCT, BY_KEY], names: Names::New, ..PLAIN },
    Row { name: FIVE_SHARE, ample: &[RATE, QUOTA, AVERAGE, DISTINCT, SHARE], ..PLAIN },
    Row { name: FIVE_SHARE_NEW, ample: &[RATE, QUOTA, AVERAGE, DISTINCT, SHARE], names: Names::New, ..PLAIN },
];

const FIVE: &str = "five kinds";
const FIVE_NEW: &str = "five kinds, new values";
const FIVE_SHARE: &str = "five with fair_share";
const FIVE_SHARE_NEW: &str = "the same, new values";
const ALL_SPENT: &[&str] = &[
    RATE_SPENT,
    "type: quota, key: client_ip, max: 1, window: 744h",
    AVERAGE_SPENT,
    DISTINCT_SPENT,
    "type: inflight, key: client_ip, max: 1",
];

/// A policy in force, and requests to it.
struct Gate {
    engine: Engine,
    names: Names,
    clients: u32,
    settles: bool,
    /// Of limits that are used up by what is under way.
    held: Mutex<Vec<Holds>>,
}

impl Gate {
    fn new(limits: &[&str], names: Names, clients: u32) -> Gate {
        let named = (0..).zip(limits).map(|(n, limit)| format!("  l{n}: {{ {limit} }}\n")).collect::<String>();
        let asked = (0..limits.len()).map(|n| format!("l{n}")).collect::<Vec<_>>().join(", ");
        let limits_section = if limits.is_empty() { String::new() } else { format!("limits:\n{named}") };
        let text = format!(
            "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\n{limits_section}routes:\n  - {{ respond: {{ status: 200 }}, limits: [{asked}] }}\n"
        );
        let loaded = config::load_text("bench", &text, &|_| None, std::path::Path::new("."));
        let policy = loaded.outcome.unwrap_or_else(|_| panic!("{text}{:?}", loaded.diagnostics)).policy;
        let settles = text.contains("count: responses");
        let engine = Engine::new(policy, &Seed::from_bytes([9; 16]), 0).expect("valid numbers");
        Gate { engine, names, clients, settles, held: Mutex::default() }
    }

    fn ample(row: &Row) -> Gate {
        let gate = Gate::new(row.ample, row.names, row.clients);
        match row.before {
            Before::Nothing => {}
            Before::Rekeying => {
                gate.engine.maintain(Timestamp::ZERO);
                gate.engine.maintain(Timestamp::from_nanos(601_000_000_000));
            }
            Before::HalfSpent => {
                for client in 0..row.clients {
                    assert!(gate.decide(&head(client, client), &Method::POST, Timestamp::ZERO, &mut Holds::new()));
                }
            }
        }
        gate
    }

    /// Used up by the first `clients`, and by as much as they need to be refused.
    fn spent(row: &Row, clients: u32) -> Gate {
        let gate = Gate::new(row.spent, row.names, row.clients);
        for client in 0..clients {
            let mut holds = Holds::new();
            gate.decide(&head(client, client), &Method::GET, now(), &mut holds);
            gate.held.lock().unwrap().push(holds);
        }
        gate
    }

    /// Decides on one request; what it then holds, if its answer has not come inside, is in `holds`. The record and the holds are
    /// where they stay, as in a gate, which has room for them in what it keeps of a request.
    #[inline]
    fn decide(&self, headers: &HeaderMap, method: &Method, at: Timestamp, holds: &mut Holds) -> bool {
        let peer = Peer::Ip([127, 0, 0, 1].into());
        let request = Request { peer, method, host: "a.example", path: "/a", query: None, headers, tls_sni: None };
        let arrival = Arrival { id: DecisionId(1), at, dice: at.nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) };
        let mut evaluation = Evaluation::new(arrival);
        let client = self.engine.client(peer, headers);
        self.engine.judge_into(&request, client, &mut evaluation);
        self.engine.admit_into(&mut evaluation, at, holds);
        let admitted = evaluation.decision.verdict == Verdict::Admitted;
        if self.settles && admitted {
            self.engine.sent(holds);
            self.engine.answered(&evaluation, holds, StatusCode::UNAUTHORIZED, headers, at);
        }
        admitted
    }

    /// Wrong refusals of clients that never asked before, without charging them.
    fn fresh_refused(&self) -> u32 {
        let mut refused = 0;
        for client in SPENT..SPENT + FRESH {
            let headers = head(client, client);
            let peer = Peer::Ip([127, 0, 0, 1].into());
            let method = &Method::GET;
            let request =
                Request { peer, method, host: "a.example", path: "/a", query: None, headers: &headers, tls_sni: None };
            let evaluation = self.engine.judge(&request, Arrival { id: DecisionId(1), at: now(), dice: 1 });
            refused += u32::from(evaluation.decision.verdict != Verdict::Admitted);
        }
        refused
    }
}

/// The head of a request of one client with one name.
fn head(client: u32, name: u32) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let [_, b, c, d] = client.to_be_bytes();
    let text = |text: String| HeaderValue::try_from(text).expect("plain characters");
    headers.insert("host", HeaderValue::from_static("a.example"));
    headers.insert("user-agent", HeaderValue::from_static("Mozilla/5.0 (X11; Linux x86_64)"));
    headers.insert("x-forwarded-for", text(format!("100.{b}.{c}.{d}")));
    headers.insert("x-name", text(format!("name-{name:08}")));
    headers
}

/// A batch of heads, and the gate that decides on them.
struct Requests<'a> {
    gate: &'a Gate,
    heads: Vec<HeaderMap>,
    number: u32,
}

impl Batches for Requests<'_> {
    fn prepare(&mut self, dice: &mut Dice) {
        self.heads.clear();
        for _ in 0..64 {
            let client = dice.below(self.gate.clients);
            self.number = self.number.wrapping_add(1);
            let name = if self.gate.names == Names::New { self.number } else { client };
            self.heads.push(head(client, name));
        }
    }

    fn ask(&mut self, at: Timestamp) -> (u64, u64) {
        let mut holds = Holds::new();
        let mut admitted = 0;
        for headers in &self.heads {
            admitted += u64::from(self.gate.decide(headers, &Method::GET, at, &mut holds));
            // given back at once
            holds.clear();
        }
        (self.heads.len() as u64, admitted)
    }
}

/// So many times the rounds of other tables: on a machine that others share, a core of one's own is rare.
const TURNS: u64 = 4;

/// What is measured of a row.
struct Measured {
    bytes: i64,
    refused: Option<u32>,
    admit: Figure,
    refuse: Option<Figure>,
}

pub fn print(effort: &Effort, budgets: &mut Budgets) {
    println!("\n## Every kind, through the engine: CPU ns of judging and admitting, one thread, {CLIENTS} clients");
    println!(
        "in brackets the ratio to `{SINGLE}`; with the client, the route and the key's hash, and with giving back"
    );
    println!(
        "admit, refuse: of the slices of 2 ms that had their core to themselves, the quietest quarter takes so long or less"
    );
    println!("median: of all slices, half take so long or less; alone: which part had its core to itself");
    println!("innocents: of {FRESH} clients that never asked, those refused beside {SPENT} that have nothing left");
    println!("stated: the probability of that by formula, in which exact entries for heavy keys do not count\n");
    let rows: Vec<_> = ROWS.iter().map(|row| (row, measure_memory(row), row_spent(row))).collect();
    let mut admit = vec![Vec::new(); rows.len()];
    let mut refuse = vec![Vec::new(); rows.len()];
    for round in 0..effort.rounds * TURNS {
        for (n, (_, (_, ample), spent)) in rows.iter().enumerate() {
            let requests = |gate| Requests { gate, heads: Vec::new(), number: round as u32 * 100_000_000 };
            admit[n].extend(nanos_in_batches(requests(ample), true, effort.slices, WARM_UP, round));
            if let Some(spent) = spent {
                refuse[n].extend(nanos_in_batches(requests(spent), false, effort.slices, WARM_UP, round));
            }
        }
    }
    let highest = highest_alone(admit.iter().chain(&refuse).flatten().map(|sample| sample.probe));
    let fresh_refused = |row: &Row| Gate::spent(row, SPENT).fresh_refused();
    let measured = rows.iter().enumerate().map(|(n, (row, (bytes, _), spent))| Measured {
        bytes: *bytes,
        refused: (spent.is_some() && !(row.stated)().is_nan()).then(|| fresh_refused(row)),
        admit: Figure::of(&admit[n], highest),
        refuse: spent.as_ref().map(|_| Figure::of(&refuse[n], highest)),
    });
    let measured: Vec<Measured> = measured.collect();
    let figure = |name: &str| {
        let at = ROWS.iter().position(|row| row.name == name).expect("a row of the table");
        measured[at].admit
    };
    let single = measured.iter().zip(&ROWS).find(|(_, row)| row.name == SINGLE).expect("a row of the table").0;
    println!(
        "{:<30}{:>12}{:>10}{:>11}{:>18}{:>10}{:>7}{:>18}",
        "", "bytes", "stated", "innocents", "admit", "median", "alone", "refuse"
    );
    for (row, measured) in ROWS.iter().zip(&measured) {
        let stated = (row.stated)();
        let stated = match stated {
            _ if stated.is_nan() || row.spent.is_empty() => String::new(),
            0.0 => "0".into(),
            _ => format!("{stated:.0e}"),
        };
        let ratio = |figure: Figure, to: Figure| format!("{figure} ({:.2})", figure.nanos / to.nanos);
        let refuse = measured.refuse.zip(single.refuse).map(|(figure, to)| ratio(figure, to));
        println!(
            "{:<30}{:>12}{stated:>10}{:>11}{:>18}{:>10.1}{:>6.0}%{:>18}",
            row.name,
            measured.bytes,
            measured.refused.map(|refused| refused.to_string()).unwrap_or_default(),
            ratio(measured.admit, single.admit),
            measured.admit.median,
            measured.admit.alone * 100.0,
            refuse.unwrap_or_default(),
        );
    }
    for (what, name) in [
        ("five kinds of limit on one route, known values", FIVE),
        ("five kinds of limit on one route, every value new", FIVE_NEW),
        ("five kinds with fair_share, known values", FIVE_SHARE),
        ("five kinds with fair_share, every value new", FIVE_SHARE_NEW),
    ] {
        let (five, rate) = (figure(name), figure(SINGLE));
        budgets.nanos_at_most(what, five, 2_000.0, five.nanos / rate.nanos);
    }
    budgets.nanos_at_most("one rate", figure(SINGLE), 350.0, 1.0);
    budgets.at_most("a hundred limits of the usual size before their first key", resident_unused(), 64.0, " MiB");
}

/// What a hundred limits that nobody has met hold of the machine's memory, in MiB. They state 825.
fn resident_unused() -> f64 {
    let resident = || -> f64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    };
    let row = ROWS.iter().find(|row| row.name == SINGLE).expect("a row of the table");
    let before = resident();
    let gates: Vec<Gate> = (0..100).map(|_| Gate::ample(row)).collect();
    assert!(gates.iter().all(|gate| gate.engine.memory().0 > 8 << 20), "they are of the usual size");
    resident() - before
}

/// The gate with room, and what it allocated for good.
fn measure_memory(row: &Row) -> (i64, Gate) {
    let usage = Usage::start();
    let gate = Gate::ample(row);
    let engine = gate.engine.memory().0 as i64;
    // the policy and what was read of it are not the limits'; what they say they hold must be there
    assert!(usage.end().live >= engine, "{}: less memory than stated", row.name);
    (engine, gate)
}

fn row_spent(row: &Row) -> Option<Gate> {
    (!row.spent.is_empty()).then(|| Gate::spent(row, row.clients))
}
