//! `listeners`, `telemetry`, `server`: what the process is built from.

use std::time::Duration;

use crate::config::listen_on::Permissions;
use crate::config::pattern::ExactPath;
use crate::config::section::section;
use crate::config::settings::{ClientInLog, ListenOn, LogFormat, LogLevel, LogTarget};
use crate::config::text::ListenAddress;
use crate::config::word::{AccessLogFormat, Threads};
use crate::units::Share;

section! {
    /// A socket to listen on.
    Listener ("a map with `address`") {
        /// `:8080` for all addresses of both families, or an IP address with its port (port 0 lets the system choose);
        /// `unix:/PATH` for a UNIX socket; `systemd:NAME` for the socket that systemd passes under this name
        /// (`FileDescriptorName=` of a socket unit).
        required address: ListenOn,
        /// Who may connect to a UNIX socket: its file's mode in octal. Default `"0660"`, its owner and its group.
        optional permissions: Permissions,
    }
    later: ["redirect", "protocols", "h2", "tls", "connections", "proxy_protocol"]
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
