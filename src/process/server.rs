//! Builds the gate from a loaded policy, binds its sockets first, and runs it to its end.
//!
//! Pingora's own `Server` is not used: it reports ready before it binds, survives a failed bind without a listener, and sleeps
//! its whole grace period on every stop. Its HTTP proxy is all that is needed, on sockets of ours.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::certificates;
use super::charges::Taking;
use super::given::{Given, Tag};
use super::going_on::{open_state, restore_bans, restored, tell_restored};
use super::handover::{Inheritance, Predecessor, Secret};
use super::housekeeping::Housekeeping;
use super::lifecycle::{self, Life, Signals};
use super::notify::Notifier;
use super::observed;
use super::places;
use super::reload::{Loader, Reloader, keep_watching};
use super::saved;
use super::snapshots::{Files, Snapshots};
use super::sockets::{self, Opened};
use super::start_error::StartError;
use super::upgrade::Program;
use super::watchdog::{self, Watchdog};
use crate::admin::web::Web;
use crate::admin::{self, Admin};
use crate::config::{self, Config};
use crate::edge::common::{AdmissionFilter, Edge};
use crate::edge::limits::ConnectionLimits;
use crate::edge::listen::{self, Connections};
use crate::edge::tls::watch::Watch;
use crate::engine::Base;
use crate::human;
use crate::observe::access_log::AccessLogWriter;
use crate::observe::pseudonym::Pseudonyms;
use crate::observe::standard_error::say;
use crate::observe::{log, scrape};
use crate::proxy::accept::ListenerFilter;
use crate::proxy::events::Events;
use crate::proxy::framework::servers;
use crate::running::backends::Backends;
use crate::running::generation::{Generation, workers};
use crate::running::process::Process;
use crate::running::waits::{MOST_WAITING, Waits};
use crate::running::{bans, state};
use crate::sketch::Seed;
use crate::small_server::{self, Hosts};
use crate::store::StoreInUse;
use crate::system::buffers::BUFFERS;
use crate::system::clock::{self, Clock};
use crate::system::descriptors::{self, Marks, Teller};
use crate::system::overload::Overload;

/// How long the last lines of the access log may take, if its target goes on taking them.
const LAST_LINES: Duration = Duration::from_secs(5);

/// What a run has beside its configuration.
pub struct Start {
    /// How the process was started, for the one after it.
    pub program: Program,
    /// The file or directory of the configuration; `None`: it came from the command line.
    pub file: Option<PathBuf>,
    /// How to load the configuration again; `None`: it was no file.
    pub load: Option<Loader>,
    /// Where the admin socket is; `None`: there is none.
    pub admin: Option<PathBuf>,
    /// Listening sockets that it was given.
    pub given: Given,
    /// The process whose place it takes, and in which order that one offered its sockets.
    pub predecessor: Option<(Predecessor, Vec<Tag>)>,
}

/// Serves until a signal ends it or another process takes its place. Prints each listener's address on standard error once
/// it is bound.
///
/// # Errors
/// It could not start. Nothing is left behind then, and a predecessor knows why.
pub fn run(config: Config, mut start: Start) -> Result<(), StartError> {
    only_touched_memory();
    descriptors::no_core_dumps();
    let (mut predecessor, offered) = match start.predecessor.take() {
        Some((predecessor, offered)) => (Some(predecessor), offered),
        None => (None, Vec::new()),
    };
    let ended = start_and_serve(config, start, &offered, &mut predecessor);
    if let (Err(error), Some(predecessor)) = (&ended, predecessor) {
        predecessor.fail(&format!("error: {error}\n"));
    }
    ended
}

