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
    struct Connections ("a map") {
        /// The most at once.
        // some 100 MiB when all of them are idle; a process that may have fewer files open than this refuses earlier
        optional max: Count [1 to 1000000, default 20000],
        /// The most at once of one client, or `none`.
        // a quarter of the whole, so that no single network fills it; a carrier's address can have thousands of people behind it
        optional per_client: OrNone<Count> [1 to 1000000, default 5000],
        /// New connections of one client: `50/s` lets 50 come at once and 50 more every second. On TLS listeners these are its
        /// handshakes.
        // no number is right for both one person and a carrier's address
        optional handshakes: OrNone<Rate> [default none],
        /// From the accept to the end of the handshake of TLS. Only with `tls`.
        // two round trips and a slow phone's arithmetic take less than a second; the rest is for lost packets
        optional handshake_deadline: Duration [100ms to 10m, default 10s],
        /// Requests on one connection; the last answer says that it is.
        // bounds what a connection can accumulate, far from where reconnecting costs anything
        optional requests: Count [1 to 1000000, default 10000],
        /// After this long the next answer is the connection's last; nothing under way is cut off. `none`: never.
        // so that clients spread again over gates that came later
        optional lifetime: OrNone<Duration> [100ms to 168h, default 1h],
        /// How long a connection may stay without a request.
        // as Pingora's own loop; browsers keep theirs for longer and cope with a close
        optional idle: Duration [100ms to 24h, default 1m],
        /// After the last answer: how long the client may take to read it before the connection goes.
        // a round trip to the far side of the world, twice
        optional linger: Duration [0s to 1m, default 2s],
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
        /// How much longer a penalty must last.
        // a client that stops now is let in again within it, so whoever is refused at accept has gone on against refusals
        optional above: Duration [1s to 24h, default 1m],
    }
    later: []
}

section! {
    /// How large the head of a request may be, and how long it may take.
    struct RequestHead ("a map") {
        /// From its first byte to its end; 408 after that. The first head of a connection has this long from the accept on, and
        /// so has a PROXY header.
        // a mobile client that lost two packets needs about 4 s
        optional timeout: Duration [100ms to 10m, default 10s],
        /// All of it; 431 above that.
        // four times what nginx and Apache take by default; room for the largest cookies browsers keep
        optional size: Bytes [1KiB to 256KiB, default 32KiB],
        /// Method and target; 414 above that.
        // RFC 9112 section 3 asks for 8,000 at least
        optional line: Bytes [64B to 64KiB, default 8KiB],
        /// Header fields; 431 above that.
        // Apache's default; Pingora's own parser has room for 256, some of which are ours
        optional fields: Count [1 to 200, default 100],
        /// A field such as `X_Forwarded_For`, which many applications cannot tell from `X-Forwarded-For`: `refuse` (400) or
        /// `allow`.
        optional underscore_twins: UnderscoreTwins [default refuse],
        /// A path with `%2F` or `%5C`, which many origins read as a slash: `refuse` (400), `keep` it as data, or `decode` it to a
        /// slash for routes and for the origin. `auto`: refuse where such a path would get past the limits or the refusal of a
        /// route with a prefix or several segments, keep otherwise.
        optional escaped_slash: EscapedSlash [default auto],
    }
    later: []
}

section! {
    /// How slowly the body of a request may come; 408 below that.
    struct RequestBody ("a map") {
        /// The least speed, 1B/s to 1GiB/s.
        // Apache's mod_reqtimeout has shipped this and the next as its default since 2.4
        optional least_rate: ByteRate [default 500B/s],
        /// A credit of time that waiting spends and speed earns back: the longest stall.
        optional grace: Duration [100ms to 10m, default 20s],
        /// How long the whole body may take, however fast it comes; `none`: any time. Until the answer begins
        /// `timeouts.request` of the route bounds it, too.
        // the default body limit at 3 KiB/s; what takes longer is an upload that its operator knows of
        optional timeout: OrNone<Duration> [100ms to 168h, default 1h],
    }
    later: []
}

section! {
    /// How slowly a client may take its answer; below that the connection is cut and the origin let go.
    struct Response ("a map") {
        /// The least speed, 1B/s to 1GiB/s, while there is something to take.
        optional least_rate: ByteRate [default 500B/s],
        /// A credit of time that waiting spends and speed earns back: the longest stall.
        optional grace: Duration [100ms to 10m, default 20s],
        /// How long the whole answer may take to be read, however fast; `none`: streams of events and large files are read for
        /// as long as they last.
        optional timeout: OrNone<Duration> [100ms to 168h, default none],
    }
    later: []
}
