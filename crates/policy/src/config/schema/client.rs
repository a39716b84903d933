//! Who is asking: `trusted_proxies`, `client_ip`, `secrets`.

use super::Condition;
use crate::client::trust::{OnDegraded, OnShort};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::shape::{Either, List};
use crate::units::Criticality;
use http::HeaderName;

section! {
    /// Who may tell the client's address, and in which header.
    TrustedProxies ("a map with `from`") {
        /// The one header that is read: `x-forwarded-for` (default), `forwarded`, or the name of any header that holds a
        /// single address, such as `cf-connecting-ip`.
        optional header: HeaderName,
        /// The peers that are believed: networks (`10.0.0.0/8`), `unix` for UNIX sockets, a preset's name, `{ preset: NAME }`
        /// or `{ file: PATH }` with one network per line. From such a peer the header is walked leftwards through listed
        /// addresses; the first that is not listed is the client.
        required from: List<Either<String, TrustSource>>,
        /// Instead of walking: the client is the N-th address from the right; 0 believes nobody. For chains of fixed length.
        optional hops: Count [0 to 32],
        /// With `hops`: what becomes of a request whose chain is shorter. `peer`: it counts for the peer, apart from others;
        /// `reject`: 400.
        optional short: OnShort [default peer],
        /// What becomes of a request with an unreadable address where it counts. `hop`: it counts for the last hop that could be
        /// verified, apart from others; `reject`: 400.
        optional degraded: OnDegraded [default hop],
        /// Fields of these peers that reach the origin although they are not the `header` that is read, such as `X-Real-IP`. All
        /// other fields that name a client's address or another target are removed, whoever sends them, as a proxy passes on
        /// those that it does not write itself. The list of such fields is in `docs/connections.md`.
        optional keep_headers: List<HeaderName>,
        /// The field in which these peers say how much a request matters: `critical`, `default`, `sheddable` or `background`, over what
        /// its route and its client's tier say. Sent by anybody else it is removed. Origins get the result in
        /// `x-tidegate-criticality`. Default: nobody is believed about it.
        optional criticality: Either<HeaderName, CriticalityField>,
    }
    later: []
}

section! {
    /// The field in which trusted peers say how much a request matters.
    CriticalityField ("a map with `field`") {
        /// Its name.
        required field: HeaderName,
        /// The most that it can make of a request; a word above that counts as this, and never as less than what route and tier say.
        optional ceiling: Criticality [default critical],
    }
    later: []
}

section! {
    /// Clients that stand for more than one, or matter more or less than others. A request is of the first tier in the file whose `when`
    /// holds; at most 16.
    ClientTier ("a map with `when`") {
        /// Which requests.
        required when: Condition,
        /// How many single clients the key of such a request stands for in an origin's queue: many users behind one address count as so
        /// many clients, and the networks around it for as many at least.
        optional weight: Count [1 to 1000000, default 1],
        /// How much such requests matter, over what their route says. Default: what their route says.
        optional criticality: Criticality,
    }
    later: []
}

section! {
    /// One source of trusted networks: `preset` or `file`.
    TrustSource ("a map with `preset` or `file`") {
        /// A list of networks by name: `presets.d/NAME.txt` beside the policy file, or one of those built in: `private`,
        /// `loopback`, `cloudflare`.
        optional preset: String,
        /// A file with one network per line; `#` starts a comment. Relative to the directory of the policy file.
        optional file: String,
    }
    later: ["url"]
}

section! {
    /// What counts as one client.
    ClientIp ("a map") {
        /// How many bits of an IPv4 address make a client. `::ffff:192.0.2.1` counts as 192.0.2.1.
        optional ipv4_prefix: Count [1 to 32, default 32],
        /// How many bits of an IPv6 address make a client; a home gets a /64.
        optional ipv6_prefix: Count [1 to 128, default 64],
        /// NAT64 prefixes of your own network, beside 64:ff9b::/96: addresses under them count as the IPv4 address inside.
        /// Length 32, 40, 48, 56, 64 or 96.
        optional translation: List<String>,
    }
    later: []
}

section! {
    /// Key material. A text is the secret itself, which warns; better are `{ file: PATH }` and `{ env: NAME }`.
    Secrets ("a map of secrets") {
        /// The key of the pseudonyms that clients have in logs, 16 bytes or more. Without it a random one is made at
        /// start, so that pseudonyms change with every restart.
        optional client_hmac: Either<String, KeySource>,
    }
    later: ["store_password"]
}

section! {
    /// Where a secret comes from: `file` or `env`.
    SecretSource ("a map with `file` or `env`") {
        /// A file that only its owner and group can read. One line break at its end is not part of the secret.
        optional file: String,
        /// An environment variable.
        optional env: String,
    }
    later: []
}

section! {
    /// Where a key that can be replaced comes from: `file` or `env`, and while it is being replaced the one of before.
    KeySource ("a map with `file` or `env`") {
        /// A file that only its owner and group can read. One line break at its end is not part of the secret.
        optional file: String,
        /// An environment variable.
        optional env: String,
        /// The key of before, in a file like `file`, while gates that share limits through a store get a new one: limits with
        /// `sharing: lease` or `exact` are counted under both, so that nobody gets more meanwhile. To be removed when all gates have
        /// the new key and what was spent has come back.
        optional previous_file: String,
        /// The same in an environment variable.
        optional previous_env: String,
    }
    later: []
}
