//! The door before something scarce: who goes next, and who goes away.
//!
//! [`Places`] hands out the places of an origin, [`Tokens`] the units of a rate. Both keep one [`Line`] of requests that wait. The next
//! is the request whose key and networks hold and lately used least; from a full line the one with the greatest claim is pushed out.
//! What is used while nobody waits counts for nothing.
//!
//! No lock, no clock, no waker: each call takes the time and tells what became of whom ([`Act`]). Memory is fixed when a door is made.

mod bucket;
mod line;
mod nodes;
mod outcomes;
mod places;
mod reserve;
mod reserved;
mod shared_places;
mod shared_tokens;
mod tokens;
mod upgraded;

pub use bucket::Bucket;
pub use line::{Act, Asks, HEAVIEST, Line, Standing, Ticket};
pub use nodes::{Holder, LEVELS, Label, Path};
pub use places::{Arrived, PlaceId, Places, PlacesSpec};
pub use reserve::Reserve;
pub use reserved::Reserved;
pub use shared_places::{Entry, Place, PlaceDoor, Waiting};
pub use shared_tokens::{Token, TokenDoor, TokenEntry, TokenWaiting};
pub use tokens::{Tokens, TokensSpec, Unit};
pub use upgraded::{UpgradedDoor, UpgradedPlace};
