//! The store face of limits that several gates share: carries a [`Question`](crate::limiter::cluster::Question) to Redis or
//! Valkey and brings the [`Answer`](crate::limiter::cluster::Answer), or the
//! [`Silence`](crate::limiter::cluster::Silence) that there was instead.
//!
//! * [`client`] is one store as the gate sees it: asks, at most for the store's time; connects by itself in the background.
//! * `link` is the only file that knows the `redis` crate's kinds of connection; `fault` puts its errors into ours.
//! * `reach` is the connection in use, or why there is none: a store that refuses us is no outage.
//! * [`exchange`] carries what gates tell each other of limits with `sharing: estimate`.
//! * `script` has the scripts `rate.lua`, `quota.lua`, `members.lua` and `deltas.lua`, and the names of keys; `members` counts gates. What
//!   the scripts compute is written down in [`crate::limiter::cluster::promise`], and tested to be the same.
//! * [`breaker`] leaves a silent store alone; [`counters`] is what is counted, `lines` what is written into the log.
//!
//! **What a store's user must be allowed** (ACL): `EVALSHA`, `EVAL`, `TIME`, `GET`, `SET`, `ZADD`, `ZREMRANGEBYSCORE`, `ZCARD`,
//! `PEXPIRE`, `XADD` and `XRANGE`, on keys that begin with the store's prefix; `SELECT` where a database is named; `CLUSTER SLOTS`, `ASKING` and
//! `PING` in a cluster. The store must not evict (`maxmemory-policy noeviction`): an evicted key is forgotten spending.
//!
//! Redis 6.2 or newer, or Valkey; others that speak their protocol and run Lua may do.
//!
//! **Keys** are named `{prefix}{tag}:{limit}:{kind}`. The tag, in braces, is the client's key, so the keys of one limit are
//! spread over all slots of a cluster. A prefix with a tag of its own, such as `tg:{prod}:`, comes first and so decides: then
//! all keys are in one slot, on one server.
//!
//! **A cluster has one breaker.** If one server of three is silent, a third of the questions fail, and five of them in a row
//! are not rare: then all keys are left alone for a while.
//!
//! **Never asked twice.** A question whose outcome is unknown may have been charged, so it is not sent again, neither here nor
//! by the `redis` crate, whose retries are off. Sent again is only what a store says it did not execute: a script it does not
//! have (`NOSCRIPT`), or a key that lives elsewhere (`MOVED`, `ASK`).

pub mod breaker;
pub mod client;
pub mod counters;
pub mod exchange;
mod fault;
pub mod in_use;
mod lines;
mod link;
mod members;
mod reach;
mod script;

pub use breaker::BreakerState;
pub use client::{Access, MOST_ON_THEIR_WAY, StoreClient, StoreFault};
pub use counters::{BUCKETS_MICROS, Counters, StoreStatus};
pub use exchange::{Exchange, ExchangeState};
pub use in_use::StoreInUse;
