//! Limits that keep their promise: rates, quotas, distinct counts, recent averages, fair shares and requests in flight.
//!
//! A limit never admits more than it promises, under any interleaving of threads and any flood of keys. Its memory is fixed when it is
//! made. The crate has no clock, no randomness, no socket and no runtime: each call takes the time.
//!
//! # Quick start
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tidegate_limits::limiter::{Kind, Limiter, Place, Spec, kinds};
//! use tidegate_limits::sketch::{KeyHasher, Seed};
//! use tidegate_limits::units::{Bytes, Cost, Rate, Timestamp};
//!
//! # fn main() -> Result<(), tidegate_limits::units::OutOfRange> {
//! let seed = Seed::from_bytes([7; 16]); // random when serving
//! let kind = Kind::Rate(kinds::Rate { rate: Rate::new(5, Duration::from_secs(1))?, burst: 10, memory: Bytes(4 << 20) });
//! let limiter = Arc::new(Limiter::new(&Spec::new("per client", &[kind]), &seed)?);
//!
//! let mut key = KeyHasher::new(&seed);
//! key.part(4, &[203, 0, 113, 7]);
//! let place = Place { key: limiter.own_hash().of(key.finish()), ..Place::default() };
//!
//! let now = Timestamp::from_nanos(1 << 60);
//! for _ in 0..10 {
//!     let probe = limiter.probe(&place, now, Cost::ONE); // reads
//!     assert!(limiter.commit(&probe, now).is_ok()); // charges
//! }
//! let refused = limiter.probe(&place, now, Cost::ONE).judgement;
//! let wait = refused.retry_nanos.expect("a rate knows when its next unit comes");
//! let later = Timestamp::from_nanos(now.nanos() + wait);
//! assert!(limiter.commit(&limiter.probe(&place, later, Cost::ONE), later).is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! 1. Draw a [`Seed`](sketch::Seed) of 16 random bytes at the start, and keep it secret. It lets its owner find keys that collide with others.
//! 2. Make one [`Limiter`](limiter::Limiter) per limit. A [`Spec`](limiter::Spec) names it and holds the numbers of its [`Kind`](limiter::Kind).
//! 3. Hash the key of each request once, part by part. `part(4, …)` and `part(6, …)` are different keys even for equal bytes.
//! 4. Ask [`probe`](limiter::Limiter::probe) of every limit that must agree, then charge each with [`commit`](limiter::Limiter::commit). A commit reads again if others came first, so its answer is the last word.
//! 5. Keep the [`Hold`](limiter::Hold) that a commit gives until the request ends. Dropping it gives a place in flight back.
//! 6. Call [`maintain`](limiter::Limiter::maintain) every second or so. It ends collisions and drops what is over.
//!
//! # Which kind for which need
//!
//! | need | kind | promise per key |
//! |---|---|---|
//! | steady use with short bursts | [`Rate`](limiter::Kind::Rate) | at most `burst + rate·τ` in every interval of length τ |
//! | a number per hour, day or month | [`Quota`](limiter::Kind::Quota) | at most `max` per window; across a boundary up to twice that |
//! | keep abusers out while they go on | [`RecentAverage`](limiter::Kind::RecentAverage) | at most `rate·half_life/ln 2 + rate·τ` in every interval |
//! | guessed names, scanned paths | [`Distinct`](limiter::Kind::Distinct) | at most `max` different values per period |
//! | share a capacity under load | [`FairShare`](limiter::Kind::FairShare) | no key of its own: at most the capacity in all, and the heaviest give way first |
//! | slow work, open connections | [`Inflight`](limiter::Kind::Inflight) | at most `max` at once |
//!
//! # Memory and error
//!
//! A rate, an aligned quota or a recent average has tables of four rows, with 8 bytes per cell. `memory` is the size of one table. Two
//! tables take turns, so that a collision ends after some minutes, and heavy keys get exact entries;
//! [`Limiter::memory`](limiter::Limiter::memory) tells the sum.
//!
//! A key is refused early when a key that has spent its budget shares its cell in each row. The table has the probability of that for a
//! new key, beside so many keys that have spent theirs and have no exact entry ([`Shape::covered`](sketch::Shape::covered)):
//!
//! | `memory` | columns | 1,000 spent keys | 10,000 | 100,000 |
//! |--:|--:|--:|--:|--:|
//! | 256 KiB | 8,192 | 2·10⁻⁴ | 25 % | 100 % |
//! | 4 MiB | 131,072 | 3·10⁻⁹ | 3·10⁻⁵ | 8.1 % |
//! | 64 MiB | 2,097,152 | 5·10⁻¹⁴ | 5·10⁻¹⁰ | 5·10⁻⁶ |
//!
//! [`Accuracy`](sketch::Accuracy) computes a size for an error. Errors are one-sided: a collision never admits a request. `Distinct` is the
//! exception: it takes a new value for a known one in 1.2·10⁻⁷ of its look-ups.
//!
//! # What it does not do
//!
//! * It cannot list keys or count them. [`Heaviest`](sketch::Heaviest) keeps the heaviest ones.
//! * It opens no file and reaches no network. [`Limiter::save`](limiter::Limiter::save) writes state to what its caller opened;
//!   [`limiter::sharing`] has the arithmetic of limits that several processes share.
//! * It repairs no clock. A stamp that steps back opens no window twice; the limit may refuse until the stamps catch up.
//! * It does not wait. A race that is not settled in a bounded number of tries refuses, and [`Lost::contended`](limiter::Lost::contended) says so.
//!
//! # Modules
//!
//! A module uses only those above it in this table.
//!
//! | module | content |
//! |---|---|
//! | [`units`] | numbers with their ranges: rates, costs, bytes, times, calendars |
//! | `sync` | atomics, fences, lists that are replaced whole |
//! | [`saved`] | the form in which state is written and read again |
//! | [`sketch`] | published algorithms in fixed memory: meters, tables, sets, lists of the heaviest |
//! | [`limiter`] | the kinds of limit |
//! | [`door`] | who of those that wait for something scarce goes next, and who goes away |
//! | [`overload`] | how near a server is to what it can serve, and who is refused then |

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// A caller gets an answer, never a panic. Tests may panic.
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

pub mod saved;
mod sync;
pub mod units;

pub mod sketch;

pub mod limiter;

pub mod door;

pub mod overload;
