//! From the first signal to the end of the process.
//!
//! SIGTERM or SIGINT: readiness is refused while requests are still taken (so that balancers look elsewhere), then the
//! listeners close, then requests under way get their time; it ends as soon as none is left. A second signal ends the
//! process at once. SIGHUP is kept for reloading the policy and does nothing today.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

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

/// Serves until the first signal to stop, then leads the process to its end; returns when all requests have ended or
/// their time is over.
pub async fn until_stopped(
    mut signals: Signals,
    drain: Drain,
    shared: &Shared,
    ready: Arc<AtomicBool>,
    shutdown: watch::Sender<bool>,
    mut accepting: JoinSet<io::Result<()>>,
    connections: &Connections,
) {
    signals.stop().await;
    ready.store(false, Ordering::Relaxed);
    shared.start_draining();
    tracing::info!(connections = connections.open(), "stopping");
    tokio::spawn(async move {
        signals.stop().await;
        tracing::warn!("told again to stop: ending at once");
        process::exit(CUT_OFF);
    });
    if drain.delay > Duration::ZERO {
        tokio::time::sleep(drain.delay).await;
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
