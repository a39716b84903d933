//! A client's side of a request on a stream of HTTP/2.

use std::any::Any;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::os::fd::RawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use pingora::{Error, ErrorType};

use super::super::context::RequestContext;
use super::super::downstream::Downstream;
use super::super::judge;
use super::client::Client;
use super::head::LaneHead;
use super::scratch::Scratch;
use super::{DirectLane, is_for_us};
use crate::edge::client_side::ClientSide;
use crate::edge::h2::direct::{DirectStreams, Outcome};
use crate::edge::h2::stream_io::StreamIo;
use crate::origins::exchange::AnswerLines;
use crate::units::Timestamp;
use tidegate_http::head::Body as RequestBody;

/// An answer's body is copied for the library in pieces of this size: that of a frame.
const PIECE: usize = 16 * 1024;

/// A client that speaks HTTP/2.
pub struct Http2<'a> {
    io: &'a mut StreamIo,
    head: &'a mut LaneHead,
    /// The status of the answer, once its head was taken.
    written: Option<StatusCode>,
    /// The last chunk of the request's body was made.
    has_last_chunk: bool,
    /// All that was read of the body can be sent again.
    is_repeatable: bool,
    /// The stream is given up behind what was written.
    is_given_up: bool,
}

impl<'a> Http2<'a> {
    /// The side of a request with this head.
    pub fn new(io: &'a mut StreamIo, head: &'a mut LaneHead) -> Http2<'a> {
        Http2 { io, head, written: None, has_last_chunk: false, is_repeatable: true, is_given_up: false }
    }

    /// Takes a head. `ends`: no body follows.
    fn put_head(&mut self, head: &AnswerLines, ends: bool) -> pingora::Result<()> {
        let status = head.status();
        let mut answer = Response::new(());
        *answer.status_mut() = status;
        *answer.version_mut() = Version::HTTP_2;
        *answer.headers_mut() = fields(head)?;
        self.io.put_head(answer, ends)?;
        if !status.is_informational() {
            self.written = Some(status);
        }
        Ok(())
    }
}

/// The fields of an answer, as the library wants them.
fn fields(head: &AnswerLines) -> pingora::Result<HeaderMap> {
    // `Date` comes to them
    let mut fields = HeaderMap::with_capacity(head.lines.len() + 1);
    for (name, value) in head.lines.iter() {
        let name = HeaderName::from_bytes(name).map_err(unwritable)?;
        // memory of its own for each, as the library keeps some in its table: one piece for all would be kept whole with any of them
        fields.append(name, HeaderValue::from_bytes(value).map_err(unwritable)?);
    }
    Ok(fields)
}

fn unwritable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Box<Error> {
    Error::because(ErrorType::InvalidHTTPHeader, "an answer that cannot be written", error)
}

impl Client for Http2<'_> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        self.io.poll_gone(cx).map(|error| error.into_down())
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<pingora::Result<u64>> {
        let data = ready!(self.io.poll_body(cx)).map_err(|error| error.into_down())?.unwrap_or_default();
        if self.head.body() != RequestBody::Chunked {
            into.extend_from_slice(&data);
        } else {
            if !data.is_empty() {
                // a size is written to memory, which cannot fail
                let _ = write!(into, "{:X}\r\n", data.len());
                into.reserve(data.len() + 7);
                into.put_slice(&data);
                into.put_slice(b"\r\n");
            }
            if self.io.is_body_complete() {
                into.put_slice(b"0\r\n\r\n");
                self.has_last_chunk = true;
            }
        }
        Poll::Ready(Ok(data.len() as u64))
    }

    fn connection(&self) -> Option<RawFd> {
        None
    }

    fn may_pause(&self) -> bool {
        self.io.may_pause()
    }

    fn cannot_be_repeated(&mut self) {
        self.is_repeatable = false;
    }

    async fn write_head(&mut self, head: &mut AnswerLines) -> pingora::Result<()> {
        // whether it is all of the answer is known below
        self.put_head(head, false)
    }

    async fn write_piece(&mut self, data: &[u8], ends: bool) -> pingora::Result<()> {
        let mut pieces = data.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            self.io.put_body(Bytes::copy_from_slice(piece), ends && pieces.peek().is_none()).await?;
        }
        if ends {
            self.io.put_end()?;
        }
        self.io.note_taken();
        Ok(())
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<pingora::Result<()>> {
        // the connection's task sends what there is
        Poll::Ready(Ok(()))
    }
}

