//! A connection to one server, with a bound on what its answers take. No other file knows the `redis` crate's connections.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult, ServerErrorKind,
    Value,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::bounds::{Answers, Breach};
use super::script::ScriptCall;

/// How many questions may be on their way to one store; one more is [`StoreError::Busy`](crate::limiter::sharing::StoreError::Busy).
pub const MOST_ON_THEIR_WAY: u32 = 1_024;

/// What the unfinished answers of all connections to one store may take together, in bytes.
pub const MOST_HELD: usize = 16 * 1_024 * 1_024;

/// So many answers may come that nothing was asked for: a server that takes no more clients says so before it is asked.
const MOST_UNASKED: u64 = 4;

/// Where a server is.
pub type Address = (String, u16);

/// A connection, shared by its clones.
#[derive(Clone)]
pub struct Wire {
    connection: MultiplexedConnection,
    account: Arc<Account>,
    _driver: Arc<Driver>,
}

/// What is known of a connection on both of its sides.
#[derive(Default)]
struct Account {
    asked: AtomicU64,
    breach: OnceLock<Breach>,
}

/// Ends the connection with its last clone.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Wire {
    /// Connects. `held` is what all connections to the store hold.
    ///
    /// # Errors
    /// There is no server, or its certificate is not trusted.
    pub async fn open(
        (host, port): &Address,
        tls: Option<&TlsConnector>,
        held: &Arc<AtomicUsize>,
    ) -> RedisResult<Wire> {
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        match tls {
            None => Wire::over(stream, held).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| (ErrorKind::InvalidClientConfig, "not a name for a certificate"))?;
                Wire::over(tls.connect(name, stream).await?, held).await
            }
        }
    }

    async fn over<S>(stream: S, held: &Arc<AtomicUsize>) -> RedisResult<Wire>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let account = Arc::new(Account::default());
        let answers = Answers::default();
        let stream = Bounded { stream, answers, account: Arc::clone(&account), counted: 0, held: Arc::clone(held) };
        let config = AsyncConnectionConfig::new()
            // the caller has the time
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MOST_ON_THEIR_WAY as usize);
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&login, stream, config).await?;
        let driver = Driver(tokio::spawn(driver).abort_handle());
        Ok(Wire { connection, account, _driver: Arc::new(driver) })
    }

    /// Runs a script. Sends it again only where the server says that it does not have the script, and so did not execute it. `ahead`
    /// is for a server that only takes the key's slot over.
    ///
    /// # Errors
    /// What the server has against it, or that it is gone.
    pub async fn run(&mut self, call: &ScriptCall<'_>, ahead: bool) -> RedisResult<Value> {
        let mut whole = false;
        loop {
            let command = call.command(whole);
            let answer = if ahead { self.ask_ahead(command).await } else { self.ask(&command).await };
            match answer {
                Err(error) if !whole && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => whole = true,
                answer => return answer,
            }
        }
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// What the server has against it, or that it is gone.
    pub async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.account.asked.fetch_add(1, Ordering::Relaxed);
        let said = self.connection.req_packed_command(command).await;
        said.and_then(Value::extract_error).map_err(|error| self.judge(error))
    }

    /// Asks something of a server that takes over the key's slot, and does so only for who says `ASKING` in the same breath.
    ///
    /// # Errors
    /// See [`Wire::ask`].
    async fn ask_ahead(&mut self, command: Cmd) -> RedisResult<Value> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ASKING").add_command(command);
        self.account.asked.fetch_add(2, Ordering::Relaxed);
        let said = self.connection.req_packed_commands(&pipeline, 0, 2).await;
        let said = said.map_err(|error| self.judge(error))?.into_iter().nth(1);
        said.ok_or((ErrorKind::UnexpectedReturnType, "one answer to two commands"))?.extract_error()
    }

    /// What went wrong, in truth: to the crate a connection that was ended here is one that broke.
    fn judge(&self, error: RedisError) -> RedisError {
        match self.account.breach.get() {
            Some(breach) if error.is_io_error() => (ErrorKind::Parse, breach.text()).into(),
            _ => error,
        }
    }
}

/// A stream whose answers are read along.
struct Bounded<S> {
    stream: S,
    answers: Answers,
    account: Arc<Account>,
    /// What of `held` is this connection's.
    counted: usize,
    held: Arc<AtomicUsize>,
}

impl<S> Bounded<S> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Breach> {
        self.answers.take(bytes)?;
        let weight = self.answers.weight();
        let all = match weight.checked_sub(self.counted) {
            Some(more) => self.held.fetch_add(more, Ordering::Relaxed).saturating_add(more),
            None => self.held.fetch_sub(self.counted - weight, Ordering::Relaxed),
        };
        self.counted = weight;
        if all > MOST_HELD && weight > 0 {
            return Err(Breach::Crowded);
        }
        if self.answers.whole() > self.account.asked.load(Ordering::Relaxed).saturating_add(MOST_UNASKED) {
            return Err(Breach::Unasked);
        }
        Ok(())
    }
}

impl<S> Drop for Bounded<S> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if let Err(breach) = self.take(buf.filled().get(before..).unwrap_or_default()) {
            _ = self.account.breach.set(breach);
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, breach.text())));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(held: &Arc<AtomicUsize>) -> Bounded<()> {
        let (answers, account) = (Answers::default(), Arc::default());
        Bounded { stream: (), answers, account, counted: 0, held: Arc::clone(held) }
    }

    #[test]
    fn all_connections_of_a_store_share_what_unfinished_answers_may_take() {
        let held = Arc::default();
        let (mut one, mut two, mut three) = (connection(&held), connection(&held), connection(&held));
        assert_eq!(one.take(b"$8000000\r\n"), Ok(()));
        assert_eq!(two.take(b"$8000000\r\nand some of it"), Ok(()));
        assert_eq!(three.take(b"$8000000\r\n"), Err(Breach::Crowded));
        drop((one, three));
        let mut four = connection(&held);
        assert_eq!(four.take(b"$8000000\r\n"), Ok(()));
        drop((two, four));
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_whole_is_no_longer_counted_and_answers_to_nothing_are_few() {
        let held = Arc::default();
        let mut one = connection(&held);
        one.account.asked.store(1, Ordering::Relaxed);
        assert_eq!(one.take(b"$3\r\nab"), Ok(()));
        assert_eq!(held.load(Ordering::Relaxed), 3);
        assert_eq!(one.take(b"c\r\n"), Ok(()));
        assert_eq!(held.load(Ordering::Relaxed), 0);
        assert_eq!(one.take(&b"+OK\r\n".repeat(4)), Ok(()));
        assert_eq!(one.take(b"+OK\r\n"), Err(Breach::Unasked));
    }
}
