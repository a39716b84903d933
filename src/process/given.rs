//! Listening sockets that a process is given at its start: by systemd (sd_listen_fds(3)), from its socket units or out of its
//! descriptor store, or by the process whose place it takes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use socket2::SockRef;

use crate::config::settings::{ListenOn, Listener};
use crate::edge::bind::fits;
use crate::edge::listening::Listening;
use crate::edge::socket_file::SocketFile;

/// Names in systemd's descriptor store begin with it, so that they cannot be a socket unit's by accident.
const IN_STORE: &str = "tidegate.";

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A listener of the policy file.
    Listener,
    /// The metrics page.
    Metrics,
    /// The admin endpoints' web address.
    Web,
    /// The admin socket.
    Admin,
}

/// How a socket is called when it travels between processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// What it is for.
    pub purpose: Purpose,
    /// The listener's name; empty when it comes from a socket unit and no listener has taken it yet.
    pub name: String,
    /// Its `FileDescriptorName=`, if it comes from a socket unit.
    pub unit: Option<String>,
    /// Whether systemd's descriptor store has it, under [`Tag::in_store`].
    pub stored: bool,
}

impl Tag {
    /// Its name in the descriptor store.
    pub fn in_store(&self) -> String {
        let purpose = match self.purpose {
            Purpose::Listener => "listener",
            Purpose::Metrics => "metrics",
            Purpose::Web => "web",
            Purpose::Admin => "admin",
        };
        format!("{IN_STORE}{purpose}.{}", self.name)
    }

    /// By what systemd calls it.
    fn of_systemd(name: &str) -> Tag {
        let stored = |purpose, name: &str| Tag { purpose, name: name.to_owned(), unit: None, stored: true };
        match name.strip_prefix(IN_STORE).and_then(|name| name.split_once('.')) {
            Some(("listener", name)) => stored(Purpose::Listener, name),
            Some(("metrics", name)) => stored(Purpose::Metrics, name),
            Some(("web", name)) => stored(Purpose::Web, name),
            _ => Tag { purpose: Purpose::Listener, name: String::new(), unit: Some(name.to_owned()), stored: false },
        }
    }
}

/// A socket that was given.
#[derive(Debug)]
pub struct Passed {
    /// Its name.
    pub tag: Tag,
    /// Itself, non-blocking, not inherited by further programs.
    pub socket: Listening,
    /// Where it listens.
    pub address: ListenOn,
}

impl Passed {
    /// Looks at what was passed.
    ///
    /// # Errors
    /// It is no listening stream socket.
    pub fn new(tag: Tag, descriptor: OwnedFd) -> io::Result<Passed> {
        let socket = SockRef::from(&descriptor);
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if socket.r#type()? != socket2::Type::STREAM || !sockopt::socket_acceptconn(&descriptor)? {
            return wrong("it does not listen; use ListenStream= and Accept=no");
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let local = socket.local_addr()?;
        let address = match (local.as_socket(), local.as_pathname()) {
            (Some(address), _) => ListenOn::Ip(address),
            (None, Some(path)) => ListenOn::Unix { path: path.to_owned(), permissions: 0 },
            (None, None) if local.is_unix() => ListenOn::Unix { path: PathBuf::new(), permissions: 0 },
            (None, None) => return wrong("it is neither a TCP nor a UNIX socket"),
        };
        let socket = match address {
            ListenOn::Ip(_) => Listening::Tcp(descriptor.into()),
            ListenOn::Unix { .. } | ListenOn::Systemd(_) => Listening::Unix(descriptor.into()),
        };
        Ok(Passed { tag, socket, address })
    }

    /// How well it serves as this listener's socket; the greatest is taken.
    fn fits(&self, purpose: Purpose, listener: &Listener) -> Option<u8> {
        let same = self.tag.purpose == purpose && self.tag.name == listener.name;
        let fits = match (&listener.address, &self.address) {
            (ListenOn::Systemd(name), _) => self.tag.unit.as_ref() == Some(name),
            (_, _) if self.tag.unit.is_some() => false,
            (ListenOn::Ip(wanted), ListenOn::Ip(found)) => fits(*wanted, *found) && (wanted.port() != 0 || same),
            // one whose file has gone can be found by nobody
            (ListenOn::Unix { path: wanted, .. }, ListenOn::Unix { path, .. }) => {
                wanted == path && SocketFile::of_another(path).is_some()
            }
            _ => false,
        };
        fits.then_some(u8::from(same))
    }
}

/// All that was given.
#[derive(Debug, Default)]
pub struct Given {
    passed: Vec<Passed>,
}

impl Given {
    /// These.
    pub fn new(passed: Vec<Passed>) -> Given {
        Given { passed }
    }

