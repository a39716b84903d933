//! Errors of clients, one line a minute: bad requests, refused connections, handshakes that fail, abuse of
//! HTTP/2, clients that leave.
//!
//! The client decides how often they happen, so not each gets a line. Every occurrence is counted
//! in the metrics; here it is counted once more by reason, with one client as an example, and the housekeeping turns that into a
//! line of the process's log. The first line comes within a second, the next ones a minute apart, and none when nothing
//! happened. Noting costs two atomic additions, without locks and without memory.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;

use super::fair_share_log::shown_client;
use super::metrics::{CONNECTION_REASONS, malformed_reasons};
use super::pseudonym::Pseudonyms;
use crate::client::{ClientRules, resolve};
use crate::config::settings::ClientInLog;
use crate::edge::tls::handshake::HandshakeFault;
use crate::request::Peer;
use crate::units::Timestamp;
use tidegate_http::h2::frames::Violation;

/// The client left before it had an answer.
pub const ABORTED: &str = "aborted";

/// From one line to the next.
const PERIOD: Duration = Duration::from_secs(60);

/// What happened at one listener since its last line.
#[derive(Debug)]
pub struct Noise {
    /// In the order of [`reasons`]. Counts only; nothing is published by them.
    counts: Box<[AtomicU64]>,
    example: Example,
    /// When the last line was written, in nanoseconds; zero before the first. The housekeeping's own.
    told: AtomicU64,
}

/// Who did what, once per line. `state` publishes the other words: whoever claims it writes them, and the housekeeping reads
/// them when they are there.
#[derive(Debug, Default)]
struct Example {
    state: AtomicU8,
    reason: AtomicU64,
    /// 0 for a UNIX socket, else 4 or 6.
    family: AtomicU8,
    high: AtomicU64,
    low: AtomicU64,
}

const FREE: u8 = 0;
const CLAIMED: u8 = 1;
const THERE: u8 = 2;

/// What a reason is about. The words alone are not enough: a head can be `late`, and so can a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A request, or a connection on which there is none.
    Request,
    /// A handshake of TLS.
    Handshake,
    /// A connection that speaks HTTP/2.
    Http2,
}

impl About {
    /// What stands before the reason in the line.
    const fn prefix(self) -> &'static str {
        match self {
            About::Request => "",
            About::Handshake => "tls/",
            About::Http2 => "h2/",
        }
    }
}

/// Everything that can be noted, in the words of the metrics. The last one, [`ABORTED`], also stands for words that are not
/// known here.
fn reasons() -> impl Iterator<Item = (About, &'static str)> {
    let requests = malformed_reasons().chain(CONNECTION_REASONS.iter().copied());
    let handshakes = HandshakeFault::ALL.iter().map(|fault| (About::Handshake, fault.reason()));
    let abuses = Violation::ALL.iter().map(|abuse| (About::Http2, abuse.word()));
    let requests = requests.map(|word| (About::Request, word));
    requests.chain(handshakes).chain(abuses).chain([(About::Request, ABORTED)])
}

impl Noise {
    /// Nothing happened yet.
    pub fn new() -> Noise {
        let counts = reasons().map(|_| AtomicU64::new(0)).collect();
        Noise { counts, example: Example::default(), told: AtomicU64::new(0) }
    }

    /// `peer` did what is counted under `reason`.
    pub fn note(&self, about: About, reason: &'static str, peer: Peer) {
        let index = reasons().position(|known| known == (about, reason)).unwrap_or(self.counts.len() - 1);
        if let Some(count) = self.counts.get(index) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.example.offer(index, peer);
    }

    /// Writes the line if one is due. `listener` is the operator's name for where it happened.
    pub fn tell(&self, listener: &str, now: Timestamp, said: &Saying<'_>) {
        let told = Timestamp::from_nanos(self.told.load(Ordering::Relaxed));
        if told > Timestamp::ZERO && now.since(told) < PERIOD {
            return;
        }
        let Some((total, what)) = self.taken() else { return };
        self.told.store(now.nanos(), Ordering::Relaxed);
        let (example, client) = match self.example.take() {
            Some((index, peer)) => (reasons().nth(index).map(text).unwrap_or_default(), said.client(peer)),
            None => (String::new(), String::new()),
        };
        tracing::info!(listener, total, what, example, client, "clients misbehaved since the last such line");
    }