/// Memory is taken page by page. Huge pages, which the allocator asks for, hold up to 2 MiB for the first byte that is touched:
/// 27 MiB of 103 for ten limits, and no decision was quicker for it.
fn only_touched_memory() {
    // a system that knows no huge pages has none to refuse
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

fn start_and_serve(
    config: Config,
    start: Start,
    offered: &[Tag],
    predecessor: &mut Option<Predecessor>,
) -> Result<(), StartError> {
    let Start { program, file, load, admin, given, .. } = start;
    let settings = &config.settings;
    // no other log can have been set up before in this process, and without one it serves all the same
    let _ = log::init(&settings.log);
    log::hook_panics();
    let notifier = Arc::new(Notifier::from_environment());
    let connections = settings.listeners.iter().map(|listener| u64::from(listener.connections.max)).sum();
    let limit = descriptors::raise(connections);
    let opened = sockets::open(settings, admin.as_deref(), given, offered, Arc::clone(&notifier))?;
    if let (Some(page), Some(bound)) = (&settings.metrics, &opened.metrics) {
        say(&format!("metrics on http://{}{}\n", bound.address, page.path));
    }
    if let Some(bound) = &opened.web {
        say(&format!("admin on http://{}/\n", bound.address));
    }
    let (stop, stopping) = watch::channel(false);
    let watch = Watch::new(&settings.listeners, |listener| listener.protocols.alpn());
    let watch = watch.map_err(|error| StartError::System("a certificate cannot be used", error.to_string()))?;
    let watch = Arc::new(watch);
    let inheritance = predecessor.as_ref().and_then(Predecessor::inheritance);
    let again = inheritance.map(|_| again(&config));
    let (process, writer, state) = build(config, file, stopping, inheritance)?;
    if admin.is_some() {
        process.watch();
    }
    // nothing else sets it
    let _ = process.certificates.set(Arc::clone(&watch));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers(&process.settings))
        .thread_name("gate")
        .enable_all()
        .build()
        .map_err(|error| StartError::System("no runtime", error.to_string()))?;
    if let Some(settings) = &process.settings.overload {
        let seed = clock::secret().map(Seed::from_bytes);
        let seed = seed.map_err(|error| StartError::System("no randomness for overload", error.to_string()))?;
        let overload = Overload::new(settings, process.clock, &seed, workers(&process.settings));
        let overload =
            overload.map_err(|fault| StartError::System("overload cannot be measured", fault.to_string()))?;
        // nothing else sets it
        let _ = process.overload.set(Arc::new(overload));
    }
    let doors = doors(&process)?;
    let housekeeping = Housekeeping::start(round(&process, &doors))
        .map_err(|error| StartError::System("no thread for housekeeping", error.to_string()))?;
    let renewals = certificates::keep_renewing(&watch)
        .map_err(|error| StartError::System("no thread for renewed certificates", error.to_string()))?;
    let reloader = Arc::new(Reloader::new(Arc::clone(&process), load, watch, doors));
    descriptors::share_out(limit, connections);
    let serving =
        serve(&process, opened, Arc::clone(&notifier), program, (predecessor, again), (reloader, stop), state);
    let served = runtime.block_on(serving);
    drop((housekeeping, renewals));
    // what is still running had its time
    runtime.shutdown_timeout(Duration::from_millis(100));
    if let Some(writer) = writer
        && !writer.finish(LAST_LINES)
    {
        say("warning: the last lines of the access log could not be written in time\n");
    }
    served.map_err(|error| StartError::System("it cannot begin to serve", error.to_string()))
}

