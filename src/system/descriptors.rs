//! File descriptors: as many as the system gives, and never all of them for clients.
//!
//! A process without a free descriptor cannot connect to its origins, answer a scrape, read a policy file or be told anything.
//! So they are shared out, by number. The kernel always gives the lowest number that is free; a user that may only keep
//! numbers below a mark leaves the numbers from that mark on to others, without a counter:
//!
//! | numbers | who may have them |
//! |---|---|
//! | below [`Marks::clients`] | all |
//! | from there on | connections to origins, and everything else but clients |
//! | from [`Marks::origins`] on | the admin socket, metrics, health checks, files, logs, stores |
//!
//! Between the two marks are as many as clients can have, so that each client's request finds one for its origin, and sixteen more
//! for what comes and goes. A client whose number is too high waits, with all that come after it in the kernel's queue, until a lower one
//! is free ([`Marks::lower`]).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use crate::system::socket::Accepted;
use crate::units::Timestamp;

/// More are not asked for, unless the policy allows more connections than fit.
const ENOUGH: u64 = 1 << 20;

/// Kept for what is neither a client nor an origin: 64 connections each of admin socket, admin address and metrics page, and files.
const KEPT: u64 = 256;

/// Numbers between the marks that are for what comes and goes: a client of each listener that waits for a lower number, the copies by
/// which numbers are looked for, scrapes and orders.
const PASSING: u64 = 16;

/// How often a client that waits for a lower number looks for one.
const PAUSE: Duration = Duration::from_millis(50);

/// So long nothing has waited before the log says that accepting goes on, and so long after such a line there is no other.
const CALM: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(60);

/// What the process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limit at the start.
    pub before: u64,
    /// The limit from now on.
    pub now: u64,
}

/// Raises the limit to what the system allows (`ulimit -Hn`), but not beyond what anybody needs: 1,048,576, or two for each of
/// `connections`. Where it may not be raised it stays.
pub fn raise(connections: u64) -> Limit {
    let found = getrlimit(Resource::Nofile);
    let before = found.current.unwrap_or(u64::MAX);
    let wanted = ENOUGH.max(2 * connections + PASSING + KEPT).min(found.maximum.unwrap_or(u64::MAX));
    let raised = Rlimit { current: Some(wanted), ..found };
    let now = if wanted > before && setrlimit(Resource::Nofile, raised).is_ok() { wanted } else { before };
    Limit { before, now }
}

/// No core dump is written when the process crashes: it would hold keys, tokens and requests. Only the soft limit goes, so that
/// `prlimit --core` can still ask for one from outside.
pub fn no_core_dumps() {
    let found = getrlimit(Resource::Core);
    if found.current != Some(0) {
        // a system that does not allow it has its reasons, and the unit says the same
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..found });
    }
}

/// Who may have which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Clients keep numbers below this one.
    pub clients: u64,
    /// Connections to origins keep numbers below this one.
    pub origins: u64,
    limit: u64,
    used: u64,
}

static MARKS: OnceLock<Marks> = OnceLock::new();

impl Marks {
    /// For a process that may have `limit` descriptors and has `used` of them before it serves.
    fn of(limit: u64, used: u64) -> Marks {
        let kept = (limit / 8).clamp(16, KEPT);
        let origins = limit.saturating_sub(kept).max(used);
        // of very few a quarter
        let passing = PASSING.min((origins - used) / 4);
        Marks { clients: used + (origins - used - passing) / 2, origins, limit, used }
    }

    /// The marks in force; `None` before [`share_out`], when everybody may have any number.
    pub fn get() -> Option<&'static Marks> {
        MARKS.get()
    }

    /// How many connections of clients fit.
    pub fn room(&self) -> u64 {
        self.clients - self.used
    }

    /// A limit under which this many connections of clients fit.
    fn limit_for(&self, connections: u64) -> u64 {
        self.used + 2 * connections + PASSING + KEPT
    }

    /// A copy of a client's connection under a number below the mark, as soon as one is free.
    pub async fn lower(&self, stream: &Accepted) -> OwnedFd {
        let _waiting = Waiting::begin();
        loop {
            sleep(PAUSE).await;
            match lowest_free(stream) {
                Some(lower) if is_below(&lower, self.clients) => return lower,
                _ => {}
            }
        }
    }
}

