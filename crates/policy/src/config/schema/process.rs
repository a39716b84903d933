//! `listeners`, `telemetry`, `server`: what the process is built from.

use std::time::Duration;

use crate::config::connection_value::OrNone;
use crate::config::listen_on::Permissions;
use crate::config::pattern::{CertificateName, ExactPath, HostPattern};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::setting::Words;
use crate::config::settings::{
    ClientCertificateMode, ClientInLog, Direct, LineFormat, ListenOn, LogFormat, LogLevel, LogTarget, ProxyProtocol,
    Redirect,
};
use crate::config::shape::{Either, List, OneOrMany};
use crate::config::text::ListenAddress;
use crate::config::word::{Directory, Off, Threads};
use crate::policy::Protocol;
use crate::units::{Bytes, Rate, Share};

use super::client::{SecretSource, TrustSource};
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
        /// Whether connections begin with a PROXY header (version 1 or 2) that names the client: `off`, `optional` or
        /// `required`. Only peers in `trusted_proxies` may send one; with `required` all others are closed, with `optional`
        /// their bytes are a request like any other.
        optional proxy_protocol: ProxyProtocol [default off],
        /// How many connections, from whom, and for how long.
        optional connections: Words<Connections>,
        /// How large the head of a request may be, and how long it may take.
        optional request_head: Words<RequestHead>,
        /// How slowly the body of a request may come.
        optional request_body: Words<RequestBody>,
        /// How slowly a client may take its answer.
        optional response: Words<Response>,
        /// Serve by TLS 1.2 and 1.3, and nothing else. `off`: without, whatever the top level's `tls` says.
        optional tls: Either<Off, Tls>,
        /// `https`, or `https:PORT`: send every request to the same address by TLS (301, or 308 when it is no GET or HEAD).
        /// Requests below `/.well-known/acme-challenge/` that a route takes go to that route.
        optional redirect: Redirect,
        /// `h2` (HTTP/2), `http/1.1`, or both. Default both over TLS, where the handshake agrees on one, and `http/1.1` alone
        /// without. Without TLS, `h2` is for clients that are told to begin with it (prior knowledge).
        optional protocols: OneOrMany<Protocol>,
        /// What a client may ask for on one connection of HTTP/2.
        optional h2: Words<Http2>,
        /// Whose requests get 403, on each route: networks, presets, files, `unix`, as `deny` of a route. The resolved client counts;
        /// `connections.refuse` closes connections by their other end.
        optional deny: List<Either<String, TrustSource>>,
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
        /// `required`: no connection without one; `optional`: one that is shown must be good.
        optional mode: ClientCertificateMode [default required],
    }
    later: []
}

section! {
    /// What a client may ask for on one connection of HTTP/2. One that asks for more is cut off.
    struct Http2 ("a map") {
        /// Requests at once.
        // the least that RFC 9113 section 6.5.2 recommends, and what nearly all servers give. One kept connection costs what a
        // thousand answers that wait cost; more would make the limit of connections a fiction
        optional max_concurrent_streams: Count [1 to 1000, default 100],
        /// Requests at once that are cancelled before they were looked at.
        // requests are looked at as they come, so nothing but an attack has more than one or two
        optional max_pending_resets: Count [0 to 1000, default 20],
        /// Requests that are cancelled before their answer begins: so many at once, and as many again in every period.
        // a browser that leaves a page cancels all that it had asked for, twice over
        optional resets: Rate [default 200/10s],
        /// Frames that move no request along (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones), beyond those
        /// that requests and answers earn: so many at once, and as many again in every period. A SETTINGS frame counts
        /// ten times.
        // a microsecond's work each, and far above what browsers and libraries send
        optional control_frames: Rate [default 1000/10s],
        /// Memory for the heads of all requests under way on one connection, each field counted with 32 bytes more than its
        /// text. What does not fit is answered 431.
        // a hundred requests with 5 KiB of cookies and the rest; less than 64 KiB would not hold one head of the size that is served
        optional head_memory: Bytes [64KiB to 64MiB, default 512KiB],
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
        optional log: Words<Log>,
    }
    later: ["top", "decisions", "traces"]
}

section! {
    /// The metrics page, in Prometheus' text format, on a listener of its own.
    Metrics ("a map") {
        /// Where.
        // Prometheus' register of default ports has this one free for exporters that meet no other
        optional address: ListenAddress [default 127.0.0.1:9464],
        /// Its path.
        optional path: ExactPath [default /metrics],
        /// Names by which scrapers call it, such as `gate.monitoring.svc` or `*.internal`. A `Host` that is neither one of
        /// these, nor an IP address, nor `localhost`, is answered 403: a stranger's page could send it through a browser.
        optional hosts: OneOrMany<HostPattern>,
    }
    later: []
}