    /// The counts as a total and as text, from now on zero; `None` when nothing happened.
    fn taken(&self) -> Option<(u64, String)> {
        let mut seen: Vec<(u64, (About, &'static str))> =
            self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).zip(reasons()).collect();
        seen.retain(|(count, _)| *count > 0);
        seen.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let total = seen.iter().map(|(count, _)| count).sum::<u64>();
        let mut what = String::new();
        for (count, reason) in seen {
            let comma = if what.is_empty() { "" } else { ", " };
            let _ = write!(what, "{comma}{} {count}", text(reason));
        }
        (total > 0).then_some((total, what))
    }
}

fn text((about, reason): (About, &'static str)) -> String {
    format!("{}{reason}", about.prefix())
}

impl Default for Noise {
    fn default() -> Noise {
        Noise::new()
    }
}

/// How clients are written.
#[derive(Debug, Clone, Copy)]
pub struct Saying<'a> {
    /// What makes a client.
    pub rules: &'a ClientRules,
    /// As in the access log; as pseudonyms if there is none.
    pub as_what: ClientInLog,
    /// How they are named.
    pub pseudonyms: &'a Pseudonyms,
}

impl Saying<'_> {
    fn client(&self, peer: Peer) -> String {
        let client = resolve(self.rules, peer, &HeaderMap::new());
        client.map_or_else(|_| String::new(), |client| shown_client(&client, self.as_what, self.pseudonyms).to_string())
    }
}

impl Example {
    fn offer(&self, reason: usize, peer: Peer) {
        // a look first: in a flood the exchange would only move the cache line about
        if self.state.load(Ordering::Relaxed) != FREE
            || self.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        let (family, bits) = match peer {
            Peer::Unix => (0, 0),
            Peer::Ip(IpAddr::V4(v4)) => (4, u128::from(v4.to_bits())),
            Peer::Ip(IpAddr::V6(v6)) => (6, v6.to_bits()),
        };
        self.reason.store(reason as u64, Ordering::Relaxed);
        self.family.store(family, Ordering::Relaxed);
        self.high.store((bits >> 64) as u64, Ordering::Relaxed);
        self.low.store(bits as u64, Ordering::Relaxed);
        self.state.store(THERE, Ordering::Release);
    }

    fn take(&self) -> Option<(usize, Peer)> {
        if self.state.load(Ordering::Acquire) != THERE {
            return None;
        }
        let low = self.low.load(Ordering::Relaxed);
        let bits = u128::from(self.high.load(Ordering::Relaxed)) << 64 | u128::from(low);
        let peer = match self.family.load(Ordering::Relaxed) {
            4 => Peer::Ip(IpAddr::V4((low as u32).into())),
            6 => Peer::Ip(IpAddr::V6(Ipv6Addr::from_bits(bits))),
            _ => Peer::Unix,
        };
        let reason = usize::try_from(self.reason.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        self.state.store(FREE, Ordering::Release);
        Some((reason, peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_once_most_frequent_first() {
        let noise = Noise::new();
        assert_eq!(noise.taken(), None);
        for _ in 0..3 {
            noise.note(About::Request, "late", Peer::Unix);
        }
        noise.note(About::Handshake, "late", Peer::Unix);
        noise.note(About::Handshake, "late", Peer::Unix);
        noise.note(About::Request, "full", Peer::Unix);
        noise.note(About::Http2, "late", Peer::Unix);
        noise.note(About::Request, "no such word", Peer::Unix);
        assert_eq!(noise.taken().unwrap(), (8, "late 3, tls/late 2, full 1, h2/late 1, aborted 1".to_owned()));
        assert_eq!(noise.taken(), None);
    }

    #[test]
    fn the_example_is_the_first_and_comes_back_whole() {
        for text in ["192.0.2.7", "2001:db8::7", "::"] {
            let (noise, peer) = (Noise::new(), Peer::Ip(text.parse().unwrap()));
            noise.note(About::Http2, "ping", peer);
            noise.note(About::Request, "late", Peer::Unix);
            let (index, found) = noise.example.take().unwrap();
            assert_eq!((reasons().nth(index), found), (Some((About::Http2, "ping")), peer));
            assert_eq!(noise.example.take(), None);
        }
    }

    #[test]
    fn a_line_comes_at_once_and_then_a_minute_later() {
        let pseudonyms = Pseudonyms::new(None, [1; 32]);
        let saying =
            Saying { rules: &ClientRules::default(), as_what: ClientInLog::Pseudonym, pseudonyms: &pseudonyms };
        let at = |seconds| Timestamp::from_nanos(1 << 40).after(Duration::from_secs(seconds));
        let noise = Noise::new();
        let left = |noise: &Noise| noise.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        for (second, told) in [(0, true), (1, false), (59, false), (60, true), (61, false), (130, true)] {
            noise.note(About::Request, "late", Peer::Unix);
            noise.tell("main", at(second), &saying);
            assert_eq!(left(&noise) == 0, told, "at {second} s");
        }
    }
}
