//! Another policy in the place of the one in force: on SIGHUP, by `tidegate reload`, or because the files have changed.
//!
//! Everything is done on the side first: files are read and checked by the loader that the start uses, with the lists, secrets and
//! certificates they name; new origins are made and their names looked up. Then one pointer is swapped. A request sees one
//! policy from its start to its end, and the old one goes with its last request. Any fault leaves all as it is, and whoever asked
//! is told where it is.
//!
//! What goes on: the state of limits ([`crate::engine::Succession`] says which), counters of names that stay, requests in
//! flight and what is known of origins ([`Installed::prepare`]), connections. What the process is built from (listeners, threads, the
//! pages' addresses) cannot change here and is told as waiting for `tidegate upgrade`.

mod difference;
mod report;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch as channel};
use tokio::time::timeout;

use self::difference::{Changes, paths};
pub use self::report::{JSON_SCHEMA, Report, shown};
use self::report::{Limits, Renewed, StoreAnswer, Tls, milliseconds};
use crate::config::render::{Format, render};
use crate::config::settings::{Listener, Secret, Settings};
use crate::config::{self, Config, Loaded, Tree};
use crate::edge::tls::watch::Watch;
use crate::explain::Book;
use crate::observe::log;
use crate::origins::origin::OriginState;
use crate::origins::{health, resolve};
use crate::proxy::accept::ListenerFilter;
use crate::running::generation::{Installed, Version};
use crate::running::in_force::InForce;
use crate::running::process::Shared;
use crate::store::StoreInUse;
use crate::system::clock::wall_nanos;
pub use watch::keep_watching;

/// Loads the configuration as the start did.
pub type Loader = Arc<dyn Fn() -> Loaded + Send + Sync>;

/// How long the names of new origins may hold up a reload; then they arrive later, and their origin answers 503 until then.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);

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
    shared: Arc<Shared>,
    load: Option<Loader>,
    certificates: Arc<Watch>,
    /// By listener, as the process was started.
    doors: Vec<Arc<ListenerFilter>>,
    stopping: channel::Receiver<bool>,
    /// What the process was built from.
    started: Tree,
    state: Mutex<State>,
}

/// What the next reload is compared with.
struct State {
    /// What is in force, as far as it can be changed while the process runs.
    effective: Tree,
    /// What of it may be shown.
    shown: Tree,
    listeners: Vec<Listener>,
    /// The key of pseudonyms, and the one before it.
    secrets: [Option<Secret>; 2],
    /// Of the stores, in the order of `effective`.
    passwords: Vec<Option<Secret>>,
    watch: Option<Duration>,
    /// Of the files that were read last, good or bad.
    digest: Option<[u8; 32]>,
}

impl Reloader {
    /// For the process that was started with this configuration. Without a `load` there is no file, and every reload is refused.
    pub fn new(
        shared: Arc<Shared>,
        (effective, shown): (Tree, Tree),
        load: Option<Loader>,
        certificates: Arc<Watch>,
        doors: Vec<Arc<ListenerFilter>>,
        stopping: channel::Receiver<bool>,
    ) -> Reloader {
        let (secrets, watch) = (secrets(&shared.settings), shared.settings.watch);
        let listeners = shared.settings.listeners.clone();
        let passwords = shared.settings.store_passwords.clone();
        let state = State { effective: effective.clone(), shown, listeners, secrets, passwords, watch, digest: None };
        Reloader { shared, load, certificates, doors, stopping, started: effective, state: Mutex::new(state) }
    }

    /// Reads the files and puts what they say in force; a dry run only says what would come of it. May take seconds, if the names of
    /// new origins or the first answers of new stores do.
    pub async fn reload(&self, dry_run: bool) -> Outcome {
        let Some(load) = self.load.clone() else {
            tracing::error!("reload: this process was started without a policy file");
            return Outcome { report: None, text: "this process was started without a policy file\n".to_owned() };
        };
        let mut state = self.state.lock().await;
        let began = Instant::now();
        match read(load).await {
            Some(loaded) => self.apply(&mut state, loaded, dry_run, began).await,
            None => self.refuse("the policy file could not be read: a fault of this program\n".to_owned(), dry_run),
        }
    }

