//! The conversation of two processes, old and new, when one takes the other's place.
//!
//! They talk over a pair of UNIX sockets; the new process is started with one of them as its standard input, and with
//! `TIDEGATE_UPGRADE` in its environment.
//!
//! 1. old → new: one line of JSON with the [`Tag`]s of all listening sockets, and the sockets (`SCM_RIGHTS`) in the same order. Behind
//!    them a file in memory with the bans in force ([`Saved`]), if there are any.
//! 2. What the old process started is only a go-between: it starts the new process, says which one it is, and ends. So the
//!    new process is a child of the service manager, and not of the old one. systemd waits for the end of no process that
//!    is not its child, and kills it at once instead when the service is to stop.
//! 3. The new process reads its configuration and binds what is new. It says that it waits for the state of limits. The old one sends it in
//!    a memory file, and goes on serving; what happens to its limits from then on it tells in a conversation of its own, whose other end comes
//!    with the file ([`super::charges`]), and so does a file of what it has seen ([`super::observed`]). When the new process has all of it, the old one stops accepting, and the new one accepts from all of
//!    its sockets. What connects in between waits in the kernel's queues.
//! 4. new → old: one line of JSON: ready, with the positions of the sockets that it has taken; or failed, with the reason.
//! 5. old → new: one byte. From here on the new process is the one that counts.
//! 6. old → new: lines of JSON with the places at origins that it keeps ([`super::places`]), until it ends.
//!
//! Whatever goes wrong before step 5 ends the new process and leaves the old one as it was.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::given::{Given, Passed, Tag};
use super::saved::memory;
use crate::bans::{LONGEST_SAVED, Saved};
use crate::saved;
use crate::system::clock::{Clock, Shown};
use crate::units::Timestamp;

/// Present in the environment of a process that is to take another's place.
pub const MARK: &str = "TIDEGATE_UPGRADE";

/// Its value for the go-between.
pub const GO_BETWEEN: &str = "start";

/// And for the new process.
const NEW: &str = "serve";

/// Of this conversation.
const VERSION: u32 = 2;

/// Most sockets in one message: `SCM_MAX_FD` of Linux.
const MOST: usize = 253;

/// Most of them that are sockets: one is the file of the bans.
const MOST_SOCKETS: usize = MOST - 1;

/// A longer line is a fault: 253 names of 255 bytes each fit twice.
const LONGEST_LINE: usize = 256 * 1024;

/// How long the old process may take to send what it promised, and to take what the new one reports.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an offer may wait for room in the conversation's buffer, which is larger than nearly all offers.
const OFFERED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
struct Offer {
    version: u32,
    sockets: Vec<Tag>,
    /// Whether the last descriptor is the file of the bans.
    #[serde(default)]
    bans: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inheritance: Option<Inheritance>,
}

/// What keys are hashed under.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Secret(pub [u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What names of clients are made under where the operator gave no secret.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Names(pub [u8; 32]);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}

/// What the new process must go on from for the state of limits to mean the same.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Inheritance {
    stamp: u64,
    wall_nanos: u64,
    unix_nanos_at_zero: u64,
    /// The version of the state that will be sent.
    state: u32,
    /// What keys are hashed under.
    pub secret: Secret,
    /// What clients are named under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
}

impl Inheritance {
    /// What goes on from this clock.
    pub fn of(clock: Clock, secret: Secret, names: Names) -> Inheritance {
        let Shown { stamp, wall_nanos, unix_nanos_at_zero } = clock.shown();
        let (stamp, names) = (stamp.nanos(), Some(names));
        Inheritance { stamp, wall_nanos, unix_nanos_at_zero, state: saved::VERSION, secret, names }
    }

    /// The clock that goes on.
    pub fn clock(&self) -> Clock {
        let Inheritance { stamp, wall_nanos, unix_nanos_at_zero, .. } = *self;
        Clock::resumed(&Shown { stamp: Timestamp::from_nanos(stamp), wall_nanos, unix_nanos_at_zero })
    }
}

