//! Messages to systemd by the protocol of sd_notify(3), and the descriptors that it keeps for the gate.
//!
//! Messages are datagrams to the socket that `NOTIFY_SOCKET` names. Without it none is sent. If they are not
//! read, that is logged once and the gate goes on.

use std::ffi::OsStr;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// A message that systemd does not take within this is lost: it must not hold up the gate. Those after it are not waited
/// for at all, until one gets through.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to the service manager, if there is one.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// The last message was not taken.
    deaf: AtomicBool,
    complained: AtomicBool,
}

impl Notifier {
    /// By the variable `NOTIFY_SOCKET`.
    pub fn from_environment() -> Notifier {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()).and_then(|path| {
            connect(&path)
                .inspect_err(|error| tracing::warn!(%error, path = %path.display(), "NOTIFY_SOCKET: nobody to notify"))
                .ok()
        });
        Notifier { socket, deaf: AtomicBool::new(false), complained: AtomicBool::new(false) }
    }

    /// Whether anybody is told.
    pub fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends assignments, one per line: `READY=1`.
    pub fn say(&self, assignments: &str) {
        self.send(assignments, &[]);
    }

    /// Gives systemd a descriptor to keep over a restart, under a name without colon.
    pub fn store(&self, name: &str, descriptor: BorrowedFd<'_>) {
        self.send(&format!("FDSTORE=1\nFDNAME={name}"), &[descriptor]);
    }

    /// Takes all descriptors of this name out of systemd's keeping.
    pub fn release(&self, name: &str) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
    }

    /// Waits until systemd has acted on all that was sent before, for a second at most.
    pub fn barrier(&self) {
        if !self.is_heard() {
            return;
        }
        let Ok((mut mine, theirs)) = UnixStream::pair() else { return };
        self.send("BARRIER=1", &[theirs.as_fd()]);
        drop(theirs);
        if mine.set_read_timeout(Some(PATIENCE)).is_ok() {
            // systemd closes its end; a service manager that knows no barriers lets the time pass
            let _ = mine.read(&mut [0]);
        }
    }

    fn send(&self, assignments: &str, descriptors: &[BorrowedFd<'_>]) {
        let Some(socket) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let waits = if self.deaf.load(Ordering::Relaxed) { SendFlags::DONTWAIT } else { SendFlags::empty() };
        let text = [IoSlice::new(assignments.as_bytes())];
        let sent = rustix::net::sendmsg(socket, &text, &mut control, SendFlags::NOSIGNAL | waits);
        self.deaf.store(sent.is_err(), Ordering::Relaxed);
        if let Err(error) = sent
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "the service manager cannot be notified");
        }
    }
}

fn connect(path: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(path)?,
    }
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_manager_that_reads_nothing_costs_one_wait_and_is_told_again_once_it_reads() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_write_timeout(Some(PATIENCE)).unwrap();
        let socket = Some(ours.try_clone().unwrap());
        let notifier = Notifier { socket, deaf: AtomicBool::new(false), complained: AtomicBool::new(false) };
        // the queue of the other end is full after some messages
        let filler = ours;
        while rustix::net::send(&filler, b"full", SendFlags::DONTWAIT).is_ok() {}
        let start = Instant::now();
        (0..30).for_each(|_| notifier.say("STATUS=nobody reads"));
        let took = start.elapsed();
        assert!(took >= PATIENCE, "the first may take its time: {took:?}");
        assert!(took < 10 * PATIENCE, "and no other: {took:?}");
        let mut text = [0; 64];
        theirs.set_nonblocking(true).unwrap();
        while theirs.recv(&mut text).is_ok() {}
        notifier.say("READY=1");
        let length = theirs.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1");
        assert!(!notifier.deaf.load(Ordering::Relaxed));
    }
}
