//! Carries a [`Question`](crate::limiter::sharing::Question) to Redis or
//! Valkey and brings the [`Answer`](crate::limiter::sharing::Answer), or the
//! [`StoreError`](crate::limiter::sharing::StoreError) that there was instead.
//!
//! * [`client`] is one store as the gate sees it: asks the server that has the key, at most for the store's time.
//! * `shard` is one server: its connection, its breaker, and the task that keeps both; `servers` are all of a store, `common` is what
//!   they have in common. `cluster` finds the servers of a cluster and keeps a shard for each, `slots` says which has a key.
//! * `dialer` finds servers, also by sentinels, connects and logs in. `wire` is a connection by the `redis` crate, with `bounds`
//!   between it and the server: what answers may take in memory.
//! * `fault` puts the crate's errors into ours, and a store's texts into one short line.
//! * [`peer_sync`] publishes what this gate admitted of limits with `sharing: estimate`, and charges what others published.
//! * `script` has the scripts `rate.lua`, `quota.lua`, `members.lua` and `deltas.lua`, and the names of keys; `gate_count` counts gates. What
//!   the scripts compute is written down in [`crate::limiter::sharing::promise`], and tested to be the same.
//! * [`breaker`] leaves a silent store alone; [`counters`] is what is counted, `state` how a store stands at one moment, `store_log` what is written
//!   into the log.
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
//! **Each server of a cluster has a breaker of its own.** If one of three is silent, its keys are decided without the store, and the
//! keys of the others by the store, as before.
//!
//! **A store is not trusted with memory or words.** An answer takes at most 8 MiB, what is announced counted at once, and all
//! unfinished answers of a store at most 16 MiB; more ends the connection, as a fault and no outage. Its texts are shown as one
//! line of ASCII. A cluster of more than 512 servers with slots is not believed, and only those are connected to.
//!
//! **Never asked twice.** A question whose outcome is unknown may have been charged, so it is not sent again. Sent again is only
//! what a store says that it did not execute: a script it does not have (`NOSCRIPT`), or a key that lives elsewhere (`MOVED`,
//! `ASK`).

mod bounds;
pub mod breaker;
pub mod client;
mod cluster;
mod common;
pub mod counters;
mod dialer;
mod fault;
mod gate_count;
pub mod in_use;
pub mod peer_sync;
mod script;
mod servers;
mod shard;
mod slots;
mod state;
mod store_log;
mod wire;

pub use bounds::MOST_ANSWER;
pub use breaker::BreakerState;
pub use client::{StoreClient, StoreFault};
pub use counters::{BUCKETS_MICROS, Counters};
pub use dialer::Access;
pub use fault::LONGEST_TEXT as MOST_TEXT;
pub use in_use::StoreInUse;
pub use state::{ExchangeState, ServerStanding, ServerState, StoreState};
pub use wire::MOST_ON_THEIR_WAY;
