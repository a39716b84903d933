//! `stores`.

use std::time::Duration;

use super::SecretSource;
use crate::config::place::FilePath;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::setting::Words;
use crate::config::shape::Either;
use crate::config::store_text::{KeyPrefix, NameInStore, StoreUrl};
use crate::config::word::StoreModeWord;
use crate::policy::Breaker;

section! {
    /// A store that several gates share limits through: Redis 7 or Valkey. It must not evict keys (`maxmemory-policy
    /// noeviction`): a key that is thrown away is a limit that begins anew.
    Store ("a map with `url`") {
        /// Where it is: `redis://HOST:PORT`, or `rediss://…` for TLS; several servers with commas between; then `/` and the number
        /// of a database, if it is another than 0. No user and no password, which have words of their own.
        required url: StoreUrl,
        /// How its servers belong together: `single`, one server; `sentinel`, those of `url` are sentinels that know
        /// where the primary is; `cluster`, those of `url` are some of a cluster, and tell of the others.
        optional mode: StoreModeWord [default single],
        /// With `mode: sentinel`: what the sentinels call the primary.
        // what Redis' own examples call it
        optional primary: NameInStore [default mymaster],
        /// The user of the store's access list. Needs `password`. Default: the store's default user.
        optional username: NameInStore,
        /// The password. A text is the password itself, which warns; better are `{ file: PATH }` and `{ env: NAME }`.
        optional password: Either<String, SecretSource>,
        /// With `rediss://`: a file with the certificates to trust, PEM. Default: those of the system.
        optional ca: FilePath,
        /// How long a request waits for an answer of the store at most.
        // a question and its answer within one data centre take less than one millisecond; five leave room for a busy moment
        optional timeout: Duration [1ms to 1s, default 5ms],
        /// How long a start, an upgrade or a reload waits for the first answer of a store that is new to the gate; of a cluster,
        /// for one of each server. Until then the gate is not ready, or goes on by the policy in force.
        // a store that is well answers at once; this is for one far away, with TLS and a name to look up. Below what
        // `tidegate reload` and an upgrade wait for
        optional ready_within: Duration [0s to 15s, default 2s],
        /// What the names of all keys begin with, up to 64 visible ASCII characters. Gates that say the same share their limits.
        /// In a cluster, braces with something between them (`tg:{prod}:`) put all keys on one of its servers; without braces they
        /// are spread over all.
        optional prefix: KeyPrefix [default tidegate:],
        /// Whether gates that say the same `prefix` share their bans through it. Needs `secrets.client_hmac`, which seals them: the store
        /// learns nothing of them.
        optional share_bans: bool [default true],
        /// When a store that does not answer is left alone; each server of a cluster for itself.
        optional breaker: Words<Breaker>,
    }
    later: []
}

section! {
    /// When a store that does not answer is left alone for a while, so that no request waits for it in vain. Each server of a
    /// cluster has a breaker of its own: one that is silent takes only its own keys along.
    values Breaker ("a map with `open_after` or `half_open_every`") {
        /// After so many failures in a row.
        optional open_after: Count [1 to 1000, default 5],
        /// How long until one question tries again; twice as long after each one that fails, up to 10s.
        optional half_open_every: Duration [10ms to 10s, default 500ms],
    }
    later: []
}
