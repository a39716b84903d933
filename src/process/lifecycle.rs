//! The life of a process, from its first socket to its end.
//!
//! * Start: [given](super::given) sockets are taken, the rest is bound ([`super::sockets`]). [`super::notify`] tells systemd once
//!   all listen; then the [`super::watchdog`] proves that the process is well.
//! * Reload: on SIGHUP, or by an order of [`super::control`], the policy is [reloaded](super::reload).
//! * End: on SIGTERM or SIGINT readiness is refused while requests are still taken, so that balancers look elsewhere. Then the
//!   listeners close, and requests under way get their time. The process ends as soon as none is left. A second signal ends it at
//!   once.
//! * Upgrade: by an order of [`super::control`] a new process is started ([`super::upgrade`]), which takes the sockets by
//!   [`super::handover`]. This one ends as above, but does not wait for balancers, as none needs to look elsewhere.

use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::charges::Giving;
use super::handover::Secret;
use super::notify::Notifier;
use super::places;
use super::reload::{Outcome, Reloader};
use super::snapshots::Snapshots;
use super::sockets::Sockets;
use super::upgrade::{self, Estate, Program, Replaced};
use super::watchdog::Watchdog;
use crate::admin::order::{Answer, Order, Verb};
use crate::config::settings::Drain;
use crate::edge::listen::Connections;
use crate::observe::standard_error;
use crate::running::process::Process;

/// The exit code of a process that was told twice to stop: requests under way were cut off.
const CUT_OFF: i32 = 1;

/// The signals that this process acts on, caught from now on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Catches them. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them: for whoever serves nothing, all say the same.
    pub async fn any(&mut self) {
        self.next().await;
    }

    /// Waits for the next one.
    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Waits for the next signal to stop, while there is no policy to reload for.
    pub async fn stop(&mut self) {
        while self.next().await != Told::Stop {
            tracing::warn!("SIGHUP: not now, the process is being started, replaced or stopped");
        }
    }
}

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stop,
    Reload,
}

/// What ends the process, and what it has to bring to an end.
pub struct Life {
    /// Signals to stop.
    pub signals: Signals,
    /// What the admin socket brings; silent without one.
    pub orders: mpsc::Receiver<Order>,
    /// Puts another policy in force.
    pub reloader: Arc<Reloader>,
    /// How this process was started, for the one after it.
    pub program: Program,
    /// The listening sockets.
    pub sockets: Sockets,
    /// Who is told.
    pub notifier: Arc<Notifier>,
    /// Whether requests are welcome.
    pub ready: Arc<AtomicBool>,
    /// Says to all tasks that the process stops.
    pub shutdown: watch::Sender<bool>,
    /// The tasks that accept connections.
    pub accepting: JoinSet<io::Result<()>>,
    /// The connections that are open.
    pub connections: Arc<Connections>,
    /// Proof of life, if anybody asks for it.
    pub watchdog: Option<Watchdog>,
    /// The snapshots of limits.
    pub snapshots: Option<Snapshots>,
    /// What keys are hashed under.
    pub secret: Secret,
}

/// Why the process ends.
enum End {
    /// A signal.
    Told(Sockets),
    /// Another process serves in its place, and is told what it does not have yet.
    Replaced(UnixStream, Option<Giving>),
}

/// Serves until the process has to end, then leads it there; returns when all requests have ended or their time is over.
pub async fn until_stopped(life: Life, drain: Drain, process: &Arc<Process>) {
    let Life {
        mut signals,
        mut orders,
        reloader,
        program,
        sockets,
        notifier,
        ready,
        shutdown,
        mut accepting,
        connections,
        watchdog,
        snapshots,
        secret,
    } = life;
    let estate = Estate { process, connections: &connections, snapshots: snapshots.as_ref(), secret };
    let end = serve(&mut signals, &mut orders, &reloader, (&program, &estate), sockets, &notifier).await;
    // whoever orders something from now on is told that the process is about to stop
    drop(orders);
    ready.store(false, Ordering::Relaxed);
    process.start_draining();
    tracing::info!(connections = connections.open(), "stopping");
    let replaced = matches!(end, End::Replaced(..));
    tokio::spawn(async move {
        if replaced {
            // the first one it is; until now nobody has told this process to stop
            signals.stop().await;
        }
        signals.stop().await;
        tracing::warn!("told again to stop: ending at once");
        standard_error::end();
        process::exit(CUT_OFF);
    });
    let mut charges = None;
    match end {
        End::Told(sockets) => {
            notifier.say("STOPPING=1\nSTATUS=stopping");
            if drain.delay > Duration::ZERO {
                tokio::time::sleep(drain.delay).await;
            }
            // before the listeners close, so that a socket's file is gone when nobody listens behind it any more
            sockets.close();
        }
        // the new process proves its life by itself
        End::Replaced(stream, giving) => {
            drop(watchdog);
            charges = giving;
            tokio::spawn(places::give(stream, process.generation().backends().origins().to_vec()));
        }
    }
    // nobody listening any more is as good as everybody having heard
    let _ = shutdown.send(true);
    let drained = async {
        // they empty the kernel's queues first: connections that it had completed are served too
        while accepting.join_next().await.is_some() {}
        connections.drained().await;
    };
    if timeout(drain.timeout, drained).await.is_err() {
        tracing::warn!(
            connections = connections.open(),
            "the drain timeout is over: the connections still open are cut off"
        );
    }
    // nothing is charged any more
    if let Some(charges) = charges {
        charges.finish().await;
    }
    snapshots.into_iter().for_each(Snapshots::stop);
}

