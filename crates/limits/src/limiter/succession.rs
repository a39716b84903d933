//! One limiter after another: the same state under other numbers.
//!
//! **Promise.** What was admitted under the old numbers counts under the new ones, at every instant and to the unit, and comes back
//! as the new ones say. No client gains a budget by a change, however often it comes: over any time in which the numbers changed
//! it is admitted at most the greatest burst in force, and what the rates in force gave back. Requests that began under the old
//! numbers end under them, on the same state.
//!
//! | kind | state | under other numbers |
//! |---|---|---|
//! | `rate`, `distinct` with `sliding` | when the key will have all its budget again | the axis of these instants [bends](crate::sketch::TimeScale): units stay units. Where it cannot, a table of their own begins with the levels of this one, which hears no more of requests that began before |
//! | `recent_average` | when the sum of the key will be one | as above for `half_life`; a sum is judged by any `rate` |
//! | `quota` | a count | judged by any `max`; the open window goes on as the open one of the new windows |
//! | `quota` with `sliding`, `distinct` | counts | judged by any `max` |
//! | `inflight` | places that are taken | counted against any `max` |
//! | `fair_share` | one bucket for all, who waits, what was used lately | any numbers; the bucket keeps its units, and who waits stays |
//!
//! What a state means must be the same on both sides: the engine asks only when type, key, `of`, window, nodes and memory are.

use crate::units::Timestamp;

/// The places of routes, origins and tiers in the old policy.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    /// For each route of the new policy, its place in the old one; `None` if it is new.
    pub routes: &'a [Option<usize>],
    /// For each origin of the new policy, its place in the old one; `None` if it is new.
    pub origins: &'a [Option<usize>],
    /// For the limit's own numbers and each tier, which of the old limit's tiers it was, 0 its own numbers; `None` if it is new.
    pub tiers: &'a [Option<u8>],
    /// When. No stamp that a request was judged by may be later.
    pub now: Timestamp,
}
