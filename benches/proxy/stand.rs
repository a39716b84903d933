//! The test stand: the origin, every proxy of every row, all running at once and idle but for the one that is measured.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::clients::Load;
use crate::configs;
use crate::load::Seen;
use crate::process::{Layout, Running, Ticks};
use crate::rows::{Allocator, Kind, Row, Subject};
use crate::sibling;

/// Long enough for what a proxy does after its last answer.
const SETTLE: Duration = Duration::from_millis(4);

/// Where there is a log, its lines too: tidegate gathers them for 50 ms.
const SETTLE_WITH_LOG: Duration = Duration::from_millis(100);

/// What one slice of one proxy gave.
#[derive(Debug, Clone)]
pub struct Sample {
    /// CPU time per request in microseconds, user and system.
    pub micros: f64,
    /// What it consists of, in clock ticks: coarse in one slice, good over all.
    pub ticks: Ticks,
    /// What the clients saw.
    pub seen: Seen,
    /// Resident memory afterwards, in bytes.
    pub resident: u64,
}

/// All processes and their files; ended and removed when dropped.
pub struct Stand {
    layout: Layout,
    directory: PathBuf,
    origin: SocketAddr,
    programs: Programs,
    // before the origin, so that proxies end first
    proxies: BTreeMap<Subject, Proxy>,
    _origin: Running,
}

struct Proxy {
    load: Load,
    running: Running,
    directory: PathBuf,
    requests: u64,
}

/// The executables, as far as they are there.
struct Programs {
    ours: PathBuf,
    default_allocator: Option<PathBuf>,
    nginx: Option<PathBuf>,
    haproxy: Option<PathBuf>,
}

impl Stand {
    /// The origin, and nothing in front of it yet.
    pub fn new(layout: Layout) -> io::Result<Stand> {
        let ours = env::current_exe()?;
        let directory = env::temp_dir().join(format!("tidegate-proxy-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut origin = Running::start(layout.command(&ours).arg("origin").stdout(Stdio::piped()))?;
        let stdout = origin.child().stdout.take().ok_or_else(|| io::Error::other("the origin has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| io::Error::other("the origin did not start"))?;
        let programs =
            Programs { ours, default_allocator: sibling::build(), nginx: find("nginx"), haproxy: find("haproxy") };
        Ok(Stand { layout, directory, origin: address, programs, proxies: BTreeMap::new(), _origin: origin })
    }

    /// Starts the subject and waits until it takes connections. `Ok(false)`: its program is not there.
    pub fn start(&mut self, subject: Subject) -> io::Result<bool> {
        let directory =
            self.directory.join(format!("{:?}-{}", subject.row, subject.name().replace([' ', ',', '\''], "")));
        fs::create_dir_all(&directory)?;
        let listen = free_address()?;
        let (row, origin) = (subject.row, self.origin);
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).map(|()| path)
        };
        let program = match (subject.kind, subject.allocator) {
            (Kind::Bare | Kind::Filter { .. }, Allocator::Mimalloc) => Some(self.programs.ours.clone()),
            (Kind::Bare | Kind::Filter { .. }, Allocator::Default) => self.programs.default_allocator.clone(),
            (Kind::Tidegate, _) => Some(PathBuf::from(env!("CARGO_BIN_EXE_tidegate"))),
            (Kind::Nginx, _) => self.programs.nginx.clone(),
            (Kind::Haproxy, _) => self.programs.haproxy.clone(),
        };
        let Some(program) = program else { return Ok(false) };
        let mut command = self.layout.command(program);
        match subject.kind {
            Kind::Bare => command.args(["pass", &listen.to_string(), &origin.to_string()]),
            Kind::Filter { body } => command.args(["refuse", &listen.to_string(), &body.to_string()]),
            Kind::Tidegate => {
                command.args(["run", "-c"]).arg(write("policy.yaml", configs::tidegate(row, origin, &directory))?)
            }
            Kind::Nginx => {
                let config = write("nginx.conf", configs::nginx(row, listen, origin, &directory))?;
                command.arg("-p").arg(&directory).arg("-c").arg(config).arg("-e").arg(directory.join("error.log"))
            }
            Kind::Haproxy => command.arg("-f").arg(write("haproxy.cfg", configs::haproxy(row, listen, origin))?),
        };
        let (stdout, stderr) = (directory.join("stdout"), directory.join("stderr"));
        command.stdout(File::create(stdout)?).stderr(File::create(&stderr)?);
        let mut running = Running::start(&mut command)?;
        let address = match subject.kind {
            Kind::Tidegate => running.until(|| said_address(&stderr)),
            _ => running.until(|| TcpStream::connect(listen).is_ok().then_some(listen)),
        };
        let Some(address) = address else {
            let said = fs::read_to_string(&stderr).unwrap_or_default();
            return Err(io::Error::other(format!("{} did not start:\n{said}", subject.name())));
        };
        let load = Load::start(self.layout.command(&self.programs.ours), address, row.clients())?;
        self.proxies.insert(subject, Proxy { load, running, directory, requests: 0 });
        Ok(true)
    }

    /// Loads the subject for so long and reads what it used for it.
    pub fn measure(&mut self, subject: Subject, slice: Duration) -> io::Result<Sample> {
        let proxy = self.proxies.get_mut(&subject).ok_or_else(|| io::Error::other("not started"))?;
        let before = proxy.running.used()?;
        let seen = proxy.load.ask(slice)?;
        thread::sleep(if subject.row == Row::Full { SETTLE_WITH_LOG } else { SETTLE });
        let after = proxy.running.used()?;
        proxy.requests += seen.requests();
        Ok(Sample {
            micros: after.nanos_since(&before) as f64 / seen.requests() as f64 / 1000.0,
            ticks: after.ticks_since(&before),
            resident: proxy.running.resident()?,
            seen,
        })
    }

    /// Lines in the subject's access log for each request it has served. `None` if it was not started.
    pub fn log_lines_per_request(&self, subject: Subject) -> Option<f64> {
        let proxy = self.proxies.get(&subject)?;
        let lines = |name: &str| {
            let log = fs::read(proxy.directory.join(name)).ok()?;
            Some(log.iter().filter(|byte| **byte == b'\n').count())
        };
        Some(lines("access.log").or_else(|| lines("stdout"))? as f64 / proxy.requests as f64)
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.proxies.clear();
        // left behind in the system's own directory for such things if it cannot be removed
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The address in `listening on ADDRESS (main)`.
fn said_address(stderr: &Path) -> Option<SocketAddr> {
    let said = fs::read_to_string(stderr).ok()?;
    said.split("listening on ").nth(1)?.split_whitespace().next()?.parse().ok()
}

/// An address nobody uses at this moment. Somebody else could take it before the proxy does; the proxy then does not start.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

/// A program in the path, or where distributions put servers.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    let candidates = places.map(|place| place.join(name));
    let runs = |path: &PathBuf| Command::new(path).arg("-v").output().is_ok_and(|output| output.status.success());
    candidates.into_iter().find(|path| path.is_file() && runs(path))
}
