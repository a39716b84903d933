//! `origins`, and the timeouts that routes and defaults share with them.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::health::{Adaptive, Health};
use crate::client::key::KeyPart;
use crate::config::fault::Code;
use crate::config::nearest::nearest;
use crate::config::pattern::ExactPath;
use crate::config::place::{FilePath, OriginPlace, ServerName};
use crate::config::queue_text::{NetworkLength, ReserveText};
use crate::config::read::{Field, Scalar, Wrong};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::setting::Words;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::word::{BalanceWord, OrderWord, RetryOn};
use crate::door;
use crate::policy::{Ejection, OnClientAbort, Protocol, Timeouts};
use crate::units::Share;

section! {
    /// A group of equal servers.
    Origin ("a map with `addresses`") {
        /// The servers: `HOST:PORT` or `unix:/PATH`, or a map with `address`.
        required addresses: OneOrMany<Either<OriginPlace, OriginAddress>>,
        /// How one is chosen: `round_robin` (default, by weight), `least_inflight`, or `{ hash: KEY }`, which sends equal keys
        /// to the same server.
        optional balance: Either<BalanceText, Balance>,
        /// How many requests may be with this origin at once, 503 above it: a number, or a map with a queue. Default: no cap.
        optional inflight: Either<Count, Inflight>,
        /// How long to wait.
        optional timeouts: Words<Timeouts>,
        /// How often a request is tried at another server.
        optional retries: Retries,
        /// Asks every server whether it is well, and leaves out those that are not: a path such as `/healthz`, or a map; `{}`
        /// only connects. Default: no checks.
        optional health: Either<ExactPath, Health>,
        /// Leaves servers out for a while when requests to them fail. Default: never; `{}` for all its defaults.
        optional ejection: Words<Ejection>,
        /// For how long a server that comes back gets a growing part of its weight. Default: all of it at once.
        optional slow_start: Duration [100ms to 1h],
        /// Moves the in-flight cap by how the origin answers. Default: it stays.
        optional adaptive: Adaptive,
        /// What becomes of a request whose client leaves while the origin works for it: `await` reads the answer and throws it
        /// away, `close` closes the connection to the origin; both keep its places in `inflight` until the work should be over.
        /// `release` closes and gives them back at once, so that clients that leave can have any number of requests at work.
        optional on_client_abort: OnClientAbort [default await],
        /// `http/1.1`, or `h2`: agreed in the handshake with `tls`, taken for granted without.
        optional protocol: Protocol [default http/1.1],
        /// Encrypts the connection; `{}` trusts the system's certificates and expects the host of the address in the origin's.
        /// Default: in clear.
        optional tls: OriginTls,
    }
    later: ["keepalive"]
}

section! {
    /// TLS to an origin, 1.2 or 1.3. Files are read again when they change.
    OriginTls ("a map such as `{}` or `{ ca: /etc/tidegate/tls/internal-ca.pem }`") {
        /// The name that the origin's certificate must carry, a host or an IP address. Default: the host of each address.
        optional sni: ServerName,
        /// Files with the certificates to trust, PEM. Default: those of the system.
        optional ca: OneOrMany<FilePath>,
        /// `false` believes whoever answers, and is warned of.
        optional verify: bool [default true],
        /// Who we are, for origins that ask.
        optional client_certificate: ClientCertificate,
    }
    later: []
}

section! {
    /// A certificate and its key.
    ClientCertificate ("a map with `cert` and `key`") {
        /// The certificate and those that vouch for it, PEM.
        required cert: FilePath,
        /// Its private key, PEM.
        required key: FilePath,
    }
    later: []
}

section! {
    /// One server of an origin.
    OriginAddress ("a map with `address`") {
        /// `HOST:PORT` or `unix:/PATH`.
        required address: OriginPlace,
        /// Its part of the traffic relative to its siblings.
        optional weight: Count [1 to 1000, default 1],
        /// How often its name is looked up again.
        // a name that moves is followed soon, and a resolver is asked twice a minute at most
        optional resolve: Duration [1s to 24h, default 30s],
    }
    later: []
}

section! {
    /// Choice by key.
    Balance ("`{ hash: KEY }`") {
        /// Equal keys go to the same server; a request without the key goes to any.
        required hash: OneOrMany<KeyPart>,
    }
    later: []
}

/// The one-word forms of `balance`, and `hash: KEY` as one text.
#[derive(Debug, Clone, PartialEq)]
pub enum BalanceText {
    /// A word.
    Word(BalanceWord),
    /// `hash: KEY`.
    Hash(KeyPart),
}

impl Scalar for BalanceText {
    const NAME: &'static str = "balance";
    const EXAMPLE: &'static str = "`least_inflight`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<BalanceText, Wrong> {
        if let Some(key) = text.strip_prefix("hash:") {
            return KeyPart::parse(key.trim()).map(BalanceText::Hash);
        }
        BalanceWord::parse(text).map(BalanceText::Word).map_err(|_| {
            Wrong::new("must be `round_robin`, `least_inflight` or `{ hash: KEY }`")
                .nearest(nearest(text, ["round_robin", "least_inflight", "hash: client_ip"]))
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["round_robin", "least_inflight"] },
            { "type": "string", "pattern": "^hash: ?" }
        ] })
    }
}