/// What a process that starts here will share out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// How many descriptors it may have.
    pub limit: u64,
    /// How many connections of clients fit.
    pub room: u64,
    /// The limit under which as many fit as were asked for.
    pub enough: u64,
}

/// Tells what [`share_out`] will find, for this many connections of clients.
pub fn outlook(connections: u64) -> Outlook {
    let limit = raise(connections).now;
    let used = lowest_free(rustix::stdio::stdin()).map_or(limit, |free| number(&free));
    let marks = Marks::of(limit, used);
    Outlook { limit, room: marks.room(), enough: marks.limit_for(connections) }
}

/// Shares out what the limit allows, beside what is open already. Says in the log what came of it, and what to do when fewer
/// clients fit than `connections`.
pub fn share_out(limit: Limit, connections: u64) {
    let used = lowest_free(rustix::stdio::stdin()).map_or(limit.now, |free| number(&free));
    let marks = *MARKS.get_or_init(|| Marks::of(limit.now, used));
    let Limit { before, now } = limit;
    let room = marks.room();
    if room < connections {
        let enough = marks.limit_for(connections);
        tracing::warn!(
            limit = now,
            allowed = connections,
            "the listeners allow more connections (`connections.max`) than there are descriptors for: accepting stops at some {room}; \
             raise the limit to {enough} (`LimitNOFILE=`, `ulimit -Hn`), or lower `connections.max`"
        );
    } else {
        tracing::info!(limit = now, raised_from = before, for_clients = room, "file descriptors");
    }
}

/// Whether a connection of a client may keep its number.
pub fn may_keep(stream: &Accepted) -> bool {
    Marks::get().is_none_or(|marks| is_below(stream, marks.clients))
}

/// There is no descriptor for another connection to an origin, which is no fault of that origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no file descriptor is left for another connection to an origin")]
pub struct NoDescriptor;

impl NoDescriptor {
    /// Whether this was at the root of a proxy error.
    pub fn caused(error: &pingora::Error) -> bool {
        let Some(cause) = error.root_cause().downcast_ref::<io::Error>() else { return false };
        cause.get_ref().is_some_and(|inner| inner.is::<NoDescriptor>()) || is_exhaustion(cause)
    }
}

/// Whether there is a number for another connection to an origin.
///
/// # Errors
/// [`NoDescriptor`].
pub fn for_an_origin() -> io::Result<()> {
    let Some(marks) = Marks::get() else { return Ok(()) };
    let free = lowest_free(rustix::stdio::stdin());
    match free.is_some_and(|free| is_below(&free, marks.origins)) {
        true => Ok(()),
        false => Err(io::Error::other(NoDescriptor)),
    }
}

/// Whether the process or the system has no descriptors left.
pub fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    Errno::from_io_error(error).is_some_and(|error| matches!(error, Errno::MFILE | Errno::NFILE))
}

/// The lowest free number, as a copy of `of`; `None` without any.
fn lowest_free(of: impl std::os::fd::AsFd) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(of, 0).ok()
}

fn number(descriptor: &impl AsRawFd) -> u64 {
    u64::try_from(descriptor.as_raw_fd()).unwrap_or(0)
}

fn is_below(descriptor: &impl AsRawFd, mark: u64) -> bool {
    number(descriptor) < mark
}

/// Listeners that do not accept now, and how often one stopped. Counts only; nothing is published by them.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static STOPS: AtomicU64 = AtomicU64::new(0);

/// A listener that does not accept, until this is dropped.
struct Waiting;

impl Waiting {
    fn begin() -> Waiting {
        WAITING.fetch_add(1, Ordering::Relaxed);
        stopped();
        Waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A listener has stopped accepting for want of a descriptor.
pub fn stopped() {
    STOPS.fetch_add(1, Ordering::Relaxed);
}

/// Says in the log that accepting stops and that it goes on, at most one pair a minute. One thread calls it, about once a second.
#[derive(Debug, Default)]
pub struct Teller {
    stops: u64,
    /// When one was last seen to wait, of those that the log told of or kept to itself.
    last: Option<Timestamp>,
    /// When the last warning was written, and whether its end is still to be told.
    told: Option<Timestamp>,
    open: bool,
}

/// What the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Stops,
    GoesOn,
}

impl Teller {
    /// Looks at what has happened since the last call.
    pub fn look(&mut self, now: Timestamp) {
        let (stops, waiting) = (STOPS.load(Ordering::Relaxed), WAITING.load(Ordering::Relaxed));
        let limit = Marks::get().map_or(0, |marks| marks.limit);
        match self.says(stops, waiting > 0, now) {
            None => {}
            Some(Says::Stops) => tracing::warn!(
                limit,
                for_clients = Marks::get().map_or(0, Marks::room),
                "accepting stops: clients hold all file descriptors that they may have; others wait in the kernel's queue. \
                 Raise `LimitNOFILE=` or `ulimit -Hn`, or lower `connections.max` and `per_client`"
            ),
            Some(Says::GoesOn) => tracing::info!(stops, "accepting goes on: descriptors are free again"),
        }
    }

