//! The requests of one connection in HTTP/1, one after the other: a complete and unambiguous head each, within its time.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pingora::protocols::IO;
use pingora::server::ShutdownWatch;
use tokio::time::Instant;

use super::common::Edge;
use super::h2::direct::DirectStreams;
use super::stream::Wire;
use super::transport::Transport;
use crate::system::timer::Alarm;
use tidegate_http::fault::HeadFault;
use tidegate_http::head::{EndScan, Head};

/// Serves requests of a connection that need nothing of the framework.
pub trait Direct<S>: DirectStreams {
    /// Serves requests until one comes that is not for it, or the connection is to end.
    fn serve<'a>(&'a self, requests: Requests<'a, S>) -> Pin<Box<dyn Future<Output = Left> + Send + 'a>>;
}

/// Who serves the requests of connections.
pub struct Servers<A> {
    /// The framework.
    pub framework: Arc<A>,
    /// Who serves what needs nothing of it; `None`: it serves all.
    pub direct: Option<Arc<dyn Direct<Transport>>>,
}

impl<A> Clone for Servers<A> {
    fn clone(&self) -> Servers<A> {
        Servers { framework: Arc::clone(&self.framework), direct: self.direct.clone() }
    }
}

/// What is left of a connection after requests of it were served.
pub enum Left {
    /// A request for the framework: its head, which stands at the front of the inbox, and the decision about it, if it was judged.
    Request(Head, Option<Box<dyn Any + Send + Sync>>),
    /// The connection is to be closed.
    Close,
    /// The connection is to be closed once the client has read its answer, as it may send more.
    Linger,
    /// The client has gone, or sends nothing: to be closed without an answer.
    Nothing,
}

/// What all requests of one connection have in common.
pub struct Connection {
    patience: Patience,
    /// When its lifetime is over.
    ends: Option<Instant>,
    /// Requests so far.
    served: u32,
    /// For who serves a request.
    alarm: Alarm,
}

impl Connection {
    /// A connection that began then.
    pub fn new(begun: Instant, edge: &Edge) -> Connection {
        Connection {
            patience: Patience::new(begun + edge.limits.head_deadline),
            ends: edge.limits.lifetime.map(|lifetime| Instant::now() + lifetime),
            served: 0,
            alarm: Alarm::default(),
        }
    }

    /// Its requests from here on.
    pub fn requests<'a, S: IO>(
        &'a mut self,
        wire: &'a mut Wire<S>,
        edge: &'a Edge,
        shutdown: &'a ShutdownWatch,
    ) -> Requests<'a, S> {
        Requests { wire, connection: self, edge, shutdown }
    }

    /// How many requests there may be after the one that comes now. None if the client wants no more, or the connection is old.
    pub fn more(&self, head: &Head, edge: &Edge) -> u32 {
        let is_old = self.ends.is_some_and(|ends| Instant::now() >= ends);
        let most = if head.keep_alive && !is_old { edge.limits.requests } else { 0 };
        most.saturating_sub(self.served.saturating_add(1))
    }

    /// Counts a request.
    pub fn begin(&mut self) {
        self.served = self.served.saturating_add(1);
    }
}

/// The requests of one connection, one after the other.
pub struct Requests<'a, S> {
    /// The bytes.
    pub wire: &'a mut Wire<S>,
    connection: &'a mut Connection,
    edge: &'a Edge,
    shutdown: &'a ShutdownWatch,
}

impl<S: IO> Requests<'_, S> {
    /// Waits for the next one, whose head then stands at the front of the inbox. A head that is refused is answered.
    ///
    /// # Errors
    /// There is none: what to do with the connection.
    pub async fn next(&mut self) -> Result<Head, Left> {
        match self.connection.patience.next_head(self.wire, self.edge, self.shutdown).await {
            Next::Request(head) => Ok(head),
            Next::Refused(fault) => {
                let answer = self.edge.events.refused(fault, self.wire.inbox());
                self.wire.put(&answer);
                self.edge.events.noticed(fault.reason(), self.wire.client().info.peer);
                Err(Left::Linger)
            }
            Next::Nothing => Err(Left::Nothing),
        }
    }

    /// Whether another request may follow on the connection after the one with this head.
    pub fn may_stay(&self, head: &Head) -> bool {
        self.connection.more(head, self.edge) > 0 && !*self.shutdown.borrow()
    }

    /// Begins to serve the request that came, whose head stands at the front of the inbox; takes the head out.
    pub fn begin(&mut self, head: &Head) {
        self.connection.begin();
        self.wire.begin_read(head);
    }

    /// The bytes, and an alarm for what is waited for elsewhere.
    pub fn parts(&mut self) -> (&mut Wire<S>, &mut Alarm) {
        (self.wire, &mut self.connection.alarm)
    }
}

