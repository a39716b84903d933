//! Replaces this process by a new one, and listens all the time: the old process's part.
//!
//! The state of limits goes along, and bans do. It is copied while this process serves, which tells what happens after that
//! ([`charges`](super::charges)); neither process accepts from when the new one has all of it until that one serves, some milliseconds.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, timeout_at};

use super::charges::Giving;
use super::handover::{self, Inheritance, Names, Report, Secret};
use super::notify::Notifier;
use super::observed;
use super::saved;
use super::snapshots::Snapshots;
use super::sockets::Sockets;
use crate::bans::Saved;
use crate::edge::listen::Connections;
use crate::running::process::Process as Running;

/// How long the new process may take to serve: it may have to look up names (2 s) and read large lists.
const PATIENCE: Duration = Duration::from_secs(30);

/// How this process was started.
#[derive(Debug, Clone)]
pub struct Program {
    path: Option<PathBuf>,
    arguments: Vec<OsString>,
}

impl Program {
    /// Must be called early: the kernel's own answer changes when the file is replaced.
    pub fn current() -> Program {
        let mut arguments = env::args_os();
        let called = arguments.next().map(PathBuf::from);
        let running = env::current_exe().ok();
        // a link that names a version is followed anew each time, so the name that was called is the better one
        let called = called
            .filter(|path| path.components().count() > 1)
            .and_then(|path| std::path::absolute(path).ok())
            .filter(|path| fs::canonicalize(path).ok() == running);
        Program { path: called.or(running), arguments: arguments.collect() }
    }

    fn start(&self, conversation: OwnedFd) -> Result<Process, String> {
        let path = self.path.as_deref().ok_or("the system does not tell where the program is")?;
        let mut command = Command::new(path);
        command.args(&self.arguments).env(handover::MARK, handover::GO_BETWEEN).stdin(Stdio::from(conversation));
        // they are for one process only, and that one is not the new one
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        command.spawn().map(|go_between| Process { go_between, new: None }).map_err(|error| cannot_start(path, &error))
    }
}

fn cannot_start(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be started: {error}", path.display())
}

/// What this process has started to get a new one.
#[derive(Debug)]
struct Process {
    /// Ends by itself, once it has started the new process.
    go_between: Child,
    /// The new process, as soon as it is known.
    new: Option<OwnedFd>,
}

impl Process {
    /// The go-between has started this one.
    fn started(&mut self, id: u32) {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        // one that is gone already need not be ended
        self.new = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
    }

    /// Lets the new process live. Returns when it is nobody's child but the service manager's.
    fn release(&mut self) {
        self.new = None;
        let _ = self.go_between.wait();
    }

    /// How the go-between ended, if it did so badly.
    fn fault(&mut self) -> String {
        let _ = self.go_between.kill();
        match self.go_between.wait() {
            Ok(status) if !status.success() => format!(" ({status})"),
            _ => String::new(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(new) = self.new.take() {
            let _ = pidfd_send_signal(&new, Signal::KILL);
        }
        let _ = self.go_between.kill();
        let _ = self.go_between.wait();
    }
}

/// What this process hands over beside its sockets.
pub struct Estate<'a> {
    /// The process, with the state of its limits.
    pub process: &'a Arc<Running>,
    /// The connections, of which none is accepted while the state is on its way.
    pub connections: &'a Connections,
    /// The snapshots, which the new process writes from then on.
    pub snapshots: Option<&'a Snapshots>,
    /// What keys are hashed under.
    pub secret: Secret,
}

impl<'a> Estate<'a> {
    /// Hands the state of limits over, and begins to tell what happens to it. Requests go on.
    async fn hand(&self, successor: &mut handover::Successor) -> Result<Moving<'a>, String> {
        let failed = |error: std::io::Error| error.to_string();
        let Estate { process, connections, snapshots, .. } = *self;
        snapshots.into_iter().for_each(Snapshots::leave);
        // ends what is begun if anything fails from here on
        let mut moving = Moving { process, connections, snapshots, charges: None, paused: None, over: false };
        let generation = process.generation();
        let (mine, theirs) = UnixStream::pair().map_err(failed)?;
        let copied = saved::in_memory(generation.engine(), process.clock);
        let charges = Giving::begin(mine, Arc::clone(process), Arc::clone(&generation)).map_err(failed)?;
        let seen = observed::in_memory(process).map_err(failed)?;
        successor.hand(&copied.map_err(failed)?, &theirs, &seen).await.map_err(failed)?;
        moving.charges = Some(charges);
        Ok(moving)
    }
}

/// The state of limits on its way to another process. Dropped, this process has it again and goes on.
pub struct Moving<'a> {
    process: &'a Running,
    connections: &'a Connections,
    snapshots: Option<&'a Snapshots>,
    charges: Option<Giving>,
    /// Since when nothing is accepted.
    paused: Option<std::time::Instant>,
    over: bool,
}

