//! Clients that never stop asking, and never accept a failure: in HTTP/1.1 and HTTP/2, with and without TLS, on kept
//! connections and on fresh ones.
//!
//! They do what RFC 9112 and RFC 9113 ask of a client and nothing beyond it. An answer is whole or it is a failure. The one
//! thing that is neither is a request in HTTP/2 of which the gate says that it was not looked at: a stream above the last one of a GOAWAY
//! (RFC 9113 section 6.8), or one that is reset with `REFUSED_STREAM` (section 8.7). It is counted apart and asked again. HTTP/1.1 has
//! no such word, so there a connection that closes while a request is on its way is a failure, an idle one's too.

mod http1;
mod http2;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::gate::Folder;
use super::tls::{Authority, Client, Files, Signed};
use super::{Gate, Origin, Reply, wait_within};

/// How long every kind of client may take for a few more answers, while two slow cores start a process as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two requests of one client: the gate is to be busy, not the machine full.
const PAUSE: Duration = Duration::from_millis(2);

/// The most failures that one client writes down.
const ENOUGH: usize = 10;

/// What a client speaks, and how long it keeps its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// HTTP/1.1 on one connection for as long as it is let.
    Http1Kept,
    /// A connection for every request.
    Http1Fresh,
    /// The same two over TLS; the second one resumes its sessions.
    Http1TlsKept,
    Http1TlsFresh,
    /// HTTP/2 with prior knowledge, several streams at once on a connection that is kept.
    Http2Kept,
    /// A connection for a few streams.
    Http2Fresh,
    /// The same two over TLS, where HTTP/2 is agreed on by ALPN.
    Http2TlsKept,
    Http2TlsFresh,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Http1Kept,
        Kind::Http1Fresh,
        Kind::Http1TlsKept,
        Kind::Http1TlsFresh,
        Kind::Http2Kept,
        Kind::Http2Fresh,
        Kind::Http2TlsKept,
        Kind::Http2TlsFresh,
    ];

    fn is_http2(self) -> bool {
        matches!(self, Kind::Http2Kept | Kind::Http2Fresh | Kind::Http2TlsKept | Kind::Http2TlsFresh)
    }

    fn is_secure(self) -> bool {
        matches!(self, Kind::Http1TlsKept | Kind::Http1TlsFresh | Kind::Http2TlsKept | Kind::Http2TlsFresh)
    }

    fn keeps(self) -> bool {
        matches!(self, Kind::Http1Kept | Kind::Http1TlsKept | Kind::Http2Kept | Kind::Http2TlsKept)
    }
}

/// What clients of one kind have met.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Whole answers with status 200, by the generation that gave them.
    pub answered: BTreeMap<usize, usize>,
    /// Connections that were opened.
    pub connections: usize,
    /// Connections that did not come about.
    pub refused: Vec<String>,
    /// Requests that were not answered, or not wholly, or not with 200.
    pub failed: Vec<String>,
    /// Requests of which the gate said that it had not looked at them; they were repeated.
    pub elsewhere: usize,
    /// Connections that were told to go elsewhere before they had asked for anything.
    pub unasked: usize,
}

impl Tally {
    /// All whole answers.
    pub fn total(&self) -> usize {
        self.answered.values().sum()
    }
}

/// What a load is directed at: a listener without TLS and one with, each of which speaks HTTP/1.1 and HTTP/2, a route
/// that the gate answers by itself and one behind which there is an origin.
pub struct Ground {
    origin: Origin,
    authority: Authority,
    files: Files,
    certificate: String,
    folder: Folder,
}

/// The host of its certificate.
pub const HOST: &str = "gate.example";

impl Ground {
    pub fn new() -> Ground {
        let (authority, files) = (Authority::new("of the load"), Files::new());
        let certificate = files.put_pair("gate", &authority.sign(&[HOST]));
        Ground { origin: Origin::that(Reply::Ok), authority, files, certificate, folder: Folder::new() }
    }

