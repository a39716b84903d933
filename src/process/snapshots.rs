//! Snapshots: the state of limits in a directory, for the process that starts after a stop or a crash.
//!
//! **Promise.** After a crash each limit goes on from the latest snapshot: a client gains at most what it was admitted since that one was
//! begun. A snapshot that cannot be used is never used in part: the process says why, and begins with full budgets.
//!
//! A thread of its own writes them, and holds no lock that a request takes, but for copying what a `fair_share` knows of at most some
//! thousand clients. After each 64 KiB it offers the processor to others, so that requests on the same CPU need not wait for the rest. It takes
//! at most 1 % of a core: a snapshot that took 30 ms is followed by none for 3 s. A file appears whole or not at all, as it is written beside
//! and then takes the other's name. When no request ended and nothing
//! was ordered since the last one, none is written.
//!
//! Bans are a file of their own, which is written at once when an order changes them, and always with fsync: see [`kept`](crate::running::kept_bans).
//!
//! The directory is one process's alone, which the lock is for. It has the secret that keys are hashed under, as their hashes are in the
//! snapshots; so nobody else may enter it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::handover::Secret;
use super::saved::{self, BUFFER};
use crate::bans::Saved;
use crate::config::settings::StateFiles;
use crate::engine::Restored;
use crate::policy::Policy;
use crate::running::process::Process;
use crate::running::state;
use crate::saved::Fault;
use crate::sketch::Seed;
use crate::system::clock::{self, Clock};

/// The snapshot, and the one that is being written.
const SNAPSHOT: &str = "limits.state";
const UNFINISHED: &str = "limits.state.new";
/// The bans, and those that are being written.
const BANS: &str = "bans.state";
const UNFINISHED_BANS: &str = "bans.state.new";
/// The secret, and the one that is being made.
const SECRET: &str = "secret";
const UNFINISHED_SECRET: &str = "secret.new";
const LOCK: &str = "lock";

/// How many times as long as a snapshot took none is written.
const REST: u32 = 99;

/// A directory for snapshots.
#[derive(Debug)]
pub struct Files {
    settings: StateFiles,
    secret: Secret,
}

impl Files {
    /// Opens the directory, and makes it and its secret if they are not there.
    ///
    /// # Errors
    /// It cannot be used, in words.
    pub fn open(settings: &StateFiles) -> Result<Files, String> {
        let directory = settings.directory.as_path();
        let failed = |what: &str, error: io::Error| format!("{what}: {error}");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| failed("cannot be made", error))?;
        let found = fs::metadata(directory).map_err(|error| failed("cannot be looked at", error))?;
        if found.mode() & 0o077 != 0 {
            return Err(format!(
                "others than its owner may enter it (mode {:03o}), and it has a secret: `chmod 700`",
                found.mode() & 0o777
            ));
        }
        let secret = secret(directory).map_err(|error| failed("its file `secret` cannot be used", error))?;
        Ok(Files { settings: settings.clone(), secret: Secret(secret) })
    }

    /// The secret that keys are hashed under.
    pub fn secret(&self) -> Secret {
        self.secret
    }

    fn seed(&self) -> Seed {
        Seed::from_bytes(self.secret.0)
    }

    /// Makes the secret that another process began with that of the directory. What is there under another is of no use then.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep(&mut self, secret: Secret) -> io::Result<()> {
        if secret.0 != self.secret.0 {
            let unfinished = self.path(UNFINISHED_SECRET);
            let mut file = open_alone(OpenOptions::new().create(true).truncate(true), &unfinished)?;
            file.write_all(&secret.0)?;
            file.sync_all()?;
            fs::rename(unfinished, self.path(SECRET))?;
            self.secret = secret;
        }
        Ok(())
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.settings.directory
    }

    /// Reads the snapshot for a policy; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn read(&self, policy: &Policy) -> Result<Option<(Restored, Clock)>, Fault> {
        match File::open(self.path(SNAPSHOT)) {
            Ok(mut file) => saved::restore(&mut file, policy, &self.seed(), None).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::Io(error)),
        }
    }

    /// Reads the bans; `None` if there are none.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn read_bans(&self) -> Result<Option<Saved>, Fault> {
        match File::open(self.path(BANS)) {
            Ok(file) => Saved::read(&mut BufReader::new(file), &self.seed().saved_key()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::Io(error)),
        }
    }

    /// Writes the bans. They are on disk when this returns.
    fn write_bans(&self, bans: &Saved) -> io::Result<()> {
        let unfinished = self.path(UNFINISHED_BANS);
        let file = open_alone(OpenOptions::new().create(true).truncate(true), &unfinished)?;
        let mut to = BufWriter::with_capacity(BUFFER, file);
        bans.write(&mut to, &self.seed().saved_key())?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        fs::rename(unfinished, self.path(BANS))?;
        File::open(&self.settings.directory)?.sync_all()
    }

    /// Keeps a file that cannot be used under another name, as the next one would take its place: it may be another program's, or of another
    /// secret. Says the name.
    ///
    /// # Errors
    /// It cannot be renamed.
    fn set_aside(&self, name: &str) -> io::Result<String> {
        // the first one is never lost to a later one
        let names = std::iter::once(format!("{name}.unusable")).chain((2..=9).map(|n| format!("{name}.unusable.{n}")));
        let free = names.into_iter().find(|aside| !self.path(aside).exists());
        let aside = free.ok_or(io::ErrorKind::AlreadyExists)?;
        fs::rename(self.path(name), self.path(&aside))?;
        Ok(aside)
    }

    /// Keeps the snapshot so.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn set_snapshot_aside(&self) -> io::Result<String> {
        self.set_aside(SNAPSHOT)
    }

    /// Keeps the bans so.
    ///
    /// # Errors
    /// They cannot be renamed.
    pub fn set_bans_aside(&self) -> io::Result<String> {
        self.set_aside(BANS)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.settings.directory.join(name)
    }

    /// Makes the directory this process's; `None`: it is another's.
    fn lock(&self) -> io::Result<Option<File>> {
        let file = open_alone(OpenOptions::new().create(true).truncate(false), &self.path(LOCK))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a snapshot, and tells its size.
    fn write(&self, process: &Process) -> io::Result<u64> {
        let unfinished = self.path(UNFINISHED);
        let file = open_alone(OpenOptions::new().create(true).truncate(true), &unfinished)?;
        let mut to = BufWriter::with_capacity(BUFFER, file);
        let generation = process.generation();
        let bytes = saved::save(&mut to, generation.engine(), process.clock, &mut thread::yield_now)?;
        let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        if self.settings.fsync {
            file.sync_data()?;
        }
        fs::rename(unfinished, self.path(SNAPSHOT))?;
        if self.settings.fsync {
            File::open(&self.settings.directory)?.sync_all()?;
        }
        Ok(bytes)
    }
}

