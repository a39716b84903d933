//! From the first socket to the end of the process.
//!
//! * Start: [`given`] sockets are taken, the rest is bound ([`sockets`]); systemd is told by [`notify`] once all listen, and
//!   then hears of our health by the [`watchdog`].
//! * End: on SIGTERM or SIGINT readiness is refused while requests are still taken (so that balancers look elsewhere), then
//!   the listeners close, then requests under way get their time; it ends as soon as none is left. A second signal ends the
//!   process at once. SIGHUP is kept for reloading the policy and does nothing today.
//! * Succession: by the [`control`] channel a new process is ordered, which [`upgrade`] starts and which takes the sockets by
//!   [`handover`]; this one ends as above, without the wait for balancers, as nobody needs to look elsewhere.

pub mod control;
pub mod given;
pub mod handover;
pub mod notify;
pub mod sockets;
pub mod upgrade;
pub mod watchdog;

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::control::{Order, Verb};
use self::notify::Notifier;
use self::sockets::Sockets;
use self::upgrade::Program;
use super::shared::Shared;
use crate::config::settings::Drain;
use crate::serve::edge::listen::Connections;

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

    /// Waits for the next signal to stop.
    async fn stop(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {
                    tracing::warn!("SIGHUP: this version does not reload its policy; restart it to load the file again");
                }
            }
        }
    }
}

/// What ends the process, and what it has to bring to an end.
pub struct Life {
    /// Signals to stop.
    pub signals: Signals,
    /// What the admin socket brings; silent without one.
    pub orders: mpsc::Receiver<Order>,
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
    pub watchdog: Option<watchdog::Watchdog>,
}

/// Why the process ends.
enum End {
    /// A signal.
    Told(Sockets),
    /// Another process serves in its place.
    Replaced,
}

/// Serves until the process has to end, then leads it there; returns when all requests have ended or their time is over.
pub async fn until_stopped(life: Life, drain: Drain, shared: &Shared) {
    let Life {
        mut signals,
        mut orders,
        program,
        sockets,
        notifier,
        ready,
        shutdown,
        mut accepting,
        connections,
        watchdog,
    } = life;
    let end = serve(&mut signals, &mut orders, &program, sockets, &notifier).await;
    // whoever orders something from now on is told that the process is about to stop
    drop(orders);
    ready.store(false, Ordering::Relaxed);
    shared.start_draining();
    tracing::info!(connections = connections.open(), "stopping");
    let replaced = matches!(end, End::Replaced);
    tokio::spawn(async move {
        if replaced {
            // the first one it is; until now nobody has told this process to stop
            signals.stop().await;
        }
        signals.stop().await;
        tracing::warn!("told again to stop: ending at once");
        process::exit(CUT_OFF);
    });
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
        End::Replaced => drop(watchdog),
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
}

/// Carries out orders until one of them, or a signal, ends the process.
async fn serve(
    signals: &mut Signals,
    orders: &mut mpsc::Receiver<Order>,
    program: &Program,
    sockets: Sockets,
    notifier: &Notifier,
) -> End {
    loop {
        let order = tokio::select! {
            () = signals.stop() => return End::Told(sockets),
            Some(order) = orders.recv() => order,
        };
        match order.verb {
            Verb::Upgrade => {}
        }
        tracing::info!("upgrade: starting a new process");
        let replacement = tokio::select! {
            // the new process ends with this future
            () = signals.stop() => {
                order.answer(false, "the process was told to stop meanwhile").await;
                return End::Told(sockets);
            }
            replacement = upgrade::start(program, &sockets, notifier) => replacement,
        };
        let installed = match replacement {
            Ok(replacement) => replacement.install(notifier).await,
            Err(text) => Err(text),
        };
        match installed {
            Ok((id, taken)) => {
                sockets.hand_over(&taken);
                tracing::info!(process = id, "upgrade: the new process serves");
                order
                    .answer(true, &format!("process {id} serves; process {} ends its connections", process::id()))
                    .await;
                return End::Replaced;
            }
            Err(text) => {
                tracing::error!(reason = text.trim_end(), "upgrade: the new process cannot serve; this one goes on");
                order.answer(false, &text).await;
            }
        }
    }
}
