//! `protocols` and `h2` of a listener.

use super::checks::out_of_place;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::schema;
use crate::config::setting::values;
use crate::config::settings::{Http2, Protocols};
use crate::policy::Protocol;

/// What a listener speaks, and what it takes of those who speak HTTP/2.
pub fn of_listener(listener: &schema::Listener, over_tls: bool, faults: &mut Faults) -> (Protocols, Http2) {
    let protocols = protocols(listener, over_tls, faults);
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
    (protocols, values(&listener.h2))
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
