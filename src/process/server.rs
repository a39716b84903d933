//! Builds the gate from a loaded policy, binds its sockets first, and runs it to its end.
//!
//! Pingora's own `Server` is not used: it reports ready before it binds, survives a failed bind without a listener, and sleeps
//! its whole grace period on every stop. Its HTTP proxy is all that is needed, on sockets of ours.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::given::{Given, Tag};
use super::handover::Predecessor;
use super::housekeeping::Housekeeping;
use super::lifecycle::{self, Life, Signals};
use super::notify::Notifier;
use super::reload::{Loader, Reloader, keep_fresh, keep_watching};
use super::sockets::{self, Opened};
use super::start_error::StartError;
use super::upgrade::Program;
use super::watchdog::{self, Watchdog};
use crate::admin::web::Web;
use crate::admin::{self, Admin};
use crate::config::settings::Settings;
use crate::config::{self, Config, Places};
use crate::edge::common::Edge;
use crate::edge::door::Door;
use crate::edge::limits::ConnectionLimits;
use crate::edge::listen::{self, Connections};
use crate::edge::tls::watch::{POLL, Watch};
use crate::engine::Snapshot;
use crate::observe::access_log::AccessLogWriter;
use crate::observe::metrics::Metrics;
use crate::observe::offenders::MostRefused;
use crate::observe::pseudonym::Pseudonyms;
use crate::observe::standard_error::say;
use crate::observe::{log, scrape};
use crate::origins::resolve;
use crate::policy::Policy;
use crate::proxy::events::Events;
use crate::proxy::framework::proxy;
use crate::running::generation::{Installed, Version};
use crate::running::in_force::InForce;
use crate::running::process::Shared;
use crate::running::state;
use crate::running::waits::{MOST_WAITING, Waits};
use crate::sketch::Seed;
use crate::small_server::{self, Hosts};
use crate::store::StoreInUse;
use crate::system::buffers::BUFFERS;
use crate::system::clock::{self, Clock};
use crate::system::descriptors::{self, Teller};

/// How long the first look-up of origins' names may hold up the start.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);

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
    let Config { policy, settings, effective, shown, places, .. } = config;
    let version = Version { hash: config::hash(&effective), loaded: clock::wall_nanos() };
    // no other log can have been set up before in this process, and without one it serves all the same
    let _ = log::init(&settings.log);
    log::hook_panics();
    let notifier = Arc::new(Notifier::from_environment());
    let connections = settings.listeners.iter().map(|listener| u64::from(listener.connections.max)).sum();
    let limit = descriptors::raise(connections);
    let opened = sockets::open(&settings, admin.as_deref(), given, offered, Arc::clone(&notifier))?;
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
    let (shared, writer) = build(policy, settings, (version, places), stopping.clone())?;
    if admin.is_some() {
        shared.watch();
    }
    shared.set_in_force(InForce { file, shown: shown.clone(), waiting: Vec::new() });
    // there is no other call that could have set it
    let _ = shared.certificates.set(Arc::clone(&watch));
    let threads = threads(&shared.settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("gate")
        .enable_all()
        .build()
        .map_err(|error| StartError::System("no runtime", error.to_string()))?;
    let kept = Arc::clone(&shared);
    let doors = doors(&shared)?;
    let kept_doors = doors.clone();
    // what comes before the first round is its own
    state::note_history(&kept);
    let teller = Mutex::new(Teller::default());
    let round = move || {
        let now = kept.clock.now();
        kept.installed().snapshot().maintain(now);
        kept_doors.iter().for_each(|door| door.maintain(now));
        kept.tell_noise();
        state::note_history(&kept);
        state::look_for_notices(&kept);
        teller.lock().look(now);
    };
    let housekeeping = Housekeeping::start(round)
        .map_err(|error| StartError::System("no thread for housekeeping", error.to_string()))?;
    let renewals = watch_certificates(&watch)
        .map_err(|error| StartError::System("no thread for renewed certificates", error.to_string()))?;
    let reloader =
        Reloader::new(Arc::clone(&shared), (effective, shown), load, Arc::clone(&watch), doors.clone(), stopping);
    descriptors::share_out(limit, connections);
    let reception = Reception { doors, certificates: watch, reloader: Arc::new(reloader) };
    let serving = serve(&shared, opened, Arc::clone(&notifier), program, predecessor, &reception, stop);
    let served = runtime.block_on(serving);
    drop((housekeeping, renewals));
    // what is still running had its time
    runtime.shutdown_timeout(Duration::from_millis(100));
    if let Some(writer) = writer
        && !writer.finish(LAST_LINES)
    {
        say("warning: the last lines of the access log could not be written in time\n");
    }
    served.map_err(|error| StartError::System("the runtime cannot watch a socket or signal", error.to_string()))
}