impl Downstream for Http2<'_> {
    type Head = LaneHead;
    type Answer = AnswerLines;

    fn head(&self) -> &LaneHead {
        self.head
    }

    fn head_mut(&mut self) -> &mut LaneHead {
        self.head
    }

    fn client(&self) -> Option<&ClientSide> {
        Some(self.io.stream().client())
    }

    fn is_http2(&self) -> bool {
        true
    }

    fn is_read(&mut self) -> bool {
        self.io.note_end();
        match self.head.body() {
            // what ends it has to be sent, too
            RequestBody::Chunked => self.has_last_chunk,
            RequestBody::None | RequestBody::Length(_) => self.io.is_body_complete(),
        }
    }

    fn can_be_repeated(&self) -> bool {
        self.is_repeatable
    }

    fn has_hop_by_hop(&self) -> bool {
        self.head.has_hop_by_hop()
    }

    fn wants_upgrade(&self) -> bool {
        false
    }

    fn was_upgraded(&self) -> bool {
        false
    }

    fn written(&self) -> Option<StatusCode> {
        self.written
    }

    fn bytes_out(&self) -> u64 {
        self.io.bytes_sent() as u64
    }

    /// Nothing: the credit of the least rate bounds pauses, and each piece is counted as it goes on.
    fn bound_body(&mut self, _pause: Duration, _size: Option<u64>) {}

    fn close(&mut self) {
        self.is_given_up = true;
    }

    fn leave(&mut self) {
        self.io.stream().leave();
    }

    fn note_refusal(&self) {}

    fn gone(&mut self) -> impl Future<Output = Box<Error>> + Send {
        poll_fn(|cx| self.poll_gone(cx))
    }

    async fn reply(&mut self, head: AnswerLines, body: Bytes) -> pingora::Result<()> {
        let ends = body.is_empty();
        self.put_head(&head, ends)?;
        if !ends {
            self.io.put_body(body, true).await?;
        }
        Ok(())
    }
}

impl DirectLane {
    /// Judges a request, and serves it if it is for the lane. Returns whether its stream is to be ended, and not given up.
    async fn on_stream(&self, parts: &Parts, io: &mut StreamIo, scratch: &mut Scratch) -> Result<bool, Outcome> {
        let Scratch { head, context, origin, alarms: [alarm, late], .. } = scratch;
        // in the place where it stays, as it is some kilobytes
        let judged = context.insert(RequestContext::new(self.process.generation(), Timestamp::ZERO));
        let names = judged.generation.engine().fields().all();
        if head.take(parts, io.is_body_complete(), names).is_none() {
            return Err(Outcome::Left(None));
        }
        let Ok(redirected) = judge::judge(&self.process, Some(&io.stream().client().info), head, judged) else {
            return Err(Outcome::Left(None));
        };
        if !is_for_us(judged) {
            let context = context.take().map(|context| -> Box<dyn Any + Send + Sync> { Box::new(context) });
            return Err(Outcome::Left(context));
        }
        io.swap_alarm(late);
        let mut client = Http2::new(io, head);
        self.request(&mut client, judged, redirected, (origin, alarm)).await;
        let ends = !client.is_given_up;
        io.swap_alarm(late);
        Ok(ends)
    }
}

impl DirectStreams for DirectLane {
    fn serve_stream<'a>(
        &'a self,
        head: &'a Parts,
        io: &'a mut StreamIo,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(async move {
            let mut scratch = Scratch::take();
            let served = self.on_stream(head, io, &mut scratch).await;
            scratch.put();
            match served {
                Ok(ends) => {
                    if ends {
                        // a client that has gone needs no end
                        let _ = io.finish().await;
                    }
                    Outcome::Served
                }
                Err(left) => left,
            }
        })
    }
}
