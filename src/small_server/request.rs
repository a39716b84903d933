//! A request as it arrives: read within bounds, then understood whole.

use std::io;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Answer;
use crate::system::socket::Socket;

/// A longer request head is answered with 431.
pub const MAX_HEAD: usize = 8 << 10;

/// A longer request body is answered with 413.
pub const MAX_BODY: usize = 64 << 10;

/// No request has more fields.
const MAX_FIELDS: usize = 64;

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A TCP port.
    Tcp,
    /// A UNIX socket.
    Unix {
        /// Who opened the connection, by the kernel's word.
        user: u32,
    },
}

impl Origin {
    /// Of this connection.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn of(stream: &Socket) -> io::Result<Origin> {
        match stream {
            Socket::Tcp(_) => Ok(Origin::Tcp),
            Socket::Unix(stream) => Ok(Origin::Unix { user: stream.peer_cred()?.uid() }),
        }
    }
}

/// A request, whole.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its target without the query, as it was sent.
    pub path: String,
    /// What follows the first `?`, as it was sent; empty without one.
    pub query: String,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its body, of at most [`MAX_BODY`] bytes.
    pub body: Vec<u8>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Reads one request; `None` if the client leaves before it has asked, and the refusal of what cannot be taken.
///
/// # Errors
/// The connection broke.
pub async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    origin: Origin,
) -> io::Result<Option<Result<Request, Answer>>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if bytes.len() >= MAX_HEAD {
            return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "request head too large");
        }
        let room = (MAX_HEAD - bytes.len()) as u64;
        if stream.take(room).read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let mut body = bytes.split_off(end);
    let Some(mut request) = parse(&bytes, origin) else {
        return refuse(StatusCode::BAD_REQUEST, "not an HTTP/1.1 request");
    };
    if request.fields.contains_key(header::TRANSFER_ENCODING) {
        return refuse(StatusCode::LENGTH_REQUIRED, "a body needs its Content-Length");
    }
    let length = match length(&request.fields) {
        Some(length) if length <= MAX_BODY => length,
        Some(_) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "request body too large"),
        None => return refuse(StatusCode::BAD_REQUEST, "not a Content-Length"),
    };
    if request.fields.contains_key(header::EXPECT) && body.len() < length {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    while body.len() < length {
        let room = (length - body.len()) as u64;
        if stream.take(room).read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    body.truncate(length);
    request.body = body;
    Ok(Some(Ok(request)))
}

fn refuse(status: StatusCode, why: &str) -> io::Result<Option<Result<Request, Answer>>> {
    Ok(Some(Err(Answer::plain(status, format!("{why}\n")))))
}

fn parse(head: &[u8], origin: Origin) -> Option<Request> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    if !parsed.parse(head).ok()?.is_complete() {
        return None;
    }
    let target = parsed.path?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut fields = HeaderMap::new();
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        fields.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    Some(Request {
        method: Method::from_bytes(parsed.method?.as_bytes()).ok()?,
        path: path.to_owned(),
        query: query.to_owned(),
        fields,
        body: Vec::new(),
        origin,
    })
}

/// How long the body is; `None` for what is no length, or more than one.
fn length(fields: &HeaderMap) -> Option<usize> {
    let mut values = fields.get_all(header::CONTENT_LENGTH).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(0),
        // a sign is no digit, and what is too large for a number is too large
        (Some(value), None) => {
            let digits = value.to_str().ok()?;
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().unwrap_or(usize::MAX))
        }
        (Some(_), Some(_)) => None,
    }
}
