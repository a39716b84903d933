//! Stores of limits that several gates share. Begin with [`client`]. It carries a [`Question`](crate::limiter::sharing::Question)
//! to Redis or Valkey and brings the [`Answer`](crate::limiter::sharing::Answer), or a
//! [`StoreError`](crate::limiter::sharing::StoreError).
//!
//! * [`client`] is one store: it asks the server that has the key, within the store's timeout.
//! * `shard` is one server: its connection, its breaker, and the task that keeps both; `servers` are all servers of a store,
//!   `common` is shared by them. `cluster` finds the servers of a cluster and keeps a shard for each, `slots` says which has a
//!   key.
//! * `dialer` finds servers, also by sentinels, connects and logs in. `wire` is a connection by the `redis` crate, with `bounds`
//!   between it and the server: what answers may take in memory.
//! * `fault` translates the crate's errors and cuts a store's texts to one short line.
//! * [`peer_sync`] publishes what this gate admitted of limits with `sharing: estimate`, and charges what others published.
//! * `ban_sync` shares bans with other gates, `sealed` so that nobody else reads them.
//! * `script` has the scripts `rate.lua`, `quota.lua`, `sliding.lua`, `members.lua`, `deltas.lua` and `bans.lua`, and the names of keys; `gate_count` counts
//!   gates. Tests hold the scripts to [`crate::limiter::sharing::promise`].
//! * [`breaker`] stops asking a silent store. [`counters`] counts, `state` is the state of a store at one moment, `store_log`
//!   writes the log.
//!
//! **What a store's user must be allowed** (ACL): `EVALSHA`, `EVAL`, `TIME`, `GET`, `SET`, `ZADD`, `ZREMRANGEBYSCORE`, `ZCARD`,
//! `PEXPIRE`, `XADD` and `XRANGE`, on keys that begin with the store's prefix; `SELECT` where a database is named; `CLUSTER
//! SLOTS`, `ASKING` and `PING` in a cluster. The store must not evict (`maxmemory-policy noeviction`): an evicted key is
//! forgotten spending.
//!
//! Redis 6.2 or newer, or Valkey; others that speak their protocol and run Lua may do.
//!
//! **Keys** are named `{prefix}{tag}:{limit}:{kind}`. The tag, in braces, is the client's key, so the keys of one limit are
//! spread over all slots of a cluster. A prefix with a tag of its own, such as `tg:{prod}:`, comes first and so decides: then all
//! keys are in one slot, on one server.
//!
//! **Each server of a cluster has a breaker of its own.** If one of three is silent, its keys are decided without the store, and
//! the keys of the others by the store, as before.
//!
//! **A store is not trusted with memory or words.** An answer takes at most 8 MiB, what is announced counted at once, and all
//! unfinished answers of a store at most 16 MiB; more ends the connection, as a fault and no outage. Its texts are shown as one
//! line of ASCII. A cluster of more than 512 servers with slots is not believed, and only those are connected to.
//!
//! **Never asked twice.** A question whose outcome is unknown may have been charged, so it is not sent again. Sent again is only
//! what a store says that it did not execute: a script it does not have (`NOSCRIPT`), or a key that lives elsewhere (`MOVED`,
//! `ASK`).

mod ban_sync;
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
mod sealed;
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
pub use state::{Dropped, ExchangeState, ServerStanding, ServerState, StoreState};
pub use wire::MOST_ON_THEIR_WAY;
