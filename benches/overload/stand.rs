//! The origin and the load on one CPU, a proxy alone on the other.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::load::Seen;
use crate::process::{Layout, Running, Used};

/// Which proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A build of tidegate, with its overload protection or without.
    Tidegate { program: PathBuf, overload: Option<bool> },
    /// As installed.
    Nginx,
    /// As installed.
    Haproxy,
}

/// The origin and what the proxies are given.
pub struct Stand {
    directory: PathBuf,
    origin: SocketAddr,
    _origin: Running,
}

/// A proxy and the clients in front of it; ended when dropped.
pub struct Loaded {
    clients: Running,
    said: BufReader<ChildStdout>,
    proxy: Running,
}

const PROXY: Layout = Layout::OneCpu(0);
const OTHERS: Layout = Layout::OneCpu(1);

impl Stand {
    /// Starts the origin and makes an RSA key of 3,072 bits with its certificate.
    pub fn new() -> io::Result<Stand> {
        if Layout::find(1) == Layout::Unpinned {
            return Err(io::Error::other("needs two CPUs and `taskset`"));
        }
        let directory = env::temp_dir().join(format!("tidegate-overload-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "30", "-subj", "/CN=tidegate.test"])
            .args(["-addext", "subjectAltName=DNS:tidegate.test", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&directory)
            .stderr(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(io::Error::other("`openssl req` made no certificate"));
        }
        let both = [fs::read(directory.join("cert.pem"))?, fs::read(directory.join("key.pem"))?].concat();
        fs::write(directory.join("both.pem"), both)?;
        let mut origin = Running::start(OTHERS.command(env::current_exe()?).arg("origin").stdout(Stdio::piped()))?;
        let stdout = origin.child().stdout.take().ok_or_else(|| io::Error::other("the origin has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| io::Error::other("the origin did not start"))?;
        Ok(Stand { directory, origin: address, _origin: origin })
    }

    /// Starts the proxy and its clients. `None`: its program is not there.
    pub fn start(&self, subject: &Subject) -> io::Result<Option<Loaded>> {
        // nobody uses it at this moment; a proxy that finds it taken does not start
        let listen = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let write = |name: &str, text: String| {
            let path = self.directory.join(name);
            fs::write(&path, text).map(|()| path)
        };
        let program = match subject {
            Subject::Tidegate { program, .. } => Some(program.clone()),
            Subject::Nginx => find("nginx"),
            Subject::Haproxy => find("haproxy"),
        };
        let Some(program) = program else { return Ok(None) };
        let mut command = PROXY.command(program);
        match subject {
            Subject::Tidegate { overload, .. } => {
                let policy = write("policy.yaml", tidegate(listen, self.origin, &self.directory, *overload))?;
                command.args(["run", "-c"]).arg(policy)
            }
            Subject::Nginx => {
                let config = write("nginx.conf", nginx(listen, self.origin, &self.directory))?;
                command.arg("-p").arg(&self.directory).arg("-c").arg(config).arg("-e").arg(self.directory.join("error"))
            }
            Subject::Haproxy => {
                command.arg("-f").arg(write("haproxy.cfg", haproxy(listen, self.origin, &self.directory))?)
            }
        };
        let stderr = self.directory.join("stderr");
        command.stdout(Stdio::null()).stderr(File::create(&stderr)?);
        let mut proxy = Running::start(&mut command)?;
        if proxy.until(|| TcpStream::connect(listen).ok()).is_none() {
            let said = fs::read_to_string(&stderr).unwrap_or_default();
            return Err(io::Error::other(format!("{subject:?} did not start:\n{said}")));
        }
        let mut command = OTHERS.command(env::current_exe()?);
        let mut clients = Running::start(command.args(["load", &listen.to_string()]).stdout(Stdio::piped()))?;
        let stdout = clients.child().stdout.take().ok_or_else(|| io::Error::other("the load has no output"))?;
        let mut loaded = Loaded { clients, said: BufReader::new(stdout), proxy };
        match loaded.line()?.as_str() {
            "ready" => Ok(Some(loaded)),
            _ => Err(io::Error::other("the load did not start")),
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // left behind in the system's own directory for such things if it cannot be removed
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Loaded {
    /// Answers per second with 32 connections that each ask again at once.
    pub fn capacity(&mut self) -> io::Result<f64> {
        self.order("0 32 0")?.parse().map_err(io::Error::other)
    }

    /// Offers so many arrivals a second for so long.
    pub fn offer(&mut self, span: Duration, light: f64, heavy: f64) -> io::Result<Seen> {
        let said = self.order(&format!("{} {light} {heavy}", span.as_millis()))?;
        Seen::parse(&said).ok_or_else(|| io::Error::other("the load stopped: see its message above"))
    }

    /// CPU time that the proxy has used so far.
    pub fn used(&self) -> io::Result<Used> {
        self.proxy.used()
    }

    /// Resident memory of the proxy, in bytes.
    pub fn resident(&self) -> io::Result<u64> {
        self.proxy.resident()
    }

    fn order(&mut self, order: &str) -> io::Result<String> {
        let stopped = || io::Error::other("the load stopped: see its message above");
        writeln!(self.clients.child().stdin.as_mut().ok_or_else(stopped)?, "{order}")?;
        self.line()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

fn tidegate(listen: SocketAddr, origin: SocketAddr, directory: &Path, overload: Option<bool>) -> String {
    let folder = directory.display();
    // a build from before the protection does not know the word
    let overload = match overload {
        None => "",
        Some(true) => ", overload: { delay: 50ms }",
        Some(false) => ", overload: off",
    };
    format!(
        "listeners:
  main:
    address: \"{listen}\"
    tls: {{ certificates: [{{ cert: {folder}/cert.pem, key: {folder}/key.pem }}] }}
    connections: {{ handshakes: none, per_client: none }}
server: {{ threads: 1{overload} }}
routes:
  - origin: {origin}
"
    )
}

fn nginx(listen: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let folder = directory.display();
    format!(
        "daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream origin {{ server {origin}; keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen {listen} ssl backlog=4096;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    location / {{
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"
    )
}

fn haproxy(listen: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let folder = directory.display();
    format!(
        "global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  http-reuse always
frontend main
  bind {listen} ssl crt {folder}/both.pem backlog 4096
  default_backend origin
backend origin
  option forwardfor
  server origin {origin}
"
    )
}

/// A program in the path, or where distributions put servers.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    places.map(|place| place.join(name)).find(|path| path.is_file())
}