/// Opens a file that its owner alone may read, to be written.
fn open_alone(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.write(true).mode(0o600).open(path)
}

/// Reads the secret of a directory, or makes it.
fn secret(directory: &Path) -> io::Result<[u8; 16]> {
    let (path, unfinished) = (directory.join(SECRET), directory.join(UNFINISHED_SECRET));
    match File::open(&path) {
        Ok(file) => read_secret(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret: [u8; 16] = clock::secret().map_err(|error| io::Error::other(error.to_string()))?;
            let mut file = open_alone(OpenOptions::new().create(true).truncate(true), &unfinished)?;
            file.write_all(&secret)?;
            file.sync_all()?;
            // never over one that another process made meanwhile
            match fs::hard_link(&unfinished, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => fs::remove_file(&unfinished)?,
            }
            read_secret(File::open(&path)?)
        }
        Err(error) => Err(error),
    }
}

fn read_secret(file: File) -> io::Result<[u8; 16]> {
    let mut bytes = Vec::new();
    file.take(17).read_to_end(&mut bytes)?;
    bytes.try_into().map_err(|_| io::Error::other("it does not have 16 bytes"))
}

/// What the thread is told.
enum Told {
    /// To write a last snapshot, and end.
    Stop,
    /// To leave the directory to another process, until it is told otherwise; it says when it has.
    Leave(mpsc::Sender<()>),
    /// That the other process is no more.
    Return,
    /// That an order changed the bans.
    Bans,
}

/// How long the thread may take to leave the directory: a disk may be slow, and the other process tries again.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

/// A process that comes after another tries so long to take the directory before it tells that it cannot, and so often.
const TAKEN_WITHIN: Duration = LEFT_WITHIN;
const TRIED_EVERY: Duration = Duration::from_millis(10);

/// The thread that writes snapshots.
#[derive(Debug)]
pub struct Snapshots {
    tell: mpsc::Sender<Told>,
    thread: JoinHandle<()>,
}

impl Snapshots {
    /// Starts it. The first snapshot is written at once: what was restored goes on under the numbers of this process.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(files: Files, process: Arc<Process>) -> io::Result<Snapshots> {
        let (tell, told) = mpsc::channel();
        process.snapshots.begin(files.directory().display().to_string());
        let orders = tell.clone();
        // a thread that is gone has told why
        process.kept_bans.begin(move || drop(orders.send(Told::Bans)));
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(move || {
            let failing = [String::new(), String::new()];
            Keeper { files, process, lock: None, seen: None, failing }.run(&told);
        })?;
        Ok(Snapshots { tell, thread })
    }

    /// Writes a last snapshot, when no request is under way any more; none if the directory is another process's.
    pub fn stop(self) {
        // one that is gone has told why
        let _ = self.tell.send(Told::Stop);
        let _ = self.thread.join();
    }

    /// Leaves the directory to another process.
    pub fn leave(&self) {
        let (left, hear) = mpsc::channel();
        let _ = self.tell.send(Told::Leave(left));
        let _ = hear.recv_timeout(LEFT_WITHIN);
    }

    /// Goes on: the other process is no more.
    pub fn resume(&self) {
        let _ = self.tell.send(Told::Return);
    }
}

