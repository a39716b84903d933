//! A client of HTTP/2 at the level of frames: what it sends is exactly what a test says, right or wrong.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::harness::PATIENCE;
use crate::harness::client::is_cut;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// ENHANCE_YOUR_CALM (RFC 9113 section 7).
pub const CALM: u32 = 11;

/// One frame in bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Fields in HPACK, each as a literal that is not indexed and not compressed (RFC 7541 section 6.2.2).
pub fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            length(&mut bytes, text.len());
            bytes.extend_from_slice(text);
        }
    }
    bytes
}

/// An integer with a prefix of 7 bits (RFC 7541 section 5.1).
fn length(bytes: &mut Vec<u8>, mut number: usize) {
    if number < 127 {
        return bytes.push(number as u8);
    }
    bytes.push(127);
    number -= 127;
    while number >= 128 {
        bytes.push((number % 128) as u8 | 128);
        number /= 128;
    }
    bytes.push(number as u8);
}

/// A whole head in one frame.
pub fn head(stream: u32, fields: &[(&[u8], &[u8])], end: bool) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | if end { END_STREAM } else { 0 }, stream, &block(fields))
}

/// The head of an honest GET.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    head(
        stream,
        &[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", path.as_bytes())],
        true,
    )
}

/// A frame from the gate.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// What became of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An answer, complete.
    Status(u16),
    /// Reset with this code, before an answer or in the middle of one.
    Reset(u32),
    /// The connection ended with this code.
    GoAway(u32),
    /// The connection ended without a word.
    Closed,
}

/// One connection.
pub struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Raw {
    /// Connects and says that it speaks HTTP/2, with these settings (pairs of identifier and value).
    pub fn open(address: SocketAddr, settings: &[(u16, u32)]) -> Raw {
        Raw::start(TcpStream::connect(address).expect("a connection"), settings)
    }

    /// The same from this address of this machine.
    pub fn open_from(source: Ipv4Addr, address: SocketAddr) -> Raw {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("every address of the loopback network is ours");
        socket.connect_timeout(&address.into(), PATIENCE).expect("a connection");
        Raw::start(socket.into(), &[])
    }

    fn start(stream: TcpStream, settings: &[(u16, u32)]) -> Raw {
        let mut raw = Raw::silent(stream);
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        raw.send(PREFACE).expect("the preface goes out");
        raw.send(&frame(SETTINGS, 0, 0, &payload)).expect("the settings go out");
        raw
    }

    /// A connection on which nothing has been said yet.
    pub fn silent(stream: TcpStream) -> Raw {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, unread: Vec::new() }
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next frame; `None` when the connection is over.
    pub fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(header) = self.unread.get(..9) {
                let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                if self.unread.len() >= 9 + length {
                    let bytes: Vec<u8> = self.unread.drain(..9 + length).collect();
                    let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap()) & 0x7fff_ffff;
                    return Ok(Some(Frame { kind: bytes[3], flags: bytes[4], stream, payload: bytes[9..].to_vec() }));
                }
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if is_cut(&fault) => return Ok(None),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Reads until the fate of this stream is known. The first answer on a connection only: later ones may be compressed
    /// against it.
    pub fn outcome(&mut self, stream: u32) -> io::Result<Outcome> {
        let mut status = None;
        while let Some(frame) = self.next()? {
            match frame.kind {
                HEADERS if frame.stream == stream && status.is_none_or(|status| status < 200) => {
                    status = Some(status_of(&frame.payload).expect("a block begins with the status"));
                    if frame.flags & END_STREAM != 0 {
                        return Ok(Outcome::Status(status.unwrap()));
                    }
                }
                DATA | HEADERS if frame.stream == stream && frame.flags & END_STREAM != 0 => {
                    return Ok(Outcome::Status(status.expect("a body follows a head")));
                }
                RESET if frame.stream == stream => return Ok(Outcome::Reset(code(&frame.payload))),
                GOAWAY if code(&frame.payload[4..]) != 0 => return Ok(Outcome::GoAway(code(&frame.payload[4..]))),
                _ => {}
            }
        }
        Ok(Outcome::Closed)
    }

    /// Reads to the end of the connection; the code of the GOAWAY that ended it, if one did.
    pub fn farewell(&mut self) -> io::Result<Option<u32>> {
        let mut said = None;
        while let Some(frame) = self.next()? {
            if frame.kind == GOAWAY {
                said = Some(code(&frame.payload[4..]));
            }
        }
        Ok(said)
    }
}

fn code(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// The status at the front of a block: an entry of the static table, or a literal with the name of one.
pub fn status_of(block: &[u8]) -> Option<u16> {
    match block {
        [first @ 0x88..=0x8e, ..] => Some([200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)]),
        [0x48 | 0x08 | 0x18, length, text @ ..] if length & 0x80 == 0 => {
            std::str::from_utf8(&text[..usize::from(*length)]).ok()?.parse().ok()
        }
        [0x48 | 0x08 | 0x18, length, text @ ..] => digits(&text[..usize::from(length & 0x7f)]),
        _ => None,
    }
}

/// Three digits in the code of RFC 7541 appendix B: 0 to 2 take five bits, the others six.
fn digits(bytes: &[u8]) -> Option<u16> {
    let bits = bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte)) << (64 - 8 * bytes.len());
    let (mut at, mut number) = (0, 0);
    for _ in 0..3 {
        let six = (bits << at >> 58) as u16;
        let (digit, taken) = match six {
            0..=5 => (six >> 1, 5),
            0b01_1001..=0b01_1111 => (six - 0b01_1001 + 3, 6),
            _ => return None,
        };
        number = number * 10 + digit;
        at += taken;
    }
    Some(number)
}

#[test]
fn statuses_are_read_back() {
    assert_eq!(status_of(&[0x88]), Some(200));
    assert_eq!(status_of(&[0x8d]), Some(404));
    // "302" of RFC 7541 appendix C.6.1, "307" of C.6.2
    assert_eq!(status_of(&[0x48, 0x82, 0x64, 0x02]), Some(302));
    assert_eq!(status_of(&[0x48, 0x83, 0x64, 0x0e, 0xff]), Some(307));
    assert_eq!(status_of(b"\x08\x03403"), Some(403));
}
