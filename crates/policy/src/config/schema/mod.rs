//! The policy file as it is written: every word, once. The JSON Schema and the reader both come from here.
//!
//! Nothing in here is checked beyond its own text; `compile` makes sense of it. The doc comments are the reference manual's
//! text, so they speak to operators.

mod answer;
mod case;
mod client;
mod connection;
mod health;
pub mod kind_words;
mod limit;
mod origin;
mod process;
mod route;
mod store;

pub use answer::{
    Body, BodyFile, Limited, Overloaded, ProxyName, Refusal, RefusalStatus, Responses, RetryAfter, RouteResponses,
};
pub use case::{Expect, Reply, Send, Test, TestFile};
pub use client::{
    ClientIp, ClientTier, CriticalityField, KeySource, SecretSource, Secrets, TrustSource, TrustedProxies,
};
pub use connection::{Connections, RefuseAtAccept, RequestBody, RequestHead, Response};
pub use health::{Adaptive, Health};
pub use limit::{Accuracy, Condition, DelayAction, Limit, LimitAction, OtherLimit, PenaltyBan, TagAction, Tier};
pub use origin::{
    Balance, BalanceText, ClientCertificate, Inflight, Origin, OriginAddress, OriginTls, Reserved, Retries,
    RouteInflight,
};
pub use process::{
    AccessLog, Admin, Certificate, ClientCertificates, Drain, Http2, Listener, Log, Metrics, Overload, Sample, Server,
    Telemetry, Tls,
};
pub use route::{Cors, HeaderEdits, Match, PathForm, Respond, Route, TextForm};
pub use store::Store;

use std::time::Duration;

use super::read::Read;
use super::scalar::Count;
use super::section::section;
use super::setting::Words;
use super::settings::ListenOn;
use super::shape::{Either, Keyed, List, OneOrMany};
use super::text::{ListenAddress, Name, OriginName};
use super::word::BodyLimit;
use crate::limiter::sharing::OnStoreError;
use crate::policy::{Mode, RepeatedFields, Timeouts};

section! {
    /// A tidegate policy file.
    File ("a map of sections") {
        /// The version of this format. There is only 1, which is also the default.
        optional version: Count,
        /// Further files to read, relative to the directory of this one, such as `routes.d/*.yaml`. A `*` may stand in the
        /// last part; the files are read in the order of their names. Only the main file may include.
        optional include: List<String>,
        /// Short for one listener called `main`: `listen: ":8080"`.
        optional listen: ListenOn,
        /// Where to listen, each under a name of its own.
        optional listeners: Keyed<Name, Listener>,
        /// Certificates for every listener that says neither `tls` nor `redirect`: `tls: { cert: …, key: … }` is short for
        /// `tls: { certificates: [{ cert: …, key: … }] }` of each. `tls: off` keeps a listener plain.
        optional tls: OneOrMany<Certificate>,
        /// What routes, origins and limits use when they do not say otherwise.
        optional defaults: Defaults,
        /// Key material.
        optional secrets: Secrets,
        /// Who may tell the client's address, and in which header. Nobody by default: then the client is whoever opened the
        /// connection. A list is short for its `from`.
        optional trusted_proxies: Either<List<Either<String, TrustSource>>, TrustedProxies>,
        /// What counts as one client.
        optional client_ip: ClientIp,
        /// What becomes of a request with several lines of a header field that a route or an enforced limit reads, of which one
        /// origin would read the first and another the last. `refuse`: 400. `first`, `last`: that line counts, and
        /// the others are taken out. Fields with a client's address (`trusted_proxies`) have rules of their own.
        optional repeated_fields: RepeatedFields [default refuse],
        /// Clients that stand for more than one, or matter more or less than others, each tier under a name of its own; the first in the
        /// file whose `when` holds counts.
        optional tiers: Keyed<Name, ClientTier>,
        /// Groups of equal servers that requests are sent to, each under a name of its own.
        optional origins: Keyed<OriginName, Origin>,
        /// Stores that several gates share limits through, each under a name of its own.
        optional stores: Keyed<Name, Store>,
        /// Limits, named once and used by many routes. All that use a name share its counters.
        optional limits: Keyed<Name, Limit>,
        /// What is done with which requests. The most specific route wins: host (exact, then longest wildcard), path
        /// (exact, then regex, then longest prefix), method, number of headers, number of parameters, then the order here.
        /// A request that no route takes gets 404.
        optional routes: List<Route>,
        /// What clients are told.
        optional responses: Responses,
        /// Metrics, access log and the process's own log.
        optional telemetry: Telemetry,
        /// Where the admin endpoints can be read over TCP, such as `127.0.0.1:9901`. Without it they are on the admin socket
        /// only, to which alone verbs go.
        optional admin: Either<ListenAddress, Admin>,
        /// The process. Changes here need `tidegate upgrade`.
        optional server: Server,
        /// How often to look whether the files have changed, and reload them if so. Off by default: then SIGHUP and
        /// `tidegate reload` do. By content, so that it works with editors, network file systems and Kubernetes ConfigMaps.
        optional watch: Duration [1s to 1h],
        /// What must come of which requests, for `tidegate test`. Nothing of it is looked at when serving.
        optional tests: List<Test>,
    }
    later: ["geo", "state"]
}

section! {
    /// What routes, origins and limits use when they do not say otherwise.
    Defaults ("a map") {
        /// How long to wait for an origin.
        optional timeouts: Words<Timeouts>,
        /// The largest request body, 413 above it; `none` switches the limit off.
        // enough for forms and photographs; uploads say so themselves
        optional body_limit: BodyLimit [default 10MiB],
        /// Whether limits are obeyed (`enforce`) or only counted and logged (`shadow`).
        optional mode: Mode [default enforce],
        /// What happens to a request of a shared limit that says nothing itself when its store says nothing: `local`, `open` or
        /// `closed`.
        optional on_store_error: OnStoreError [default local],
    }
    later: ["action"]
}

/// The JSON Schema (draft 2020-12) of a policy file.
pub fn json_schema() -> schemars::Schema {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut generator = settings.into_generator();
    let root = <File as Read>::schema(&mut generator);
    let mut schema = schemars::json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://tidegate.example/tidegate.schema.json",
        "title": "tidegate policy file, version 1",
        "$defs": generator.take_definitions(true)
    });
    if let Some(reference) = root.get("$ref") {
        schema.insert("$ref".into(), reference.clone());
    }
    schema
}
