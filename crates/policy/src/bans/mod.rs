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
//! What a policy file forbids for good is no ban, but `deny:`.

mod ban;
mod key_value;
mod offences;
mod register;
mod saved;
mod table;
#[cfg(test)]
mod tests;

pub use ban::{Ban, LONGEST_TEXT, Order, Target, text_of};
pub use key_value::{KeyRequest, KeyValueFault, key_request};
pub use offences::MOST_OFFENDERS;
pub use register::{Bans, Full, Given, MEMORY, MOST_AUTOMATIC, MOST_BANS};
pub use saved::{LONGEST as LONGEST_SAVED, Saved};
pub use table::BanTable;
