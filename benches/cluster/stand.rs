//! The test stand: a Redis, and for one scene at a time every server with clients of its own.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::clients::Load;
use crate::plan::Plan;
use crate::process::{Layout, Running};
use crate::rows::{Kind, ROWS, Scene};

/// Load before anything is measured, and as much more for each client: leases of a server that has had no requests since its last turn
/// have ended, and what is held of a client follows from how often it comes.
const LEAD: Duration = Duration::from_millis(300);
const LEAD_PER_CLIENT: Duration = Duration::from_micros(500);

/// Long enough for what a server does after its last answer.
const SETTLE: Duration = Duration::from_millis(4);

/// The cost of a request in one slice of one server.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// CPU time of the server in microseconds, user and system.
    pub server: f64,
    /// CPU time of Redis in microseconds, user and system.
    pub redis: f64,
    /// Requests in a second.
    pub per_second: f64,
    /// Questions to Redis.
    pub questions: f64,
    /// Requests that waited for Redis.
    pub waits: f64,
}

/// All processes and their files; ended and removed when dropped.
pub struct Stand {
    layout: Layout,
    directory: PathBuf,
    store: SocketAddr,
    redis: Running,
}

/// A server of a scene and its clients.
pub struct Served {
    /// Which of [`ROWS`].
    pub row: usize,
    load: Load,
    running: Running,
    metrics: Option<SocketAddr>,
    status: u16,
    lead: Duration,
}

