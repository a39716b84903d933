//! Connections to one address of an origin that wait for another request, for the direct lane. Pingora keeps its own.
//!
//! A queue without locks: the one that waits longest is lent first. Nobody watches a connection that waits; whether its origin has
//! closed it, or said something, is seen when it is lent, and about once a second ([`Kept::sweep`]).

use crossbeam_queue::ArrayQueue;
use tokio::time::{Duration, Instant};

use super::stream::OriginStream;

/// Connections kept to one address; beyond this they are closed. 16 KiB for the table.
const MOST: usize = 512;

/// The connections.
#[derive(Debug)]
pub struct Kept {
    queue: ArrayQueue<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    stream: Box<OriginStream>,
    /// Until when it is kept.
    until: Instant,
}

impl Waiting {
    fn is_usable(&mut self, key: u64, now: Instant) -> bool {
        self.until > now && self.stream.key() == key && self.stream.is_quiet()
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { queue: ArrayQueue::new(MOST) }
    }
}

impl Kept {
    /// Takes a connection that was made under this key. Those that cannot be used any more are closed.
    pub fn take(&self, key: u64, now: Instant) -> Option<Box<OriginStream>> {
        let mut waiting = self.queue.pop()?;
        loop {
            if waiting.is_usable(key, now) {
                return Some(waiting.stream);
            }
            waiting = self.queue.pop()?;
        }
    }

    /// Keeps a connection whose answer has ended, for so long at most.
    pub fn put(&self, stream: Box<OriginStream>, longest: Duration) {
        // where there is no room it closes
        let _ = self.queue.push(Waiting { stream, until: Instant::now() + longest });
    }

    /// Closes what has waited for long enough, was made under another key, or was closed by the origin.
    pub fn sweep(&self, key: u64) {
        let now = Instant::now();
        for _ in 0..self.queue.len() {
            let Some(mut waiting) = self.queue.pop() else { return };
            if waiting.is_usable(key, now) {
                let _ = self.queue.push(waiting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;
    use crate::origins::way::Way;
    use crate::origins::wire::Wire;
    use crate::policy::Origin;
    use crate::system::socket::Socket;

    const LONG: Duration = Duration::from_secs(60);

    /// A connection made under this key, and the origin at its other end.
    fn connection(key: u64) -> (Box<OriginStream>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let way = Way::open(&Arc::new(Origin::of("app".into(), Vec::new()))).unwrap();
        (Box::new(OriginStream::new(Wire::Plain(Socket::Unix(near)), way, key)), far)
    }

    #[tokio::test]
    async fn a_kept_connection_serves_again() {
        let (kept, (stream, mut far)) = (Kept::default(), connection(1));
        kept.put(stream, LONG);
        kept.sweep(1);
        let mut stream = kept.take(1, Instant::now()).expect("it was kept");
        assert!(kept.take(1, Instant::now()).is_none(), "it is lent once");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut got = [0; 3];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"GET");
        // one that waits for an answer is no connection for another request
        kept.put(stream, LONG);
        assert!(kept.take(1, Instant::now()).is_none());
    }

    #[tokio::test]
    async fn what_was_closed_or_says_something_is_not_lent() {
        let kept = Kept::default();
        let (closed, far) = connection(1);
        drop(far);
        let (talks, mut far) = connection(1);
        far.write_all(b"HTTP/1.1 408 Late\r\n\r\n").await.unwrap();
        let (quiet, _quiet) = connection(1);
        for stream in [closed, talks, quiet] {
            kept.put(stream, LONG);
        }
        // the system tells of an end when it likes
        tokio::time::sleep(Duration::from_millis(20)).await;
        kept.sweep(1);
        assert_eq!(kept.queue.len(), 1, "only the quiet one stays");
        assert!(kept.take(1, Instant::now()).is_some());
    }

    #[tokio::test]
    async fn nothing_is_lent_too_late_or_under_another_key() {
        let kept = Kept::default();
        let ((late, _far), (other, _other), (good, _good)) = (connection(1), connection(2), connection(1));
        kept.put(late, Duration::ZERO);
        kept.put(other, LONG);
        kept.put(good, LONG);
        assert!(kept.take(1, Instant::now()).is_some());
        assert!(kept.take(1, Instant::now()).is_none() && kept.queue.is_empty(), "the others were closed");
    }

    #[tokio::test]
    async fn no_more_are_kept_than_there_is_room_for() {
        let kept = Kept::default();
        let (stream, far) = connection(1);
        kept.put(stream, LONG);
        let mut others = vec![far];
        for _ in 0..MOST + 5 {
            let (stream, far) = connection(1);
            kept.put(stream, LONG);
            others.push(far);
        }
        assert_eq!(kept.queue.len(), MOST);
    }
}