    /// The section that says where clients of every kind are met.
    pub fn listeners(&self, clear: &str, secure: &str) -> String {
        let certificate = &self.certificate;
        format!(
            "listeners:
  main: {{ address: \"{clear}\", protocols: [h2, http/1.1] }}
  secure: {{ address: \"{secure}\", tls: {{ certificates: {certificate} }} }}
"
        )
    }

    /// The policy of a generation: every answer tells its number. The listeners are at these addresses.
    pub fn policy(&self, generation: usize, clear: &str, secure: &str) -> String {
        let (origin, listeners) = (self.origin.address(), self.listeners(clear, secure));
        let log = self.folder.path().join("access.json");
        format!(
            "{listeners}routes:
  - name: own
    match: {{ path: /own }}
    respond: {{ status: 200, body: ok }}
    response_headers: {{ set: {{ x-generation: \"{generation}\" }} }}
  - name: site
    origin: \"{origin}\"
    response_headers: {{ set: {{ x-generation: \"{generation}\" }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: {}, sample: {{ limited: 100%, other: 0%, refused: none }} }}
server: {{ overload: off, threads: 2, drain: {{ delay: 0s, timeout: 20s }} }}
",
            log.display()
        )
    }

    /// Puts a new certificate in the place of the present one.
    pub fn renew(&self) -> Signed {
        let renewed = self.authority.sign(&[HOST]);
        self.files.put_pair("gate", &renewed);
        renewed
    }

    /// A client that believes its authority.
    pub fn client(&self) -> Client {
        self.authority.client()
    }

    /// Starts clients of every kind against this gate.
    pub fn load(&self, gate: &Gate) -> Load {
        Load::on(&Target { clear: gate.address("main"), secure: gate.address("secure"), client: self.client() })
    }
}

/// Where clients ask.
#[derive(Clone)]
struct Target {
    clear: SocketAddr,
    secure: SocketAddr,
    client: Client,
}

impl Target {
    fn address(&self, kind: Kind) -> SocketAddr {
        if kind.is_secure() { self.secure } else { self.clear }
    }
}

/// Running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    tallies: Vec<(Kind, Arc<Mutex<Tally>>)>,
    clients: Vec<JoinHandle<()>>,
}

/// One client's part in it.
struct Part {
    kind: Kind,
    target: Target,
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
}

impl Load {
    fn on(target: &Target) -> Load {
        let stop = Arc::<AtomicBool>::default();
        let (mut tallies, mut clients) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let tally = Arc::<Mutex<Tally>>::default();
            let part = Part { kind, target: target.clone(), stop: Arc::clone(&stop), tally: Arc::clone(&tally) };
            clients.push(std::thread::spawn(
                move || {
                    if kind.is_http2() { http2::ask(part) } else { http1::ask(&part) }
                },
            ));
            tallies.push((kind, tally));
        }
        Load { stop, tallies, clients }
    }

    /// Waits until every kind has so many answers of this generation.
    pub fn is_served_by(&self, generation: usize, answers: usize) {
        self.every(&format!("{answers} answers of generation {generation}"), |_, tally| {
            tally.answered.get(&generation).is_some_and(|count| *count >= answers)
        });
    }

    /// Waits until every kind has so many more answers and, where it takes fresh ones, another connection.
    pub fn goes_on(&self, more: usize) {
        let seen = |(kind, tally): &(Kind, Arc<Mutex<Tally>>)| {
            let tally = tally.lock().unwrap();
            (*kind, (tally.total(), tally.connections))
        };
        let before: BTreeMap<Kind, (usize, usize)> = self.tallies.iter().map(seen).collect();
        self.every(&format!("{more} more answers"), |kind, tally| {
            let (answers, connections) = before[&kind];
            tally.total() >= answers + more && (kind.keeps() || tally.connections > connections)
        });
    }

    fn every(&self, what: &str, has: impl Fn(Kind, &Tally) -> bool) {
        for (kind, tally) in &self.tallies {
            wait_within(PATIENCE, &format!("{what} for {kind:?}"), &mut || {
                let tally = tally.lock().unwrap().clone();
                tally.assert_fine(*kind);
                has(*kind, &tally).then_some(())
            });
        }
    }

    /// Ends it; what was met, by kind.
    ///
    /// # Panics
    /// Something failed or was refused.
    pub fn stop(mut self) -> Met {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("a client does not panic");
        }
        let tallies = self.tallies.iter().map(|(kind, tally)| (*kind, tally.lock().unwrap().clone()));
        let met = Met(tallies.collect());
        for (kind, tally) in &met.0 {
            tally.assert_fine(*kind);
        }
        met
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Tally {
    /// At once rather than in the end: the gate's own words are nearer then.
    fn assert_fine(&self, kind: Kind) {
        assert!(self.refused.is_empty(), "{kind:?}: refused: {:?}", self.refused);
        assert!(self.failed.is_empty(), "{kind:?}: failed: {:?}", self.failed);
    }
}

/// What all clients have met.
pub struct Met(Vec<(Kind, Tally)>);

impl Met {
    /// All whole answers.
    pub fn total(&self) -> usize {
        self.0.iter().map(|(_, tally)| tally.total()).sum()
    }

    /// Asserts that every kind was served at least so often.
    pub fn at_least(&self, answers: usize) -> &Met {
        for (kind, tally) in &self.0 {
            assert!(tally.total() >= answers, "{kind:?}: {} answers", tally.total());
        }
        self
    }

    /// Asserts that every kind was served by each of the generations from this to that one.
    pub fn by_each_of(&self, first: usize, last: usize) -> &Met {
        for (kind, tally) in &self.0 {
            for generation in first..=last {
                assert!(tally.answered.contains_key(&generation), "{kind:?}: nothing of generation {generation}");
            }
        }
        self
    }
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, tally) in &self.0 {
            writeln!(
                f,
                "{:14} {:6} answered, {:5} connections, {} failed, {} refused, {} repeated, {} left unasked",
                format!("{kind:?}"),
                tally.total(),
                tally.connections,
                tally.failed.len(),
                tally.refused.len(),
                tally.elsewhere,
                tally.unasked
            )?;
        }
        let sum = |count: fn(&Tally) -> usize| self.0.iter().map(|(_, tally)| count(tally)).sum::<usize>();
        write!(f, "{} answered on {} connections", sum(Tally::total), sum(|tally| tally.connections))
    }
}

impl Part {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.tally.lock().unwrap().failed.len() < ENOUGH
    }

    fn connected(&self) {
        self.tally.lock().unwrap().connections += 1;
    }

    fn refused(&self, fault: impl fmt::Display) {
        self.tally.lock().unwrap().refused.push(fault.to_string());
        // rather than filling the list
        std::thread::sleep(Duration::from_millis(50));
    }

    fn failed(&self, fault: impl Into<String>) {
        self.tally.lock().unwrap().failed.push(fault.into());
    }

    fn unasked(&self) {
        self.tally.lock().unwrap().unasked += 1;
    }

    fn elsewhere(&self) {
        self.tally.lock().unwrap().elsewhere += 1;
    }

    /// Notes a whole answer.
    fn answered(&self, status: u16, generation: Option<&str>) {
        match generation.and_then(|number| number.parse::<usize>().ok()) {
            Some(number) if status == 200 => {
                *self.tally.lock().unwrap().answered.entry(number).or_default() += 1;
            }
            _ => self.failed(format!("{status} of generation {generation:?}")),
        }
    }

    /// Where a client asks next: by turns what the gate answers by itself and what the origin does.
    fn path(turn: usize) -> &'static str {
        if turn.is_multiple_of(2) { "/own" } else { "/through" }
    }
}