impl Stand {
    /// Redis, and nobody who asks it yet.
    ///
    /// # Errors
    /// There is none.
    pub fn new(layout: Layout) -> io::Result<Stand> {
        let directory = env::temp_dir().join(format!("tidegate-cluster-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let store = free_address()?;
        let port = store.port().to_string();
        let mut command = layout.command(find("redis-server")?);
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--maxmemory-policy", "noeviction"]).current_dir(&directory).stdout(Stdio::null());
        let mut redis = Running::start(&mut command)?;
        let listens = redis.until(|| TcpStream::connect(store).ok());
        listens.ok_or_else(|| io::Error::other("redis-server did not start"))?;
        Ok(Stand { layout, directory, store, redis })
    }

    /// Starts a row's server and its clients.
    pub fn start(&self, scene: &Scene, row: usize) -> io::Result<Served> {
        let (ours, listen) = (env::current_exe()?, free_address()?);
        let (units, seconds, burst) = scene.limit();
        let directory = self.directory.join(format!("{}-{}-{row}", scene.clients, scene.status));
        fs::create_dir_all(&directory)?;
        let said = directory.join("said");
        let mut command = match ROWS[row].kind {
            Kind::Pingora(asks) => {
                let mut command = self.layout.command(&ours);
                command.arg(if asks { "ask" } else { "answer" }).arg(listen.to_string());
                if asks {
                    let each = f64::from(seconds) / f64::from(units);
                    let database = if scene.status == 429 { 1 } else { 0 };
                    command.arg(format!("redis://{}/{database}", self.store));
                    command.args([each, each * f64::from(burst)].map(|number| number.to_string()));
                }
                command
            }
            Kind::Gate(words) => {
                let policy = directory.join("policy.yaml");
                let limit = words.map(|words| format!("rate: {units}/{seconds}s, burst: {burst}{words}"));
                fs::write(&policy, policy_of(&limit, self.store, row, scene))?;
                let mut command = self.layout.command(env!("CARGO_BIN_EXE_tidegate"));
                command.args(["run", "-c"]).arg(policy);
                command
            }
        };
        command.stdout(Stdio::null()).stderr(File::create(&said)?);
        let mut running = Running::start(&mut command)?;
        let gate = matches!(ROWS[row].kind, Kind::Gate(_));
        let address = if gate {
            running.until(|| said_address(&said, "listening on "))
        } else {
            running.until(|| TcpStream::connect(listen).is_ok().then_some(listen))
        };
        let metrics = if gate { running.until(|| said_address(&said, "metrics on http://")) } else { None };
        let fault = || {
            let said = fs::read_to_string(&said).unwrap_or_default();
            io::Error::other(format!("{} did not start:\n{said}", ROWS[row].name))
        };
        if let (Some(metrics), Kind::Gate(Some(words))) = (metrics, ROWS[row].kind)
            && words.contains("store:")
        {
            let connected = || (sum(&page(metrics).ok()?, "tidegate_store_connected") == 1.0).then_some(());
            running.until(connected).ok_or_else(fault)?;
        }
        let load = Load::start(self.layout.command(&ours), address.ok_or_else(fault)?, &Plan::kept(scene.clients))?;
        let lead = LEAD + LEAD_PER_CLIENT * scene.clients as u32;
        Ok(Served { row, load, running, metrics, status: scene.status, lead })
    }

    /// Loads the server for so long and reads what it used for it.
    pub fn measure(&self, served: &mut Served, slice: Duration) -> io::Result<Sample> {
        served.load.ask(served.lead)?;
        let (counted, redis, before) = (served.counts()?, self.redis.used()?, served.running.used()?);
        let seen = served.load.ask(slice)?;
        thread::sleep(SETTLE);
        let (server, redis) = (served.running.used()?.nanos_since(&before), self.redis.used()?.nanos_since(&redis));
        let requests = seen.requests() as f64;
        let right = seen.statuses.get(&served.status).copied().unwrap_or(0);
        // a first request may pass before the rest is refused
        if seen.requests() - right > 1 {
            let name = ROWS[served.row].name;
            return Err(io::Error::other(format!("{name}: not only {} but {:?}", served.status, seen.statuses)));
        }
        let counts = served.counts()?;
        let [questions, waits, silent] = [0, 1, 2].map(|what| (counts[what] - counted[what]) / requests);
        if silent > 0.0 {
            return Err(io::Error::other(format!("{}: the store was silent", ROWS[served.row].name)));
        }
        let of_script = if ROWS[served.row].kind == Kind::Pingora(true) { 1.0 } else { 0.0 };
        Ok(Sample {
            server: server as f64 / requests / 1e3,
            redis: redis as f64 / requests / 1e3,
            per_second: requests / slice.as_secs_f64(),
            questions: questions + of_script,
            waits: waits + of_script,
        })
    }
}

impl Served {
    /// Questions, waits and decisions without the store so far, by the gate's own count.
    fn counts(&self) -> io::Result<[f64; 3]> {
        let Some(metrics) = self.metrics else { return Ok([0.0; 3]) };
        let page = page(metrics)?;
        let names =
            ["tidegate_store_questions_total", "tidegate_store_waits_total", "tidegate_store_fallback_decisions_total"];
        Ok(names.map(|name| sum(&page, name)))
    }
}

/// The metrics page.
fn page(metrics: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(metrics)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Over all series of a metric.
fn sum(page: &str, name: &str) -> f64 {
    let series = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

impl Drop for Stand {
    fn drop(&mut self) {
        // left behind in the system's own directory for such things if it cannot be removed
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn policy_of(limit: &Option<String>, store: SocketAddr, row: usize, scene: &Scene) -> String {
    let (limits, of_route) = match limit {
        Some(limit) => (format!("limits:\n  bench: {{ {limit} }}\n"), ", limits: [bench]"),
        None => (String::new(), ""),
    };
    // only where it is named by a limit, and with gates of its own; what waits behind its neighbours on one CPU is no outage
    let stores = match limit.as_ref().is_some_and(|limit| limit.contains("store:")) {
        true => format!(
            "secrets: {{ client_hmac: \"a secret of all the gates\" }}\nstores:\n  shared: {{ url: \"redis://{store}\", \
             timeout: 1s, prefix: \"bench-{row}-{}:\" }}\n",
            scene.status
        ),
        false => String::new(),
    };
    format!(
        "listen: \"127.0.0.1:0\"
server: {{ threads: 1 }}
trusted_proxies: [127.0.0.0/8]
responses: {{ ratelimit_headers: off }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
{stores}{limits}routes:
  - {{ name: site{of_route}, respond: {{ status: 200, body: ok }} }}
"
    )
}

/// The address after these words.
fn said_address(said: &Path, words: &str) -> Option<SocketAddr> {
    let said = fs::read_to_string(said).ok()?;
    said.split(words).nth(1)?.split([' ', '/', '\n']).next()?.parse().ok()
}

/// An address nobody uses at this moment. Somebody else could take it before the server does, which then does not start.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

fn find(name: &str) -> io::Result<PathBuf> {
    let runs = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = || io::Error::other(format!("no {name} here, which all of this asks: apt-get install {name}"));
    runs.then(|| PathBuf::from(name)).ok_or_else(missing)
}
