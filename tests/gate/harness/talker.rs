//! An honest client of HTTP/2, by the library of that name.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::PATIENCE;

/// Runs a conversation to its end.
pub fn talk<T>(conversation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(PATIENCE, conversation).await.expect("the conversation ends in time") })
}

/// One connection.
#[derive(Clone)]
pub struct Talker {
    requests: SendRequest<Bytes>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

impl Talker {
    /// Connects; the connection is driven by a task of its own, whose end is told by the handle.
    pub async fn open(address: SocketAddr) -> (Talker, JoinHandle<Result<(), h2::Error>>) {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).unwrap();
        Talker::over(stream).await.expect("a handshake")
    }

    /// The same over a stream that stands.
    ///
    /// # Errors
    /// The other side does not begin to speak HTTP/2.
    pub async fn over<S>(stream: S) -> Result<(Talker, JoinHandle<Result<(), h2::Error>>), h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection): (_, Connection<S, Bytes>) = h2::client::handshake(stream).await?;
        Ok((Talker { requests }, tokio::spawn(connection)))
    }

    /// Sends a head; `end` says that there is no body.
    pub async fn begin(&mut self, request: Request<()>, end: bool) -> (ResponseFuture, SendStream<Bytes>) {
        poll_fn(|cx| self.requests.poll_ready(cx)).await.expect("the connection takes requests");
        self.requests.send_request(request, end).expect("the request goes out")
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, request: Request<()>, body: &[u8]) -> Result<Answered, h2::Error> {
        let (answer, mut sending) = self.begin(request, body.is_empty()).await;
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        read(answer.await?).await
    }

    /// Sends a request without a body, once there is room for it; told apart from its answer, because a request that was
    /// never sent has not failed.
    ///
    /// # Errors
    /// The connection takes no requests any more.
    pub async fn send(&mut self, request: Request<()>) -> Result<ResponseFuture, h2::Error> {
        poll_fn(|cx| self.requests.poll_ready(cx)).await?;
        Ok(self.requests.send_request(request, true)?.0)
    }

    /// Whether the connection still takes requests.
    pub fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), h2::Error>> {
        self.requests.poll_ready(cx)
    }

    /// A GET.
    pub async fn get(&mut self, path: &str) -> Result<Answered, h2::Error> {
        self.ask(request("GET", path, &[]), b"").await
    }
}

/// The head of a request.
pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(format!("http://gate.example{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

/// Reads the rest of an answer.
pub async fn read(answer: Response<RecvStream>) -> Result<Answered, h2::Error> {
    let (head, mut body) = answer.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await?;
    Ok(Answered { status: head.status.as_u16(), fields: head.headers, body: bytes.to_vec(), trailers })
}
