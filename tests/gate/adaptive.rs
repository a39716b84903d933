//! An adaptive in-flight cap before a real origin that slows down tenfold above fifty requests at once. Counts decide; the
//! bounds are wide, as the machine that runs this has other work to do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::{Gate, undisturbed};

/// Above so many at once it is slow.
const COMFORT: usize = 50;
const FAST: Duration = Duration::from_millis(60);
const CLIENTS: usize = 120;
/// Answers per run; the first half is for settling.
const ANSWERS: usize = 5_000;
/// An origin that is always slow needs ten times as long for each, and settles at once.
const SLOW_ANSWERS: usize = 1_000;

/// Counts how many requests are with it, and takes its time accordingly.
#[derive(Default)]
struct Slowing {
    inside: AtomicUsize,
    /// How many there were whenever one came.
    seen: Mutex<Vec<usize>>,
}

impl Slowing {
    fn start() -> (SocketAddr, Arc<Slowing>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let slowing = Arc::new(Slowing::default());
        let shared = Arc::clone(&slowing);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        (address, slowing)
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut unread = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            while !unread.ends_with(b"\r\n\r\n") {
                let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
                unread.extend_from_slice(&buffer[..count]);
            }
            unread.clear();
            let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.seen.lock().unwrap().push(now);
            let slow = now > COMFORT;
            std::thread::sleep(if slow { 10 * FAST } else { FAST });
            self.inside.fetch_sub(1, Ordering::SeqCst);
            let answer: &[u8] = if slow {
                b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow"
            } else {
                b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfast"
            };
            stream.write_all(answer).ok()?;
        }
    }
}

struct Outcome {
    fast: usize,
    answered: usize,
    shed: usize,
    /// The middle of how many were with the origin, in the second half.
    middle: usize,
}

/// As many clients as would drown the origin, each asking again as soon as it is answered, or a little later when refused.
fn run(answers: usize, words: &str) -> Outcome {
    let (address, origin) = Slowing::start();
    let mut gate = Gate::start(&format!(
        "origins:\n  app:\n    addresses: \"{address}\"\n{words}\nroutes:\n  - {{ name: site, origin: app }}\n\
         telemetry:\n  metrics: {{ address: \"127.0.0.1:0\" }}\n"
    ));
    let (answered, fast, shed, done) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut connection = gate.connect();
            let (answered, fast, shed, done) = (&answered, &fast, &shed, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let answer = connection.ask("GET", "/", "", b"");
                    if answer.status == 503 {
                        shed.fetch_add(1, Ordering::Relaxed);
                        // a refused client that asks again at once measures only how fast it can be refused
                        std::thread::sleep(FAST / 2);
                        continue;
                    }
                    assert_eq!(answer.status, 200);
                    let count = answered.fetch_add(1, Ordering::Relaxed) + 1;
                    fast.fetch_add(usize::from(count > answers / 2 && answer.text() == "fast"), Ordering::Relaxed);
                    if count >= answers {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    gate.comes_to_rest();
    let seen = origin.seen.lock().unwrap();
    let mut late = seen[seen.len() / 2..].to_vec();
    late.sort_unstable();
    let answered = answered.into_inner() - answers / 2;
    Outcome { fast: fast.into_inner(), answered, shed: shed.into_inner(), middle: late[late.len() / 2] }
}

/// A machine that is busy with something else makes an origin slow, too; then a cap falls lower than this origin needs, and the run
/// proves nothing. One that is at fault spoils every run.
#[test]
fn an_origin_that_slows_down_above_fifty_is_held_near_fifty() {
    undisturbed("held near fifty", held_near_fifty);
}

fn held_near_fifty() -> Option<()> {
    let share = |outcome: &Outcome| 100.0 * outcome.fast as f64 / outcome.answered as f64;
    let show = |name: &str, outcome: &Outcome| {
        println!(
            "{name}: {:.1} % of the answers fast, {} at once in the middle, {} refused",
            share(outcome),
            outcome.middle,
            outcome.shed
        );
    };
    let aimd = run(ANSWERS, "    inflight: 400\n    adaptive: { algorithm: aimd, min: 10, target: p95<300ms }");
    show("aimd", &aimd);
    let gradient = run(ANSWERS, "    inflight: 400\n    adaptive: { algorithm: gradient, min: 10, target: p95<300ms }");
    show("gradient", &gradient);
    let fixed = run(SLOW_ANSWERS, "    inflight: 400");
    show("fixed cap of 400", &fixed);
    let none = run(SLOW_ANSWERS, "");
    show("no cap", &none);
    let holds = |adapted: &Outcome| {
        (15..=75).contains(&adapted.middle)
            && share(adapted) > 50.0
            && [&fixed, &none].into_iter().all(|other| other.middle > 75 && share(adapted) > share(other) + 30.0)
    };
    [&aimd, &gradient].into_iter().all(holds).then_some(())
}
