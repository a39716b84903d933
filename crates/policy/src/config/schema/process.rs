//! `listeners`, `telemetry`, `server`: what the process is built from.

use std::time::Duration;

use crate::config::connection_value::OrNone;
use crate::config::listen_on::Permissions;
use crate::config::pattern::{CertificateName, ExactPath, HostPattern};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::settings::{
    ClientCertificateMode, ClientInLog, LineFormat, ListenOn, LogFormat, LogLevel, LogTarget, ProxyProtocol, Redirect,
};
use crate::config::shape::{Either, OneOrMany};
use crate::config::text::ListenAddress;
use crate::config::word::{Off, Threads};
use crate::policy::Protocol;
use crate::units::{Bytes, Rate, Share};

use super::client::SecretSource;
use super::connection::{Connections, RequestBody, RequestHead, Response};

section! {
    /// A socket to listen on.
    Listener ("a map with `address`") {
        /// `:8080` for all addresses of both families, or an IP address with its port (port 0 lets the system choose);
        /// `unix:/PATH` for a UNIX socket; `systemd:NAME` for the socket that systemd passes under this name
        /// (`FileDescriptorName=` of a socket unit).
        required address: ListenOn,
        /// Who may connect to a UNIX socket: its file's mode in octal. Default `"0660"`, its owner and its group.
        optional permissions: Permissions,
        /// Whether connections begin with a PROXY header (version 1 or 2) that names the client: `off` (default), `optional` or
        /// `required`. Only peers in `trusted_proxies` may send one; with `required` all others are closed, with `optional`
        /// their bytes are a request like any other.
        optional proxy_protocol: ProxyProtocol,
        /// How many connections, from whom, and for how long.
        optional connections: Connections,
        /// How large the head of a request may be, and how long it may take.
        optional request_head: RequestHead,
        /// How slowly the body of a request may come.
        optional request_body: RequestBody,
        /// How slowly a client may take its answer.
        optional response: Response,
        /// Serve by TLS 1.2 and 1.3, and nothing else. `off`: without, whatever the top level's `tls` says.
        optional tls: Either<Off, Tls>,
        /// `https`, or `https:PORT`: send every request to the same address by TLS (301, or 308 when it is no GET or HEAD).
        /// Requests below `/.well-known/acme-challenge/` that a route takes go to that route.
        optional redirect: Redirect,
        /// `h2` (HTTP/2), `http/1.1`, or both. Default both over TLS, where the handshake agrees on one, and `http/1.1` alone
        /// without. Without TLS, `h2` is for clients that are told to begin with it (prior knowledge).
        optional protocols: OneOrMany<Protocol>,
        /// What a client may ask for on one connection of HTTP/2.
        optional h2: Http2,
    }
    later: []
}

section! {
    /// How a listener proves who it is, and whether its clients have to.
    Tls ("a map with `certificates`") {
        /// The certificates. The one that stands for the name that the client asks for (SNI) is shown: first by exact name, then by a
        /// wildcard for its first label, else the first in the list. Renewed files are taken over within a second, without a
        /// restart.
        required certificates: OneOrMany<Certificate>,
        /// Ask clients for a certificate too.
        optional client_certificates: ClientCertificates,
    }
    later: []
}

section! {
    /// A certificate and its key, both in PEM.
    Certificate ("a map with `cert` and `key`") {
        /// The certificate's file: the site's own first, then those that signed it. Relative to the directory of the policy file.
        required cert: String,
        /// The private key's file, without a passphrase. Only its owner and group should be able to read it.
        required key: String,
        /// The names that it is shown for, `shop.example.com` or `*.example.com`, in the place of those that it holds itself.
        optional names: OneOrMany<CertificateName>,
    }
    later: []
}

section! {
    /// Certificates of clients. A verified one is sent on to the origin in `Client-Cert` (RFC 9440).
    ClientCertificates ("a map with `ca`") {
        /// A file with the certificates of the authorities that clients' certificates come from, in PEM. Relative to the
        /// directory of the policy file.
        required ca: String,
        /// `required` (default): no connection without one; `optional`: one that is shown must be good.
        optional mode: ClientCertificateMode,
    }
    later: []
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
        /// Names by which scrapers call it, such as `gate.monitoring.svc` or `*.internal`. A `Host` that is neither one of
        /// these, nor an IP address, nor `localhost`, is answered 403: a stranger's page could send it through a browser.
        optional hosts: OneOrMany<HostPattern>,
    }
    later: []
}

section! {
    /// Where the admin endpoints can be read over TCP: state and decisions, for reading only.
    Admin ("a map with `address`") {
        /// An address and a port of its own, such as `127.0.0.1:9901`. One that others than this machine reach needs a `token`.
        required address: ListenAddress,
        /// What whoever reads has to know, sent as `Authorization: Bearer TOKEN` or as the password of `Basic`. Better than a
        /// text are `{ file: PATH }` and `{ env: NAME }`.
        optional token: Either<String, SecretSource>,
        /// `true`: without a token, too, tell each user of this machine of clients and of the configuration. Default `false`: without a
        /// token only what names neither is told.
        optional open: bool,
        /// Names by which it is called, as in `telemetry.metrics`.
        optional hosts: OneOrMany<HostPattern>,
    }
    later: []
}

section! {
    /// The access log: one line per request.
    AccessLog ("a map") {
        /// `stdout` (default), `stderr`, or a file's path from `/`.
        optional to: LogTarget,
        /// `json` (default) or `combined`, the line of Apache and nginx, which most tools read and which has fewer fields.
        optional format: LineFormat,
        /// How clients appear: `pseudonym` (default, needs `secrets.client_hmac` to outlive a restart) or `address`. A reload
        /// changes it.
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
        /// The most lines of refused requests: so many at once, and as many again in every period. Beyond it a line says in
        /// `sampled` how many refused requests it stands for. `none`: no bound. Default 100/s.
        optional refused: OrNone<Rate>,
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
    /// The process. Changes here need `tidegate upgrade`.
    Server ("a map") {
        /// Worker threads: `auto` (default, one per core) or 1 to 1024.
        optional threads: Threads,
        /// The most that the process buffers of bodies, of all connections together: 1MiB to 1TiB, default 256MiB. Near it, less
        /// is read at once, stalled answers are cut off, and bodies over 16 KiB are refused (503).
        optional max_buffered: Bytes,
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
