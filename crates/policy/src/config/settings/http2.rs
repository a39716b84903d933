//! Which versions of HTTP a listener speaks, and what a client may ask for on one connection of HTTP/2: the words and their
//! defaults, each with its because.

use std::time::Duration;

use crate::policy::Protocol;
use crate::units::{Bytes, Rate};

/// What is spoken; never nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/2.
    pub h2: bool,
    /// HTTP/1.1.
    pub http1: bool,
}

impl Protocols {
    /// What is spoken where the file does not say: both over TLS, where the handshake agrees on one; HTTP/1.1 without, as nothing
    /// but a program that is told so begins with HTTP/2 there.
    pub const fn by_default(over_tls: bool) -> Protocols {
        Protocols { h2: over_tls, http1: true }
    }

    /// Those that are listed.
    pub fn of(listed: &[Protocol]) -> Protocols {
        Protocols { h2: listed.contains(&Protocol::Http2), http1: listed.contains(&Protocol::Http1) }
    }

    /// In the order of our preference.
    pub fn list(self) -> impl Iterator<Item = Protocol> {
        [(self.h2, Protocol::Http2), (self.http1, Protocol::Http1)]
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, one)| one)
    }

    /// The names that a TLS handshake offers, in the order of our preference.
    pub fn alpn(self) -> Vec<Vec<u8>> {
        let name = |protocol| match protocol {
            Protocol::Http2 => b"h2".to_vec(),
            Protocol::Http1 => b"http/1.1".to_vec(),
        };
        self.list().map(name).collect()
    }
}

/// What a client may ask for on one connection of HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// Requests at once.
    pub max_concurrent_streams: u32,
    /// Requests that were cancelled before they were looked at, at once.
    pub max_pending_resets: u32,
    /// Requests that are cancelled: so many at once, and as many again in every period.
    pub resets: Rate,
    /// Frames that move no request along, beyond those that requests and answers earn: likewise.
    pub control_frames: Rate,
    /// Memory for the heads of all requests under way on one connection.
    pub head_memory: Bytes,
}

impl Default for Http2 {
    fn default() -> Http2 {
        let per_ten_seconds = |events| {
            Rate::new(events, Duration::from_secs(10))
                .unwrap_or_else(|_| unreachable!("thousands per second are a rate"))
        };
        Http2 {
            // the least that RFC 9113 section 6.5.2 recommends, and what nearly all servers give
            max_concurrent_streams: 100,
            // requests are looked at as they come, so nothing but an attack has more than one or two
            max_pending_resets: 20,
            // a browser that leaves a page cancels all that it had asked for, twice over
            resets: per_ten_seconds(200),
            // a microsecond's work each, and far above what browsers and libraries send
            control_frames: per_ten_seconds(1_000),
            // a hundred requests with 5 KiB of cookies and the rest
            head_memory: Bytes(512 << 10),
        }
    }
}
