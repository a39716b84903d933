//! Replaces the policy in force: on SIGHUP, by `tidegate reload`, or when its files have changed. Begin with [`Reloader`].
//!
//! All that can fail comes first and changes nothing: files are read and checked by the loader that the start uses, with their
//! lists, secrets and certificates; origins and stores are opened and answer; limits are made. Then one pointer is swapped. A
//! request sees one policy from its start to its end, and the old policy is dropped with its last request. A fault leaves the old
//! policy in force and is reported with its place.
//!
//! Kept: the state of limits ([`crate::engine::Succession`] says which), counters of names that stay, requests in flight,
//! knowledge of origins ([`Backends::open`]), connections. Listeners, threads and addresses of pages cannot change here; they are
//! reported as waiting for `tidegate upgrade`.

mod difference;
pub mod report;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Mutex;

pub use self::report::{JSON_SCHEMA, Renewed, Report, Tls};
use self::report::{StoreAnswer, milliseconds};
use super::certificates;
use crate::config::render::{Format, render};
use crate::config::settings::{Listener, Settings};
use crate::config::{self, Config, Loaded};
use crate::edge::tls::watch::Watch;
use crate::engine::Base;
use crate::proxy::accept::ListenerFilter;
use crate::running::backends::Backends;
use crate::running::fault::Fault;
use crate::running::generation::{Generation, Next, Source};
use crate::running::process::Process;
use crate::store::StoreInUse;
pub use watch::keep_watching;

/// How many changes of one reload stand in the log.
const MOST_LOGGED: usize = 50;

/// Loads the configuration as the start did.
pub type Loader = Arc<dyn Fn() -> Loaded + Send + Sync>;

/// What came of a reload.
#[derive(Debug)]
pub struct Outcome {
    /// What was done; `None`: the file was refused, and all is as it was.
    pub report: Option<Report>,
    /// For people: the report, or what is wrong with the file and where.
    pub text: String,
}

/// Reloads, one at a time.
pub struct Reloader {
    process: Arc<Process>,
    load: Option<Loader>,
    /// The certificates of all listeners.
    pub certificates: Arc<Watch>,
    /// By the listener's position in the settings that the process was started with.
    pub doors: Vec<Arc<ListenerFilter>>,
    /// What the process was built from.
    started: Arc<Source>,
    /// The digest of the files that were read last, good or bad. Locked for as long as a reload takes.
    last_read: Mutex<Option<[u8; 32]>>,
}

impl Reloader {
    /// A reloader for a process that serves by its first generation. Without a `load` there is no file, and every reload is
    /// refused.
    pub fn new(
        process: Arc<Process>,
        load: Option<Loader>,
        certificates: Arc<Watch>,
        doors: Vec<Arc<ListenerFilter>>,
    ) -> Reloader {
        let started = Arc::clone(process.generation().source());
        Reloader { process, load, certificates, doors, started, last_read: Mutex::new(None) }
    }

    /// Reads the files and puts what they say in force; a dry run only says what would come of it. Refuses a `file` that is not the one
    /// that this process was started with. May take seconds, if the names of new origins or the first answers of new stores do.
    pub async fn reload(&self, dry_run: bool, file: Option<&Path>) -> Outcome {
        if let Some(log) = self.process.access_log.as_ref().filter(|_| !dry_run) {
            // whatever comes of the policy: a log rotation may be what it is asked for
            log.reopen();
        }
        let Some(load) = self.load.clone() else {
            tracing::error!("reload: this process was started without a policy file");
            return Outcome { report: None, text: "this process was started without a policy file\n".to_owned() };
        };
        if let Err(text) = self.serves(file, "reload") {
            return Outcome { report: None, text };
        }
        let mut last_read = self.last_read.lock().await;
        let began = Instant::now();
        let Some(loaded) = read(load).await else {
            return self.refuse("the policy file could not be read: a fault of this program\n".to_owned(), dry_run);
        };
        if !dry_run {
            *last_read = Some(loaded.digest());
        }
        self.apply(loaded, dry_run, began).await
    }

    /// Tells whether this process serves the policy file that a verb asks for, if it names one.
    ///
    /// # Errors
    /// It serves another; what to do instead.
    pub fn serves(&self, file: Option<&Path>, verb: &str) -> Result<(), String> {
        let (Some(asked), Some(served)) = (file, &self.process.file) else { return Ok(()) };
        if is_same_file(asked, served) {
            return Ok(());
        }
        let (asked, served) = (asked.display(), served.display());
        tracing::warn!("{verb}: refused, as it asks for {asked}; this process serves {served}");
        Err(format!(
            "the running process serves {served}, not {asked}\n  to serve another file, copy it over that one and `tidegate {verb}`\n"
        ))
    }

    /// Reloads if the files are others than at the last look.
    async fn reload_changed(&self) {
        let Some(load) = self.load.clone() else { return };
        let mut last_read = self.last_read.lock().await;
        let began = Instant::now();
        let Some(loaded) = read(load).await else { return };
        let before = last_read.replace(loaded.digest());
        let same = match before {
            Some(_) => before == *last_read,
            // the first look: what the process was started with, unless it was changed in its first moments
            None => {
                let generation = self.process.generation();
                loaded.outcome.as_ref().is_ok_and(|config| generation.is_of(config))
            }
        };
        if !same {
            self.apply(loaded, false, began).await;
        }
    }

