//! Asking the running process: a blocking client for the admin socket, for the verbs of the command line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// How long an answer may take: the longest thing asked for is an upgrade, which has its own deadline below this.
pub const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// No answer is longer.
const LARGEST_ANSWER: u64 = 64 << 20;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
}

impl Reply {
    /// Whether it says yes.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is not.
    pub fn json(&self) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.body)?)
    }

    /// What is wrong, in the process's words.
    pub fn error(&self) -> String {
        let told = self.json().ok().and_then(|body| Some(body.get("error")?.as_str()?.to_owned()));
        told.unwrap_or_else(|| format!("it answered with status {}", self.status))
    }
}

/// A path with a query of these names and values; values may be any text.
pub fn target(path: &str, query: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    format!("{path}?{}", query.iter().map(pair).collect::<Vec<_>>().join("&"))
}

/// Reads from the process that listens at `socket`; `target` is a path from `/`, with its query.
///
/// # Errors
/// Nobody answers.
pub fn get(socket: &Path, target: &str) -> io::Result<Reply> {
    whole(ask(socket, "GET", target, None, LONGEST_ANSWER)?)
}

/// Has the process do something.
///
/// # Errors
/// Nobody answers.
pub fn post(socket: &Path, target: &str, body: &Value) -> io::Result<Reply> {
    post_within(socket, target, body, LONGEST_ANSWER)
}

/// The same, and waits for so long.
///
/// # Errors
/// Nobody answers by then.
pub fn post_within(socket: &Path, target: &str, body: &Value, patience: Duration) -> io::Result<Reply> {
    whole(ask(socket, "POST", target, Some(body), patience)?)
}

/// Reads a stream, line by line, with its status. A line may take [as long as an answer](LONGEST_ANSWER).
///
/// # Errors
/// Nobody answers.
pub fn stream(socket: &Path, target: &str) -> io::Result<(u16, impl BufRead + use<>)> {
    ask(socket, "GET", target, None, LONGEST_ANSWER)
}

fn ask(
    socket: &Path,
    method: &str,
    target: &str,
    body: Option<&Value>,
    patience: Duration,
) -> io::Result<(u16, impl BufRead + use<>)> {
    let mut stream = UnixStream::connect(socket)?;
    // no time at all is none to the system
    stream.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let status = status(&mut reader)?;
    Ok((status, reader))
}

/// Reads the head, which says all that is needed in its first line: bodies end with their connection.
fn status(reader: &mut impl BufRead) -> io::Result<u16> {
    let mut first = String::new();
    let mut line = String::new();
    loop {
        line.clear();
        if reader.take(16 << 10).read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection without an answer"));
        }
        match line.trim_end() {
            "" => break,
            text if first.is_empty() => text.clone_into(&mut first),
            _ => {}
        }
    }
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it does not speak HTTP; another version has it?"))
}

fn whole((status, reader): (u16, impl BufRead)) -> io::Result<Reply> {
    let mut body = String::new();
    reader.take(LARGEST_ANSWER).read_to_string(&mut body)?;
    Ok(Reply { status, body })
}