/// Carries out orders until one of them, or a signal, ends the process.
async fn serve(
    signals: &mut Signals,
    orders: &mut mpsc::Receiver<Order>,
    reloader: &Arc<Reloader>,
    (program, estate): (&Program, &Estate<'_>),
    sockets: Sockets,
    notifier: &Notifier,
) -> End {
    loop {
        let order = tokio::select! {
            told = signals.next() => match told {
                Told::Stop => return End::Told(sockets),
                Told::Reload => None,
            },
            Some(order) = orders.recv() => Some(order),
        };
        let wanted = match order.as_ref().map(|order| &order.verb) {
            None => Some((false, None)),
            Some(Verb::Reload { dry_run, file }) => Some((*dry_run, file.clone())),
            Some(Verb::Upgrade { .. }) => None,
        };
        if let Some(wanted) = wanted {
            let told = reload(signals, reloader, order, wanted).await;
            if told == Some(Told::Stop) {
                return End::Told(sockets);
            }
            continue;
        }
        // what is left is an upgrade
        let Some(order) = order else { continue };
        if let Verb::Upgrade { file: Some(file) } = &order.verb
            && let Err(text) = reloader.serves(Some(file), "upgrade")
        {
            order.answer(false, &text).await;
            continue;
        }
        tracing::info!("upgrade: starting a new process");
        // from here on bans are as the new process gets them
        estate.process.set_handing_over(true);
        let bans = Some(estate.process.saved_bans()).filter(|bans| !bans.is_blank());
        let replacement = tokio::select! {
            // the new process ends with this future
            () = signals.stop() => {
                order.answer(false, "the process was told to stop meanwhile").await;
                return End::Told(sockets);
            }
            replacement = upgrade::start(program, &sockets, notifier, estate, bans.as_ref()) => replacement,
        };
        let generation = match replacement {
            Ok(replacement) => replacement.install(notifier).await,
            Err(text) => Err(text),
        };
        match generation {
            Ok(Replaced { id, taken, stream, charges, paused }) => {
                let tags = sockets.tags().into_iter().enumerate();
                let left = tags.filter(|(at, _)| taken.contains(at)).map(|(_, tag)| tag.name);
                estate.connections.leave(left.collect());
                sockets.hand_over(&taken);
                tracing::info!(process = id, "upgrade: the new process serves");
                let mut told = format!("process {id} serves; process {} ends its connections", process::id());
                if let Some(milliseconds) = paused {
                    told.push_str(&format!("\nconnections waited for {milliseconds} ms"));
                }
                order.answer(true, &told).await;
                return End::Replaced(stream, charges);
            }
            Err(text) => {
                estate.process.set_handing_over(false);
                tracing::error!(reason = text.trim_end(), "upgrade: the new process cannot serve; this one goes on");
                order.answer(false, &text).await;
            }
        }
    }
}

/// Reloads the policy, unless the process is told to stop meanwhile; whoever ordered it is told what came of it. Signals to
/// reload that come while it does so are one more reload.
async fn reload(
    signals: &mut Signals,
    reloader: &Arc<Reloader>,
    order: Option<Order>,
    (dry_run, file): (bool, Option<PathBuf>),
) -> Option<Told> {
    let work = reloader.reload(dry_run, file.as_deref());
    tokio::pin!(work);
    let mut again = false;
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            told = signals.next() => match told {
                Told::Stop => {
                    if let Some(order) = order {
                        order.answer(false, "the process was told to stop meanwhile").await;
                    }
                    return Some(Told::Stop);
                }
                Told::Reload => again = true,
            },
        }
    };
    if let Some(order) = order {
        let Outcome { report, text } = outcome;
        let (done, report) = (report.is_some(), report.and_then(|report| serde_json::to_value(report).ok()));
        // whoever asked may be slow to read it, and signals are heard again meanwhile
        tokio::spawn(order.answer_with(Answer { done, text, report }));
    }
    if again {
        reloader.reload(false, None).await;
    }
    None
}
