//! Clients that speak HTTP/2 (RFC 9113): one connection, many requests at once, each to the same proxy as in HTTP/1.
//!
//! * [`connection`] is the loop: heads in, one task per request, deadlines, the farewell.
//! * [`frame_tap`] lets bytes through to the library that speaks the protocol (`h2`), and has what passes read by [`tidegate_http::h2`].
//! * [`session`] is one request and its answer as the proxy sees them.
//! * [`streams`] is what the streams of a connection have in common, and what the gate may ask of one.
//! * [`preface`] tells HTTP/2 from HTTP/1 where no TLS has said it.
//!
//! It stands in the place of the framework's own loop, which has no deadline for the preface, for bodies or for answers that
//! are not taken, cannot be told what a connection may cost, and counts nothing. What it promises, in numbers, is in
//! `docs/http2.md`.

pub mod connection;
pub mod frame_tap;
pub mod preface;
pub mod session;
pub mod streams;

use crate::config::settings::Http2;
use crate::units::Rate;
use tidegate_http::h2::frames::{Allowance, FrameLimits};
use tidegate_http::head::HeadLimits;

/// How much a client may ask for on one connection, beyond the limits that every connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests at once.
    pub streams: u32,
    /// Requests that were cancelled before they were looked at, at once.
    pub pending_resets: u32,
    /// RST_STREAM frames.
    pub resets: Allowance,
    /// Frames that move no request along.
    pub control: Allowance,
    /// Memory for the heads of requests under way, in the measure of RFC 9113 section 6.5.2.
    pub head_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::from(&Http2::default())
    }
}

impl From<&Http2> for Limits {
    fn from(settings: &Http2) -> Limits {
        let allowance = |rate: Rate| Allowance {
            count: rate.events(),
            nanos: u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX),
        };
        Limits {
            streams: settings.max_concurrent_streams,
            pending_resets: settings.max_pending_resets,
            resets: allowance(settings.resets),
            control: allowance(settings.control_frames),
            head_bytes: usize::try_from(settings.head_memory.0).unwrap_or(usize::MAX),
        }
    }
}

impl Limits {
    /// What the frames of one connection are held to.
    pub fn frames(&self, head: &HeadLimits) -> FrameLimits {
        // compression makes heads smaller, but nobody has to use it
        FrameLimits { control: self.control, resets: self.resets, head_bytes: head.bytes.saturating_mul(2) }
    }
}
