//! `demo`: an origin and a gate on loopback, to see what a limit does before writing one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::exit;
use super::global::Global;
use super::output::{print, say};
use super::run::serve_text;
use crate::observe::standard_error;
use crate::process::control;

/// Try tidegate on this machine
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate demo --port 8080")]
pub struct Demo {
    /// The gate's port on 127.0.0.1; another one is taken, and said, if it is in use
    #[arg(long, default_value_t = 8080)]
    port: u16,
}

/// Serves until it is told to stop.
pub fn demo(args: &Demo, global: &Global) -> ExitCode {
    let (origin, gate) = match (bind(0), bind(args.port).or_else(|_| bind(0))) {
        (Ok(origin), Ok(gate)) => (origin, gate),
        (Err(error), _) | (_, Err(error)) => {
            say(&format!("error: no free port on 127.0.0.1: {error}\n"));
            return ExitCode::from(exit::SYSTEM);
        }
    };
    let (Ok(origin_address), Ok(gate_address)) = (origin.local_addr(), gate.local_addr()) else {
        say("error: the system does not tell the address of a socket that it has just bound\n");
        return ExitCode::from(exit::SYSTEM);
    };
    // the gate binds its port by itself, as `run` does
    drop(gate);
    std::thread::spawn(move || serve_origin(origin));
    let policy = policy(gate_address, origin_address);
    let admin = admin_socket();
    print(&instructions(gate_address, &policy, admin.as_deref()));
    let ended = serve_text("demo.yaml", &policy, admin.clone(), global);
    if let Some(folder) = admin.as_deref().and_then(Path::parent) {
        // ours alone, as it has this process's number; whatever is left of it harms nobody
        let _ = std::fs::remove_dir_all(folder);
    }
    ended
}

/// Where verbs find a demonstration; for a second one of the same user a place of its own, which `--admin` names.
fn admin_socket() -> Option<PathBuf> {
    let usual = control::demo_path();
    let path = match std::os::unix::net::UnixStream::connect(&usual) {
        Ok(_) => std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id())).join("admin.sock"),
        Err(_) => usual,
    };
    control::prepare(&path).is_ok().then_some(path)
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

fn policy(gate: SocketAddr, origin: SocketAddr) -> String {
    format!(
        "listen: \"{gate}\"
routes:
  - name: login
    match: {{ path: =/login ignore all }}
    origin: {origin}
    limit: 5/m burst 5
  - name: site
    origin: {origin}
    limit: 10/s burst 20
telemetry:
  log: {{ level: error }}
"
    )
}

fn instructions(gate: SocketAddr, policy: &str, admin: Option<&Path>) -> String {
    let verbs = admin.map(|admin| {
        let program = program();
        let live = if cfg!(feature = "tui") { "top" } else { "status" };
        // the usual place is looked at anyway
        let at = if admin == control::demo_path() { String::new() } else { format!(" --admin {}", admin.display()) };
        format!(
            "
Why was the last one refused? Its answer has the id. What happens now?

  {program} explain{at} --decision ID
  {program} {live}{at}
"
        )
    });
    let verbs = verbs.unwrap_or_default();
    let indented: String = policy.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "tidegate guards a small origin with this policy:

{indented}
Try, in another terminal:

  curl -i http://{gate}/
  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{{http_code}} ' -X POST http://{gate}/login; done; echo
  curl -i -X POST -H 'X-Forwarded-For: 203.0.113.7' http://{gate}/login
{verbs}
Ctrl-C stops it.
"
    )
}

/// How to call this program again from here, as it can be typed.
fn program() -> String {
    let Ok(program) = std::env::current_exe() else { return "tidegate".to_owned() };
    let is_it = |found: PathBuf| found.canonicalize().is_ok_and(|found| found == program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("tidegate")).find(|found| found.is_file());
    if found.is_some_and(is_it) {
        return "tidegate".to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    match program.strip_prefix(&here) {
        // a name without a folder would be looked for in PATH
        Ok(below) => format!("./{}", below.display()),
        Err(_) => program.display().to_string(),
    }
}

/// The smallest origin there is: says hello to every request and keeps the connection.
fn serve_origin(listener: TcpListener) {
    let run = async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer_all(stream));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended: io::Result<()> = runtime.and_then(|runtime| runtime.block_on(run));
    if let Err(error) = ended {
        standard_error::say(&format!("error: the demonstration's origin stopped: {error}\n"));
    }
}

async fn answer_all(stream: tokio::net::TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request_line = String::new();
        let mut body = 0;
        if stream.read_line(&mut request_line).await? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim_end().is_empty() {
                break;
            }
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                body = length.trim().parse().unwrap_or(0);
            }
        }
        tokio::io::copy(&mut tokio::io::AsyncReadExt::take(&mut stream, body), &mut tokio::io::sink()).await?;
        let path = request_line.split(' ').nth(1).unwrap_or("/");
        let text = format!("hello from the origin, you asked for {path}\n");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", text.len());
        stream.get_mut().write_all((head + &text).as_bytes()).await?;
    }
}
