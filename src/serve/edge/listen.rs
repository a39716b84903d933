//! Listening sockets, bound by us before anything else starts, and the loop that accepts from them.
//!
//! Pingora's own listeners swallow a failed bind in a panicking task and go on without the port. Here a port that cannot
//! be bound stops the start with a message that says what to do.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::arrive::arrive;
use super::connection::Edge;
use crate::config::settings::Listener;

/// How many connections the kernel may hold ready for us: what `net.core.somaxconn` allows since Linux 5.4, so that the
/// operator's own setting decides.
const BACKLOG: i32 = 4096;
/// When descriptors or memory run out, accepting again at once would only burn a core.
const PAUSE: Duration = Duration::from_millis(100);

/// A bound listener.
#[derive(Debug)]
pub struct Bound {
    /// The operator's name for it.
    pub name: String,
    /// The socket, non-blocking, listening.
    pub socket: TcpListener,
    /// Where it really listens: the port that the system chose, if port 0 was asked for.
    pub address: SocketAddr,
}

/// Binds a listener. `[::]` takes IPv4 too; where the machine has no IPv6, it takes IPv4 alone.
///
/// # Errors
/// When the address cannot be had; the text names it, the cause and a way out.
pub fn bind(listener: &Listener) -> Result<Bound, BindError> {
    let attempt = open(listener.address).or_else(|error| {
        let any = listener.address.is_ipv6() && listener.address.ip().is_unspecified();
        if any && is_without_ipv6(&error) {
            open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, listener.address.port())))
        } else {
            Err(error)
        }
    });
    attempt
        .and_then(|socket| {
            let address = socket.local_addr()?;
            Ok(Bound { name: listener.name.clone(), socket, address })
        })
        .map_err(|cause| BindError { listener: listener.name.clone(), address: listener.address, cause })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // so that a restart need not wait for the connections of the process before
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn is_without_ipv6(error: &io::Error) -> bool {
    /// EAFNOSUPPORT of Linux, which `io::ErrorKind` has no stable name for.
    const ADDRESS_FAMILY_NOT_SUPPORTED: i32 = 97;
    error.raw_os_error() == Some(ADDRESS_FAMILY_NOT_SUPPORTED) || error.kind() == io::ErrorKind::AddrNotAvailable
}

/// Why a listener could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// The operator's name for it.
    pub listener: String,
    /// Where it should have listened.
    pub address: SocketAddr,
    /// What the system said.
    pub cause: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BindError { listener, address, cause } = self;
        let port = address.port();
        write!(f, "listener {listener}: cannot listen on {address}: ")?;
        match cause.kind() {
            io::ErrorKind::AddrInUse => write!(
                f,
                "the port is in use; stop what holds it (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "permission denied; ports below 1024 need the capability CAP_NET_BIND_SERVICE (in a systemd unit: \
                 AmbientCapabilities=CAP_NET_BIND_SERVICE), or choose a port from 1024 up"
            ),
            io::ErrorKind::AddrNotAvailable => write!(
                f,
                "this machine has no such address; choose one that `ip address` shows, or `:{port}` for all of them"
            ),
            _ => write!(f, "{cause}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// The connections that are open now.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicUsize,
    emptied: Notify,
}

impl Connections {
    /// Those of no listener yet.
    pub fn new() -> Arc<Connections> {
        Arc::default()
    }

    /// How many there are.
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
    app: Arc<A>,
    edge: Arc<Edge>,
    connections: Arc<Connections>,
    mut shutdown: ShutdownWatch,
) -> io::Result<()>
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let listener = tokio::net::TcpListener::from_std(bound.socket)?;
    let watch = shutdown.clone();
    let admit = |stream: TcpStream, peer: SocketAddr| {
        let (app, edge, watch) = (app.clone(), edge.clone(), watch.clone());
        let guard = connections.enter(&edge);
        tokio::spawn(async move {
            let _guard = guard;
            arrive(&app, stream, peer, &edge, &watch).await;
        });
    };
    let stopping = async {
        // a vanished sender means that the process is past stopping
        let _ = shutdown.wait_for(|stopping| *stopping).await;
    };
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            biased;
            () = &mut stopping => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => admit(stream, peer),
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    edge.events.accept_failed(&error);
                    sleep(PAUSE).await;
                }
            },
        }
    }
    // closing the socket would reset what waits in its queue
    let listener = listener.into_std()?;
    while let Ok((stream, peer)) = listener.accept() {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            admit(stream, peer);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> Listener {
        Listener::new("main", address.parse().unwrap())
    }

    #[test]
    fn port_zero_is_answered_with_the_real_one() {
        let bound = bind(&listener("127.0.0.1:0")).unwrap();
        assert_ne!(bound.address.port(), 0);
        assert_eq!(bound.address, bound.socket.local_addr().unwrap());
    }

    #[test]
    fn a_port_in_use_is_named_with_a_way_out() {
        let first = bind(&listener("127.0.0.1:0")).unwrap();
        let error = bind(&Listener::new("main", first.address)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("listener main: cannot listen on {}: the port is in use;", first.address)),
            "{text}"
        );
        assert!(text.contains(&format!("sport = :{}", first.address.port())), "{text}");
    }

    #[test]
    fn an_address_of_another_machine_is_named_with_a_way_out() {
        // TEST-NET-1 of RFC 5737 belongs to nobody
        let text = bind(&listener("192.0.2.1:0")).unwrap_err().to_string();
        assert!(text.contains("192.0.2.1:0: this machine has no such address;"), "{text}");
    }

    #[test]
    fn missing_permission_names_the_capability() {
        let error = BindError {
            listener: "main".into(),
            address: "0.0.0.0:80".parse().unwrap(),
            cause: io::ErrorKind::PermissionDenied.into(),
        };
        assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"));
    }

    #[test]
    fn the_wildcard_takes_both_families() {
        let bound = bind(&listener("[::]:0")).unwrap();
        assert!(std::net::TcpStream::connect(("127.0.0.1", bound.address.port())).is_ok());
    }
}