    /// The same, if the files are others than at the last look.
    async fn reload_changed(&self) {
        let Some(load) = self.load.clone() else { return };
        let mut state = self.state.lock().await;
        let began = Instant::now();
        let Some(loaded) = read(load).await else { return };
        let digest = Some(loaded.digest());
        if state.digest.is_none() {
            // the first look: what the process was started with, unless it was changed in its first moments
            state.digest = digest;
            let same = loaded.outcome.as_ref().is_ok_and(|config| config.effective == state.effective);
            if same {
                return;
            }
        } else if state.digest == digest {
            return;
        }
        self.apply(&mut state, loaded, false, began).await;
    }

    async fn apply(&self, state: &mut State, loaded: Loaded, dry_run: bool, began: Instant) -> Outcome {
        if !dry_run {
            state.digest = Some(loaded.digest());
        }
        let (warnings, text) = (loaded.warnings(), render(&loaded, Format::Text, false));
        let lines = render(&loaded, Format::Short, false);
        let concealed = loaded.concealed;
        let Ok(Config { policy, settings, effective, shown, places, .. }) = loaded.outcome else {
            if !dry_run {
                lines.lines().for_each(|line| tracing::error!("the policy file is refused: {line}"));
            }
            return self.refuse(text, dry_run);
        };
        let installed = self.shared.installed();
        let prepared = match installed.prepare(&policy) {
            Ok(prepared) => prepared,
            Err((origin, fault)) => {
                return self.refuse(format!("error: the TLS of origin `{origin}`: {fault}\n"), dry_run);
            }
        };
        let stores = StoreInUse::all(&policy.stores, &settings.store_passwords, installed.stores(), self.shared.clock);
        let stores = match stores {
            Ok(stores) => stores,
            Err((store, fault)) => return self.refuse(format!("error: store `{store}`: {fault}\n"), dry_run),
        };
        let mut answers = Vec::new();
        if !dry_run {
            let lookups = async {
                for origin in prepared.fresh() {
                    resolve::resolve_once(origin).await;
                }
            };
            (_, answers) = tokio::join!(timeout(FIRST_LOOKUP, lookups), first_answers(&stores, installed.stores()));
        }
        // as near to the swap as can be: numbers of limits change at this moment
        let (snapshot, succession) = match installed.snapshot().followed_by(policy, self.shared.clock.now()) {
            Ok(next) => next,
            Err((limit, fault)) => return self.refuse(format!("error: limit `{limit}`: {fault}\n"), dry_run),
        };
        let shared = match settings.naming() {
            Some((secret, previous)) => snapshot.sharing_while_changed(secret, previous, Some(installed.snapshot())),
            None => Ok(snapshot),
        };
        let snapshot = match shared {
            Ok(snapshot) => snapshot,
            Err((limit, fault)) => return self.refuse(format!("error: limit `{limit}`: {fault}\n"), dry_run),
        };
        let version = Version { hash: config::hash(&effective), loaded: wall_nanos() };
        let (hot, waiting) = self.settings_paths(state, &effective, &settings);
        let mut report = Report {
            schema: JSON_SCHEMA,
            dry_run,
            from: installed.version().hash.clone(),
            to: version.hash.clone(),
            milliseconds: 0,
            routes: Changes::of(&state.effective, &effective, "routes"),
            origins: Changes::of(&state.effective, &effective, "origins"),
            limits: Limits::of(succession, &state.shown, &shown),
            changed: hot,
            stores: answers,
            tls: Tls::default(),
            waiting,
            warnings,
        };
        report.conceal(&concealed);
        if dry_run {
            report.tls.certificates =
                self.certificates.states().iter().filter(|state| state.expires().is_some()).count();
            return Outcome { text: report.text(), report: Some(report) };
        }
        let generation = snapshot.generation();
        // what it decides is told by its own names, also when yet another has followed it
        let fingerprint = version.hash.clone();
        let trusted = places.trusted.clone();
        let book = Book { fingerprint, ..Book::new(snapshot.policy(), places, version.loaded) };
        let next = installed.followed_by(snapshot, &prepared, self.shared.clock, version);
        let next = next.with_stores(stores).watching(&trusted, Some(&*installed), self.shared.clock.now());
        let next = Arc::new(next.under(self.shared.decisions.open(book)));
        let before = self.shared.install(Arc::clone(&next));
        next.snapshot().take_over();
        next.tell();
        self.hand_over(&before, &next, prepared.fresh());
        let file = self.shared.in_force().file.clone();
        self.shared.set_in_force(InForce { file, shown: shown.clone(), waiting: report.waiting.clone() });
        self.adopt(state, &settings, effective, shown);
        next.metrics().reload_succeeded(generation);
        report.milliseconds = milliseconds(began.elapsed());
        report.tls = renew(Arc::clone(&self.certificates)).await;
        lines.lines().for_each(|line| tracing::warn!("the policy file: {line}"));
        self.tell(&report);
        Outcome { text: report.text(), report: Some(report) }
    }

