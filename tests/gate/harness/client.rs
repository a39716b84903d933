//! A client at the level of bytes, and HTTP/1.1 over it: one request after the other on one kept connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::PATIENCE;

/// One connection, with everything that was read but not yet taken.
pub struct Connection {
    stream: Stream,
    unread: Vec<u8>,
    taken: usize,
}

/// How the bytes travel.
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// An answer, read to its end.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    /// The fields in order, as they came.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body ended as its framing promised.
    pub complete: bool,
    /// Interim answers that came before.
    pub interim: Vec<u16>,
}

impl Answer {
    /// The values of this field, joined as one list; `None` when it is not there.
    pub fn field(&self, name: &str) -> Option<String> {
        let lines =
            self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str());
        let lines: Vec<&str> = lines.collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the connection goes on after this answer.
    pub fn keeps_connection(&self) -> bool {
        let closes = self.field("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close"));
        self.complete && !closes
    }
}

impl Connection {
    /// Connects; every read and write gives up after [`PATIENCE`].
    pub fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).unwrap_or_else(|fault| panic!("no connection to {address}: {fault}"))
    }

    /// The same from this address of this machine.
    pub fn open_from(source: Ipv4Addr, address: SocketAddr) -> Connection {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("every address of the loopback network is ours");
        socket.connect_timeout(&address.into(), PATIENCE).expect("a connection");
        Connection::over(socket.into()).expect("a connection can be set up")
    }

    /// The same where being refused is an answer too.
    pub fn try_open(address: SocketAddr) -> io::Result<Connection> {
        Connection::over(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: Stream::Plain(stream), unread: Vec::new(), taken: 0 })
    }

    /// Does the client's side of a handshake to its end. With TLS 1.3 a server may still refuse afterwards.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn secured(self, client: ClientConnection) -> io::Result<Connection> {
        let Stream::Plain(stream) = self.stream else { panic!("it is secure already") };
        let mut stream = StreamOwned::new(client, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection { stream: Stream::Tls(Box::new(stream)), unread: Vec::new(), taken: 0 })
    }

    /// What is known of the handshake.
    pub fn tls(&self) -> &ClientConnection {
        match &self.stream {
            Stream::Tls(stream) => &stream.conn,
            Stream::Plain(_) => panic!("it is not secure"),
        }
    }

    /// Sends one request and reads its answer. `lines` are further header lines, each ending in CRLF; `Host` and, with
    /// a body, `Content-Length` are added.
    ///
    /// # Panics
    /// When no answer comes.
    pub fn ask(&mut self, method: &str, path: &str, lines: &str, body: &[u8]) -> Answer {
        let sent = self.send(&request(method, path, lines, body));
        self.answer_to(method).unwrap_or_else(|fault| panic!("{method} {path}: no answer: {fault}; sent: {sent:?}"))
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the answer to a request with this method.
    ///
    /// # Errors
    /// The connection ends or stays silent before the head is complete, or the head is no HTTP.
    pub fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        let mut interim = Vec::new();
        loop {
            let head = self.head()?;
            let (status, fields) = parse_head(&head)?;
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            let mut answer = Answer { status, fields, interim, ..Answer::default() };
            (answer.body, answer.complete) = self.body(method, &answer);
            return Ok(answer);
        }
    }

    /// Reads the answer to a request with this method: all heads as they came, interim ones too, the body without its coding, and
    /// whether it ended as the last head promised.
    ///
    /// # Errors
    /// As [`Connection::answer_to`].
    pub fn raw_answer_to(&mut self, method: &str) -> io::Result<(Vec<Vec<u8>>, Vec<u8>, bool)> {
        let mut heads = Vec::new();
        loop {
            let head = self.head()?;
            let (status, fields) = parse_head(&head)?;
            heads.push(head);
            if !(100..200).contains(&status) {
                let (body, complete) = self.body(method, &Answer { status, fields, ..Answer::default() });
                return Ok((heads, body, complete));
            }
        }
    }

    /// Reads one complete head, without its last empty line.
    ///
    /// # Errors
    /// As [`Connection::answer_to`].
    pub fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = self.taken;
        loop {
            let from = searched.saturating_sub(3).max(self.taken);
            if let Some(at) = self.unread[from..].windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.unread[self.taken..from + at].to_vec();
                self.taken = from + at + 4;
                return Ok(head);
            }
            searched = self.unread.len();
            let taken = self.taken;
            if !self.fill()? {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed before a complete head"));
            }
            searched -= taken - self.taken;
        }
    }

    /// Everything until the other side closes. A reset counts as a close; silence for the read timeout is an error.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) if is_cut(&fault) => break,
                Err(fault) => return Err(fault),
            }
        }
        let rest = self.unread.split_off(self.taken);
        (self.unread, self.taken) = (Vec::new(), 0);
        Ok(rest)
    }

    /// Whether nothing more comes, and the other side has said so rather than been cut off.
    pub fn has_ended_well(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    /// Reads at least `count` bytes of what comes and throws them away.
    pub fn skip(&mut self, count: usize) -> io::Result<()> {
        while self.unread.len() - self.taken < count {
            if !self.fill()? {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed"));
            }
        }
        self.taken += count;
        Ok(())
    }

    /// Gives up on reads after this long from now on.
    pub fn be_patient_for(&mut self, deadline: Duration) {
        self.stream.socket().set_read_timeout(Some(deadline)).expect("a timeout can be set");
    }

    /// Says that nothing more will be sent; answers can still be read.
    pub fn finish_sending(&self) {
        let _ = self.stream.socket().shutdown(Shutdown::Write);
    }

    /// Cuts the connection with a reset, as a crashed client does.
    pub fn reset(self) {
        SockRef::from(self.stream.socket()).set_linger(Some(Duration::ZERO)).expect("linger can be set");
    }

    fn body(&mut self, method: &str, answer: &Answer) -> (Vec<u8>, bool) {
        if method == "HEAD" || matches!(answer.status, 101 | 204 | 304) {
            return (Vec::new(), true);
        }
        if answer.field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            let mut body = Vec::new();
            let complete = self.chunks(&mut body).is_ok();
            return (body, complete);
        }
        match answer.field("content-length").map(|value| value.parse::<usize>()) {
            Some(Ok(length)) => {
                let mut body = Vec::new();
                let complete = self.exactly(length, &mut body).is_ok();
                (body, complete)
            }
            Some(Err(_)) => (Vec::new(), false),
            None => match self.rest() {
                Ok(body) => (body, true),
                Err(_) => (Vec::new(), false),
            },
        }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| io::Error::other("bad chunk size"))?;
            self.exactly(size, body)?;
            if !self.line()?.is_empty() {
                return Err(io::Error::other("bad chunk end"));
            }
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.unread[self.taken..].windows(2).position(|window| window == b"\r\n") {
                let line = String::from_utf8_lossy(&self.unread[self.taken..self.taken + at]).into_owned();
                self.taken += at + 2;
                return Ok(line);
            }
            if !self.fill()? {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed inside a line"));
            }
        }
    }

    fn exactly(&mut self, count: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let mut missing = count;
        loop {
            let here = missing.min(self.unread.len() - self.taken);
            body.extend_from_slice(&self.unread[self.taken..self.taken + here]);
            self.taken += here;
            missing -= here;
            if missing == 0 {
                return Ok(());
            }
            if !self.fill()? {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed inside a body"));
            }
        }
    }

    /// Reads once; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.taken > 0 {
            self.unread.drain(..self.taken);
            self.taken = 0;
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    return Ok(count > 0);
                }
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// A complete request as [`Connection::ask`] sends it.
pub fn request(method: &str, path: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let has_host = lines.to_ascii_lowercase().lines().any(|line| line.starts_with("host:"));
    let host = if has_host { "" } else { "Host: gate.example\r\n" };
    let length = match (body, method) {
        ([], "POST" | "PUT" | "PATCH") => "Content-Length: 0\r\n".to_owned(),
        ([], _) => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n{host}{lines}{length}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Whether this is the other side going away rather than staying silent.
pub fn is_cut(fault: &io::Error) -> bool {
    matches!(
        fault.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof
    )
}

fn parse_head(head: &[u8]) -> io::Result<(u16, Vec<(String, String)>)> {
    let text = String::from_utf8_lossy(head);
    let bad = || io::Error::new(ErrorKind::InvalidData, format!("no HTTP: {text:?}"));
    let mut lines = text.split("\r\n");
    let status_line = lines.next().ok_or_else(bad)?;
    let rest =
        status_line.strip_prefix("HTTP/1.1 ").or_else(|| status_line.strip_prefix("HTTP/1.0 ")).ok_or_else(bad)?;
    let status = rest.get(..3).and_then(|digits| digits.parse().ok()).ok_or_else(bad)?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok((status, fields))
}
