//! The conversation of two processes, old and new, when one takes the other's place.
//!
//! They talk over a pair of UNIX sockets; the new process is started with one of them as its standard input, and with
//! `TIDEGATE_UPGRADE` in its environment.
//!
//! 1. old → new: one line of JSON with the [`Tag`]s of all listening sockets, and the sockets (`SCM_RIGHTS`) in the same order.
//! 2. What the old process started is only a go-between: it starts the new process, says which one it is, and ends. So the
//!    new process is a child of the service manager, and not of the old one. systemd waits for the end of no process that
//!    is not its child, and kills it at once instead when the service is to stop.
//! 3. The new process reads its configuration, binds what is new, and accepts from all of its sockets beside the old one.
//! 4. new → old: one line of JSON: ready, with the positions of the sockets that it has taken; or failed, with the reason.
//! 5. old → new: one byte. From here on the new process is the one that counts.
//! 6. old → new: lines of JSON with the places at origins that it keeps ([`super::places`]), until it ends.
//!
//! Whatever goes wrong before step 5 ends the new process and leaves the old one as it was.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
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
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::given::{Given, Passed, Tag};

/// Present in the environment of a process that is to take another's place.
pub const MARK: &str = "TIDEGATE_UPGRADE";

/// Its value for the go-between.
pub const GO_BETWEEN: &str = "start";

/// And for the new process.
const NEW: &str = "serve";

/// Of this conversation.
const VERSION: u32 = 1;

/// Most sockets in one message: `SCM_MAX_FD` of Linux.
const MOST: usize = 253;

/// A longer line is a fault: 253 names of 255 bytes each fit twice.
const LONGEST_LINE: usize = 256 * 1024;

/// How long the old process may take to send what it promised, and to take what the new one reports.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an offer may wait for room in the conversation's buffer, which is larger than nearly all offers.
const OFFERED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    version: u32,
    sockets: Vec<Tag>,
}

/// What the new process says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The go-between's: this is its process number.
    Started(u32),
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

/// Step 1: offers the sockets.
///
/// # Errors
/// The other side has gone, or there are too many.
pub fn offer(stream: &UnixStream, tags: Vec<Tag>, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    if sockets.len() > MOST {
        return Err(io::Error::other(format!("more than {MOST} sockets cannot be handed over")));
    }
    // the new process may stand still, and nobody hears a signal meanwhile
    stream.set_write_timeout(Some(OFFERED_WITHIN))?;
    let mut line = serde_json::to_vec(&Offer { version: VERSION, sockets: tags })?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("the sockets do not fit into one message"));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    // a long line may need more than one write; the sockets went with its first byte
    (&*stream).write_all(line.get(sent..).unwrap_or_default())
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
        let (line, sockets) = receive(&stream)?;
        let offer: Offer = serde_json::from_slice(&line)?;
        if offer.version != VERSION || offer.sockets.len() != sockets.len() {
            return Err(io::Error::other("it speaks another version of the hand-over"));
        }
        Ok((Predecessor { stream }, offer.sockets.into_iter().zip(sockets).collect()))
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
    use std::io::Read;

    use super::super::given::Purpose;
    use super::*;

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
        offer(&old, (0..100).map(tag).collect(), &sockets).unwrap();
        let (line, received) = receive(&new).unwrap();
        let offer: Offer = serde_json::from_slice(&line).unwrap();
        assert_eq!(offer.sockets[99], tag(99));
        for (sent, received) in listeners.iter().zip(received) {
            assert_eq!(std::net::TcpListener::from(received).local_addr().unwrap(), sent.local_addr().unwrap());
        }
    }

    #[test]
    fn an_offer_that_nobody_takes_is_given_up() {
        let (old, _new) = UnixStream::pair().unwrap();
        old.set_nonblocking(true).unwrap();
        while (&old).write(&[b' '; 4096]).is_ok() {}
        old.set_nonblocking(false).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tag = Tag { purpose: Purpose::Listener, name: "main".to_owned(), unit: None, stored: false };
        let fault = offer(&old, vec![tag], &[listener.as_fd()]).unwrap_err();
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