    /// What systemd passes to this process by `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`. Must be called once, before
    /// anything else opens descriptors.
    ///
    /// # Errors
    /// The text says what is wrong with what was passed.
    pub fn from_systemd() -> Result<Given, String> {
        let variable = |name| std::env::var(name).ok();
        let ours = variable("LISTEN_PID").is_some_and(|pid| pid == std::process::id().to_string());
        let (true, Some(count)) = (ours, variable("LISTEN_FDS")) else { return Ok(Given::default()) };
        let count: usize = count.parse().map_err(|_| format!("LISTEN_FDS is no number: {count}"))?;
        let names = variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').filter(|name| !name.is_empty());
        let mut given = Given::default();
        for number in (3..).take(count) {
            let tag = Tag::of_systemd(names.next().unwrap_or("unknown"));
            let descriptor = inherited(number).map_err(|error| format!("descriptor {number} of {count}: {error}"))?;
            let what = tag.unit.clone().unwrap_or_else(|| tag.in_store());
            let passed = Passed::new(tag, descriptor)
                .map_err(|error| format!("systemd passed a socket called {what} that cannot be used: {error}"))?;
            if let (Some(unit), Some(first)) = (&passed.tag.unit, given.of_unit(passed.tag.unit.as_deref())) {
                return Err(format!(
                    "systemd passed two sockets called {unit} ({} and {}); give each a socket unit of its own with its own \
                     `FileDescriptorName=`",
                    first.address, passed.address
                ));
            }
            given.passed.push(passed);
        }
        Ok(given)
    }

    fn of_unit(&self, unit: Option<&str>) -> Option<&Passed> {
        self.passed.iter().find(|passed| passed.tag.unit.as_deref() == unit)
    }

    /// The socket that was given for this listener.
    pub fn take(&mut self, purpose: Purpose, listener: &Listener) -> Option<Passed> {
        let ranked =
            self.passed.iter().enumerate().filter_map(|(at, passed)| Some((passed.fits(purpose, listener)?, at)));
        let (_, at) = ranked.max_by_key(|(rank, at)| (*rank, usize::MAX - at))?;
        Some(self.passed.swap_remove(at))
    }

    /// What nobody took.
    pub fn rest(self) -> Vec<Passed> {
        self.passed
    }
}

/// A descriptor that this process was started with. A number in the environment is all that tells of it, so taking it is the
/// one place where the type system cannot see who owns what.
fn inherited(number: i32) -> io::Result<OwnedFd> {
    // that it is open; nothing else in this process has opened it, as it was open before the process began to run
    std::fs::symlink_metadata(format!("/proc/self/fd/{number}"))?;
    // SAFETY: the descriptor is open (above) and owned by nobody else: LISTEN_PID says that it was opened by the service
    // manager for this very process, and `Given::from_systemd` is called once and counts every number once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(name: &str, listener: std::net::TcpListener) -> Passed {
        Passed::new(Tag::of_systemd(name), listener.into()).unwrap()
    }

    fn bound() -> (std::net::TcpListener, String) {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        (socket, address)
    }

    fn wanted(name: &str, address: &str) -> Listener {
        Listener::new(name, address.parse().unwrap())
    }

    #[test]
    fn a_stored_socket_returns_to_its_address_whatever_the_listener_is_called_now() {
        let (socket, address) = bound();
        let mut given = Given::new(vec![passed("tidegate.listener.old", socket)]);
        assert!(given.take(Purpose::Listener, &wanted("new", "127.0.0.1:1")).is_none());
        let taken = given.take(Purpose::Listener, &wanted("new", &address)).unwrap();
        assert_eq!((taken.tag.in_store().as_str(), taken.tag.stored), ("tidegate.listener.old", true));
        assert!(given.rest().is_empty());
    }

    #[test]
    fn a_port_that_the_system_chose_returns_by_name_only() {
        let (one, _) = bound();
        let (two, second) = bound();
        let mut given = Given::new(vec![passed("tidegate.listener.one", one), passed("tidegate.listener.two", two)]);
        assert!(given.take(Purpose::Listener, &wanted("three", "127.0.0.1:0")).is_none());
        assert!(given.take(Purpose::Metrics, &wanted("two", "127.0.0.1:0")).is_none());
        let taken = given.take(Purpose::Listener, &wanted("two", "127.0.0.1:0")).unwrap();
        assert_eq!(taken.address.to_string(), second);
    }

    #[test]
    fn a_socket_unit_serves_only_the_listener_that_names_it() {
        let (socket, address) = bound();
        let mut given = Given::new(vec![passed("web", socket)]);
        assert!(given.take(Purpose::Listener, &wanted("main", &address)).is_none());
        assert!(given.take(Purpose::Listener, &wanted("main", "systemd:other")).is_none());
        assert!(given.take(Purpose::Listener, &wanted("main", "systemd:web")).is_some());
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let (socket, address) = bound();
        let connected = std::net::TcpStream::connect(address).unwrap();
        assert!(Passed::new(Tag::of_systemd("web"), connected.into()).is_err());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Passed::new(Tag::of_systemd("web"), datagrams.into()).is_err());
        drop(socket);
    }
}