    /// Paths of what is in force from this reload on beside routes, origins and limits, and of what has to wait.
    fn settings_paths(&self, state: &State, effective: &Tree, settings: &Settings) -> (Vec<String>, Vec<String>) {
        let of_section = |path: &str, sections: &[&str]| sections.contains(&path.split('.').next().unwrap_or(path));
        let mut hot: Vec<String> = paths(&state.effective, effective)
            .into_iter()
            .filter(|path| !of_section(path, &["routes", "origins", "limits"]) && !waits(path))
            .collect();
        if state.secrets != secrets(settings) && !hot.iter().any(|path| path.starts_with("secrets")) {
            hot.push("secrets.client_hmac".to_owned());
        }
        let before = passwords(&state.effective, &state.passwords);
        for (store, password) in passwords(effective, &settings.store_passwords) {
            let changed = before.iter().any(|(name, was)| *name == store && *was != password);
            let path = format!("stores.{store}.password");
            if changed && !hot.contains(&path) {
                hot.push(path);
            }
        }
        let mut waiting: Vec<String> = paths(&self.started, effective).into_iter().filter(|path| waits(path)).collect();
        // what is masked in the tree
        if settings.admin != self.shared.settings.admin && !waiting.iter().any(|path| path.starts_with("admin")) {
            waiting.push("admin.token".to_owned());
        }
        (hot, waiting)
    }

    /// What keeps origins fresh goes over to those that are in force now.
    fn hand_over(&self, before: &Installed, next: &Installed, fresh: &[Arc<OriginState>]) {
        for origin in before.origins() {
            if !next.origins().iter().any(|kept| Arc::ptr_eq(kept, origin)) {
                origin.retire();
            }
        }
        for origin in fresh {
            keep_fresh(origin, &self.shared, &self.stopping);
            origin.take_over();
        }
    }

    /// Settings that can change while the process runs.
    fn adopt(&self, state: &mut State, settings: &Settings, effective: Tree, shown: Tree) {
        log::set_level(settings.log.level);
        self.change_doors(state, settings);
        if let (Some((log, _)), Some(words)) = (&self.shared.access_log, &settings.access_log) {
            log.resample(words);
        }
        if state.secrets[0] != settings.client_hmac {
            self.shared.pseudonyms.rekey(settings.client_hmac.as_ref().map(|secret| secret.0.as_slice()));
        }
        let digest = state.digest;
        let listeners = settings.listeners.clone();
        let (secrets, passwords) = (secrets(settings), settings.store_passwords.clone());
        *state = State { effective, shown, listeners, secrets, passwords, watch: settings.watch, digest };
    }

    /// Lists, penalties and caps of the listeners that the process has, by their names.
    fn change_doors(&self, state: &State, settings: &Settings) {
        let now = self.shared.clock.now();
        for (door, listener) in self.doors.iter().zip(&self.shared.settings.listeners) {
            let of = |list: &[Listener]| {
                list.iter().find(|other| other.name == listener.name).map(|listener| listener.connections.clone())
            };
            let Some(words) = of(&settings.listeners) else { continue };
            // connections must not pay for what has not changed
            if of(&state.listeners).as_ref() != Some(&words)
                && let Err(fault) = door.follow(&words, now)
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
            self.shared.notices.reload_refused(&text);
            self.shared.installed().metrics().reload_failed();
            tracing::error!("reload: refused, the policy in force stays");
        }
        Outcome { report: None, text }
    }

