//! The origin, the certificate, the programs, and proxies that are started in front of the origin.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::certificate;
use crate::clients::Load;
use crate::configs::{self, Process};
use crate::load::{self, HOST};
use crate::plan::Plan;
use crate::process::{Layout, Running};
use crate::rows::{Kind, REFUSAL_BODY, Row, Subject};

/// All of it; ended and removed when dropped.
pub struct Site {
    /// Where the load and the origin run.
    layout: Layout,
    directory: PathBuf,
    /// Where the origin answers.
    pub origin: SocketAddr,
    ours: PathBuf,
    nginx: Option<PathBuf>,
    haproxy: Option<PathBuf>,
    _origin: Running,
}

/// How a proxy is started.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Where it runs.
    pub layout: Layout,
    /// What is changed of its row.
    pub process: Process,
    /// A program, with arguments, that runs it.
    pub under: &'a [String],
}

/// A proxy that takes connections; ended when dropped.
pub struct Proxy {
    /// Its process.
    pub running: Running,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its files.
    pub directory: PathBuf,
}

impl Site {
    /// The origin and a certificate, and nothing in front of them yet.
    pub fn new(layout: Layout) -> io::Result<Site> {
        let ours = env::current_exe()?;
        static SITES: AtomicUsize = AtomicUsize::new(0);
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("tidegate-proxy-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory)?;
        certificate::write(&directory, HOST).map_err(io::Error::other)?;
        let mut origin = Running::start(layout.command(&ours).arg("origin").stdout(Stdio::piped()))?;
        let stdout = origin.child().stdout.take().ok_or_else(|| io::Error::other("the origin has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| io::Error::other("the origin did not start"))?;
        let (nginx, haproxy) = (find("nginx"), find("haproxy"));
        Ok(Site { layout, directory, origin: address, ours, nginx, haproxy, _origin: origin })
    }

    /// What the clients of a row do.
    pub fn plan(&self, row: Row) -> Plan {
        row.plan(&self.directory.join("authority.der"))
    }

    /// Clients of a proxy, connected.
    pub fn load(&self, proxy: SocketAddr, plan: &Plan) -> io::Result<Load> {
        Load::start(self.layout.command(&self.ours), proxy, plan)
    }

    /// A command that runs a part of this benchmark where the load runs.
    pub fn ours(&self) -> Command {
        self.layout.command(&self.ours)
    }

    /// Starts the subject and waits until it takes connections and forwards as all do. `None`: its program is not there.
    pub fn start(&self, subject: Subject, start: Start<'_>) -> io::Result<Option<Proxy>> {
        let Subject { row, kind } = subject;
        let kept = if start.process.table.is_some_and(|(_, is_kept)| is_kept) { "-kept" } else { "" };
        let folder = format!("{}-{}{kept}", row.word(), kind.name().replace([' ', ',', ':'], ""));
        let directory = self.directory.join(folder);
        fs::create_dir_all(&directory)?;
        let (listen, origin, process) = (free_address()?, self.origin, start.process);
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).map(|()| path)
        };
        let program = match kind {
            Kind::Tidegate { .. } => Some(tidegate()),
            Kind::Nginx => self.nginx.clone(),
            Kind::Haproxy => self.haproxy.clone(),
            Kind::Pingora => Some(self.ours.clone()),
        };
        let Some(program) = program else { return Ok(None) };
        let mut command = match start.under {
            [] => start.layout.command(program),
            [tool, arguments @ ..] => {
                let mut command = start.layout.command(tool);
                command.args(arguments).arg(program);
                command
            }
        };
        match kind {
            Kind::Tidegate { direct } => {
                let policy = configs::tidegate(row, direct, process, origin, &directory);
                command.args(["run", "-c"]).arg(write("policy.yaml", policy)?)
            }
            Kind::Nginx => {
                let config = write("nginx.conf", configs::nginx(row, process, listen, origin, &directory))?;
                command.arg("-p").arg(&directory).arg("-c").arg(config).arg("-e").arg(directory.join("error.log"))
            }
            Kind::Haproxy => {
                command.arg("-f").arg(write("haproxy.cfg", configs::haproxy(row, process, listen, origin, &directory))?)
            }
            Kind::Pingora if row.refuses() => command.args(["refuse", &listen.to_string(), &REFUSAL_BODY.to_string()]),
            Kind::Pingora => {
                let workers = process.workers.to_string();
                command.args(["pass", &listen.to_string(), &origin.to_string(), &workers]);
                if row.is_secure() {
                    command.arg(&self.directory).arg(if row == Row::Http2 { "h2" } else { "h1" });
                }
                &mut command
            }
        };
        let (stdout, stderr) = (directory.join("stdout"), directory.join("stderr"));
        command.stdout(File::create(stdout)?).stderr(File::create(&stderr)?);
        let mut running = Running::start(&mut command)?;
        let address = match kind {
            Kind::Tidegate { .. } => running.until(|| said_address(&stderr)),
            _ => running.until(|| TcpStream::connect(listen).is_ok().then_some(listen)),
        };
        let Some(address) = address else {
            let said = fs::read_to_string(&stderr).unwrap_or_default();
            return Err(io::Error::other(format!("{} did not start:\n{said}", kind.name())));
        };
        if !row.refuses() {
            self.look(subject, address)?;
        }
        Ok(Some(Proxy { running, address, directory }))
    }

    /// Looks whether a request reaches the origin as it should.
    fn look(&self, subject: Subject, address: SocketAddr) -> io::Result<()> {
        let plan = Plan { clients: 1, ..self.plan(subject.row) };
        let head = load::reached(address, &plan)?;
        let values = |name: &str| {
            let values = head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            values.collect::<Vec<_>>().join(", ")
        };
        let proto = if subject.row.is_secure() { "https" } else { "http" };
        let wanted = [
            ("host", HOST),
            ("x-forwarded-for", "32.0.0.0, 127.0.0.1"),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", HOST),
        ];
        let wrong = wanted.iter().find(|(name, value)| values(name) != *value);
        match wrong {
            None => Ok(()),
            Some((name, value)) => Err(io::Error::other(format!(
                "{}, {}: {name} should be `{value}` in\n{head}",
                subject.row.word(),
                subject.kind.name()
            ))),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
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
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    places.map(|place| place.join(name)).find(|path| path.is_file())
}

/// The program to measure: the one that was built with this, unless `TIDEGATE` names another.
fn tidegate() -> PathBuf {
    env::var_os("TIDEGATE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_tidegate")), PathBuf::from)
}
