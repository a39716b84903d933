//! Builds the gate from a loaded policy, binds its sockets first, and runs it to its end.
//!
//! Pingora's own `Server` is not used: it reports ready before it binds, survives a failed bind without a listener, and sleeps
//! its whole grace period on every stop. Its HTTP proxy is all that is needed, on sockets of ours.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pingora::proxy::{HttpProxy, ProcessCustomSession, ProxyServiceBuilder};
use pingora::server::configuration::ServerConf;
use pingora::services::listening::Service;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::clock::{self, Clock};
use super::housekeeping::Housekeeping;
use super::installed::Installed;
use super::lifecycle::{self, Signals};
use super::shared::Shared;
use crate::config::Config;
use crate::config::settings::{ClientInLog, Listener, Settings};
use crate::engine::Snapshot;
use crate::policy::Policy;
use crate::serve::edge::connection::{ConnectionLimits, Edge};
use crate::serve::edge::door::Door;
use crate::serve::edge::events::Events;
use crate::serve::edge::listen::{self, BindError, Bound, Connections};
use crate::serve::edge::tls::watch::{POLL, State, Watch};
use crate::serve::origins::connector::Origins;
use crate::serve::origins::{health, resolve};
use crate::serve::proxy::gate::Gate;
use crate::serve::proxy::waits::{MOST_WAITING, Waits};
use crate::serve::telling::access_log::AccessLogWriter;
use crate::serve::telling::metrics::{CertificateState, Metrics};
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

