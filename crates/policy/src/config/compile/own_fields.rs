//! Header fields that no policy writes, as they are the gate's own.

use http::HeaderName;

/// Whether the field says where a message ends or how a connection goes on: those are the gate's own.
pub fn is_of_the_connection(name: &HeaderName) -> bool {
    const OWN: [&str; 9] = [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    ];
    OWN.contains(&name.as_str())
}
