//! `routes`.

use std::time::Duration;

use http::{HeaderName, Method};

use super::client::TrustSource;
use super::{RouteInflight, RouteResponses};
use crate::config::limit_text::LimitText;
use crate::config::pattern::{ExactPath, ExactText, Expression, HostPattern, IgnoreWord, PathPattern, PrefixPath};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::setting::Words;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::text::{FieldValue, Name, TemplateText};
use crate::config::web_origin::{CorsHeader, CorsMethod, CorsOrigin};
use crate::config::word::BodyLimit;
use crate::policy::Timeouts;
use crate::units::Criticality;

section! {
    /// What is done with some requests.
    Route ("a map with `origin` or `respond`") {
        /// Its name in metrics and logs, and that of its unnamed limits, whose counts follow it over a reload. Default: what its first
        /// match says: `login` for the path `/login`, or else its host or methods; `all` where it says none of them. Where another
        /// has that name already, a number by their order comes behind it: name such routes yourself.
        optional name: Name,
        /// Which requests it takes: a map whose parts must all hold, or a list of such maps, of which one must. Default:
        /// every request.
        optional r#match: OneOrMany<Match>,
        /// Short for one unnamed limit: `50/s burst 100 by client_ip`.
        optional limit: LimitText,
        /// The limits that a request must pass, all of them: names, or texts such as `50/s burst 100 by client_ip`. At most 8.
        /// A header, cookie or parameter as the key of such a text refuses requests without it unless `missing allow` follows.
        optional limits: List<String>,
        /// How many requests of this route at once: short for a limit of type `inflight` with the key `route`.
        optional inflight: Either<Count, RouteInflight>,
        /// Where admitted requests go: the name of an origin, or `HOST:PORT`.
        optional origin: String,
        /// The answer to admitted requests, instead of an origin's.
        optional respond: Respond,
        /// Edits of the request on its way to the origin.
        optional request_headers: HeaderEdits,
        /// Edits of the answer on its way to the client.
        optional response_headers: HeaderEdits,
        /// Which pages of other sites may read the answers. Default: the gate says nothing about that, and preflights go to the origin.
        optional cors: Cors,
        /// What refused clients get, over `responses` of the policy.
        optional responses: RouteResponses,
        /// The largest request body, 413 above it; `none` switches the limit off. Default: that of `defaults`.
        optional body_limit: BodyLimit,
        /// How long to wait for the origin, over what it says itself.
        optional timeouts: Words<Timeouts>,
        /// Whose requests get 403 before any limit is asked: networks, presets, files, `unix`, as in `trusted_proxies`. The resolved
        /// client counts: behind a trusted proxy only that client is refused. A file may hold a million networks.
        optional deny: List<Either<String, TrustSource>>,
        /// How much its requests matter where not all can be served, at the origin's queue and when the gate itself has too much to do:
        /// `critical` goes first, `background` gives way first. A tier of clients, and a trusted peer, may say otherwise. Origins get it in
        /// `x-tidegate-criticality`, unless it is `default`.
        optional criticality: Criticality [default default],
    }
    later: ["redirect", "rewrite", "action", "exempt", "tiers"]
}

section! {
    /// Which requests: every part that is there must hold.
    Match ("a map of what must hold") {
        /// The host: `shop.example.com`, or `*.example.com` for everything below it.
        optional host: HostPattern,
        /// The path: `/x` takes /x and all below it by whole segments, `=/x` only itself; or a map with `exact`, `prefix` or
        /// `regex`. `=/login ignore all` takes every spelling that origins read as that path, such as `/Login/`.
        optional path: Either<PathPattern, PathForm>,
        /// The method, or a list of which one must be met.
        optional method: OneOrMany<Method>,
        /// Header fields by name: the exact value, or a map with `exact` or `regex`.
        optional headers: Keyed<HeaderName, Either<ExactText, TextForm>>,
        /// Query parameters by name: the exact value, decoded, or a map with `exact` or `regex`. A request of whose values some fit
        /// and some do not gets 400.
        optional query: Keyed<String, Either<ExactText, TextForm>>,
        /// The resolved client: a network, an address, a preset, a file or `unix`, or a list of these, as in `deny`. Behind a trusted
        /// proxy that is the client, not the proxy. A client whose forwarding header cannot be read is in no list.
        optional client: OneOrMany<Either<String, TrustSource>>,
    }
    later: ["cidr", "cookies", "scheme", "listener"]
}