    async fn apply(&self, loaded: Loaded, dry_run: bool, began: Instant) -> Outcome {
        let (warnings, text) = (loaded.warnings(), render(&loaded, Format::Text, false));
        let lines = render(&loaded, Format::Short, false);
        let concealed = loaded.concealed;
        let Ok(config) = loaded.outcome else {
            if !dry_run {
                for line in lines.lines() {
                    if line.split(": ").nth(1).is_some_and(|kind| kind.starts_with("warning[")) {
                        tracing::warn!("the refused policy file: {line}");
                    } else {
                        tracing::error!("the policy file is refused: {line}");
                    }
                }
            }
            return self.refuse(text, dry_run);
        };
        let generation = self.process.generation();
        let (mut next, stores) = match self.next(config, &generation, dry_run).await {
            Ok(next) => next,
            Err(fault) => return self.refuse(format!("error: {fault}\n"), dry_run),
        };
        let succession = std::mem::take(&mut next.succession);
        let changes = Report::of(&self.started, generation.source(), &next.source, succession);
        let mut report = Report { dry_run, stores, warnings, ..changes };
        report.conceal(&concealed);
        if dry_run {
            report.tls = certificates::usable(&self.certificates);
            return Outcome { text: report.text(), report: Some(report) };
        }
        next.waiting.clone_from(&report.waiting);
        self.change_doors(&generation.source().settings, &next.source.settings);
        let fingerprint = next.source.fingerprint.clone();
        self.process.activate(next);
        self.process.loads.loaded(&fingerprint, &report.summary());
        report.milliseconds = milliseconds(began.elapsed());
        report.tls = certificates::renew(Arc::clone(&self.certificates)).await;
        lines.lines().for_each(|line| tracing::warn!("the policy file: {line}"));
        self.tell(&report);
        Outcome { text: report.text(), report: Some(report) }
    }

    /// Makes the next generation, and says which new stores answered; a dry run asks none. Touches nothing that is in force.
    async fn next(
        &self,
        config: Config,
        generation: &Generation,
        dry_run: bool,
    ) -> Result<(Next, Vec<StoreAnswer>), Fault> {
        let backends = Backends::open(&config, Some(generation.backends()), self.process.clock)?;
        let answers = if dry_run { Vec::new() } else { backends.first_contact().await };
        // not before: the numbers of limits change at this moment
        let base = Base::Before { engine: generation.engine(), now: self.process.clock.now() };
        Ok((Generation::next(config, backends, base)?, answers.into_iter().map(store_answer).collect()))
    }

    /// Has the listeners that the process has count connections by the new lists, penalties and caps of their names.
    fn change_doors<'a>(&self, before: &'a Settings, after: &'a Settings) {
        let now = self.process.clock.now();
        for (door, listener) in self.doors.iter().zip(&self.process.settings.listeners) {
            let of = |list: &'a [Listener]| list.iter().find(|other| other.name == listener.name);
            let rules = |listener: &'a Listener| (listener.connections, &listener.refuse, &listener.refuse_at_accept);
            let Some(next) = of(&after.listeners) else { continue };
            // connections must not pay for what has not changed
            if of(&before.listeners).map(rules) != Some(rules(next))
                && let Err(fault) = door.follow(next, now)
            {
                tracing::error!(
                    listener = listener.name,
                    "reload: its connections go on being counted as before: {fault}"
                );
            }
        }
    }

    fn refuse(&self, text: String, dry_run: bool) -> Outcome {
        if !dry_run {
            self.process.notices.reload_refused(&text);
            self.process.loads.refused(text.lines().next().unwrap_or_default());
            self.process.generation().metrics().reload_failed();
            tracing::error!("reload: refused, the policy in force stays");
        }
        Outcome { report: None, text }
    }

    fn tell(&self, report: &Report) {
        let limits = &report.limits;
        tracing::info!(
            from = report.from,
            to = report.to,
            milliseconds = report.milliseconds,
            kept = limits.kept.len(),
            rerated = limits.rerated.len(),
            reset = limits.reset.len(),
            changed = report.changed.len(),
            "reloaded"
        );
        let changed = report.told_changed();
        for change in changed.iter().take(MOST_LOGGED) {
            tracing::info!("reload: changed {change}");
        }
        if changed.len() > MOST_LOGGED {
            tracing::info!("reload: changed {} more, which `tidegate show --running` has", changed.len() - MOST_LOGGED);
        }
        for reset in &limits.reset {
            tracing::warn!(limit = reset.name, because = reset.because, "reload: the limit begins empty");
        }
        for store in report.stores.iter().filter(|store| !store.answered) {
            tracing::warn!(store = store.name, "reload: the store has not answered within {}", store.ready_within);
        }
        for path in &report.waiting {
            tracing::warn!(path, "reload: this needs `tidegate upgrade`");
        }
    }
}

/// Returns whether two paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn store_answer((store, answered): (Arc<StoreInUse>, bool)) -> StoreAnswer {
    let spec = store.spec();
    StoreAnswer { name: spec.name.clone(), answered, ready_within: config::duration_text(spec.ready_within) }
}

/// Reads files, off the workers that serve requests; `None` if that panicked, which the panic hook has told.
async fn read(load: Loader) -> Option<Loaded> {
    let read = move || catch_unwind(AssertUnwindSafe(|| load())).ok();
    tokio::task::spawn_blocking(read).await.ok().flatten()
}
