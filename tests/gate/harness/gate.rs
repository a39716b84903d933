//! A running gate: the real binary with a policy file of its own, on ports that the system chose.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Answer, Connection, Entry, Metrics, PATIENCE, log, wait_for, wait_within};

/// A child process that serves, killed on drop. Its files live in a folder that goes with it.
pub struct Gate {
    child: Child,
    folder: Folder,
    said: Arc<Mutex<Vec<String>>>,
    /// Processes that took the place of the first, by number.
    successors: Vec<u32>,
}

impl Gate {
    /// Starts `run -c FILE` and waits until it listens. Sections that the policy does not name are added: one listener
    /// `main` and the metrics page, both on ports from the system, a complete access log, a drain of 5 s, and no refusals for
    /// overload.
    pub fn start(policy: &str) -> Gate {
        Gate::start_as(binary(), policy)
    }

    /// [`Gate::start`], with a limit on open files and sockets.
    pub fn start_with_files(files: u32, policy: &str) -> Gate {
        Gate::start_as(shell(&format!("ulimit -n {files} && exec \"$0\" \"$@\"")), policy)
    }

    /// The same by this command, which ends in the path of a [`binary`] and gets `run -c FILE` as its last arguments.
    pub fn start_as(command: Command, policy: &str) -> Gate {
        Gate::start_in(Folder::new(), Stdio::null(), command, policy)
    }

    /// The same with its files in this folder, and this as its standard input.
    pub fn start_in(folder: Folder, stdin: Stdio, command: Command, policy: &str) -> Gate {
        Gate::start_between(folder, [stdin, Stdio::piped()], command, policy)
    }

    /// The same with this as its standard error too. What is no pipe is not heard.
    pub fn start_between(folder: Folder, [stdin, stderr]: [Stdio; 2], mut command: Command, policy: &str) -> Gate {
        let file = folder.0.join("tidegate.yaml");
        let policy = with_sections(policy, &folder.0.join("access.json"));
        std::fs::write(&file, &policy).expect("the policy is written");
        command.arg("run").arg("-c").arg(&file);
        let gate = Gate::spawn_with([stdin, stderr], command, folder);
        gate.address("main");
        if policy.contains("\n  metrics:") {
            gate.metrics_address();
        }
        gate
    }

    /// Starts the binary with these arguments and no policy file.
    pub fn start_with(arguments: &[&str]) -> Gate {
        let mut command = binary();
        command.args(arguments);
        Gate::spawn(command, Folder::new())
    }

    /// Starts this command, which needs no policy file.
    pub fn start_by(command: Command) -> Gate {
        Gate::spawn(command, Folder::new())
    }

    fn spawn(command: Command, folder: Folder) -> Gate {
        Gate::spawn_with([Stdio::null(), Stdio::piped()], command, folder)
    }