/// What the new process says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The go-between's: this is its process number.
    Started(u32),
    /// It has all that it needs to serve, but the state of limits.
    Waiting,
    /// It serves.
    Ready {
        /// Its process number.
        process: u32,
        /// The positions in the offer of the sockets that it has taken.
        taken: Vec<usize>,
    },
    /// It cannot.
    Failed(String),
}

/// Step 1: offers the sockets, and the bans if there are any.
///
/// # Errors
/// The other side has gone, or there are too many.
pub fn offer(
    stream: &UnixStream,
    tags: Vec<Tag>,
    sockets: &[BorrowedFd<'_>],
    (bans, inheritance): (Option<&Saved>, Option<Inheritance>),
) -> io::Result<()> {
    if sockets.len() > MOST_SOCKETS {
        return Err(io::Error::other(format!("more than {MOST_SOCKETS} sockets cannot be handed over")));
    }
    let bans = bans.map(|bans| memory("tidegate bans", |to| Ok(serde_json::to_writer(to, bans)?))).transpose()?;
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().copied().chain(bans.as_ref().map(File::as_fd)).collect();
    // the new process may stand still, and nobody hears a signal meanwhile
    stream.set_write_timeout(Some(OFFERED_WITHIN))?;
    let offer = Offer { version: VERSION, sockets: tags, bans: bans.is_some(), inheritance };
    let mut line = serde_json::to_vec(&offer)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("the sockets do not fit into one message"));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    // a long line may need more than one write; the sockets went with its first byte
    (&*stream).write_all(line.get(sent..).unwrap_or_default())
}

/// Reads the file of the bans.
fn from_memory(file: File) -> io::Result<Saved> {
    let mut text = Vec::new();
    let most = u64::try_from(LONGEST_SAVED).unwrap_or(u64::MAX);
    if file.take(most + 1).read_to_end(&mut text)? > LONGEST_SAVED {
        return Err(io::Error::other("more bans than there can be"));
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Reads one line that ends the conversation's turn, and the descriptors that come with it.
fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut descriptors) = (Vec::new(), Vec::new());
    while !line.ends_with(b"\n") {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let received =
            rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        line.extend_from_slice(bytes.get(..received.bytes).unwrap_or_default());
        if received.bytes == 0 || line.len() > LONGEST_LINE {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((line, descriptors))
}

/// Step 2, if this process was started for it: starts the new process.
///
/// # Errors
/// It cannot be started. The conversation ends then, which the old process sees.
pub fn go_between() -> Option<io::Result<()>> {
    (std::env::var_os(MARK)? == GO_BETWEEN).then(|| {
        let mut arguments = std::env::args_os();
        let mut command = Command::new(std::env::current_exe()?);
        // the name that was called may be a link, which the next upgrade follows anew
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        let child = command.args(arguments).env(MARK, NEW).spawn()?;
        let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        report(&mut stream, &Report::Started(child.id()))
    })
}

/// The process whose place this one is to take.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    bans: Option<Saved>,
    inheritance: Option<Inheritance>,
}

/// The sockets that a process offers to the one that takes its place, in its order.
pub type Offered = Vec<(Tag, OwnedFd)>;

impl Predecessor {
    /// It, and the sockets that it offers, if this process was started to take its place. Leaves `/dev/null` as standard input.
    ///
    /// # Errors
    /// The environment says so, but nobody speaks as agreed.
    pub fn from_environment() -> Option<Result<(Predecessor, Offered), String>> {
        std::env::var_os(MARK)?;
        Some(Predecessor::meet().map_err(|error| format!("{MARK} is set, but no process hands over: {error}")))
    }

    fn meet() -> io::Result<(Predecessor, Offered)> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let nothing = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (line, mut sockets) = receive(&stream)?;
        let offer: Offer = serde_json::from_slice(&line)?;
        if offer.version != VERSION || offer.sockets.len() + usize::from(offer.bans) != sockets.len() {
            return Err(io::Error::other(format!(
                "it speaks version {} of the hand-over, this program version {VERSION}; a restart takes its place",
                offer.version
            )));
        }
        if let Some(Inheritance { state, .. }) =
            offer.inheritance.filter(|inheritance| inheritance.state != saved::VERSION)
        {
            return Err(io::Error::other(format!(
                "its state of limits has version {state}, this program reads version {}: every client would have its whole budget again; a \
                 restart takes that into account",
                saved::VERSION
            )));
        }
        let bans = if offer.bans { sockets.pop() } else { None };
        let bans = bans.map(|file| from_memory(file.into())).transpose();
        let bans = bans.map_err(|error| io::Error::other(format!("its bans cannot be read: {error}")))?;
        let predecessor = Predecessor { stream, bans, inheritance: offer.inheritance };
        Ok((predecessor, offer.sockets.into_iter().zip(sockets).collect()))
    }

    /// The bans that it had when it offered its sockets, the first time it is asked.
    pub fn take_bans(&mut self) -> Option<Saved> {
        self.bans.take()
    }

    /// What this process must go on from; `None`: the other one hands no state over.
    pub fn inheritance(&self) -> Option<Inheritance> {
        self.inheritance
    }

    /// Step 3a: says that this process could serve, and waits for the state of the other one, with the conversation about what happens to it
    /// from then on, and what it has seen.
    ///
    /// # Errors
    /// The other process hands no state over, though it said so; it goes on serving then.
    pub fn state(&mut self) -> io::Result<(File, UnixStream, Option<File>)> {
        report(&mut self.stream, &Report::Waiting)?;
        let (_, descriptors) = receive(&self.stream)?;
        let mut descriptors = descriptors.into_iter();
        let both = descriptors.next().zip(descriptors.next());
        let (state, charges) = both.ok_or_else(|| io::Error::other("the state did not arrive"))?;
        Ok((state.into(), charges.into(), descriptors.next().map(File::from)))
    }

    /// Says why this process cannot serve.
    pub fn fail(mut self, reason: &str) {
        // a predecessor that has gone needs no reason
        let _ = report(&mut self.stream, &Report::Failed(reason.to_owned()));
    }

    /// Says that this process serves, by these of the offered sockets, and waits for the word to be the one that counts. Returns the
    /// conversation, if it goes on.
    ///
    /// # Errors
    /// The runtime cannot watch the conversation. A predecessor that has gone is no error: its sockets are ours then.
    pub async fn ready(mut self, taken: Vec<usize>) -> io::Result<Option<tokio::net::UnixStream>> {
        let _ = report(&mut self.stream, &Report::Ready { process: process::id(), taken });
        self.stream.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(self.stream)?;
        let told = stream.read(&mut [0]).await;
        Ok(told.is_ok_and(|bytes| bytes > 0).then_some(stream))
    }
}

