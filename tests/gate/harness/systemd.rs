//! As much of systemd as a service sees: the notification socket, the descriptor store, and sockets passed at the start.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::gate::{Folder, shell};
use super::ports::own_port;
use super::{Gate, wait_for};

/// A service manager with one service.
pub struct Systemd {
    folder: Folder,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    messages: Vec<String>,
    store: Vec<(String, OwnedFd)>,
}

impl Systemd {
    pub fn new() -> Systemd {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let heard = Arc::<Mutex<Heard>>::default();
        let ears = Arc::clone(&heard);
        // ends with the test's process: one thread and one socket per test
        std::thread::spawn(move || while listen(&socket, &ears).is_some() {});
        Systemd { folder, heard }
    }

    /// Starts a service of `Type=notify` by a script that ends in `exec "$0" "$@"`; `stdin` is the script's, and can be passed
    /// on by `3<&0`. Its files, its admin socket too, live in a folder of its own.
    pub fn start(&self, variables: &[(&str, &str)], script: &str, stdin: Stdio, policy: &str) -> Gate {
        let folder = Folder::new();
        let mut command = self.command(script);
        command.envs(variables.iter().copied()).env("RUNTIME_DIRECTORY", folder.path());
        Gate::start_in(folder, stdin, command, policy)
    }

    /// The same with this socket passed under this name.
    pub fn start_with_socket(&self, name: &str, socket: OwnedFd, policy: &str) -> Gate {
        self.start(&[("LISTEN_FDNAMES", name)], &passing("3<&0"), Stdio::from(socket), policy)
    }

    /// The same with these two sockets under these names.
    pub fn start_with_sockets(&self, [(one, first), (two, second)]: [(&str, OwnedFd); 2], policy: &str) -> Gate {
        let folder = Folder::new();
        // a child has no other descriptors to begin with; what it says comes by its standard output instead
        let mut command = self.command(&passing("3<&0 4<&2").replace("</dev/null", "</dev/null 2>&1"));
        command.env("LISTEN_FDNAMES", format!("{one}:{two}")).env("RUNTIME_DIRECTORY", folder.path());
        Gate::start_between(folder, [first.into(), second.into()], command, policy)
    }

    /// The script as a command that can notify.
    pub fn command(&self, script: &str) -> Command {
        let mut command = shell(script);
        command.env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        command
    }

    /// Everything that was said so far.
    pub fn messages(&self) -> Vec<String> {
        self.heard.lock().unwrap().messages.clone()
    }

    /// Waits until this line was said `times` times.
    pub fn wait_for(&self, line: &str, times: usize) {
        wait_for(&format!("{line} {times} times"), || {
            let messages = self.messages();
            let lines = messages.iter().flat_map(|message| message.lines());
            (lines.filter(|said| *said == line).count() >= times).then_some(())
        });
    }

    /// The names in the descriptor store.
    pub fn stored(&self) -> Vec<String> {
        self.heard.lock().unwrap().store.iter().map(|(name, _)| name.clone()).collect()
    }

    /// A second hold on the descriptor that is stored under this name.
    pub fn out_of_store(&self, name: &str) -> OwnedFd {
        let heard = self.heard.lock().unwrap();
        let (_, descriptor) = heard.store.iter().find(|(stored, _)| stored == name).expect("it is in the store");
        descriptor.try_clone().expect("a second hold")
    }
}

/// The script that passes descriptors by these redirections: `3<&0 4<&0`.
pub fn passing(redirections: &str) -> String {
    let count = redirections.split(' ').count();
    format!("export LISTEN_PID=$$ LISTEN_FDS={count}; exec \"$0\" \"$@\" {redirections} </dev/null")
}

/// A port that stays free when its socket is closed, and its address.
pub fn lasting_port() -> (TcpListener, std::net::SocketAddr) {
    let socket = TcpListener::bind(("127.0.0.1", own_port())).expect("a port");
    let address = socket.local_addr().expect("its address");
    (socket, address)
}

/// A port of the system's choice, and its address.
pub fn port() -> (TcpListener, std::net::SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    (socket, address)
}

fn listen(socket: &UnixDatagram, heard: &Mutex<Heard>) -> Option<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4096];
    let received =
        rustix::net::recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .ok()?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let message = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
    let mut heard = heard.lock().unwrap();
    let name = message.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or("stored").to_owned();
    if message.lines().any(|line| line == "FDSTORE=1") {
        heard.store.extend(descriptors.into_iter().map(|descriptor| (name.clone(), descriptor)));
    } else if message.lines().any(|line| line == "FDSTOREREMOVE=1") {
        heard.store.retain(|(stored, _)| *stored != name);
    }
    // a barrier's descriptor is closed here, which is the answer to it
    heard.messages.push(message);
    Some(())
}

/// How long to look for what must not happen.
pub const A_WHILE: Duration = Duration::from_millis(300);