    fn spawn_with([stdin, stderr]: [Stdio; 2], mut command: Command, folder: Folder) -> Gate {
        // root's own would be that of every gate
        if !command.get_envs().any(|(name, value)| name == "RUNTIME_DIRECTORY" && value.is_some()) {
            command.env("XDG_RUNTIME_DIR", &folder.0);
        }
        command.current_dir(&folder.0).stdin(stdin).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the binary starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            collect(stderr, &said);
        }
        collect(child.stdout.take().expect("stdout is a pipe"), &said);
        Gate { child, folder, said, successors: Vec::new() }
    }

    /// Where the listener of this name listens.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let end = format!(" ({listener})");
        self.announced(&format!("listener {listener}"), move |line| {
            let (_, rest) = line.split_once("listening on ")?;
            rest.split_once(&end)?.0.trim().parse().ok()
        })
    }

    /// Where metrics are scraped.
    pub fn metrics_address(&self) -> SocketAddr {
        self.announced("metrics page", |line| {
            let (_, rest) = line.split_once("metrics on http://")?;
            rest.split_once('/')?.0.trim().parse().ok()
        })
    }

    /// Waits for a line that means something to `read`.
    pub fn announced<T>(&self, what: &str, read: impl Fn(&str) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = self.said.lock().unwrap().iter().find_map(|line| read(line)) {
                return found;
            }
            // a process that has gone says nothing more, once its pipes are read out
            let gone =
                !Path::new(&format!("/proc/{}/fd", self.child.id())).read_dir().is_ok_and(|mut fd| fd.next().is_some());
            if gone || start.elapsed() > PATIENCE {
                std::thread::sleep(Duration::from_millis(200));
                panic!("no {what} was announced; the gate said:\n{}", self.talk());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process number, or that of the last that took its place.
    pub fn id(&self) -> u32 {
        self.successors.last().copied().unwrap_or(self.child.id())
    }

    /// Where its files live.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Its admin socket, if it was started with `RUNTIME_DIRECTORY` set to its folder.
    pub fn admin_socket(&self) -> PathBuf {
        self.folder.0.join("private/admin.sock")
    }

    /// Runs `tidegate upgrade` against its admin socket.
    pub fn upgrade(&mut self) -> Ended {
        self.upgrade_with(&[])
    }

    /// Runs `tidegate upgrade` with these arguments.
    pub fn upgrade_with(&mut self, arguments: &[&str]) -> Ended {
        let ended = end(binary().arg("upgrade").args(arguments).arg("--admin").arg(self.admin_socket()));
        if let Some(id) = ended.stdout.strip_prefix("process ").and_then(|rest| rest.split(' ').next()?.parse().ok()) {
            self.successors.push(id);
        }
        ended
    }

    /// Everything written to stdout and stderr so far.
    pub fn talk(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// A new connection to the listener `main`.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address("main"))
    }

    /// One GET on a connection of its own, with further header lines (each ending in CRLF).
    pub fn fetch(&self, path: &str, lines: &str) -> Answer {
        self.connect().ask("GET", path, lines, b"")
    }

    /// The metrics page, parsed.
    pub fn metrics(&self) -> Metrics {
        let answer = Connection::open(self.metrics_address()).ask("GET", "/metrics", "Host: localhost\r\n", b"");
        assert_eq!(answer.status, 200, "the metrics page answers");
        Metrics::parse(&answer.text())
    }

    /// Waits until the series of this metric with these labels add up to `total`. A request is counted when it has ended,
    /// which may be a moment after its client has the whole answer.
    pub fn counts(&self, metric: &str, labels: &[(&str, &str)], total: f64) {
        wait_for(&format!("{metric} {labels:?} to be {total}"), || {
            (self.metrics().sum(metric, labels) == total).then_some(())
        });
    }

    /// Waits until no request is with any origin or waits for one any more, and checks that the process lives and still answers.
    ///
    /// The claim of every test about failing clients and origins.
    pub fn comes_to_rest(&mut self) {
        let start = Instant::now();
        loop {
            let metrics = self.metrics();
            let inflight = metrics.every("tidegate_origin_inflight_requests");
            assert!(!inflight.is_empty(), "the in-flight gauge is exported");
            if inflight.iter().all(|(_, count)| *count == 0.0)
                && metrics.sum("tidegate_origin_queue_requests", &[]) == 0.0
            {
                break;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "requests stay in flight: {inflight:?}; the gate said:\n{}",
                self.talk()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(self.is_alive(), "the gate lives; it said:\n{}", self.talk());
        assert_eq!(self.metrics().sum("tidegate_panics_total", &[]), 0.0, "it said:\n{}", self.talk());
    }

    /// Whether the process is still there.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_none()
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        // the shell's own: not every machine has the program
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status();
        assert!(sent.expect("kill runs").success(), "the signal is delivered");
    }

    /// Waits until the process is gone.
    pub fn exit_status(&mut self) -> ExitStatus {
        self.exit_within(PATIENCE)
    }

    /// The same with a deadline of its own.
    pub fn exit_within(&mut self, deadline: Duration) -> ExitStatus {
        let child = &mut self.child;
        wait_within(deadline, "the gate to go", &mut || child.try_wait().expect("the child can be asked"))
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.told_by_kernel("VmRSS:")
    }

    /// The most that it has been in KiB.
    pub fn resident_peak_kib(&self) -> u64 {
        self.told_by_kernel("VmHWM:")
    }

    fn told_by_kernel(&self, name: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number of KiB")
    }

    /// The access log as text.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("access.json")).unwrap_or_default()
    }

    /// The access log, in the order of stamps, once it has this many lines; more are a fault.
    pub fn log_of(&self, lines: usize) -> Vec<Entry> {
        let text = wait_for(&format!("{lines} lines in the access log"), || {
            let text = self.log_text();
            (text.ends_with('\n') && text.lines().count() >= lines || lines == 0).then_some(text)
        });
        let mut entries: Vec<Entry> = text.lines().map(log::read).collect();
        entries.sort_by_key(|entry| entry.at);
        assert_eq!(entries.len(), lines, "one line per request");
        entries
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for successor in &self.successors {
            let _ = Command::new("sh").arg("-c").arg(format!("kill -KILL {successor} 2>/dev/null")).status();
        }
        if std::thread::panicking() {
            eprintln!("the gate said:\n{}", self.talk());
        }
    }
}

/// What a run of the binary that ends by itself left behind.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the binary until it ends, with this policy as `tidegate.yaml` in its folder.
pub fn run_to_end(arguments: &[&str], policy: &str) -> Ended {
    let folder = Folder::new();
    std::fs::write(folder.0.join("tidegate.yaml"), policy).expect("the policy is written");
    end(binary().args(arguments).current_dir(&folder.0).env("XDG_RUNTIME_DIR", &folder.0))
}

/// Runs a command until it ends.
pub fn end(command: &mut Command) -> Ended {
    end_with(Stdio::null(), command)
}

/// The same with this as its standard input.
pub fn end_with(stdin: Stdio, command: &mut Command) -> Ended {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    // both are small: a pipe holds them until the process has gone
    let status = wait_for("the binary to end", || child.try_wait().expect("the child can be asked"));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().expect("stdout is a pipe").read_to_string(&mut stdout).expect("stdout is text");
    child.stderr.take().expect("stderr is a pipe").read_to_string(&mut stderr).expect("stderr is text");
    Ended { code: status.code(), stdout, stderr }
}

/// The binary, without what the caller's environment would tell it.
pub fn binary() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_tidegate")))
}

