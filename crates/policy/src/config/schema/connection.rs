//! What a listener lets in, and what each connection may take.

use std::time::Duration;

use crate::config::connection_value::{ByteRate, OrNone};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::shape::{Either, List};
use crate::config::text::Name;
use crate::units::{Bytes, Rate};
use tidegate_http::head::UnderscoreTwins;
use tidegate_http::path::EscapedSlash;

use super::client::TrustSource;

section! {
    /// How many connections a listener takes, from whom, and for how long. What is over a cap is closed at accept, before any
    /// TLS, and counted in `tidegate_connections_refused_total`. A client is a prefix as in `client_ip`; peers in
    /// `trusted_proxies` speak for many clients, so the words per client do not apply to them.
    Connections ("a map") {
        /// The most at once, 1 to 1000000. Default 20000.
        optional max: Count,
        /// The most at once of one client, 1 to 1000000, or `none`. Default 5000, a quarter of the default `max`.
        optional per_client: OrNone<Count>,
        /// New connections of one client: `50/s` lets 50 come at once and 50 more every second. On TLS listeners these are its
        /// handshakes. Default `none`.
        optional handshakes: OrNone<Rate>,
        /// From the accept to the end of the handshake of TLS, 100ms to 10m. Default 10s. Only with `tls`.
        optional handshake_deadline: Duration,
        /// Requests on one connection, 1 to 1000000; the last answer says that it is. Default 10000.
        optional requests: Count,
        /// After this long the next answer is the connection's last; nothing under way is cut off. 100ms to 168h, or `none`.
        /// Default 1h.
        optional lifetime: OrNone<Duration>,
        /// How long a connection may stay without a request, 100ms to 24h. Default 60s.
        optional idle: Duration,
        /// After the last answer: how long the client may take to read it before the connection goes, 0s to 1m. Default 2s.
        optional linger: Duration,
        /// Whose connections are closed at once: networks, presets, files, `unix`, as in `trusted_proxies`. The other end of the
        /// connection counts, and whom its PROXY header names; never a forwarding header.
        optional refuse: List<Either<String, TrustSource>>,
        /// Closes the connections of clients that a `recent_average` limit would keep out for long: its name, or a map with
        /// `limit` and `above`. Off by default.
        optional refuse_at_accept: Either<Name, RefuseAtAccept>,
    }
    later: []
}

section! {
    /// Which limit's penalties close connections at accept. The limit must be of type `recent_average` with `count: all`, by
    /// `client_ip` alone, enforced for all, and without tiers and exceptions: it would refuse every request of that client.
    RefuseAtAccept ("a map with `limit`") {
        /// The limit's name.
        required limit: Name,
        /// How much longer a penalty must last, 1s to 24h. Default 1m.
        optional above: Duration,
    }
    later: []
}

section! {
    /// How large the head of a request may be, and how long it may take.
    RequestHead ("a map") {
        /// From its first byte to its end, 100ms to 10m; 408 after that. The first head of a connection has this long from the
        /// accept on, and so has a PROXY header. Default 10s.
        optional timeout: Duration,
        /// All of it, 1KiB to 256KiB; 431 above that. Default 32KiB.
        optional size: Bytes,
        /// Method and target, 64B to 64KiB; 414 above that. Default 8KiB.
        optional line: Bytes,
        /// Header fields, 1 to 200; 431 above that. Default 100.
        optional fields: Count,
        /// A field such as `X_Forwarded_For`, which many applications cannot tell from `X-Forwarded-For`: `refuse` (default,
        /// 400) or `allow`.
        optional underscore_twins: UnderscoreTwins,
        /// A path with `%2F` or `%5C`, which many origins read as a slash: `refuse` (400), `keep` it as data, or `decode` it to a
        /// slash for routes and for the origin. Default `auto`: refuse where such a path would get past the limits or the refusal
        /// of a route with a prefix or several segments, keep otherwise.
        optional escaped_slash: EscapedSlash,
    }
    later: []
}

section! {
    /// How slowly the body of a request may come; 408 below that.
    RequestBody ("a map") {
        /// The least speed, 1B/s to 1GiB/s. Default 500B/s.
        optional least_rate: ByteRate,
        /// A credit of time that waiting spends and speed earns back: the longest stall. 100ms to 10m. Default 20s.
        optional grace: Duration,
        /// How long the whole body may take, however fast it comes: 100ms to 168h, or `none`. Default 1h.
        optional timeout: OrNone<Duration>,
    }
    later: []
}

section! {
    /// How slowly a client may take its answer; below that the connection is cut and the origin let go.
    Response ("a map") {
        /// The least speed, 1B/s to 1GiB/s, while there is something to take. Default 500B/s.
        optional least_rate: ByteRate,
        /// A credit of time that waiting spends and speed earns back: the longest stall. 100ms to 10m. Default 20s.
        optional grace: Duration,
        /// How long the whole answer may take to be read, however fast: 100ms to 168h, or `none`. Default `none`, because streams
        /// of events last.
        optional timeout: OrNone<Duration>,
    }
    later: []
}