section! {
    /// How many at once, and who waits above that.
    Inflight ("a map with `max`") {
        /// How many at once.
        required max: Count [1 to 2147483646],
        /// How many may wait for a place; of a full queue the heaviest is refused. Default: twice `max`, 32 to 4096. With 0 none waits,
        /// and whoever comes first has the place.
        // a queue is memory and waiting connections
        optional queue: Count [0 to 65536],
        /// How long one may wait before it is refused.
        // a crowd of twenty at eight places of 100 ms needs 300 ms; a quarter of a second refused a tenth of them
        optional queue_timeout: Duration [1ms to 1m, default 1s],
        /// Who goes next: `fair`, the request whose key and networks hold and lately used the fewest places, or `arrival`, the one that
        /// came first.
        optional order: OrderWord [default fair],
        /// What requests are held together by, for `order: fair`. Default: `client_ip`.
        optional key: OneOrMany<KeyPart>,
        /// For how many clients a network around the client stands, by the length of its IPv4 prefix (IPv6: twice that): at most two; `{}`
        /// for none. Default: `{24: 16, 16: 64}` where the key has a `client_ip`.
        optional networks: Keyed<NetworkLength, Count>,
        /// Places that the heaviest leave to lighter ones: `learned`, as many as light requests were found to need, `none`, or a share such
        /// as `25%`, at most half.
        optional reserve: ReserveText,
        /// Places that less important requests leave free, whoever asks, for each class: `{ critical: 5% }`.
        optional reserved: Reserved,
        /// How many connections that are switched to another protocol at once: they have places of their own, of which one key takes no
        /// more than are left. Default: `max`.
        optional upgraded: Count [1 to 2147483646],
    }
    later: []
}

section! {
    /// The shares of an origin's places, or of a `fair_share`'s burst, that less important requests leave free; at most 90% together. Places are
    /// rounded up, and one place is for all.
    Reserved ("a map such as `{ critical: 5% }`") {
        /// For requests of `criticality: critical`.
        optional critical: Share,
        /// For those of `default`, and of `critical` beyond their own.
        optional default: Share,
        /// For those of `sheddable`, and more important ones beyond their own; `background` leaves them free.
        optional sheddable: Share,
    }
    later: []
}

impl Reserved {
    /// The parts of all classes.
    pub fn parts(&self) -> door::Reserved {
        let part = |share: &Field<Share>| share.value().map_or(0.0, |share| share.get());
        door::Reserved::new([part(&self.critical), part(&self.default), part(&self.sheddable), 0.0])
    }
}

section! {
    /// How many at once. A route has no queue; its origin may have one.
    RouteInflight ("a map with `max`") {
        /// How many at once.
        required max: Count [1 to 2147483646],
    }
    later: []
}

section! {
    /// How long to wait for an origin.
    values Timeouts ("a map of durations") {
        /// Until the connection stands.
        // a healthy neighbour answers in milliseconds, and one lost SYN (1 s) is still survived
        optional connect: Duration [1ms to 24h, default 2s],
        /// Between two reads of an answer, not counted while the origin takes the request.
        // long enough for a slow report
        optional read: Duration [1ms to 24h, default 30s],
        /// For one write.
        optional write: Duration [1ms to 24h, default 30s],
        /// How long an unused connection is kept.
        // below the 75 s of common origins, so that they never close under a request of ours
        optional idle: Duration [1ms to 24h, default 1m],
        /// From the request's head to the answer's head; 504 after it, or 408 if the client had not sent all of the request. Routes
        /// that take long uploads need more.
        // what browsers' users have given up by
        optional request: Duration [1ms to 24h, default 1m],
        /// The same for each try of a request, if `retries` names `timeout`; 504 after the last. Default: all that is left of
        /// `request`.
        optional r#try: Duration [1ms to 24h],
        /// From the answer's head to its last byte; the connection ends after it. Default: as long as it flows, since downloads
        /// and streams of events may rightly take hours.
        optional body: Duration [1ms to 24h],
    }
    later: []
}

section! {
    /// Second tries. What may have reached an origin is tried again only if its method is idempotent (GET, HEAD, PUT, DELETE,
    /// OPTIONS, TRACE), all of its body is still at hand (64KiB at most), and no answer has begun.
    Retries ("a map with `max`") {
        /// How often.
        // one more try mends a lost SYN or a dead address; more only multiplies the load of an origin that is down
        optional max: Count [0 to 5, default 1],
        /// When: `connect_error` (default), no connection came to stand; `reset_before_answer`, it ended before the answer
        /// began; `timeout`, the answer did not begin in time.
        optional on: List<RetryOn>,
        /// The share of all requests that may be tried again, beside three per second. Default: 20% if `on` names more than
        /// `connect_error`, else no bound.
        optional budget: Share,
    }
    later: []
}
