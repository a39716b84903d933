//! A client's connection, which the runtime watches only once somebody has to wait for it.
//!
//! A client that connects for one request has often sent it when its connection is looked at, and is then read, answered and closed
//! without a wait. To have it watched meanwhile would be two of the six system calls that it costs.
//!
//! Only one read goes so. Whoever says more than fits into that shares the worker with all others, as the runtime sees to it for what it
//! watches: nobody can keep a worker busy with a socket that always has something to read.

use std::io::{self, ErrorKind, IoSlice};
use std::mem;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::system::socket::{Accepted, Socket};

/// The connection.
#[derive(Debug)]
pub enum ClientSocket {
    /// As it was accepted, and whether it was read from.
    Unwatched(Accepted, bool),
    /// By the runtime.
    Watched(Socket),
    /// The runtime could not watch it.
    Closed,
}

impl ClientSocket {
    /// Has it watched from now on.
    ///
    /// # Errors
    /// The runtime cannot watch it; it is closed then.
    pub fn watched(&mut self) -> io::Result<&mut Socket> {
        if matches!(self, ClientSocket::Unwatched(..))
            && let ClientSocket::Unwatched(accepted, _) = mem::replace(self, ClientSocket::Closed)
        {
            *self = ClientSocket::Watched(accepted.watched()?);
        }
        match self {
            ClientSocket::Watched(socket) => Ok(socket),
            ClientSocket::Unwatched(..) | ClientSocket::Closed => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// The descriptor, as long as it is open.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ClientSocket::Unwatched(accepted, _) => Some(accepted.as_fd()),
            ClientSocket::Watched(socket) => Some(socket.as_fd()),
            ClientSocket::Closed => None,
        }
    }

    /// Does it at once, where that may be; else says where it is to be waited for.
    fn at_once<T>(
        &mut self,
        act: impl FnOnce(&Accepted, &mut bool) -> Option<io::Result<T>>,
    ) -> Result<io::Result<T>, Pin<&mut Socket>> {
        if let ClientSocket::Unwatched(accepted, was_read) = self
            && let Some(done) = act(accepted, was_read)
        {
            match done {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Ok(done),
            }
        }
        match self.watched() {
            Ok(socket) => Err(Pin::new(socket)),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().at_once(|accepted, was_read| (!mem::replace(was_read, true)).then(|| accepted.read(buf))) {
            Ok(read) => Poll::Ready(read),
            Err(socket) => socket.poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut().at_once(|accepted, _| Some(accepted.write(data))) {
            Ok(written) => Poll::Ready(written),
            Err(socket) => socket.poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut().at_once(|accepted, _| Some(accepted.write_vectored(parts))) {
            Ok(written) => Poll::Ready(written),
            Err(socket) => socket.poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // sockets hold nothing back
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().at_once(|accepted, _| Some(accepted.shutdown())) {
            Ok(ended) => Poll::Ready(ended),
            Err(socket) => socket.poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (ClientSocket, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (ClientSocket::Unwatched(Accepted::new(OwnedFd::from(near), true), false), far)
    }

    #[tokio::test]
    async fn one_that_nobody_waits_for_is_never_watched() {
        let (mut near, mut far) = pair();
        io::Write::write_all(&mut far, b"question").unwrap();
        let mut came = [0; 100];
        assert_eq!(near.read(&mut came).await.unwrap(), 8);
        near.write_all(b"answer").await.unwrap();
        let parts = [IoSlice::new(b", "), IoSlice::new(b"all of it")];
        assert_eq!(near.write_vectored(&parts).await.unwrap(), 11);
        near.shutdown().await.unwrap();
        assert!(matches!(near, ClientSocket::Unwatched(..)));
        let mut answer = String::new();
        io::Read::read_to_string(&mut far, &mut answer).unwrap();
        assert_eq!(answer, "answer, all of it");
        drop(far);
        assert_eq!(near.read(&mut came).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn one_that_always_has_something_to_read_lets_others_work() {
        let (mut near, mut far) = pair();
        far.set_nonblocking(true).unwrap();
        let greedy = tokio::spawn(async move {
            let mut piece = [0; 16];
            for _ in 0..1_000 {
                while io::Write::write(&mut far, &[0; 1024]).is_ok() {}
                near.read_exact(&mut piece).await.unwrap();
            }
        });
        // on the same thread: it gets a turn before the other is done
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert!(!greedy.is_finished());
        greedy.await.unwrap();
    }

    #[tokio::test]
    async fn one_that_is_waited_for_wakes_whoever_waits() {
        let (mut near, mut far) = pair();
        let waiting = tokio::spawn(async move {
            let mut came = [0; 100];
            let length = near.read(&mut came).await.unwrap();
            assert!(matches!(near, ClientSocket::Watched(_)));
            // more than the kernel takes at once
            near.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
            length
        });
        tokio::task::yield_now().await;
        io::Write::write_all(&mut far, b"late").unwrap();
        let reader = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut far, &mut all).unwrap();
            all.len()
        });
        assert_eq!(waiting.await.unwrap(), 4);
        assert_eq!(reader.await.unwrap(), 1 << 20);
    }
}
