//! Accepts connections from a bound socket, and counts those that are open.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::accept;
pub use super::bind::{BACKLOG, BindError, Bound, bind};
use super::common::{Edge, Entry};
use super::connection_info::ConnectionInfo;
use super::listening::Acceptor;
use super::requests::Servers;
use crate::system::descriptors::{self, Marks};
use crate::system::socket::Accepted;

/// When descriptors or memory run out, accepting again at once would only burn a core.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections are taken before a look at what else there is to do: to stop, or to pause.
const MOST_TOGETHER: usize = 16;

/// How often the length of the accept queue is asked for at most.
const QUEUE_LOOK: Duration = Duration::from_millis(20);

/// The connections that are open now.
#[derive(Debug)]
pub struct Connections {
    open: AtomicUsize,
    emptied: Notify,
    /// Whether none is accepted for the moment.
    paused: watch::Sender<bool>,
    /// The listeners that another process accepts from, by name.
    left: OnceLock<Vec<String>>,
}

impl Connections {
    /// Returns an empty count.
    pub fn new() -> Arc<Connections> {
        let (open, emptied, left) = (AtomicUsize::new(0), Notify::new(), OnceLock::new());
        Arc::new(Connections { open, emptied, paused: watch::Sender::new(false), left })
    }

    /// Accepts none from now on: what connects waits in the kernel's queue, for this process or the one that takes its place.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Accepts them again.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Leaves what waits in the queues of these listeners to the process that accepts from them, when this one stops.
    pub fn leave(&self, listeners: Vec<String>) {
        // there is one process that takes this one's place
        let _ = self.left.set(listeners);
    }

    fn leaves(&self, listener: &str) -> bool {
        self.left.get().is_some_and(|left| left.iter().any(|other| other == listener))
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        // a figure for display and for `drained`, which looks again after every notice
        self.open.load(Ordering::Acquire)
    }

    /// Waits until there are none. Never ends while connections keep coming: stop accepting first.
    pub async fn drained(&self) {
        loop {
            let notice = self.emptied.notified();
            tokio::pin!(notice);
            // registered before the look, so that a last connection that closes in between is not missed
            notice.as_mut().enable();
            if self.open() == 0 {
                return;
            }
            notice.await;
        }
    }

    fn enter(self: &Arc<Self>, edge: &Arc<Edge>) -> Guard {
        self.open.fetch_add(1, Ordering::AcqRel);
        edge.events.connection_opened();
        Guard { connections: self.clone(), edge: edge.clone() }
    }
}

/// One open connection, counted until it is dropped, even by a panic.
struct Guard {
    connections: Arc<Connections>,
    edge: Arc<Edge>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.edge.events.connection_closed();
        if self.connections.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.connections.emptied.notify_waiters();
        }
    }
}

/// Accepts connections and serves each in a task of its own, until the process stops. Connections that the kernel had
/// completed by then are still taken.
///
/// # Errors
/// When the runtime cannot watch the socket.
pub async fn accept<A>(
    bound: Bound,
    servers: Servers<A>,
    edge: Arc<Edge>,
    connections: Arc<Connections>,
    mut shutdown: ShutdownWatch,
) -> io::Result<()>
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let name = bound.name;
    let listener = Acceptor::new(bound.socket)?;
    let watch = shutdown.clone();
    let mut paused = connections.paused.subscribe();
    // a connection that is not let in closes, as its stream is dropped
    let entry = |peer: Option<SocketAddr>| match &edge.filter {
        Some(filter) => filter.admit(ConnectionInfo::new(edge.listener, peer).peer),
        None => Some(Entry::default()),
    };
    let serve = |stream: Accepted, peer: Option<SocketAddr>, entry: Entry| {
        let (servers, edge, watch) = (servers.clone(), edge.clone(), watch.clone());
        let guard = connections.enter(&edge);
        let accepted = Instant::now();
        tokio::spawn(accept::serve(guard, servers, stream, (peer, accepted), entry, edge, watch));
    };
    let stopping = async {
        // a vanished sender means that the process is past stopping
        let _ = shutdown.wait_for(|stopping| *stopping).await;
    };
    tokio::pin!(stopping);
    let mut queue_seen = Instant::now();
    'accepting: loop {
        let is_paused = *paused.borrow_and_update();
        tokio::select! {
            biased;
            () = &mut stopping => break 'accepting,
            // its sender is there as long as the connections are
            _ = paused.changed() => {}
            accepted = listener.accept(), if !is_paused => match accepted {
                Ok(first) => {
                    if let Some(filter) = &edge.filter
                        && queue_seen.elapsed() >= QUEUE_LOOK
                    {
                        queue_seen = Instant::now();
                        listener.backlog().into_iter().for_each(|share| filter.note_backlog(share));
                    }
                    let mut first = Some(first);
                    for _ in 0..MOST_TOGETHER {
                        let Some((stream, peer)) = first.take().or_else(|| listener.at_once()) else { break };
                        let Some(entry) = entry(peer) else { continue };
                        let marks = Marks::get().filter(|_| !descriptors::may_keep(&stream));
                        let Some(marks) = marks else {
                            serve(stream, peer, entry);
                            continue;
                        };
                        edge.events.accept_paused();
                        let lower = tokio::select! {
                            biased;
                            () = &mut stopping => {
                                serve(stream, peer, entry);
                                break 'accepting;
                            }
                            lower = marks.lower(&stream) => lower,
                        };
                        serve(stream.renumbered(lower), peer, entry);
                    }
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    edge.events.accept_failed(&error);
                    sleep(PAUSE).await;
                }
            },
        }
    }
    if connections.leaves(&name) {
        return Ok(());
    }
    // closing the socket would reset what waits in its queue
    let waiting = listener.close(BACKLOG.unsigned_abs() as usize);
    for (stream, peer) in waiting.filter(|(stream, _)| descriptors::may_keep(stream)) {
        if let Some(entry) = entry(peer) {
            serve(stream, peer, entry);
        }
    }
    Ok(())
}

/// Errors that `accept` reports on behalf of a connection that is gone already.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}
