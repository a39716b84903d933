//! # tidegate
//!
//! An edge reverse proxy whose rate limits, overload protection and fair sharing are actually correct. It finds the real client
//! behind trusted proxies, judges each request by the limits of its route in fixed memory, forwards it to an origin or answers
//! 429 and 503 truthfully.
//!
//! ## The house
//!
//! The number is the floor. A folder uses lower floors only: between crates Cargo sees to it, within one `crates/floors`. Below
//! floor 8 there is no clock, no randomness, no socket and no framework: time and dice arrive as arguments, so a test and a live
//! request run the same code. What stands in `crates` is seen here by the same names.
//!
//! | floor | module | what it is |
//! |---|---|---|
//! | 1 | [`tidegate_http`] | the rules of HTTP: bytes in, meaning or a fault out |
//! | 1 | [`units`] | numbers with units and ranges |
//! | 1 | `sync` | atomics, fences, lists that are replaced whole |
//! | 1 | [`human`] | numbers, times and columns as people read them |
//! | 2 | [`request`] | a request, as the floors below 8 see it |
//! | 2 | [`sketch`] | published algorithms in fixed memory: meters, monotone and summing tables, sets, lists of the heaviest |
//! | 3 | [`limiter`] | one kind of limit per file |
//! | 3 | [`door`] | who of those that wait for something scarce goes next, and who goes away |
//! | 3 | [`overload`] | how near a server is to what it can serve, and who is refused then |
//! | 4 | [`client`] | the client of a request |
//! | 5 | [`bans`] | whom operators shut out for a while |
//! | 5 | [`policy`] | the compiled policy: immutable and valid |
//! | 6 | [`config`] | text to policy, or all its faults |
//! | 6 | [`engine`] | decides about requests |
//! | 7 | [`answer`] | decisions as fields, statuses, bodies and log lines |
//! | 7 | [`tidegate_offline::gate`] | the gate without sockets: the engine under a clock of its own |
//! | 7 | [`picture`] | charts |
//! | 7 | [`explain`] | reasons of a decision, for people |
//! | 8 | [`replay`] | past requests, in their own time, through the offline gate |
//! | 8 | [`scenario`] | the tests of a policy, through the offline gate |
//! | 8 | [`system`] | time, sockets, descriptors, memory for bodies, overload |
//! | 9 | [`edge`] | connections of clients: TLS, PROXY protocol, HTTP/1 and HTTP/2, deadlines; no policy |
//! | 10 | [`origins`] | origins: addresses, checks, ejection, TLS, places |
//! | 11 | [`store`] | Redis and Valkey: carries questions, brings answers |
//! | 11 | [`small_server`] | HTTP for operators: the metrics page, the admin socket |
//! | 12 | [`observe`] | the one model of state, metrics, logs, decisions, history, notices |
//! | 13 | [`running`] | the process, and the generation of the policy that is in force in it |
//! | 14 | [`proxy`] | one request: judge, admission, forward, answer |
//! | 15 | [`admin`] | the admin API and the page |
//! | 16 | [`process`] | start, reload, handover, upgrade, signals, systemd |
//! | 17 | [`cli`] | one file per verb |
//!
//! ## The story of a request
//!
//! 1. [`config::load`] has turned YAML into a [`policy::Policy`], or into a list of faults; nothing half-valid exists.
//! 2. [`engine::Engine`] adds one limiter per rule. [`running::generation`] makes it ready to serve; [`process::reload`] puts the
//!    next one in its place, on the same state.
//! 3. [`edge::accept`] lets a connection in, [`edge::connection`] reads the request's head under its own deadline and size, and
//!    [`tidegate_http::head`] refuses every head that has two readings. Only then does Pingora see it.
//! 4. [`proxy::judge`] takes every head, once: it makes a [`request::Request`] of it, and reads the time and the dice.
//!    [`proxy::gate`] is Pingora's phases, which tell the rest of the story.
//! 5. [`engine::Engine::judge`] asks [`client::resolve`] who it is, [`policy::RouteTable`] which route takes it, and each rule of
//!    that route whether it fits: a few loads each, no write. A shadow rule is counted, never obeyed.
//! 6. A unit of the route's `fair_share` is taken, or waited for ([`engine::RateWait`]), where the client is within its own limits; then a
//!    place at the origin ([`origins::origin`]). Both before anything is charged.
//! 7. [`engine::Engine::admit`] charges every limit, or none: no client pays for another limit's refusal. A cost that only the
//!    answer tells is charged then.
//! 8. Admitted: the gate forwards it, after the wait that a limit may ask for, and holds its places to the last byte. Refused:
//!    [`answer`] has the words, and the only table of statuses.
//! 9. The answer's head settles what was held back, its bytes are charged where bytes are limited.
//! 10. Fields, metrics and log line are read from that one [`engine::Decision`], and the ring of decisions remembers it:
//!     [`explain`] puts it into words for [`admin`], by its id or by the client, and [`admin::page`] shows the sums.
//!
//! Without sockets, [`tidegate_offline::gate`] takes requests along the same path: for [`scenario`] the tests of a policy
//! (`tidegate test`), for [`replay`] the requests of past logs (`tidegate replay`, and `tidegate suggest`, which proposes limits
//! from them), and for `tidegate explain --request` one request that no client sent. `status`, `pardon`, `reload`, `upgrade` and
//! `show --running` ask and tell the running process.

// A hostile request gets a status, never a panic; places are given back by drop. Tests may panic.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::indexing_slicing,
        clippy::mem_forget
    )
)]

pub use tidegate_limits::{door, limiter, overload, saved, sketch, units};
pub use tidegate_offline::{picture, replay, scenario};
pub use tidegate_policy::{answer, bans, client, config, engine, explain, human, policy, request};

pub mod system;

pub mod edge;
pub mod origins;
#[cfg(feature = "store")]
pub mod store;
#[cfg(not(feature = "store"))]
#[path = "store/absent.rs"]
pub mod store;

pub mod small_server;

pub mod observe;

pub mod running;

pub mod proxy;

pub mod admin;

pub mod process;

pub mod cli;