section! {
    /// Where the admin endpoints can be read over TCP: state and decisions, for reading; with a token also for orders about clients.
    Admin ("a map with `address`") {
        /// An address and a port of its own, such as `127.0.0.1:9901`. One that others than this machine reach needs a `token`.
        required address: ListenAddress,
        /// What whoever reads has to know, sent as `Authorization: Bearer TOKEN` or as the password of `Basic`. Better than a
        /// text are `{ file: PATH }` and `{ env: NAME }`.
        optional token: Either<String, SecretSource>,
        /// `true`: without a token, too, tell each user of this machine of clients and of the configuration. `false`: without a
        /// token only what names neither is told.
        optional open: bool [default false],
        /// Names by which it is called, as in `telemetry.metrics`.
        optional hosts: OneOrMany<HostPattern>,
    }
    later: []
}

section! {
    /// The access log: one line per request.
    AccessLog ("a map") {
        /// `stdout`, `stderr`, or a file's path from `/`.
        optional to: LogTarget [default stdout],
        /// `json`, or `combined`, the line of Apache and nginx, which most tools read and which has fewer fields.
        optional format: LineFormat [default json],
        /// How clients appear: `pseudonym` (needs `secrets.client_hmac` to outlive a restart) or `address`. A reload changes it.
        optional client: ClientInLog [default pseudonym],
        /// Which share of the requests is logged.
        optional sample: Words<Sample>,
    }
    later: []
}

section! {
    /// Which share of the requests is logged.
    struct Sample ("a map of shares") {
        /// Of those that were limited, or would have been by a shadow limit.
        optional limited: Share [default 100%],
        /// Of all others.
        optional other: Share [default 100%],
        /// The most lines of refused requests: so many at once, and as many again in every period. Beyond it a line says in
        /// `sampled` how many refused requests it stands for. `none`: no bound.
        // some 50 kB of lines a second, whatever a flood sends
        optional refused: OrNone<Rate> [default 100/s],
    }
    later: []
}

section! {
    /// The process's own log, on standard error.
    struct Log ("a map") {
        /// `error`, `warn`, `info` or `debug`.
        optional level: LogLevel [default info],
        /// `auto` (text on a terminal or under journald, else JSON), `text` or `json`.
        optional format: LogFormat [default auto],
    }
    later: []
}

section! {
    /// The process. Changes here need `tidegate upgrade`.
    Server ("a map") {
        /// Worker threads: `auto` (one per core) or 1 to 1024.
        optional threads: Threads [default auto],
        /// The most that the process buffers of bodies, of all connections together. Near it, less is read at once, stalled answers
        /// are cut off, and bodies over 16 KiB are refused (503).
        // what a small machine can spare: some 2,500 stalled answers fit, and light requests beside them
        optional max_buffered: Bytes [1MiB to 1TiB, default 256MiB],
        /// Whom the process refuses when it has more to do than it can; `off`: nobody.
        optional overload: Either<Off, Words<Overload>>,
        /// Whether requests that need nothing of Pingora, the framework, are served without it: those to
        /// origins of HTTP/1.1, but for upgrades. The answers are the same; `off` costs CPU time.
        optional direct: Direct [default on],
        /// How the process stops.
        optional drain: Words<Drain>,
        /// Where the state of limits outlives the process; without it, a restart gives each client a fresh budget.
        optional state: StateFiles,
    }
    later: ["watchdog"]
}

section! {
    /// Where the state of limits outlives the process: counts, quotas and pardons. After a crash, those of the latest snapshot count.
    StateFiles ("a map with `directory`") {
        /// A directory of this process alone, from `/`, that only its user may enter: it has the secret that keys are hashed under. It is
        /// made if it is not there.
        required directory: Directory,
        /// How often a snapshot is written, while it takes at most 1 % of a core; else less often.
        optional every: Duration [100ms to 1h, default 1s],
        /// `true`: wait for the disk, so that a snapshot outlives a power failure too.
        optional fsync: bool [default false],
    }
    later: []
}

section! {
    /// From which use of what it needs on the process refuses: new connections of the heaviest clients before TLS, then requests, the
    /// least important and the heaviest first (503).
    struct Overload ("a map") {
        /// How late the worker threads begin with what is ready, for 100 ms and longer.
        // some five times as much is added to a request; an idle worker is late by less than 2 ms
        optional delay: Duration [5ms to 10s, default 50ms],
        /// Share of the memory in use.
        optional memory: Share [50% to 99%, default 85%],
        /// The memory that there is. Default: what the process's control group may have (`MemoryMax=`); without either, memory is not
        /// looked at.
        optional memory_limit: Bytes [1MiB to 16TiB],
        /// Share of the file descriptors for clients that are in use.
        optional descriptors: Share [50% to 99%, default 90%],
        /// Share of a TCP listener's accept queue that is taken.
        optional backlog: Share [10% to 99%, default 50%],
    }
    later: []
}

section! {
    /// How the process stops on SIGTERM.
    struct Drain ("a map of durations") {
        /// How long readiness is refused while requests are still taken, for balancers that poll it.
        optional delay: Duration [0s to 1h, default 0s],
        /// How long requests in flight may take after that.
        // what a browser's user waits at most; systemd kills after 90 s
        optional timeout: Duration [0s to 1h, default 30s],
    }
    later: []
}
