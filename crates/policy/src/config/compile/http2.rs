//! `protocols` and `h2` of a listener.

use super::checks::{number32, out_of_place};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::schema;
use crate::config::settings::{Http2, Protocols};
use crate::policy::Protocol;
use crate::units::Bytes;

/// One kept connection costs what a thousand answers that wait cost; more would make the limit of connections a fiction.
const MOST_STREAMS: u32 = 1_000;
/// Less would not hold one head of the size that is served.
const LEAST_HEAD_MEMORY: Bytes = Bytes(64 << 10);
const MOST_HEAD_MEMORY: Bytes = Bytes(64 << 20);

/// What a listener speaks, and what it takes of those who speak HTTP/2.
pub fn of_listener(listener: &schema::Listener, over_tls: bool, faults: &mut Faults) -> (Protocols, Http2) {
    let protocols = protocols(listener, over_tls, faults);
    let default = Http2::default();
    let Some(own) = listener.h2.value() else { return (protocols, default) };
    if !protocols.h2 {
        out_of_place(
            &listener.h2,
            "`h2` on a listener that does not speak HTTP/2",
            if over_tls {
                "add h2 to `protocols`"
            } else {
                "without TLS, `protocols: [h2, http/1.1]` makes it speak both"
            },
            faults,
        );
    }
    let head_memory = match own.head_memory.get() {
        Some(at) if !(LEAST_HEAD_MEMORY.0..=MOST_HEAD_MEMORY.0).contains(&at.value.0) => {
            faults.push(
                Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown))
                    .label(format!("must be {LEAST_HEAD_MEMORY} to {MOST_HEAD_MEMORY}")),
            );
            default.head_memory
        }
        Some(at) => at.value,
        None => default.head_memory,
    };
    let streams = &own.max_concurrent_streams;
    let h2 = Http2 {
        max_concurrent_streams: number32(streams, 1..=MOST_STREAMS, default.max_concurrent_streams, faults),
        max_pending_resets: number32(&own.max_pending_resets, 0..=MOST_STREAMS, default.max_pending_resets, faults),
        resets: own.resets.value().copied().unwrap_or(default.resets),
        control_frames: own.control_frames.value().copied().unwrap_or(default.control_frames),
        head_memory,
    };
    (protocols, h2)
}

fn protocols(listener: &schema::Listener, over_tls: bool, faults: &mut Faults) -> Protocols {
    let default = Protocols::by_default(over_tls);
    let Some(at) = listener.protocols.get() else { return default };
    let listed: Vec<Protocol> = at.value.0.items.iter().map(|item| item.value).collect();
    if listed.is_empty() {
        if !at.value.0.bad {
            faults.push(
                Diagnostic::error(Code::EMPTY_VALUE, at.span, "a listener that speaks nothing")
                    .label("needs `h2`, `http/1.1` or both"),
            );
        }
        return default;
    }
    Protocols::of(&listed)
}
