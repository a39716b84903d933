//! What the framework demands of a session, handed on.

use std::future::poll_fn;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::HttpTask;
use pingora::protocols::http::custom::{CustomMessageWrite, server};
use pingora::protocols::l4::socket::SocketAddr;

use super::{Kept, Session};

type Messages = Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>;

#[async_trait]
impl server::Session for Session {
    fn req_header(&self) -> &RequestHeader {
        &self.head
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        &mut self.head
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// Nothing: what is left is taken in when the answer is complete.
    async fn drain_request_body(&mut self) -> Result<()> {
        Ok(())
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, end: bool) -> Result<()> {
        self.put_head(head, end)
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, end: bool) -> Result<()> {
        self.put_head(Box::new(head.clone()), end)
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.io.put_body(data, end).await
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.io.put_trailers(trailers)
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        self.perform(tasks).await
    }

    /// The credit of the least rate is used instead, as in HTTP/1.
    fn set_read_timeout(&mut self, _: Option<Duration>) {}

    fn get_read_timeout(&self) -> Option<Duration> {
        None
    }

    /// The credit of the least rate is used instead, as in HTTP/1.
    fn set_write_timeout(&mut self, _: Option<Duration>) {}

    fn get_write_timeout(&self) -> Option<Duration> {
        None
    }

    fn set_total_drain_timeout(&mut self, _: Option<Duration>) {}

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        None
    }

    fn request_summary(&self) -> String {
        format!("{} {}", self.head.method, self.head.uri)
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.written.as_deref()
    }

    async fn shutdown(&mut self, _: u32, _: &str) {
        self.io.cut();
    }

    fn is_body_done(&mut self) -> bool {
        self.io.note_end();
        self.io.is_body_complete()
    }

    async fn finish(&mut self) -> Result<()> {
        self.io.finish().await
    }

    fn is_body_empty(&mut self) -> bool {
        self.io.note_end();
        self.io.has_no_body()
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        if no_body_expected || self.io.is_body_complete() {
            return Err(poll_fn(|cx| self.poll_gone(cx)).await);
        }
        self.read_body_bytes().await
    }

    fn body_bytes_sent(&self) -> usize {
        self.io.bytes_sent()
    }

    fn body_bytes_read(&self) -> usize {
        self.io.bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        Some(&self.digest)
    }

    /// Shared with all streams of the connection.
    fn digest_mut(&mut self) -> Option<&mut Digest> {
        None
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.digest.socket_digest.as_ref()?.peer_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.digest.socket_digest.as_ref()?.local_addr()
    }

    /// For the framework's subrequests, which are not used.
    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        Bytes::new()
    }

    fn enable_retry_buffering(&mut self) {
        if matches!(self.kept, Kept::Off) {
            self.kept = Kept::On(bytes::BytesMut::new());
        }
    }

    fn retry_buffer_truncated(&self) -> bool {
        matches!(self.kept, Kept::TooMuch)
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        match &self.kept {
            Kept::On(bytes) if !bytes.is_empty() => Some(Bytes::copy_from_slice(bytes)),
            _ => None,
        }
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(&mut self) -> Option<Messages> {
        None
    }

    fn restore_custom_message_reader(&mut self, _: Messages) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }
}
