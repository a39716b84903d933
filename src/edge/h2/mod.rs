//! Clients that speak HTTP/2 (RFC 9113): one connection, many requests at once. Begin with [`connection`].
//!
//! * [`connection`] is the loop: heads in, one task per request, deadlines, the farewell.
//! * [`frame_tap`] passes bytes to the `h2` library and lets [`tidegate_http::h2`] read them.
//! * [`stream_io`] carries one request and its answer, and [`session`] shows them to the framework. [`direct`] is who serves
//!   requests that need nothing of the framework. [`streams`] is shared by the streams of a connection.
//! * [`preface`] tells HTTP/2 from HTTP/1 on connections without TLS.
//!
//! It replaces Pingora's own loop, which has no deadline for the preface, for bodies or for answers that the client does not
//! take, does not bound the cost of a connection, and counts nothing. `docs/http2.md` has the numbers.

pub mod connection;
pub mod direct;
pub mod frame_tap;
pub mod preface;
pub mod session;
pub mod stream_io;
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