    fn tell(&self, report: &Report) {
        let limits = &report.limits;
        tracing::info!(
            from = shown(&report.from),
            to = shown(&report.to),
            milliseconds = report.milliseconds,
            kept = limits.kept.len(),
            rerated = limits.rerated.len(),
            reset = limits.reset.len(),
            "reloaded"
        );
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

/// Tends the stores, and waits for the answers of those that are new: until then the policy in force decides.
async fn first_answers(stores: &[Arc<StoreInUse>], before: &[Arc<StoreInUse>]) -> Vec<StoreAnswer> {
    stores.iter().for_each(|store| store.tend());
    let new = |store: &&Arc<StoreInUse>| !before.iter().any(|was| Arc::ptr_eq(was, store));
    let new: Vec<_> = stores.iter().filter(new).cloned().collect();
    let answers = StoreInUse::first_answers(&new).await;
    let answer = |(store, answered): (Arc<StoreInUse>, bool)| {
        let spec = store.spec();
        StoreAnswer { name: spec.name.clone(), answered, ready_within: config::duration_text(spec.ready_within) }
    };
    answers.into_iter().map(answer).collect()
}

/// The key of pseudonyms, and the one before it.
fn secrets(settings: &Settings) -> [Option<Secret>; 2] {
    [settings.client_hmac.clone(), settings.previous_client_hmac.clone()]
}

/// The passwords of stores by the names of these.
fn passwords<'s>(effective: &Tree, passwords: &'s [Option<Secret>]) -> Vec<(String, &'s Option<Secret>)> {
    let Some(Tree::Map(stores)) = effective.field("stores") else { return Vec::new() };
    stores.iter().map(|(name, _)| name.clone()).zip(passwords).collect()
}

/// Whether a change there cannot be made while the process runs.
fn waits(path: &str) -> bool {
    /// What can, of the sections that make the process.
    const HOT: [&str; 2] = ["telemetry.log.level", "telemetry.access_log.sample"];
    let below =
        |path: &str, of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    /// And of what a listener says of its connections.
    const AT_THE_DOOR: [&str; 5] = ["max", "per_client", "handshakes", "refuse", "refuse_at_accept"];
    let steps: Vec<&str> = path.split('.').collect();
    if let ["listeners", .., "connections", word] | ["listeners", .., "connections", word, _] = steps.as_slice()
        && AT_THE_DOOR.contains(word)
    {
        return false;
    }
    let of_process =
        ["version", "listeners", "telemetry", "admin", "server"].iter().any(|section| below(path, section));
    of_process && !HOT.iter().any(|hot| below(path, hot))
}

/// Looks the names of an origin up, and keeps them, its files and what is known of its health fresh, until it is retired or the process
/// stops.
pub fn keep_fresh(origin: &Arc<OriginState>, shared: &Arc<Shared>, stopping: &channel::Receiver<bool>) {
    let (origin, clock, stopping) = (Arc::clone(origin), shared.clock, stopping.clone());
    tokio::spawn(async move {
        let way = Arc::clone(origin.way());
        let fresh = async {
            tokio::join!(
                resolve::keep_fresh(Arc::clone(&origin), stopping.clone()),
                health::keep_checking(Arc::clone(&origin), clock, stopping.clone()),
                way.keep_fresh(stopping.clone()),
            )
        };
        tokio::select! {
            _ = fresh => {}
            () = origin.retirement() => {}
        }
    });
}

/// Reads files, off the workers that serve requests; `None` if that panicked, which the panic hook has told.
async fn read(load: Loader) -> Option<Loaded> {
    let read = move || catch_unwind(AssertUnwindSafe(|| load())).ok();
    tokio::task::spawn_blocking(read).await.ok().flatten()
}

/// Takes renewed certificates into use, off the workers.
async fn renew(certificates: Arc<Watch>) -> Tls {
    let renew = move || {
        let expiry = || certificates.states().iter().map(|state| state.expires()).collect::<Vec<_>>();
        let before = expiry();
        let wall = i64::try_from(wall_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
        if !certificates.is_empty() {
            certificates.reload(Instant::now(), wall);
        }
        let states = || certificates.states().iter();
        let renewed = states().zip(before).filter_map(|(state, before)| {
            let expires = state.expires().filter(|expires| Some(*expires) != before)?;
            Some(Renewed { certificate: state.certificate.clone(), expires })
        });
        Tls {
            certificates: states().filter(|state| state.expires().is_some()).count(),
            renewed: renewed.collect(),
            unusable: states().filter(|state| !state.is_current()).map(|state| state.certificate.clone()).collect(),
        }
    };
    tokio::task::spawn_blocking(renew).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_is_built_from_waits_and_all_else_does_not() {
        for path in
            ["listeners.main.address", "server.threads", "telemetry.metrics", "telemetry.access_log", "admin.address"]
        {
            assert!(waits(path), "{path}");
        }
        for path in
            ["telemetry.log.level", "telemetry.access_log.sample.other", "secrets", "trusted_proxies.from", "watch"]
        {
            assert!(!waits(path), "{path}");
        }
        assert!(!waits("listeners.main.connections.refuse") && !waits("listeners.a.b.connections.max"));
        assert!(waits("listeners.main.connections.idle") && waits("listeners.main.connections"));
        assert!(waits("telemetry.log.format") && waits("telemetry.access_log.client") && waits("version"));
    }
}