fn threads(settings: &Settings) -> usize {
    settings.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Looks for renewed certificates from now on, on a thread of its own: reading files may take its time.
fn watch_certificates(watch: &Arc<Watch>) -> io::Result<Option<Housekeeping>> {
    if watch.is_empty() {
        return Ok(None);
    }
    let watch = Arc::clone(watch);
    // once at the start, for those that end soon
    watch.poll(Instant::now(), wall_seconds());
    Housekeeping::every(POLL, move || watch.poll(Instant::now(), wall_seconds())).map(Some)
}

fn wall_seconds() -> i64 {
    i64::try_from(clock::wall_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

/// Everything that requests share, and the owner of the access log's thread.
fn build(
    policy: Policy,
    settings: Settings,
    (version, places): (Version, Places),
    stopping: watch::Receiver<bool>,
) -> Result<(Arc<Shared>, Option<AccessLogWriter>), StartError> {
    let system = |what| move |error: getrandom::Error| StartError::System(what, error.to_string());
    let seed = Seed::from_bytes(clock::secret().map_err(system("no randomness for the sketches"))?);
    let fallback = clock::secret().map_err(system("no randomness for pseudonyms"))?;
    let pseudonyms = Pseudonyms::new(settings.client_hmac.as_ref().map(|secret| secret.0.as_slice()), fallback);
    let writer = match &settings.access_log {
        Some(log) => {
            Some(AccessLogWriter::start(log).map_err(|error| StartError::System("no access log", error.to_string()))?)
        }
        None => None,
    };
    let metrics = Metrics::new(&policy, &settings);
    let access_log = writer.as_ref().zip(settings.access_log.as_ref()).map(|(writer, log)| (writer.log(), log.client));
    let started = Clock::start();
    let snapshot = Snapshot::new(policy, &seed, started.unix_nanos_at_zero())
        .map_err(|(limit, fault)| StartError::System("a limit cannot be built", format!("{limit}: {fault}")))?;
    let snapshot = match settings.naming() {
        Some((secret, previous)) => snapshot.sharing_while_changed(secret, previous, None),
        None => Ok(snapshot),
    };
    let snapshot = snapshot
        .map_err(|(limit, fault)| StartError::System("a limit cannot be shared", format!("{limit}: {fault}")))?;
    let stores = StoreInUse::all(&snapshot.policy().stores, &settings.store_passwords, &[], started)
        .map_err(|(store, fault)| StartError::System("a store cannot be reached so", format!("{store}: {fault}")))?;
    let refused = MostRefused::new(threads(&settings), seed.derive("most refused"));
    let installed = Installed::new(snapshot, metrics, refused, started)
        .map_err(|(origin, fault)| StartError::System("an origin's TLS", format!("{origin}: {fault}")))?;
    let installed = installed.with_stores(stores).with_version(version).watching(&places.trusted, None, started.now());
    let installed = Arc::new(installed);
    let waits = Waits::new(MOST_WAITING, stopping);
    let shared = Shared::new(started, access_log, pseudonyms, settings, waits, installed).with_places(places);
    Ok((Arc::new(shared), writer))
}

/// One for each listener, in the order of the settings, each with a seed of its own.
fn doors(shared: &Arc<Shared>) -> Result<Vec<Arc<Door>>, StartError> {
    let door = |listener| {
        let seed = clock::secret().map(Seed::from_bytes);
        let seed = seed.map_err(|error| StartError::System("no randomness for connections", error.to_string()))?;
        let door = Door::new(Arc::clone(shared), listener, &seed);
        door.map(Arc::new).map_err(|fault| StartError::System("connections cannot be counted", fault.to_string()))
    };
    (0..shared.settings.listeners.len()).map(door).collect()
}

/// What connections meet first, by the position of their listener.
struct Reception {
    doors: Vec<Arc<Door>>,
    certificates: Arc<Watch>,
    reloader: Arc<Reloader>,
}

async fn serve(
    shared: &Arc<Shared>,
    opened: Opened,
    notifier: Arc<Notifier>,
    program: Program,
    predecessor: &mut Option<Predecessor>,
    reception: &Reception,
    stop: watch::Sender<bool>,
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
    if let (Some(page), Some(bound)) = (&shared.settings.metrics, metrics) {
        let hosts = Hosts::new(&page.hosts);
        let pages = scrape::Pages::new(page.path.clone(), hosts, metrics_of(shared), Arc::clone(&ready));
        tokio::spawn(small_server::serve(bound.socket, pages, stopping.clone()));
    }
    let (order, orders) = mpsc::channel(1);
    let named = listeners.iter().map(|bound| (bound.name.clone(), bound.address.to_string())).collect();
    let context = Arc::new(admin::Context::new(Arc::clone(shared), Arc::clone(&ready), named, order));
    if let (Some(settings), Some(bound)) = (&shared.settings.admin, web) {
        let way = Admin::web(Arc::clone(&context), Web::new(settings));
        tokio::spawn(small_server::serve(bound.socket, way, stopping.clone()));
    }
    shared.installed().tell();
    shared.installed().stores().iter().for_each(|store| store.tend());
    let known = async { tokio::join!(first_lookups(shared, &stopping), first_answers(shared)) };
    tokio::select! {
        _ = known => {}
        // nothing is under way yet
        () = signals.stop() => {
            let _ = stop.send(true);
            return Ok(());
        }
    }
    BUFFERS.limit(usize::try_from(shared.settings.max_buffered.0).unwrap_or(usize::MAX));
    let proxy = Arc::new(proxy(shared, threads(&shared.settings)));
    let mut accepting = JoinSet::new();
    let count = listeners.len();
    for (listener, bound) in listeners.into_iter().enumerate() {
        let mut events = Events::new(Arc::clone(shared), listener);
        if let Some(door) = reception.doors.get(listener) {
            events = events.with_door(Arc::clone(door));
        }
        let limits = shared.settings.listeners.get(listener).map(ConnectionLimits::of).unwrap_or_default();
        let tls = reception.certificates.acceptor(listener);
        let edge = Arc::new(Edge { listener, tls, limits, events: Box::new(events) });
        accepting.spawn(listen::accept(bound, Arc::clone(&proxy), edge, Arc::clone(&connections), stopping.clone()));
    }
    ready.store(true, Ordering::Relaxed);
    if let Some(predecessor) = predecessor.take() {
        predecessor.ready(sockets.taken()).await?;
    }
    sockets.settle();
    let plural = if count == 1 { "" } else { "s" };
    notifier.say(&format!("READY=1\nSTATUS=serving {count} listener{plural}"));
    let watchdog = match watchdog::interval().filter(|_| notifier.is_heard()) {
        Some(interval) => Some(Watchdog::start(interval, Arc::clone(&notifier))?),
        None => None,
    };
    // not before orders can be carried out
    if let Some(bound) = socket {
        tokio::spawn(small_server::serve(bound.socket, Admin::socket(Arc::clone(&context)), stopping.clone()));
    }
    tokio::spawn(keep_watching(Arc::clone(&reception.reloader)));
    let reloader = Arc::clone(&reception.reloader);
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
    };
    lifecycle::until_stopped(life, shared.settings.drain, shared).await;
    Ok(())
}

/// Looks origins' names up, and keeps them, their files and what is known of their health fresh.
async fn first_lookups(shared: &Arc<Shared>, stopping: &watch::Receiver<bool>) {
    let installed = shared.installed();
    let lookup = async {
        for origin in installed.origins() {
            resolve::resolve_once(origin).await;
        }
    };
    // names that take longer arrive by the background task; until then their origin answers 503
    let _ = timeout(FIRST_LOOKUP, lookup).await;
    for origin in installed.origins() {
        keep_fresh(origin, shared, stopping);
    }
}

/// Waits for the stores, so that the first requests are not decided without them; each no longer than the policy says.
async fn first_answers(shared: &Arc<Shared>) {
    let installed = shared.installed();
    for (store, answered) in StoreInUse::first_answers(installed.stores()).await {
        // who waits for nothing misses nothing
        if !answered && !store.spec().ready_within.is_zero() {
            let within = config::duration_text(store.spec().ready_within);
            tracing::warn!(store = store.spec().name, "the store has not answered within {within}: ready without it");
        }
    }
}

fn metrics_of(shared: &Arc<Shared>) -> scrape::Render {
    let shared = Arc::clone(shared);
    Arc::new(move || shared.installed().metrics().render(&state::state(&shared)))
}