/// Serves until a signal ends it. Prints each listener's address on standard error once it is bound.
///
/// # Errors
/// It could not start. Nothing is left behind then.
pub fn run(config: Config) -> Result<(), StartError> {
    let Config { policy, settings, .. } = config;
    // no other log can have been set up before in this process, and without one it serves all the same
    let _ = log::init(&settings.log);
    log::hook_panics();
    let bound = settings.listeners.iter().map(listen::bind).collect::<Result<Vec<_>, _>>().map_err(StartError::Bind)?;
    let metrics_page = settings.metrics.as_ref().map(bind_metrics).transpose().map_err(StartError::Bind)?;
    let (stop, stopping) = watch::channel(false);
    let watch = Watch::new(&settings.listeners, |listener| listener.protocols.alpn());
    let watch = watch.map_err(|error| StartError::System("a certificate cannot be used", error.to_string()))?;
    let watch = Arc::new(watch);
    let (shared, writer) = build(policy, settings, stopping)?;
    register_certificates(&shared, &watch);
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
    let round = move || {
        let now = kept.clock.now();
        kept.installed().snapshot().maintain(now);
        kept_doors.iter().for_each(|door| door.maintain(now));
        kept.tell_noise();
    };
    let housekeeping = Housekeeping::start(round)
        .map_err(|error| StartError::System("no thread for housekeeping", error.to_string()))?;
    let renewals = watch_certificates(&watch)
        .map_err(|error| StartError::System("no thread for renewed certificates", error.to_string()))?;
    let served = runtime.block_on(serve(&shared, bound, &doors, metrics_page, threads, &watch, stop));
    drop((housekeeping, renewals));
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

fn bind_metrics(page: &crate::config::settings::MetricsPage) -> Result<(Bound, String), BindError> {
    let bound = listen::bind(&Listener::new("metrics", page.address))?;
    eprintln!("metrics on http://{}{}", bound.address, page.path);
    Ok((bound, page.path.clone()))
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

fn register_certificates(shared: &Arc<Shared>, watch: &Arc<Watch>) {
    if watch.is_empty() {
        return;
    }
    let watch = Arc::clone(watch);
    let state = |state: &Arc<State>| CertificateState {
        listener: state.listener.clone(),
        certificate: state.certificate.clone(),
        expires: state.expires(),
        current: state.is_current(),
    };
    shared.installed().metrics().register_certificates(Arc::new(move || watch.states().iter().map(state).collect()));
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
    let installed = Installed::new(snapshot, metrics, refused, started)
        .map_err(|(origin, fault)| StartError::System("an origin's TLS", format!("{origin}: {fault}")))?;
    let installed = Arc::new(installed);
    let waits = Waits::new(MOST_WAITING, stopping);
    Ok((Arc::new(Shared::new(started, access_log, pseudonyms, settings, waits, installed)), writer))
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

async fn serve(
    shared: &Arc<Shared>,
    bound: Vec<Bound>,
    doors: &[Arc<Door>],
    metrics_page: Option<(Bound, String)>,
    threads: usize,
    certificates: &Watch,
    stop: watch::Sender<bool>,
) -> io::Result<()> {
    let signals = Signals::catch()?;
    // said only now: who reads it may send a signal at once
    for listener in &bound {
        eprintln!("listening on {} ({})", listener.address, listener.name);
    }
    let stopping = stop.subscribe();
    let ready = Arc::new(AtomicBool::new(false));
    let connections = Connections::new();
    if let Some((bound, path)) = metrics_page {
        let pages = scrape::Pages::new(path, metrics_of(shared), most_refused_of(shared), Arc::clone(&ready));
        tokio::spawn(scrape::serve(bound.socket, pages, stopping.clone()));
    }
    let installed = shared.installed();
    let first_lookup = async {
        for origin in installed.origins() {
            resolve::resolve_once(origin).await;
        }
    };
    // names that take longer arrive by the background task; until then their origin answers 503
    let _ = timeout(FIRST_LOOKUP, first_lookup).await;
    for origin in installed.origins() {
        tokio::spawn(resolve::keep_fresh(Arc::clone(origin), stopping.clone()));
        tokio::spawn(health::keep_checking(Arc::clone(origin), shared.clock, stopping.clone()));
        let (way, stopping) = (Arc::clone(origin.way()), stopping.clone());
        tokio::spawn(async move { way.keep_fresh(stopping).await });
    }
    drop(installed);
    let proxy = Arc::new(proxy(shared, threads));
    let mut accepting = JoinSet::new();
    for (listener, bound) in bound.into_iter().enumerate() {
        let mut events = Events::new(Arc::clone(shared), listener);
        if let Some(door) = doors.get(listener) {
            events = events.with_door(Arc::clone(door));
        }
        let limits = shared.settings.listeners.get(listener).map(ConnectionLimits::of).unwrap_or_default();
        let tls = certificates.acceptor(listener);
        let edge = Arc::new(Edge { listener, tls, limits, events: Box::new(events) });
        accepting.spawn(listen::accept(bound, Arc::clone(&proxy), edge, Arc::clone(&connections), stopping.clone()));
    }
    ready.store(true, Ordering::Relaxed);
    lifecycle::until_stopped(signals, shared.settings.drain, shared, ready, stop, accepting, &connections).await;
    Ok(())
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
pub(super) fn proxy(shared: &Arc<Shared>, threads: usize) -> HttpProxy<Gate, Origins> {
    let conf = ServerConf {
        threads,
        upstream_keepalive_pool_size: POOL,
        // the gate decides about each attempt; this is the framework's own net above the five that a policy may ask for
        max_retries: 8,
        ..ServerConf::default()
    };
    let gate = Gate::new(Arc::clone(shared));
    // what Pingora would do with a client that speaks a protocol of ours; there is none
    let nobody: ProcessCustomSession<Gate, Origins> = Arc::new(|_, _, _| Box::pin(async { None }));
    taken_out(ProxyServiceBuilder::new(&Arc::new(conf), gate).custom(Origins, nobody).build())
}

/// The proxy without the service around it. Pingora makes one with a connector of ours only inside of a service, which lends
/// it but does not give it away.
#[expect(unsafe_code, reason = "the other ways in cost each request a connection of its own, or a copy of every byte")]
fn taken_out(service: Service<HttpProxy<Gate, Origins>>) -> HttpProxy<Gate, Origins> {
    // never dropped from here on, whatever happens
    let mut service = ManuallyDrop::new(service);
    match service.app_logic_mut() {
        // SAFETY: `proxy` is a reference, so it may be read. The value is then in two places, but the one inside `service` is
        // neither used nor dropped again: `service` ends here without its destructor. What else it owned, a name and
        // an empty list of listeners, is lost, once per process.
        Some(proxy) => unsafe { ptr::read(proxy) },
        None => unreachable!("the service was built around a proxy a moment ago"),
    }
}
