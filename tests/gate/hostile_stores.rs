//! Stores that are no stores: what they say costs the gate neither memory nor its log, and opens nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate::store::{MOST_ANSWER, MOST_TEXT};

use crate::harness::gate::{binary, end};
use crate::harness::{Gate, shared, wait_for};

/// What a question is answered with: written once, and then `endless` again and again until the gate has had enough.
#[derive(Clone, Default)]
struct Hostile {
    once: Vec<u8>,
    endless: Vec<u8>,
    /// Between two writes of `endless`.
    pause: Duration,
}

impl Hostile {
    fn once(text: &str) -> Hostile {
        Hostile { once: text.as_bytes().to_vec(), ..Hostile::default() }
    }

    fn then(self, endless: &str) -> Hostile {
        Hostile { endless: endless.repeat(64 * 1_024 / endless.len() + 1).into_bytes(), ..self }
    }
}

/// A server that answers stamps and logins as a store does, and questions as it likes.
struct FakeStore {
    port: u16,
    /// Bytes that it could get rid of.
    sent: Arc<AtomicU64>,
    questions: Arc<AtomicU64>,
    hostile: Arc<Mutex<Hostile>>,
}

impl FakeStore {
    fn start(hostile: Hostile) -> FakeStore {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let store = FakeStore {
            port: listener.local_addr().unwrap().port(),
            sent: Arc::default(),
            questions: Arc::default(),
            hostile: Arc::new(Mutex::new(hostile)),
        };
        let (sent, questions, hostile) = (store.sent.clone(), store.questions.clone(), store.hostile.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (sent, questions, hostile) = (sent.clone(), questions.clone(), hostile.clone());
                std::thread::spawn(move || serve(stream, &sent, &questions, &hostile));
            }
        });
        store
    }
}

fn serve(stream: TcpStream, sent: &AtomicU64, questions: &AtomicU64, hostile: &Mutex<Hostile>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(words) = command(&mut reader) {
        let text = words.join(" ");
        let said: Vec<u8> = match words[0].as_str() {
            "PING" => b"+PONG\r\n".to_vec(),
            // to be kept
            "EVAL" if words[2] == "0" => b":0\r\n".to_vec(),
            _ if text.contains("{gates}") => b"*1\r\n:1\r\n".to_vec(),
            _ => {
                questions.fetch_add(1, Ordering::Relaxed);
                let Hostile { once, endless, pause } = hostile.lock().unwrap().clone();
                if writer.write_all(&once).is_err() {
                    return;
                }
                while !endless.is_empty() {
                    if writer.write_all(&endless).is_err() {
                        return;
                    }
                    sent.fetch_add(endless.len() as u64, Ordering::Relaxed);
                    std::thread::sleep(pause);
                }
                continue;
            }
        };
        if writer.write_all(&said).is_err() {
            return;
        }
    }
}

/// One command of a client: an array of bulk strings.
fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let line = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        line.trim()[1..].parse::<usize>().ok()
    };
    let count = line(reader)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut bytes = vec![0; line(reader)? + 2];
        reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(bytes.len() - 2);
        words.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Some(words)
}

fn policy(port: u16, words: &str) -> String {
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://127.0.0.1:{port}\", timeout: 200ms }}
limits:
  all: {{ rate: 50/s, burst: 100, store: shared, sharing: exact, on_store_error: {words} }}
routes:
  - {{ name: page, limits: [all], respond: {{ status: 200, body: ok }} }}
"
    )
}

/// Asks from several connections for a while; the statuses that came.
fn ask(gate: &Gate, span: Duration) -> Vec<u16> {
    let statuses = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let statuses = &statuses;
            scope.spawn(move || {
                let began = Instant::now();
                let mut number = 0;
                while began.elapsed() < span {
                    number += 1;
                    let lines = format!("X-Forwarded-For: 203.0.{client}.{}\r\n", number % 250);
                    statuses.lock().unwrap().push(gate.fetch("/", &lines).status);
                }
            });
        }
    });
    statuses.into_inner().unwrap()
}

