//! `limits`.

use std::time::Duration;

use http::HeaderName;

use super::Refusal;
use super::kind_words::{LimitWords, TierWords};
use crate::client::key::Missing;
use crate::config::day::Day;
use crate::config::limit_text::LimitKey;
use crate::config::limit_value::{CostMethod, CostText, CountText};
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::text::Name;
use crate::config::word::{ActionWord, LimitType};
use crate::limiter::sharing::{OnStoreError, Sharing};
use crate::policy::{Mode, Preflights};
use crate::units::{Bytes, Share};

section! {
    /// One limit.
    Limit ("a map with `rate`, `max` or `capacity`") {
        optional r#type: LimitType,
        /// What requests are counted by: `client_ip` (default), `header:NAME`, `cookie:NAME`, `query:NAME`, `host`, `path`,
        /// `path:segments=N` (its first N segments), `method`, `method_class`, `route`, `origin`, `tls_sni` (the name in the TLS handshake; every request on a plain
        /// listener lacks it), `global`, or a list of up to 4 of them. For `inflight`, `global` (default), `route` or
        /// `origin` alone are counted exactly, anything else in a sketch. For `fair_share` what requests are held together by.
        optional key: OneOrMany<LimitKey>,
        /// What happens to a request without the header, cookie, parameter or `tls_sni` of `key` or `of`: `allow` (not
        /// counted), `deny` (refused), or `{ use: LIMIT }` (that other limit is asked instead). Must be said when they have
        /// one of these.
        optional missing: Either<Missing, OtherLimit>,
        /// The size of the sketch that counts, for any number of keys: a power of two from `4KiB` to `512MiB`. Default
        /// `4MiB`, of `inflight` `2MiB`; `tidegate check -v` prints the error that it buys. Not for `fair_share`, nor for
        /// `inflight` that is counted exactly.
        optional memory: Bytes,
        /// How exact the sketch must be, in place of `memory`: `{ error: 0.1%, confidence: 99.9% }`. `tidegate check -v` prints the
        /// memory that it takes. Not for `fair_share`, nor for `inflight` that is counted exactly.
        optional accuracy: Accuracy,
        /// What one request takes: a number (default 1), a map by method (`{ GET: 1, POST: 5, other: 1 }`), or
        /// `response:HEADER`, which is charged when the answer comes. For `rate`, `quota` and `recent_average`.
        optional cost: Either<CostText, Keyed<CostMethod, Count>>,
        /// The least that is held back until the answer says the cost; once answers have said more, what is enough for 95% of
        /// them. What is held back is charged if the answer does not say. Default 1. With `cost: response:HEADER`.
        optional cost_estimate: Count,
        /// The most that an answer says: held back while no answer has said anything, and never more. Default: `cost_estimate`
        /// is held back then. With `cost: response:HEADER`.
        optional cost_max: Count,
        /// Which requests use up the limit. For `rate`, `quota` and `distinct`: those whose answer has one of some statuses,
        /// `responses 401,403`, `responses 4xx,503`, `not 2xx`; until the answer comes, an attempt is held back. For
        /// `recent_average` and sliding `distinct`: `all` (refused ones too, so that a client that goes on stays out; default of
        /// `recent_average`) or `admitted` (default of `distinct`).
        optional count: CountText,
        /// Whether CORS preflights use up the limit. `apart`, unless `count` is written: they do not. One that the gate answers (`cors:`
        /// of the route) is not counted at all. One that goes to the origin is counted under a key of its own by the same numbers, if
        /// the limit's key tells clients apart: a client that may send 10/s may send 10/s of these besides. `count`: as any request.
        optional preflights: Preflights,
        /// Whether the limit is obeyed (`enforce`) or only counted and logged (`shadow`). Default: that of `defaults`.
        optional mode: Mode,
        /// For which share of all keys the limit is obeyed, such as `25%`; the others are counted as in `shadow`. Always the
        /// same ones. Default `100%`. Implies `mode: enforce`.
        optional enforce: Share,
        /// Requests that the limit does not apply to: networks of clients, or maps with `cidr` and `header`. A header alone is
        /// something that anybody can send, unless a proxy in front removes it.
        optional exempt: List<Either<String, Condition>>,
        /// Other numbers for some requests; the first whose `when` holds, at most 16. Not for `fair_share`, nor for `inflight`
        /// that is counted exactly.
        optional tiers: List<Tier>,
        /// What follows when a request does not fit: `reject` (default), `close` (rejected, and the connection closed), `delay`
        /// (it waits for up to 1s; not for `inflight`, `fair_share` and what is charged at the answer), `tag` (it passes with
        /// the limit's name in `x-tidegate-limited` towards the origin), or a map with `delay` or `tag`.
        optional action: Either<ActionWord, LimitAction>,
        /// A ban for a client that keeps sending under the limit's penalty. Each ban of a client is twice as long as the one before. Needs
        /// `count: all` and the key `client_ip`. Never for trusted proxies, clients of UNIX sockets, and clients whose forwarding header cannot
        /// be read.
        optional ban: PenaltyBan,
        /// What a client gets that this limit refuses, over `responses` of the route and of the policy.
        optional response: Refusal,
        /// The store of `stores` through which all gates share the limit: its numbers hold for all of them together. For `rate`,
        /// `quota` and `inflight` by key; `recent_average` needs `sharing: estimate`; not with `delay`, nor with `upgraded`. Needs `secrets.client_hmac`. Default: every gate counts for itself.
        optional store: Name,
        /// How gates share it. `lease` (default): each takes a little of the budget in advance and spends it by itself, so that few
        /// requests wait for the store; of `inflight`, `count: responses`, `cost: response:HEADER` and rates of bytes nothing is taken in advance, as with `exact`. `exact`: the store is asked about every request that it has not just refused. `estimate`: no
        /// request waits; each gate grants the whole limit, and four to ten times a second charges what the others admitted, so that a flood over all gates is
        /// found and shed early, but the limit is not exact. With `store`.
        optional sharing: Sharing,
        /// What happens to a request that the store says nothing about in time. `local` (default): this gate decides alone, by
        /// its part of the limit: one of as many as there are gates, at least one request. `open`: it passes. `closed`: it is
        /// refused with 503. With `store`; not with `sharing: estimate`, of which no request asks the store.
        optional on_store_error: OnStoreError,
        /// The name that the limit had before: at a reload it goes on from the state of that one. May stay in the file.
        optional renamed_from: Name,
        /// Since when the limit has been in `shadow`, as `2026-11-21`: 30 days later `check`, the log, `status` and the page
        /// remind of it. Means nothing while it is enforced.
        optional since: Day,
    }
    and own: LimitWords
    later: ["tree", "weights"]
}