/// Makes the process with its first generation. Returns with it the owner of the access log's thread, and where snapshots are to be written.
fn build(
    config: Config,
    file: Option<PathBuf>,
    stopping: watch::Receiver<bool>,
    inheritance: Option<Inheritance>,
) -> Result<Built, StartError> {
    let system = |what| move |error: getrandom::Error| StartError::System(what, error.to_string());
    let mut files = config.settings.state.as_ref().and_then(open_state);
    let secret = match (&inheritance, &files) {
        (Some(inheritance), _) => inheritance.secret,
        (None, Some(files)) => files.secret(),
        (None, None) => Secret(clock::secret().map_err(system("no randomness for the sketches"))?),
    };
    let seed = Seed::from_bytes(secret.0);
    // a process that takes another's place is given newer state than the directory has
    let found = files.as_ref().filter(|_| inheritance.is_none()).and_then(|files| restored(files, &config.policy));
    if let Some(Err(error)) = files.as_mut().map(|files| files.keep(secret)) {
        tracing::error!("state: the directory cannot be used, a restart will give fresh budgets: {error}");
        files = None;
    }
    let fallback = match inheritance.and_then(|inheritance| inheritance.names) {
        Some(names) => names.0,
        None => clock::secret().map_err(system("no randomness for pseudonyms"))?,
    };
    let settings = &config.settings;
    let pseudonyms = Pseudonyms::new(settings.client_hmac.as_ref().map(|secret| secret.0.as_slice()), fallback);
    let writer = match &settings.access_log {
        Some(log) => {
            Some(AccessLogWriter::start(log).map_err(|error| StartError::System("no access log", error.to_string()))?)
        }
        None => None,
    };
    let access_log = writer.as_ref().map(AccessLogWriter::log);
    let clock = match (&inheritance, &found) {
        (Some(inheritance), _) => inheritance.clock(),
        (None, Some((_, clock))) => *clock,
        (None, None) => Clock::start(),
    };
    let backends = Backends::open(&config, None, clock)?;
    let unix_nanos_at_origin = clock.unix_nanos_at_zero();
    let base = match &found {
        Some((restored, _)) => Base::Saved { seed: &seed, unix_nanos_at_origin, restored },
        None => Base::Nothing { seed: &seed, unix_nanos_at_origin },
    };
    let mut first = Generation::next(config, backends, base)?;
    let succession = std::mem::take(&mut first.succession);
    let process = Process::new(clock, access_log, pseudonyms, file, Waits::new(MOST_WAITING, stopping), first);
    if found.is_some() {
        tell_restored(&succession);
        process.snapshots.restored(succession);
    }
    if let Some(files) = files.as_ref().filter(|_| inheritance.is_none()) {
        restore_bans(files, &process);
    }
    Ok((Arc::new(process), writer, (files, secret)))
}

/// The configuration once more, for the generation that goes on from the state of the process before.
fn again(config: &Config) -> Config {
    Config {
        policy: config.policy.clone(),
        settings: config.settings.clone(),
        fingerprint: config.fingerprint.clone(),
        effective: config.effective.clone(),
        shown: config.shown.clone(),
        cases: Vec::new(),
        places: config.places.clone(),
    }
}

/// Where snapshots go, and what keys are hashed under.
type StateOf = (Option<Files>, Secret);

/// The process, its log's owner, and what its state is kept with.
type Built = (Arc<Process>, Option<AccessLogWriter>, StateOf);

/// Goes on from the state of the process whose place this one takes. Returns the conversation about what happens to it from then on.
///
/// # Errors
/// The state cannot be used, or the conversation broke off: the other process goes on.
fn take_state(
    process: &Process,
    predecessor: &mut Predecessor,
    config: Config,
    secret: Secret,
) -> Result<Taking, String> {
    let (mut state, charges, seen) = predecessor.state().map_err(|error| error.to_string())?;
    let seed = Seed::from_bytes(secret.0);
    let restored = saved::restore(&mut state, &config.policy, &seed, Some(process.clock));
    let (mut restored, clock) = restored.map_err(|fault| format!("the state of the process before {fault}"))?;
    let backends = Backends::open(&config, Some(process.generation().backends()), clock);
    let backends = backends.map_err(|fault| fault.to_string())?;
    let base = Base::Saved { seed: &seed, unix_nanos_at_origin: clock.unix_nanos_at_zero(), restored: &restored };
    let mut next = Generation::next(config, backends, base).map_err(|fault| fault.to_string())?;
    let succession = std::mem::take(&mut next.succession);
    process.adopt(next);
    tell_restored(&succession);
    process.snapshots.restored(succession);
    if let Some(Err(fault)) = seen.map(|seen| observed::restore(process, seen)) {
        tracing::warn!("upgrade: what the process before has seen of its clients {fault}; that begins anew");
    }
    Ok(Taking::new(charges, restored.take_under_way()))
}

