//! Builds the gate from a loaded policy, binds its sockets first, and runs it to its end.
//!
//! Pingora's own `Server` is not used: it reports ready before it binds, survives a failed bind without a listener, and sleeps
//! its whole grace period on every stop. Its HTTP proxy is all that is needed, on sockets of ours.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pingora::proxy::HttpProxy;
use pingora::server::configuration::ServerConf;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::clock::{self, Clock};
use super::housekeeping::Housekeeping;
use super::installed::Installed;
use super::lifecycle::given::{Given, Tag};
use super::lifecycle::handover::Predecessor;
use super::lifecycle::notify::Notifier;
use super::lifecycle::sockets::{self, Opened};
use super::lifecycle::upgrade::Program;
use super::lifecycle::watchdog::{self, Watchdog};
use super::lifecycle::{self, Life, Signals, control};
use super::shared::Shared;
use crate::config::Config;
use crate::config::settings::{ClientInLog, Settings};
use crate::engine::Snapshot;
use crate::policy::Policy;
use crate::serve::edge::bind::BindError;
use crate::serve::edge::connection::{ConnectionLimits, Edge};
use crate::serve::edge::events::Events;
use crate::serve::edge::listen::{self, Connections};
use crate::serve::origins::resolve;
use crate::serve::proxy::gate::Gate;
use crate::serve::proxy::waits::{MOST_WAITING, Waits};
use crate::serve::telling::access_log::AccessLogWriter;
use crate::serve::telling::metrics::Metrics;
use crate::serve::telling::pseudonym::Pseudonyms;
use crate::serve::telling::refused::MostRefused;
use crate::serve::telling::{log, scrape};
use crate::sketch::Seed;

/// How long the first look-up of origins' names may hold up the start.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);

/// How long the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Connections kept open to origins, per worker thread.
const POOL: usize = 256;

/// Why the gate did not start. All of it is the system's word: exit code 71.
#[derive(Debug)]
pub enum StartError {
    /// A listener could not be bound.
    Bind(BindError),
    /// The system refused something else; the text says what it was for.
    System(&'static str, String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(error) => error.fmt(f),
            StartError::System(what, cause) => write!(f, "{what}: {cause}"),
        }
    }
}

impl std::error::Error for StartError {}

