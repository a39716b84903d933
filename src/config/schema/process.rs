//! `listeners`, `telemetry`, `server`: what the process is built from.

use std::time::Duration;

use crate::config::pattern::ExactPath;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::settings::{ClientInLog, LogFormat, LogLevel, LogTarget, Protocol};
use crate::config::shape::OneOrMany;
use crate::config::text::ListenAddress;
use crate::config::word::{AccessLogFormat, Threads};
use crate::units::{Bytes, Rate, Share};

section! {
    /// A socket to listen on.
    Listener ("a map with `address`") {
        /// `:8080` for all addresses of both families, or an IP address with its port. Port 0 lets the system choose.
        required address: ListenAddress,
        /// `h2` (HTTP/2), `http/1.1`, or both. Default both over TLS, where the handshake agrees on one, and `http/1.1` alone
        /// without. Without TLS, `h2` is for clients that are told to begin with it (prior knowledge).
        optional protocols: OneOrMany<Protocol>,
        /// What a client may ask for on one connection of HTTP/2.
        optional h2: Http2,
    }
    later: ["redirect", "tls", "connections", "proxy_protocol", "permissions"]
}

section! {
    /// What a client may ask for on one connection of HTTP/2. One that asks for more is cut off.
    Http2 ("a map") {
        /// Requests at once. Default 100.
        optional max_concurrent_streams: Count,
        /// Requests at once that are cancelled before they were looked at. Default 20.
        optional max_pending_resets: Count,
        /// Requests that are cancelled before their answer begins: so many at once, and as many again in every period. Default
        /// 200/10s.
        optional resets: Rate,
        /// Frames that move no request along (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones), beyond those
        /// that requests and answers earn: so many at once, and as many again in every period. A SETTINGS frame counts
        /// ten times. Default 1000/10s.
        optional control_frames: Rate,
        /// Memory for the heads of all requests under way on one connection, each field counted with 32 bytes more than its
        /// text. What does not fit is answered 431. Default 512KiB.
        optional head_memory: Bytes,
    }
    later: []
}

section! {
    /// Metrics, access log and the process's own log.
    Telemetry ("a map") {
        /// The metrics page. Off by default; `metrics: {}` switches it on.
        optional metrics: Metrics,
        /// The access log. Off by default; `access_log: {}` switches it on.
        optional access_log: AccessLog,
        /// The process's own log, on standard error.
        optional log: Log,
    }
    later: ["top", "decisions", "traces"]
}

section! {
    /// The metrics page, in Prometheus' text format, on a listener of its own.
    Metrics ("a map") {
        /// Where. Default `127.0.0.1:9464`.
        optional address: ListenAddress,
        /// Its path. Default `/metrics`.
        optional path: ExactPath,
    }
    later: []
}

section! {
    /// The access log: one line per request.
    AccessLog ("a map") {
        /// `stdout` (default), `stderr`, or a file's path from `/`.
        optional to: LogTarget,
        /// `json`, the default and only word there is.
        optional format: AccessLogFormat,
        /// How clients appear: `pseudonym` (default, needs `secrets.client_hmac` to outlive a restart) or `address`.
        optional client: ClientInLog,
        /// Which share of the requests is logged.
        optional sample: Sample,
    }
    later: []
}

section! {
    /// Which share of the requests is logged.
    Sample ("a map of shares") {
        /// Of those that were limited, or would have been by a shadow limit. Default 100%.
        optional limited: Share,
        /// Of all others. Default 100%.
        optional other: Share,
    }
    later: []
}

section! {
    /// The process's own log, on standard error.
    Log ("a map") {
        /// `error`, `warn`, `info` (default) or `debug`.
        optional level: LogLevel,
        /// `auto` (default: text on a terminal or under journald, else JSON), `text` or `json`.
        optional format: LogFormat,
    }
    later: []
}

section! {
    /// The process. Changes here need a restart.
    Server ("a map") {
        /// Worker threads: `auto` (default, one per core) or 1 to 1024.
        optional threads: Threads,
        /// How the process stops.
        optional drain: Drain,
    }
    later: ["watchdog"]
}

section! {
    /// How the process stops on SIGTERM.
    Drain ("a map of durations") {
        /// How long readiness is refused while requests are still taken, for balancers that poll it. Default 0s.
        optional delay: Duration,
        /// How long requests in flight may take after that. Default 30s.
        optional timeout: Duration,
    }
    later: []
}