/// The outcome of waiting for a request.
enum Next {
    Request(Head),
    Refused(HeadFault),
    /// The client has gone, or sends nothing: close without an answer.
    Nothing,
}

/// The outcome of waiting for bytes.
enum Arrival {
    Bytes,
    End,
    Late,
}

/// Waits for a connection's bytes, until a deadline or the end of the process.
struct Patience {
    alarm: Alarm,
    /// Made at the first wait, since many connections never wait.
    stop: Option<Stop>,
    /// By when the first head must be complete; gone once it has been waited for.
    first: Option<Instant>,
}

/// The end of the process, which wakes the task.
struct Stop {
    /// Gone once it has come.
    stopping: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Says whether it can have come since it was asked.
    shutdown: ShutdownWatch,
}

impl Stop {
    fn new(shutdown: &ShutdownWatch) -> Stop {
        let (shutdown, mut awaited) = (shutdown.clone(), shutdown.clone());
        let stopping = async move {
            // a vanished sender means that the process is past stopping
            let _ = awaited.wait_for(|stopping| *stopping).await;
        };
        Stop { stopping: Some(Box::pin(stopping)), shutdown }
    }
}

impl Patience {
    fn new(first: Instant) -> Patience {
        Patience { alarm: Alarm::default(), stop: None, first: Some(first) }
    }

    /// Waits for a complete head and judges it.
    async fn next_head<S: IO>(&mut self, wire: &mut Wire<S>, edge: &Edge, shutdown: &ShutdownWatch) -> Next {
        let limits = &edge.limits;
        let first = self.first.take();
        let mut begun = first.is_some();
        let mut deadline = first.unwrap_or_else(|| Instant::now() + limits.idle);
        let mut scan: Option<EndScan> = None;
        loop {
            let worth_parsing = match &mut scan {
                Some(scan) => scan.is_worth_parsing(wire.inbox(), &limits.head),
                None => !wire.inbox().is_empty(),
            };
            if worth_parsing {
                match wire.parse(&edge.head_limits()) {
                    Ok(Some(head)) => return Next::Request(head),
                    Err(fault) => return Next::Refused(fault),
                    Ok(None) => {}
                }
                scan.get_or_insert_default();
            }
            // an empty line alone is what some clients append to the body before
            let partial = !matches!(wire.inbox(), b"" | b"\r" | b"\r\n");
            if partial && !begun {
                begun = true;
                deadline = Instant::now() + limits.head_deadline;
            }
            let idle_while_draining = (!partial).then_some(limits.idle_while_draining);
            match self.bytes(wire, &mut deadline, (shutdown, idle_while_draining)).await {
                Arrival::Bytes => {}
                Arrival::End => return Next::Nothing,
                Arrival::Late if !partial => return Next::Nothing,
                Arrival::Late => {
                    return Next::Refused(wire.parse(&edge.head_limits()).err().unwrap_or(HeadFault::Late));
                }
            }
        }
    }

    /// Waits for bytes until the deadline, which the end of the process may bring forward.
    async fn bytes<S: IO>(
        &mut self,
        wire: &mut Wire<S>,
        deadline: &mut Instant,
        (shutdown, idle_while_draining): (&ShutdownWatch, Option<Duration>),
    ) -> Arrival {
        poll_fn(|cx| {
            match wire.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => return Poll::Ready(Arrival::Bytes),
                Poll::Ready(_) => return Poll::Ready(Arrival::End),
                Poll::Pending => wire.release_buffers(),
            }
            // once asked, it wakes this task, which is always the same
            let is_new = self.stop.is_none();
            let stop = self.stop.get_or_insert_with(|| Stop::new(shutdown));
            let may_stop = is_new || stop.shutdown.has_changed().unwrap_or(true);
            if may_stop && stop.stopping.as_mut().is_some_and(|stopping| stopping.as_mut().poll(cx).is_ready()) {
                stop.stopping = None;
            }
            if let (None, Some(most)) = (&stop.stopping, idle_while_draining) {
                *deadline = (*deadline).min(Instant::now() + most);
            }
            self.alarm.poll(*deadline, cx).map(|()| Arrival::Late)
        })
        .await
    }
}