#[test]
fn answers_without_an_end_take_a_bounded_amount_of_memory() {
    let mib = 1_024;
    // what one connection may hold, what the crate makes of it, and what the allocator keeps of both
    let most = 8 * MOST_ANSWER as u64 / 1_024;
    let cases = [
        ("bulk", Hostile::once("$999999999\r\n").then("x")),
        ("bulk below the bound", Hostile::once("$8000000\r\n").then("x")),
        ("array", Hostile::once("*1000000000\r\n").then(":1\r\n")),
        ("array below the bound", Hostile::once("*130000\r\n").then(":1\r\n")),
        ("arrays in arrays", Hostile::once("*1\r\n").then("*1\r\n")),
        ("arrays beside arrays", Hostile::once("*100000\r\n").then("*2\r\n*1\r\n:1\r\n$-1\r\n")),
        ("line", Hostile::once("-ERR ").then("x")),
        ("map", Hostile::once("%1000000000\r\n").then("+a\r\n")),
        ("pushes", Hostile::once("").then(">2\r\n+message\r\n+x\r\n")),
        ("answers to nothing", Hostile::once("").then("+OK\r\n")),
        ("bulks to nothing", Hostile::once("").then(&format!("$60000\r\n{}\r\n", "x".repeat(60_000)))),
        ("a drip", Hostile { pause: Duration::from_millis(1), ..Hostile::once("*100000\r\n").then(":1\r\n") }),
    ];
    for (what, hostile) in cases {
        let store = FakeStore::start(hostile);
        let mut gate = shared::gate(&policy(store.port, "local"));
        let before = gate.resident_kib();
        let statuses = ask(&gate, Duration::from_millis(1_200));
        let peak = gate.resident_peak_kib();
        println!(
            "{what}: {} requests, {} questions, {} MiB sent; resident {} MiB, at most {} MiB",
            statuses.len(),
            store.questions.load(Ordering::Relaxed),
            store.sent.load(Ordering::Relaxed) >> 20,
            before / mib,
            peak / mib,
        );
        assert!(gate.is_alive(), "{what}");
        assert!(store.questions.load(Ordering::Relaxed) > 0, "{what}: it was asked");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 429 | 503)), "{what}: {statuses:?}");
        assert!(peak - before <= most, "{what}: {} MiB more", (peak - before) / mib);
    }
}

#[test]
fn an_answer_that_is_too_large_is_a_fault_and_no_outage() {
    let store = FakeStore::start(Hostile::once("$999999999\r\n").then("x"));
    let gate = shared::gate(&policy(store.port, "open"));
    // what was under way beside it, found no connection yet, or gave up before 8 MiB had come, met an outage
    wait_for("a fault", || ask(&gate, Duration::from_millis(500)).contains(&503).then_some(()));
    assert!(store.questions.load(Ordering::Relaxed) > 0);
    wait_for("the line", || gate.talk().contains("an answer of more than 8 MiB").then_some(()));
}

#[test]
fn what_a_store_says_is_one_short_line_of_ascii_wherever_it_is_shown() {
    let evil = format!("-ERR \u{1b}[31mred\u{1b}[0m \u{7}\t\r \u{202e}desrever {} finale\r\n", "long ".repeat(2_000));
    let store = FakeStore::start(Hostile::once(&evil));
    let gate = shared::gate(&policy(store.port, "closed"));
    wait_for("a question", || {
        gate.fetch("/", "");
        (store.questions.load(Ordering::Relaxed) > 0).then_some(())
    });
    let status = || end(binary().args(["status", "--admin"]).arg(gate.admin_socket())).stdout;
    let status = wait_for("the fault", || Some(status()).filter(|status| status.contains("desrever")));
    let json = end(binary().args(["status", "--format", "json", "--admin"]).arg(gate.admin_socket())).stdout;
    let said = wait_for("the line", || Some(gate.talk()).filter(|said| said.contains("desrever")));
    for text in [&status, &json, &said] {
        let harmless = |letter: char| letter == '\n' || !letter.is_control() && letter != '\u{202e}';
        assert!(text.chars().all(harmless), "{text:?}");
        assert!(!text.contains("finale"), "{text}");
        let line = text.lines().find(|line| line.contains("desrever")).unwrap();
        // beside what the gate itself says: when, which store
        assert!(line.len() <= MOST_TEXT + 240 || text == &json, "{line}");
    }
}

#[test]
fn a_cluster_that_names_strangers_leads_the_gate_nowhere() {
    // a redirection to a server that has no slots by the word of the cluster
    let aside = FakeStore::start(Hostile::once("+OK\r\n"));
    let store = FakeStore::start(Hostile::once(&format!("-MOVED 1 127.0.0.1:{}\r\n", aside.port)));
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", store.port);
    let cluster = clustered(slots);
    let gate = shared::gate(&policy(cluster, "closed").replace("timeout", "mode: cluster, timeout"));
    wait_for("a question", || {
        gate.fetch("/", "");
        (store.questions.load(Ordering::Relaxed) > 0).then_some(())
    });
    assert_eq!(ask(&gate, Duration::from_millis(300)).iter().filter(|status| **status != 503).count(), 0);
    assert_eq!(aside.questions.load(Ordering::Relaxed), 0, "nobody connects there");
}

/// A port of a server that names the servers of a cluster.
fn clustered(slots: String) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let slots = slots.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(words) = command(&mut reader) {
                    let said = if words[0] == "CLUSTER" { slots.as_bytes() } else { b"+OK\r\n" };
                    if (&stream).write_all(said).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}