    fn says(&mut self, stops: u64, waiting: bool, now: Timestamp) -> Option<Says> {
        let since =
            |then: Option<Timestamp>| then.map(|then| Duration::from_nanos(now.nanos().saturating_sub(then.nanos())));
        if waiting || stops != self.stops {
            self.stops = stops;
            self.last = Some(now);
            if !self.open && since(self.told).is_none_or(|ago| ago >= QUIET) {
                (self.open, self.told) = (true, Some(now));
                return Some(Says::Stops);
            }
        } else if self.open && since(self.last).is_some_and(|ago| ago >= CALM) {
            self.open = false;
            return Some(Says::GoesOn);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_leaves_one_for_its_origin_and_some_for_everything_else() {
        for (limit, used) in [(64, 20), (80, 24), (256, 30), (1_024, 30), (20_000, 60), (1 << 20, 60), (16, 20)] {
            let marks = Marks::of(limit, used);
            let (clients, origins) = (marks.clients, marks.origins);
            assert!(used <= clients && clients <= origins, "{marks:?}");
            assert!(origins - clients >= marks.room() + 16.min((origins - used) / 4), "{marks:?}");
            assert!(limit - origins.min(limit) >= 16 || limit < used + 16, "{marks:?}");
        }
        assert_eq!(Marks::of(20_000, 56).room(), 9_836);
        let marks = Marks::of(1_024, 24);
        assert!(Marks::of(marks.limit_for(20_000), 24).room() >= 20_000);
    }

    #[test]
    fn a_minute_has_one_pair_of_lines_at_most() {
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let mut teller = Teller::default();
        assert_eq!(teller.says(0, false, at(1)), None);
        assert_eq!(teller.says(1, true, at(2)), Some(Says::Stops));
        assert_eq!(teller.says(1, true, at(3)), None);
        assert_eq!(teller.says(7, false, at(4)), None, "it stopped and went on in between");
        assert_eq!(teller.says(7, false, at(8)), None);
        assert_eq!(teller.says(7, false, at(9)), Some(Says::GoesOn));
        assert_eq!(teller.says(8, true, at(20)), None, "within the minute");
        assert_eq!(teller.says(8, false, at(40)), None, "nobody was told that it stopped");
        assert_eq!(teller.says(9, true, at(62)), Some(Says::Stops));
        assert_eq!(teller.says(9, false, at(67)), Some(Says::GoesOn));
    }

    #[tokio::test]
    async fn a_connection_under_another_number_is_the_same_connection() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
        let ours = Accepted::new(ours.into_std().unwrap().into(), true);
        let copy = lowest_free(&ours).unwrap();
        let taken = copy.as_raw_fd();
        let ours = ours.renumbered(copy);
        assert_eq!(ours.as_raw_fd(), taken);
        let mut ours = ours.watched().unwrap();
        theirs.write_all(b"hello").await.unwrap();
        let mut text = [0; 5];
        ours.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        drop(ours);
        assert_eq!(theirs.read(&mut text).await.unwrap(), 0, "no other copy is left");
    }

    #[test]
    fn what_the_system_calls_exhaustion_is_found() {
        assert!(is_exhaustion(&io::Error::from(rustix::io::Errno::MFILE)));
        assert!(!is_exhaustion(&io::Error::from(rustix::io::Errno::CONNREFUSED)));
        let inner = io::Error::other(NoDescriptor);
        let error = pingora::Error::because(pingora::ErrorType::ConnectError, "connecting to the origin", inner);
        assert!(NoDescriptor::caused(&error));
    }
}
