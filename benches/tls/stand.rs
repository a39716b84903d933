//! The origin, and the two proxies in front of it.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::certificate;
use crate::load::{Load, NAME};
use crate::process::{Layout, Running};

/// For what a proxy still does after the last answer.
const SETTLE: Duration = Duration::from_millis(30);

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// Ours, as `cargo bench` built it.
    Tidegate,
    /// As the system installed it.
    Nginx,
}

/// What one handshake or request costs a proxy.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Microseconds of CPU.
    pub micros: f64,
    /// The part of it outside the kernel.
    pub user: f64,
}

/// Everything that runs.
pub struct Stand {
    directory: PathBuf,
    authority: CertificateDer<'static>,
    tidegate: (Running, SocketAddr),
    nginx: (Running, SocketAddr),
    _origin: Running,
}

impl Stand {
    /// Starts all of it, on one CPU if that can be had.
    pub fn new(layout: Layout) -> io::Result<Stand> {
        let directory = env::temp_dir().join(format!("tidegate-tls-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        certificate::write(&directory, NAME).map_err(io::Error::other)?;
        let authority = CertificateDer::from(fs::read(directory.join("authority.der"))?);
        let mut origin = Running::start(layout.command(env::current_exe()?).arg("origin").stdout(Stdio::piped()))?;
        let stdout = origin.child().stdout.take().ok_or_else(|| io::Error::other("the origin has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| io::Error::other("the origin did not start"))?;
        Ok(Stand {
            tidegate: start_tidegate(layout, &directory, address)?,
            nginx: start_nginx(layout, &directory, address)?,
            authority,
            directory,
            _origin: origin,
        })
    }

    /// Its resident memory, in MiB.
    pub fn resident(&self, proxy: Proxy) -> io::Result<f64> {
        let (running, _) = self.proxy(proxy);
        Ok(running.resident()? as f64 / f64::from(1 << 20))
    }

    fn proxy(&self, proxy: Proxy) -> &(Running, SocketAddr) {
        match proxy {
            Proxy::Tidegate => &self.tidegate,
            Proxy::Nginx => &self.nginx,
        }
    }

    /// What this load costs the proxy.
    pub fn measure(&self, proxy: Proxy, load: Load) -> io::Result<Cost> {
        let (running, address) = self.proxy(proxy);
        let before = running.used()?;
        let count = load.run(*address, &self.authority)?;
        thread::sleep(SETTLE);
        let after = running.used()?;
        let ticks = after.ticks_since(&before);
        let user = ticks.user as f64 / (ticks.user + ticks.system).max(1) as f64;
        Ok(Cost { micros: after.nanos_since(&before) as f64 / count as f64 / 1000.0, user })
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // left behind in the system's own directory for such things if it cannot be removed
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn start_tidegate(layout: Layout, directory: &Path, origin: SocketAddr) -> io::Result<(Running, SocketAddr)> {
    let policy = directory.join("policy.yaml");
    let folder = directory.display();
    fs::write(
        &policy,
        format!(
            "listeners:
  main:
    address: \"127.0.0.1:0\"
    protocols: [h2, http/1.1]
    tls: {{ certificates: [{{ cert: {folder}/cert.pem, key: {folder}/key.pem }}] }}
    connections: {{ requests: 1000000, handshakes: none, per_client: none }}
server: {{ threads: 1 }}
routes:
  - origin: {origin}
"
        ),
    )?;
    let said = directory.join("tidegate.log");
    let mut command = layout.command(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "-c"]).arg(policy).stdout(Stdio::null()).stderr(fs::File::create(&said)?);
    let mut running = Running::start(&mut command)?;
    let address = running.until(|| {
        let said = fs::read_to_string(&said).ok()?;
        said.split("listening on ").nth(1)?.split_whitespace().next()?.parse().ok()
    });
    let failed =
        || io::Error::other(format!("tidegate did not start:\n{}", fs::read_to_string(&said).unwrap_or_default()));
    Ok((running, address.ok_or_else(failed)?))
}

fn start_nginx(layout: Layout, directory: &Path, origin: SocketAddr) -> io::Result<(Running, SocketAddr)> {
    // nobody uses it at this moment; somebody else could take it before nginx does, which then does not start
    let listen = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let folder = directory.display();
    let config = directory.join("nginx.conf");
    fs::write(
        &config,
        format!(
            "daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  upstream origin {{ server {origin}; keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen {listen} ssl http2;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m; ssl_session_tickets on;
    location / {{
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"
        ),
    )?;
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).map(|place| place.join("nginx"));
    let program = places.find(|program| program.is_file());
    let program = program.ok_or_else(|| io::Error::other("nginx is not installed: apt-get install nginx-light"))?;
    let mut command = layout.command(program);
    command.arg("-p").arg(directory).arg("-c").arg(config).arg("-e").arg(directory.join("error.log"));
    let mut running = Running::start(&mut command)?;
    match running.until(|| TcpStream::connect(listen).is_ok().then_some(listen)) {
        Some(address) => Ok((running, address)),
        None => Err(io::Error::other("nginx did not start")),
    }
}