/// What the thread has.
struct Keeper {
    files: Files,
    process: Arc<Process>,
    /// Held while the directory is this process's.
    lock: Option<File>,
    /// How much had happened when the latest snapshot was begun.
    seen: Option<Activity>,
    /// What went wrong last with each, which is told once.
    failing: [String; 2],
}

/// What is written.
#[derive(Debug, Clone, Copy)]
enum What {
    Snapshot,
    Bans,
}

/// What changes when state does, while no connection is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Activity {
    ended: u64,
    accepted: u64,
    generation: u64,
    orders: u64,
}

impl Keeper {
    fn run(mut self, told: &mpsc::Receiver<Told>) {
        let (mut is_left, mut due) = (false, Instant::now());
        let mut begun = due;
        loop {
            let told = if is_left {
                told.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else if self.own().is_err() && begun.elapsed() < TAKEN_WITHIN {
                // the process before this one is about to leave it
                told.recv_timeout(TRIED_EVERY)
            } else {
                self.keep_bans();
                if due <= Instant::now() {
                    due = Instant::now() + self.snapshot();
                }
                told.recv_timeout(due.saturating_duration_since(Instant::now()))
            };
            match told {
                Err(RecvTimeoutError::Timeout) | Ok(Told::Bans) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Told::Leave(left)) => {
                    (is_left, self.lock, self.seen) = (true, None, None);
                    let _ = left.send(());
                }
                Ok(Told::Return) => {
                    (is_left, due) = (false, Instant::now());
                    begun = due;
                }
                Ok(Told::Stop) => {
                    if !is_left {
                        // with what they refused
                        self.process.kept_bans.changed();
                        self.keep_bans();
                        self.seen = None;
                        self.snapshot();
                    }
                    return;
                }
            }
        }
    }

    /// Writes a snapshot if there is something new, and says when to look again.
    fn snapshot(&mut self) -> Duration {
        let (every, began, used) = (self.files.settings.every, Instant::now(), cpu_time());
        let (activity, idle) = self.activity();
        if idle && self.seen == Some(activity) {
            self.process.snapshots.unchanged(self.process.clock.now());
            return every;
        }
        let written = catch_unwind(AssertUnwindSafe(|| self.write())).unwrap_or_else(|_| Err("it panicked".to_owned()));
        match written {
            Ok(bytes) => {
                self.process.snapshots.wrote(self.process.clock.now(), bytes, began.elapsed());
                // requests that end during the call may have been charged after their cells were read
                self.seen = Some(activity);
                self.succeeded(What::Snapshot);
            }
            Err(fault) => self.failed(What::Snapshot, fault),
        }
        every.max(cpu_time().saturating_sub(used) * REST)
    }

    /// Writes the bans if an order has changed them.
    fn keep_bans(&mut self) {
        let Some(change) = self.process.kept_bans.due() else { return };
        let written = catch_unwind(AssertUnwindSafe(|| {
            self.own()?;
            self.files.write_bans(&self.process.saved_bans()).map_err(|error| error.to_string())
        }));
        match written.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            Ok(()) => {
                self.process.kept_bans.tried(change, true);
                self.succeeded(What::Bans);
            }
            Err(fault) => {
                self.process.kept_bans.tried(change, false);
                self.failed(What::Bans, fault);
            }
        }
    }

    fn succeeded(&mut self, what: What) {
        let [snapshot, bans] = &mut self.failing;
        match what {
            What::Snapshot if !std::mem::take(snapshot).is_empty() => tracing::info!("snapshots are written again"),
            What::Bans if !std::mem::take(bans).is_empty() => tracing::info!("bans are written again"),
            What::Snapshot | What::Bans => {}
        }
    }

    fn failed(&mut self, what: What, fault: String) {
        self.process.snapshots.failed();
        let (directory, [snapshot, bans]) = (self.files.directory().display(), &mut self.failing);
        let (known, text) = match what {
            What::Snapshot => (snapshot, "no snapshot can be written, a crash would give fresh budgets"),
            What::Bans => (bans, "the bans cannot be written, a restart would forget them"),
        };
        if *known != fault {
            tracing::error!(%directory, "{text}: {fault}");
            *known = fault;
        }
    }

    /// Makes the directory this process's.
    fn own(&mut self) -> Result<(), String> {
        if self.lock.is_none() {
            self.lock = self.files.lock().map_err(|error| error.to_string())?;
        }
        if self.lock.is_none() {
            return Err("another process has the directory".to_owned());
        }
        Ok(())
    }

    fn write(&mut self) -> Result<u64, String> {
        self.own()?;
        self.files.write(&self.process).map_err(|error| error.to_string())
    }

    /// Also whether no connection is open: a request that is under way was charged, and has not been counted yet.
    fn activity(&self) -> (Activity, bool) {
        let generation = self.process.generation();
        let counts = state::counts(&generation);
        let activity = Activity {
            ended: counts.requests.ended,
            accepted: counts.listeners.iter().map(|listener| listener.accepted).sum(),
            generation: generation.engine().generation(),
            orders: self.process.snapshots.orders(),
        };
        (activity, counts.listeners.iter().all(|listener| listener.connections == 0))
    }
}

/// What this thread has used of processors.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
