//! Writes an answer of the gate as bytes, for requests that Pingora has not seen.

use http::{HeaderName, StatusCode};
use pingora::protocols::http::date::get_cached_date;

use super::fields::titled;
use crate::answer::{Answer, Sink, Value, json};

/// Room for most answers.
const ROOM: usize = 1024;

/// A whole answer, as it is written to a connection.
#[derive(Debug)]
pub struct Written {
    /// The body, and the head behind it: the head tells the body's length.
    bytes: Vec<u8>,
    /// Where the body ends.
    body: usize,
    /// Its status.
    pub status: StatusCode,
    /// The length of the body that is sent.
    pub length: usize,
    stay: bool,
}

/// Returns the whole answer. `stay`: the connection serves another request after it. `memory`: as for [`Written::new`].
pub fn written(answer: &Answer, stay: bool, memory: Vec<u8>) -> Written {
    let mut written = Written::new(stay, memory);
    written.body().extend_from_slice(&answer.body);
    written.status(answer.status);
    for (name, value) in &answer.headers {
        written.field(name, Value::Line(value));
    }
    written.end(true);
    written
}

impl Written {
    /// Nothing yet. `stay`: the connection serves another request after the answer. `memory`: of an answer before, or none.
    pub fn new(stay: bool, memory: Vec<u8>) -> Written {
        let mut bytes = memory;
        bytes.clear();
        bytes.reserve(ROOM);
        Written { bytes, body: 0, status: StatusCode::OK, length: 0, stay }
    }

    /// The memory for the next one.
    pub fn memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Its parts, in the order in which they are sent.
    pub fn parts(&self) -> [&[u8]; 2] {
        let (body, head) = self.bytes.split_at_checked(self.body).unwrap_or_default();
        [head, body.get(..self.length).unwrap_or_default()]
    }

    fn line(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
    }
}

impl Sink for Written {
    fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn status(&mut self, status: StatusCode) {
        (self.status, self.body) = (status, self.bytes.len());
        for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default(), "\r\n"] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }

    fn field(&mut self, name: &HeaderName, value: Value<'_>) {
        let name = titled(name);
        match value {
            Value::Static(text) => self.line(name, text.as_bytes()),
            Value::Text(text) => self.line(name, text),
            Value::Line(line) => self.line(name, line.as_bytes()),
            Value::Number(number) => {
                self.bytes.extend_from_slice(name.as_bytes());
                self.bytes.extend_from_slice(b": ");
                json::number(&mut self.bytes, number);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    fn end(&mut self, with_body: bool) {
        self.line("Date", get_cached_date().as_bytes());
        self.line("Connection", if self.stay { b"keep-alive" } else { b"close" });
        self.bytes.extend_from_slice(b"\r\n");
        self.length = if with_body { self.body } else { 0 };
    }
}
