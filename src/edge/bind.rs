//! Listening sockets, bound by us before anything else starts.
//!
//! Pingora's own listeners swallow a failed bind in a panicking task and go on without the port. Here a port that cannot
//! be bound stops the start with a message that says what to do.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use super::listening::Listening;
use super::socket_file::{self, SocketFile};
use crate::config::settings::{ListenOn, Listener};

/// How many connections the kernel may hold ready for us: what `net.core.somaxconn` allows since Linux 5.4, so that the
/// operator's own setting decides.
pub const BACKLOG: i32 = 4096;

/// A bound listener.
#[derive(Debug)]
pub struct Bound {
    /// The operator's name for it.
    pub name: String,
    /// The socket, non-blocking, listening.
    pub socket: Listening,
    /// Where it really listens: the port that the system chose, if port 0 was asked for.
    pub address: ListenOn,
    /// Its file, of a UNIX socket. Must be kept for as long as others should find it.
    pub file: Option<SocketFile>,
}

/// Binds a listener. `[::]` takes IPv4 too; where the machine has no IPv6, it takes IPv4 alone.
///
/// # Errors
/// When the address cannot be had, and for `systemd:` always, as such a socket is only ever passed; the text names the
/// address, the cause and a way out.
pub fn bind(listener: &Listener) -> Result<Bound, BindError> {
    let refused = |cause| BindError { listener: listener.name.clone(), address: listener.address.clone(), cause };
    let name = listener.name.clone();
    match &listener.address {
        ListenOn::Ip(address) => {
            let socket = tcp(*address).map_err(refused)?;
            let address = ListenOn::Ip(socket.local_addr().map_err(refused)?);
            Ok(Bound { name, socket: Listening::Tcp(socket), address, file: None })
        }
        ListenOn::Unix { path, permissions } => {
            let (socket, file) = socket_file::bind(path, *permissions, BACKLOG).map_err(refused)?;
            let address = listener.address.clone();
            Ok(Bound { name, socket: Listening::Unix(socket), address, file: Some(file) })
        }
        ListenOn::Systemd(_) => Err(refused(io::ErrorKind::NotConnected.into())),
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    open(address).or_else(|error| {
        let any = address.is_ipv6() && address.ip().is_unspecified();
        if any && is_without_ipv6(&error) {
            open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        } else {
            Err(error)
        }
    })
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

/// Whether a socket that listens at `found` is one that was asked for as `wanted`. Port 0 asks for any port; `[::]` is
/// 0.0.0.0 on a machine without IPv6.
pub fn fits(wanted: SocketAddr, found: SocketAddr) -> bool {
    let any_without_ipv6 = wanted.ip() == Ipv6Addr::UNSPECIFIED && found.ip() == Ipv4Addr::UNSPECIFIED && {
        let probe = open(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
        probe.is_err_and(|error| is_without_ipv6(&error))
    };
    (wanted.ip() == found.ip() || any_without_ipv6) && (wanted.port() == 0 || wanted.port() == found.port())
}

/// Why a listener could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// The operator's name for it.
    pub listener: String,
    /// Where it should have listened.
    pub address: ListenOn,
    /// What the system said.
    pub cause: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BindError { listener, address, cause } = self;
        write!(f, "listener {listener}: cannot listen on {address}: ")?;
        match address {
            ListenOn::Ip(address) => of_port(f, address.port(), cause),
            ListenOn::Unix { .. } => of_file(f, cause),
            ListenOn::Systemd(name) => write!(
                f,
                "systemd passed no socket of this name; start the service by a socket unit with `FileDescriptorName={name}` \
                 and `Service=` naming this service"
            ),
        }
    }
}

fn of_port(f: &mut fmt::Formatter<'_>, port: u16, cause: &io::Error) -> fmt::Result {
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

fn of_file(f: &mut fmt::Formatter<'_>, cause: &io::Error) -> fmt::Result {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            f.write_str("another process listens there; stop it (`ss -lxp` names it) or choose another path")
        }
        io::ErrorKind::AlreadyExists => {
            f.write_str("there is a file, and it is no socket; move it away or choose another path")
        }
        io::ErrorKind::NotFound => f.write_str("the folder does not exist; create it or choose another path"),
        io::ErrorKind::PermissionDenied => f.write_str(
            "permission denied; this user may not create files in that folder (in a systemd unit: RuntimeDirectory= makes \
             one in /run)",
        ),
        _ => write!(f, "{cause}"),
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> Listener {
        Listener::new("main", address.parse().unwrap())
    }

    fn port(bound: &Bound) -> u16 {
        bound.address.ip().unwrap().port()
    }

    #[test]
    fn port_zero_is_answered_with_the_real_one() {
        let bound = bind(&listener("127.0.0.1:0")).unwrap();
        assert_ne!(port(&bound), 0);
        let Listening::Tcp(socket) = &bound.socket else { panic!("{bound:?}") };
        assert_eq!(bound.address.ip(), Some(socket.local_addr().unwrap()));
    }

    #[test]
    fn a_port_in_use_is_named_with_a_way_out() {
        let first = bind(&listener("127.0.0.1:0")).unwrap();
        let error = bind(&Listener::new("main", first.address.clone())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("listener main: cannot listen on {}: the port is in use;", first.address)),
            "{text}"
        );
        assert!(text.contains(&format!("sport = :{}", port(&first))), "{text}");
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
        assert!(std::net::TcpStream::connect(("127.0.0.1", port(&bound))).is_ok());
    }

    #[test]
    fn a_socket_that_only_systemd_has_says_which_word_is_missing() {
        let text = bind(&listener("systemd:web")).unwrap_err().to_string();
        assert!(text.contains("systemd:web") && text.contains("FileDescriptorName=web"), "{text}");
    }

    #[test]
    fn a_passed_socket_fits_what_was_asked_for() {
        let fits = |wanted: &str, found: &str| fits(wanted.parse().unwrap(), found.parse().unwrap());
        assert!(fits("127.0.0.1:80", "127.0.0.1:80") && fits("127.0.0.1:0", "127.0.0.1:4711"));
        assert!(!fits("127.0.0.1:80", "127.0.0.1:81") && !fits("127.0.0.1:80", "0.0.0.0:80"));
        assert!(!fits("0.0.0.0:80", "[::]:80"));
    }
}
