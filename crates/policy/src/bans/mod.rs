//! Bans: whom operators shut out for a while. Begin with [`Bans`].
//!
//! A [`Ban`] has a [`Target`]: a network, a client as it is counted, or one key of a limit. It is asked after before any limit,
//! and ends by itself. [`Bans`] outlive the policies: a reload keeps them, an upgrade hands them over ([`Saved`]).
//!
//! A limit's penalty may end in a ban that nobody orders: [`BanTerms`](crate::client::ban_terms::BanTerms) say when, and [`Bans::settle`] gives it.
//!
//! A request reads an immutable [`BanTable`], without a lock and without allocating; each order makes the next table. There are at
//! most [`MOST_BANS`] with texts of bounded length, so the memory is bounded too: [`MEMORY`].
//!
//! Gates that share a store share their bans: [`Bans::merge`] puts what other gates know beside what this one knows, as [`Record`]s.
//!
//! What a policy file forbids for good is no ban, but `deny:`.

mod ban;
mod key_value;
mod offences;
mod register;
mod saved;
mod saved_target;
mod shared;
mod table;
#[cfg(test)]
mod tests;

pub use ban::{
    Ban, InRow, KeySecret, LONGEST_TEXT, MOST_AUTOMATIC, MOST_BANS, MOST_REMEMBERED, Order, Target, text_of,
};
pub use key_value::{KeyRequest, KeyValueFault, key_request};
pub use offences::MOST_OFFENDERS;
pub use register::{Bans, Full, Given, MEMORY, Merged, News};
pub use saved::{LONGEST as LONGEST_SAVED, Saved};
pub use shared::{LONGEST as LONGEST_SHARED, Rank, Record, decode, encode};
pub use table::BanTable;