section! {
    /// When a penalty ends in a ban.
    PenaltyBan ("a map with `after` and `for`") {
        /// How many requests refused with the reason `penalty` bring it. The count begins anew when the client sends nothing for `max_penalty`.
        optional after: Count [1 to 1000000, default 100],
        /// How long the first ban lasts, `1s` to `744h`; ten minutes unless given.
        optional r#for: Duration,
        /// How long any of its bans lasts at most, `1s` to `744h`; a day unless given, or `for` if that is longer.
        optional max: Duration,
        /// After so long without a further ban the next one is a first one again, `1s` to `744h`; a day unless given.
        optional forgive: Duration,
    }
    later: []
}

section! {
    /// How exact a sketch must be. The count of a key is too high by at most `error` of what all keys have spent lately, with
    /// this `confidence`; it is never too low.
    Accuracy ("a map with `error` and `confidence`") {
        /// By how much a count may be too high, as a share of what all keys have spent lately: `0.0001%` to `99.9999%`.
        required error: Share,
        /// With which probability it is not higher: `0.0001%` to `99.9999%`.
        required confidence: Share,
    }
    later: []
}

section! {
    /// Another limit, by its name.
    OtherLimit ("a map with `use`") {
        /// The name of the limit that is asked instead. It must not hand on itself.
        required r#use: Name,
    }
    later: []
}

section! {
    /// Other numbers under a condition. What is not given is that of the limit.
    Tier ("a map with `when`") {
        /// When the tier applies.
        required when: Condition,
        /// `true`: the limit does not apply.
        optional exempt: bool,
    }
    and own: TierWords
    later: []
}

section! {
    /// Which requests: every part that is there must hold.
    Condition ("a map with `cidr` or `header`") {
        /// The client's address lies in one of these networks. Never true for a client whose forwarding header was
        /// unreadable.
        optional cidr: OneOrMany<String>,
        /// Header fields by name, each with exactly this value. Anybody can send a header, so use it only beside `cidr` or
        /// where a proxy in front removes what clients send.
        optional header: Keyed<HeaderName, String>,
    }
    later: []
}

section! {
    /// What follows when a request does not fit: `delay` or `tag`.
    LimitAction ("a map with `delay` or `tag`") {
        /// It waits until it fits.
        optional delay: DelayAction,
        /// It passes with a header towards the origin.
        optional tag: TagAction,
    }
    later: ["reject", "close"]
}

section! {
    /// How a request waits.
    DelayAction ("a map with `max`") {
        /// The longest wait, `1ms` to `30s`; what would wait longer is rejected. Default `1s`.
        optional max: Duration,
    }
    later: []
}

section! {
    /// How a request is marked.
    TagAction ("a map with `header`") {
        /// The header towards the origin, which has the limit's name as its value; a client's own of that name is always
        /// removed. Default `x-tidegate-limited`.
        optional header: HeaderName,
    }
    later: []
}