section! {
    /// One way to match a path.
    PathForm ("a map with `exact`, `prefix` or `regex`") {
        /// This path, byte for byte.
        optional exact: ExactPath,
        /// This path and all below it, by whole segments.
        optional prefix: PrefixPath,
        /// A regular expression that must meet the whole path.
        optional regex: Expression,
        /// Beside `exact` or `prefix`: which spellings count as that path. `case` (`/Login`), `trailing_slash` (`/login/`),
        /// `parameters` (`/login;a=1`), `trailing_blanks` (`/login%20`, `/login.`), `escapes` (`/user%40home` for `/user@home`),
        /// `escaped_slash` (`/admin%2Fx`), `all`, or `none`. Default `none`, and `check` warns where that leaves a way round.
        optional ignore: OneOrMany<IgnoreWord>,
    }
    later: []
}

section! {
    /// One way to match a value.
    TextForm ("a map with `exact` or `regex`") {
        /// This value, byte for byte.
        optional exact: String,
        /// A regular expression that must meet the whole value. A route refuses requests with a value over 4 KiB.
        optional regex: Expression,
    }
    later: []
}

section! {
    /// A fixed answer.
    Respond ("a map with `status`") {
        /// The status.
        optional status: Count [200 to 599, default 200],
        /// The body, as it stands. Default empty.
        optional body: String,
        /// The body's type. Default `text/plain; charset=utf-8` when there is a body.
        optional content_type: FieldValue,
        /// Further header fields.
        optional headers: Keyed<HeaderName, OneOrMany<FieldValue>>,
    }
    later: ["file", "redirect"]
}

section! {
    /// Which pages of other sites may read the answers of the route (the Fetch standard's CORS), in the words of Gateway API's
    /// `HTTPCORSFilter`. The gate writes these fields on every answer, refusals too, in the place of the origin's own, and answers
    /// preflights itself.
    Cors ("a map with `allow_origins`") {
        /// The origins of these pages: `https://app.example.com`, `https://*.example.com` for every host below it, or `*`. Up to 64.
        required allow_origins: OneOrMany<CorsOrigin>,
        /// The methods that they may send, or `*`. Default GET, HEAD and POST.
        optional allow_methods: OneOrMany<CorsMethod>,
        /// The header fields that they may send, or `*`. Default: those that every page may send.
        optional allow_headers: OneOrMany<CorsHeader>,
        /// The fields of the answer that they may read, or `*`, besides RateLimit, RateLimit-Policy, Retry-After and
        /// X-Tidegate-Decision. Default: those that every page may read.
        optional expose_headers: OneOrMany<CorsHeader>,
        /// Whether they may read answers to requests with cookies, passwords or certificates. Not with `*` for origins or fields to read.
        optional allow_credentials: bool [default false],
        /// How long a browser may remember the answer to a preflight.
        optional max_age: Duration [0s to 24h, default 5s],
    }
    later: []
}

section! {
    /// Edits of header fields: first `remove`, then `set`, then `add`. Values may hold `{client.ip}`, `{client.prefix}`,
    /// `{request.id}` and `{route}`; `{{` is a brace.
    HeaderEdits ("a map with `set`, `add` or `remove`") {
        /// Fields that are created, or replaced with all their lines.
        optional set: Keyed<HeaderName, TemplateText>,
        /// Fields that get one more line, or several.
        optional add: Keyed<HeaderName, OneOrMany<TemplateText>>,
        /// Fields whose lines all go.
        optional remove: List<HeaderName>,
    }
    later: []
}