/// What is done about once a second.
fn round(process: &Arc<Process>, doors: &[Arc<ListenerFilter>]) -> impl Fn() + Send + 'static {
    let (process, doors, teller) = (Arc::clone(process), doors.to_vec(), Mutex::new(Teller::default()));
    // the first second of the history begins here
    state::note_history(&process);
    move || {
        let now = process.clock.now();
        let generation = process.generation();
        generation.engine().maintain(now);
        generation.origins().iter().for_each(|origin| origin.sweep());
        doors.iter().for_each(|door| door.maintain(now));
        process.tell_noise();
        bans::settle(&process);
        state::note_history(&process);
        state::look_for_notices(&process);
        state::look_for_condition(&process);
        teller.lock().look(now);
        give_back_memory();
    }
}

/// Has the allocator give back to the system what nothing has used for a second, such as the memory of a crowd that has gone. It does so
/// when memory of this size is freed, and in a process with nothing to do none is: 4,000 connections left 85 MB behind.
fn give_back_memory() {
    const PAGE: usize = 1 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(PAGE)));
}

/// One for each listener, in the order of the settings, each with a seed of its own.
fn doors(process: &Arc<Process>) -> Result<Vec<Arc<ListenerFilter>>, StartError> {
    let door = |listener| {
        let seed = clock::secret().map(Seed::from_bytes);
        let seed = seed.map_err(|error| StartError::System("no randomness for connections", error.to_string()))?;
        let door = ListenerFilter::new(Arc::clone(process), listener, &seed);
        door.map(Arc::new).map_err(|fault| StartError::System("connections cannot be counted", fault.to_string()))
    };
    (0..process.settings.listeners.len()).map(door).collect()
}