/// A shell script that is started as the binary would be: without what the caller's environment would tell it. The path of
/// the binary and further arguments are `"$0" "$@"`.
pub fn shell(script: &str) -> Command {
    let mut command = clean(Command::new("sh"));
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_tidegate"));
    command
}

fn clean(mut command: Command) -> Command {
    let names = ["TIDEGATE_CONFIG", "TIDEGATE_ADMIN", "RUST_LOG", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"];
    let of_systemd = ["LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_USEC", "SYSTEMD_EXEC_PID"];
    for name in names.into_iter().chain(of_systemd) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    command
}

fn collect(pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<String>>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            into.lock().unwrap().push(line);
        }
    });
}

fn with_sections(policy: &str, access_log: &Path) -> String {
    let mut text = String::from(policy.trim_start_matches('\n'));
    let mut add = |section: &str, body: &str| {
        let named = |line: &str| line.strip_prefix(section).is_some_and(|rest| rest.starts_with(':'));
        if !text.lines().any(named) {
            text.push_str(&format!("\n{section}:\n{body}"));
        }
    };
    add("listeners", "  main: { address: \"127.0.0.1:0\" }\n");
    add("telemetry", TELEMETRY);
    // a machine that runs a hundred gates at once is overloaded, which no test but those of overload is about
    add("server", "  threads: 2\n  drain: { delay: 0s, timeout: 5s }\n  overload: off\n");
    let text = text.replace("ACCESS_LOG", &access_log.display().to_string());
    on_the_way_asked_for(&text)
}

/// The policy with what `TIDEGATE_TEST_DIRECT` says of `server.direct`: also for tests that write the file of a running gate, where
/// this word must not change.
pub fn on_the_way_asked_for(policy: &str) -> String {
    match std::env::var("TIDEGATE_TEST_DIRECT") {
        Ok(direct) => with_direct(policy, &direct),
        Err(_) => policy.to_owned(),
    }
}

/// The policy with this for `server.direct`, unless it says something itself: every test is about both ways.
fn with_direct(policy: &str, direct: &str) -> String {
    if policy.lines().any(|line| line.trim_start().starts_with("direct:")) {
        return policy.to_owned();
    }
    let word = format!("direct: {direct}");
    let lines = policy.lines().map(|line| match line.strip_prefix("server:") {
        None => line.to_owned(),
        Some(rest) => match rest.trim_start().strip_prefix('{') {
            Some(rest) => format!("server: {{ {word},{rest}"),
            None => format!("{line}\n  {word}"),
        },
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The telemetry of a gate whose every request a test wants to see.
pub const TELEMETRY: &str = "  metrics: { address: \"127.0.0.1:0\" }
  access_log: { to: ACCESS_LOG, sample: { limited: 100%, other: 100%, refused: none } }
";

/// A folder that goes when its owner goes.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-gate-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder is made");
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