fn report(stream: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The sockets of an offer, looked at.
///
/// # Errors
/// One cannot be used.
pub fn given(offered: Vec<(Tag, OwnedFd)>) -> Result<Given, String> {
    let passed = offered.into_iter().map(|(tag, descriptor)| Passed::new(tag, descriptor));
    let passed: io::Result<Vec<Passed>> = passed.collect();
    passed.map(Given::new).map_err(|error| format!("a socket that was handed over cannot be used: {error}"))
}

/// The old process's end, after the offer.
#[derive(Debug)]
pub struct Successor {
    stream: tokio::net::UnixStream,
    /// Read, but not yet a whole line.
    unread: Vec<u8>,
}

impl Successor {
    /// The other end of a conversation that [`offer`] began.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub fn new(stream: UnixStream) -> io::Result<Successor> {
        stream.set_nonblocking(true)?;
        Ok(Successor { stream: tokio::net::UnixStream::from_std(stream)?, unread: Vec::new() })
    }

    /// Waits for its next report.
    ///
    /// # Errors
    /// It ended without one.
    pub async fn report(&mut self) -> io::Result<Report> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            if self.unread.len() > LONGEST_LINE || self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Step 3a: hands the state over, the other end of the conversation about charges, and what this process has seen.
    ///
    /// # Errors
    /// It has gone.
    pub async fn hand(&mut self, state: &File, charges: &UnixStream, seen: &File) -> io::Result<()> {
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [state.as_fd(), charges.as_fd(), seen.as_fd()];
            if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::Error::other("the state does not fit into a message"));
            }
            let line = [IoSlice::new(b"{}\n")];
            rustix::net::sendmsg(self.stream.as_fd(), &line, &mut control, SendFlags::NOSIGNAL)?;
            Ok(())
        };
        self.stream.async_io(Interest::WRITABLE, send).await
    }

    /// Step 5.
    ///
    /// # Errors
    /// It has gone since.
    pub async fn go(&mut self) -> io::Result<()> {
        self.stream.write_all(b"!").await
    }

    /// The conversation, for what follows.
    pub fn into_stream(self) -> tokio::net::UnixStream {
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::given::Purpose;
    use super::*;
    use crate::bans::{Bans, KeySecret, LONGEST_TEXT, MOST_BANS, Order, Target};
    use crate::units::{Prefix, Timestamp};

    #[test]
    fn sockets_arrive_in_order_with_their_names() {
        let (old, new) = UnixStream::pair().unwrap();
        let listeners: Vec<_> = (0..100).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let tag = |at: usize| Tag {
            purpose: Purpose::Listener,
            name: format!("listener_with_a_rather_long_name_{at}"),
            unit: None,
            stored: false,
        };
        let sockets: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        offer(&old, (0..100).map(tag).collect(), &sockets, (None, None)).unwrap();
        let (line, received) = receive(&new).unwrap();
        let offer: Offer = serde_json::from_slice(&line).unwrap();
        assert_eq!(offer.sockets[99], tag(99));
        for (sent, received) in listeners.iter().zip(received) {
            assert_eq!(std::net::TcpListener::from(received).local_addr().unwrap(), sent.local_addr().unwrap());
        }
    }

    #[test]
    fn bans_come_behind_the_sockets_as_they_were() {
        let bans = Bans::new(KeySecret::of_operator(b"a secret"));
        let (now, origin) = (Timestamp::from_nanos(5), 1_000);
        for at in 0..MOST_BANS as u32 {
            let target = Target::Network(Prefix::around(IpAddr::V4(at.into()), 32, 128));
            let text = "\u{1F600}".repeat(LONGEST_TEXT);
            let order = Order {
                target,
                given: 1,
                until: Timestamp::from_nanos(500),
                by: text.clone(),
                why: text,
                automatic: false,
                in_row: None,
                elsewhere: false,
            };
            bans.give(order, now).unwrap();
        }
        let saved = Saved::of(&bans, now, origin);
        let (old, new) = UnixStream::pair().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tag = Tag { purpose: Purpose::Listener, name: "main".to_owned(), unit: None, stored: false };
        offer(&old, vec![tag], &[listener.as_fd()], (Some(&saved), None)).unwrap();
        let (line, mut received) = receive(&new).unwrap();
        assert!(serde_json::from_slice::<Offer>(&line).unwrap().bans);
        assert_eq!(from_memory(received.pop().unwrap().into()).unwrap(), saved);
        assert_eq!(received.len(), 1);
    }

    #[test]
    fn an_offer_that_nobody_takes_is_given_up() {
        let (old, _new) = UnixStream::pair().unwrap();
        old.set_nonblocking(true).unwrap();
        while (&old).write(&[b' '; 4096]).is_ok() {}
        old.set_nonblocking(false).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tag = Tag { purpose: Purpose::Listener, name: "main".to_owned(), unit: None, stored: false };
        let fault = offer(&old, vec![tag], &[listener.as_fd()], (None, None)).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_conversation_that_breaks_off_is_an_error() {
        let (mut old, new) = UnixStream::pair().unwrap();
        old.write_all(b"{\"version\":1").unwrap();
        drop(old);
        assert!(receive(&new).is_err());
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let (mut new, mut old) = UnixStream::pair().unwrap();
        report(&mut new, &Report::Failed("two\nlines".into())).unwrap();
        drop(new);
        let mut line = Vec::new();
        old.read_to_end(&mut line).unwrap();
        assert!(matches!(serde_json::from_slice(&line).unwrap(), Report::Failed(text) if text == "two\nlines"));
    }
}