/// What a run has beside its configuration.
#[derive(Debug)]
pub struct Start {
    /// How the process was started, for the one after it.
    pub program: Program,
    /// Where the control socket is; `None`: there is none.
    pub control: Option<PathBuf>,
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
pub fn run(config: Config, start: Start) -> Result<(), StartError> {
    let Start { program, control, given, predecessor } = start;
    let (predecessor, offered) = match predecessor {
        Some((predecessor, offered)) => (Some(predecessor), offered),
        None => (None, Vec::new()),
    };
    let mut predecessor = predecessor;
    let ended = start_and_serve(config, program, control.as_deref(), given, &offered, &mut predecessor);
    if let (Err(error), Some(predecessor)) = (&ended, predecessor) {
        predecessor.fail(&format!("error: {error}\n"));
    }
    ended
}

fn start_and_serve(
    config: Config,
    program: Program,
    control: Option<&Path>,
    given: Given,
    offered: &[Tag],
    predecessor: &mut Option<Predecessor>,
) -> Result<(), StartError> {
    let Config { policy, settings, .. } = config;
    // no other log can have been set up before in this process, and without one it serves all the same
    let _ = log::init(&settings.log);
    log::hook_panics();
    let notifier = Arc::new(Notifier::from_environment());
    let opened = sockets::open(&settings, control, given, offered, Arc::clone(&notifier))?;
    if let (Some(page), Some(bound)) = (&settings.metrics, &opened.metrics) {
        eprintln!("metrics on http://{}{}", bound.address, page.path);
    }
    let (stop, stopping) = watch::channel(false);
    let (shared, writer) = build(policy, settings, stopping)?;
    let threads = threads(&shared.settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("gate")
        .enable_all()
        .build()
        .map_err(|error| StartError::System("no runtime", error.to_string()))?;
    let kept = Arc::clone(&shared);
    let housekeeping = Housekeeping::start(move || kept.installed().snapshot().maintain(kept.clock.now()))
        .map_err(|error| StartError::System("no thread for housekeeping", error.to_string()))?;
    let served = runtime.block_on(serve(&shared, opened, Arc::clone(&notifier), program, predecessor, threads, stop));
    drop(housekeeping);
    // what is still running had its time
    runtime.shutdown_timeout(Duration::from_millis(100));
    if let Some(writer) = writer
        && !writer.finish(LAST_LINES)
    {
        eprintln!("warning: the last lines of the access log could not be written in time");
    }
    served.map_err(|error| StartError::System("the runtime cannot watch a socket or signal", error.to_string()))
}

fn threads(settings: &Settings) -> usize {
    settings.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Everything that requests share, and the owner of the access log's thread.
fn build(
    policy: Policy,
    settings: Settings,
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
    if let Some((log, _)) = &access_log {
        metrics.register_access_log(log);
    }
    let started = Clock::start();
    let origin_of_stamps = clock::wall_nanos().saturating_sub(started.now().nanos());
    let snapshot = Snapshot::new(policy, &seed, origin_of_stamps)
        .map_err(|(limit, fault)| StartError::System("a limit cannot be built", format!("{limit}: {fault}")))?;
    let refused = MostRefused::new(threads(&settings), seed.derive("most refused"));
    let installed = Arc::new(Installed::new(snapshot, metrics, refused));
    let waits = Waits::new(MOST_WAITING, stopping);
    Ok((Arc::new(Shared::new(started, access_log, pseudonyms, settings, waits, installed)), writer))
}

async fn serve(
    shared: &Arc<Shared>,
    opened: Opened,
    notifier: Arc<Notifier>,
    program: Program,
    predecessor: &mut Option<Predecessor>,
    threads: usize,
    stop: watch::Sender<bool>,
) -> io::Result<()> {
    let signals = Signals::catch()?;
    let Opened { listeners, metrics, control, mut sockets } = opened;
    // said only now: who reads it may send a signal at once
    for listener in &listeners {
        eprintln!("listening on {} ({})", listener.address, listener.name);
    }
    let stopping = stop.subscribe();
    let ready = Arc::new(AtomicBool::new(false));
    let connections = Connections::new();
    if let (Some(page), Some(socket)) = (&shared.settings.metrics, metrics.and_then(sockets::tcp)) {
        let path = page.path.clone();
        let pages = scrape::Pages::new(path, metrics_of(shared), most_refused_of(shared), Arc::clone(&ready));
        tokio::spawn(scrape::serve(socket, pages, stopping.clone()));
    }
    first_lookups(shared, &stopping).await;
    let proxy = Arc::new(proxy(shared, threads));
    let mut accepting = JoinSet::new();
    let count = listeners.len();
    for (listener, bound) in listeners.into_iter().enumerate() {
        let events = Box::new(Events::new(Arc::clone(shared), listener));
        let edge = Arc::new(Edge { listener, limits: ConnectionLimits::default(), events });
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
    let (order, orders) = mpsc::channel(1);
    match control {
        Some(socket) => drop(tokio::spawn(control::listen(socket, order))),
        // a channel without a sender would end what waits for it
        None => drop(tokio::spawn(async move { order.closed().await })),
    }
    let life =
        Life { signals, orders, program, sockets, notifier, ready, shutdown: stop, accepting, connections, watchdog };
    lifecycle::until_stopped(life, shared.settings.drain, shared).await;
    Ok(())
}

/// Looks origins' names up, and keeps them fresh.
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
        tokio::spawn(resolve::keep_fresh(Arc::clone(origin), stopping.clone()));
    }
}

fn metrics_of(shared: &Arc<Shared>) -> scrape::Render {
    let shared = Arc::clone(shared);
    Arc::new(move || shared.installed().metrics().render())
}

/// Clients appear as in the access log; as pseudonyms if there is none.
fn most_refused_of(shared: &Arc<Shared>) -> scrape::Render {
    let shared = Arc::clone(shared);
    let clients = shared.access_log.as_ref().map_or(ClientInLog::Pseudonym, |(_, clients)| *clients);
    Arc::new(move || {
        let installed = shared.installed();
        let rules = &installed.snapshot().policy().rules;
        installed.refused().page(shared.clock.now(), rules, clients, &shared.pseudonyms)
    })
}

/// Pingora's proxy around the gate; one for all listeners, so that they share the connections to origins.
pub(super) fn proxy(shared: &Arc<Shared>, threads: usize) -> HttpProxy<Gate> {
    let conf = ServerConf {
        threads,
        upstream_keepalive_pool_size: POOL,
        // the gate decides about each attempt; this is the framework's own net above the five that a policy may ask for
        max_retries: 8,
        ..ServerConf::default()
    };
    let mut proxy = HttpProxy::new(Gate::new(Arc::clone(shared)), Arc::new(conf));
    proxy.handle_init_modules();
    proxy
}