async fn serve(
    process: &Arc<Process>,
    opened: Opened,
    notifier: Arc<Notifier>,
    program: Program,
    (predecessor, again): (&mut Option<Predecessor>, Option<Config>),
    (reloader, stop): (Arc<Reloader>, watch::Sender<bool>),
    (files, secret): StateOf,
) -> io::Result<()> {
    let mut signals = Signals::catch()?;
    let Opened { listeners, metrics, web, admin: socket, mut sockets } = opened;
    // said only now: who reads it may send a signal at once
    for listener in &listeners {
        say(&format!("listening on {} ({})\n", listener.address, listener.name));
    }
    let stopping = stop.subscribe();
    let ready = Arc::new(AtomicBool::new(false));
    let connections = Connections::new();
    if let (Some(page), Some(bound)) = (&process.settings.metrics, metrics) {
        let hosts = Hosts::new(&page.hosts);
        let pages = scrape::Pages::new(page.path.clone(), hosts, metrics_of(process), Arc::clone(&ready));
        tokio::spawn(small_server::serve(bound.socket, pages, stopping.clone()));
    }
    let (order, orders) = mpsc::channel(1);
    let named = listeners.iter().map(|bound| (bound.name.clone(), bound.address.to_string())).collect();
    let context = Arc::new(admin::Context::new(Arc::clone(process), Arc::clone(&ready), named, order));
    if let (Some(settings), Some(bound)) = (&process.settings.admin, web) {
        let way = Admin::web(Arc::clone(&context), Web::new(settings));
        tokio::spawn(small_server::serve(bound.socket, way, stopping.clone()));
    }
    let first = process.generation();
    tokio::select! {
        answers = first.backends().first_contact() => warn_of_silent(&answers),
        // nothing is under way yet
        () = signals.stop() => {
            let _ = stop.send(true);
            return Ok(());
        }
    }
    process.begin();
    let mut taking = match (predecessor.as_mut(), again) {
        (Some(predecessor), Some(config)) => {
            Some(take_state(process, predecessor, config, secret).map_err(io::Error::other)?)
        }
        _ => None,
    };
    if let Some(bans) = predecessor.as_mut().and_then(Predecessor::take_bans) {
        // behind the limits, whose state makes a generation of its own
        let taken = process.restore_bans(bans).map_err(io::Error::other)?;
        tracing::info!(bans = taken, "bans taken over");
    }
    let snapshots = files.map(|files| Snapshots::start(files, Arc::clone(process))).transpose()?;
    if predecessor.is_some() {
        places::have_none(first.backends().origins());
    }
    BUFFERS.limit(usize::try_from(process.settings.max_buffered.0).unwrap_or(usize::MAX));
    let servers = servers(process, workers(&process.settings));
    let mut accepting = JoinSet::new();
    let _watch = match process.overload.get() {
        Some(overload) => {
            let connections = Arc::clone(&connections);
            // without marks everybody may have any number
            let used = move || Marks::get().map_or(0.0, |marks| connections.open() as f64 / marks.room().max(1) as f64);
            Some(overload.watch(used)?)
        }
        None => None,
    };
    // from here on the other process accepts nothing, so all else comes before it
    if let Some(mut taking) = taking.take() {
        taking.catch_up(process)?;
        taking.follow(Arc::clone(process))?;
    }
    let count = listeners.len();
    for (listener, bound) in listeners.into_iter().enumerate() {
        let events = Events::new(Arc::clone(process), listener);
        let filter = reloader.doors.get(listener).map(|filter| Arc::clone(filter) as Arc<dyn AdmissionFilter>);
        let limits = process.settings.listeners.get(listener).map(ConnectionLimits::of).unwrap_or_default();
        let tls = reloader.certificates.acceptor(listener);
        let edge = Arc::new(Edge { listener, tls, limits, filter, events: Box::new(events) });
        accepting.spawn(listen::accept(bound, servers.clone(), edge, Arc::clone(&connections), stopping.clone()));
    }
    ready.store(true, Ordering::Relaxed);
    if let Some(predecessor) = predecessor.take() {
        let stream = predecessor.ready(sockets.taken()).await?;
        let process = Arc::clone(process);
        tokio::spawn(places::take(stream, move || process.generation().backends().origins().to_vec()));
    }
    sockets.settle();
    notifier.say(&format!("READY=1\nSTATUS=serving {}", human::count(count as u64, "listener")));
    tracing::info!(fingerprint = first.source().fingerprint, "serving");
    let watchdog = match watchdog::interval().filter(|_| notifier.is_heard()) {
        Some(interval) => Some(Watchdog::start(interval, Arc::clone(&notifier))?),
        None => None,
    };
    // not before orders can be carried out
    if let Some(bound) = socket {
        tokio::spawn(small_server::serve(bound.socket, Admin::socket(Arc::clone(&context)), stopping.clone()));
    }
    tokio::spawn(keep_watching(Arc::clone(&reloader)));
    let life = Life {
        signals,
        orders,
        reloader,
        program,
        sockets,
        notifier,
        ready,
        shutdown: stop,
        accepting,
        connections,
        watchdog,
        snapshots,
        secret,
    };
    lifecycle::until_stopped(life, process.settings.drain, process).await;
    Ok(())
}

/// Warns of stores that did not answer in time: the first requests are decided without them.
fn warn_of_silent(answers: &[(Arc<StoreInUse>, bool)]) {
    for (store, answered) in answers {
        // a store that is not waited for cannot be late
        if !answered && !store.spec().ready_within.is_zero() {
            let within = config::duration_text(store.spec().ready_within);
            tracing::warn!(store = store.spec().name, "the store has not answered within {within}: ready without it");
        }
    }
}

fn metrics_of(process: &Arc<Process>) -> scrape::Render {
    let process = Arc::clone(process);
    Arc::new(move || process.generation().metrics().render(&state::state(&process)))
}