impl Moving<'_> {
    /// Waits until the new process has all that happened.
    async fn caught_up(&mut self) -> Result<(), String> {
        match &mut self.charges {
            Some(charges) if self.paused.is_none() => charges.caught_up().await,
            // once is enough
            _ => std::future::pending().await,
        }
    }

    /// Stops accepting, and has the new process asked about what is to be charged from now on.
    fn pause(&mut self) {
        self.paused = Some(std::time::Instant::now());
        self.connections.pause();
        self.process.start_draining();
        self.charges.iter().for_each(Giving::move_admissions);
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.charges = None;
            self.process.stop_draining();
            self.connections.resume();
            self.snapshots.into_iter().for_each(Snapshots::resume);
        }
    }
}

/// A process that serves beside this one, with all of the sockets that it wants.
pub struct Replacement<'a> {
    process: Process,
    /// Since the state was handed over, if it was.
    moving: Option<Moving<'a>>,
    successor: handover::Successor,
    id: u32,
    taken: Vec<usize>,
    /// For how many milliseconds nothing was accepted.
    paused: Option<f64>,
}

/// What has been replaced.
pub struct Replaced {
    /// The new process's number.
    pub id: u32,
    /// The positions of the sockets that it has taken.
    pub taken: Vec<usize>,
    /// The conversation, for what follows.
    pub stream: tokio::net::UnixStream,
    /// What it is told about charges.
    pub charges: Option<Giving>,
    /// For how many milliseconds nothing was accepted.
    pub paused: Option<f64>,
}

/// Milliseconds since then, to a tenth.
fn milliseconds(since: std::time::Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e4).round() / 10.0
}

/// Starts the program again, hands it the sockets and bans, and waits until it serves.
///
/// # Errors
/// It cannot; nothing has changed then. The text says why, in the new process's own words where it had any.
pub async fn start<'a>(
    program: &Program,
    sockets: &Sockets,
    notifier: &Notifier,
    estate: &Estate<'a>,
    bans: Option<&Saved>,
) -> Result<Replacement<'a>, String> {
    hindrance(notifier)?;
    let failed = |error: std::io::Error| error.to_string();
    let (mine, theirs) = UnixStream::pair().map_err(failed)?;
    let mut process = program.start(theirs.into())?;
    let names = Names(estate.process.pseudonyms.fallback());
    let inheritance = Inheritance::of(estate.process.clock, estate.secret, names);
    let mut moving: Option<Moving<'a>> = None;
    if let Err(error) = handover::offer(&mine, sockets.tags(), &sockets.descriptors(), (bans, Some(inheritance))) {
        return Err(format!("the new process took no sockets: {error}{}", process.fault()));
    }
    let mut successor = handover::Successor::new(mine).map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let caught_up = async {
            match &mut moving {
                Some(moving) => moving.caught_up().await,
                None => std::future::pending().await,
            }
        };
        let report = tokio::select! {
            report = timeout_at(deadline, successor.report()) => report,
            caught_up = caught_up => {
                caught_up?;
                moving.iter_mut().for_each(Moving::pause);
                continue;
            }
        };
        match report {
            Ok(Ok(Report::Started(id))) => process.started(id),
            Ok(Ok(Report::Waiting)) => {
                let began = std::time::Instant::now();
                moving = Some(estate.hand(&mut successor).await?);
                tracing::info!(milliseconds = milliseconds(began), "upgrade: the state of limits is handed over");
            }
            Ok(Ok(Report::Ready { process: id, taken })) => {
                let paused = moving.as_ref().and_then(|moving| moving.paused).map(milliseconds);
                if let Some(milliseconds) = paused {
                    tracing::info!(milliseconds, "upgrade: no connection was accepted for");
                }
                return Ok(Replacement { process, moving, successor, id, taken, paused });
            }
            Ok(Ok(Report::Failed(text))) => return Err(text),
            Ok(Err(_)) => return Err(format!("the new process ended before it served{}", process.fault())),
            Err(_) => {
                return Err(format!("the new process did not serve within {} s and was ended", PATIENCE.as_secs()));
            }
        }
    }
}

impl Replacement<'_> {
    /// From here on it is the one that counts.
    ///
    /// # Errors
    /// It has gone since; nothing has changed then.
    pub async fn install(mut self, notifier: &Notifier) -> Result<Replaced, String> {
        self.process.release();
        // before it speaks for itself: systemd listens to the main process only
        notifier.say(&format!("MAINPID={}", self.id));
        if let Err(error) = self.successor.go().await {
            notifier.say(&format!("MAINPID={}", process::id()));
            return Err(format!("the new process ended as soon as it served ({error})"));
        }
        let charges = self.moving.as_mut().and_then(|moving| {
            moving.over = true;
            moving.charges.take()
        });
        let (id, taken, paused) = (self.id, self.taken, self.paused);
        Ok(Replaced { id, taken, stream: self.successor.into_stream(), charges, paused })
    }
}

/// What would end the new process together with this one.
fn hindrance(notifier: &Notifier) -> Result<(), String> {
    if process::id() == 1 {
        return Err(
            "this process is the first of its container, which ends with it; replace the container instead".into()
        );
    }
    // systemd.exec(5): set for the process that systemd itself has started
    let of_systemd = env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == process::id().to_string());
    if of_systemd && !notifier.is_heard() {
        return Err("systemd would end the new process together with this one: the unit needs `Type=notify`".into());
    }
    Ok(())
}
