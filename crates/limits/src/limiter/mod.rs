//! One kind of limit per file, named after the word in `type:`; the only list of them stands in `state`.
//!
//! A limiter is asked twice about a request: [`Limiter::probe`] reads and changes nothing, [`Limiter::admit`] charges. The
//! engine asks every limit of a route first and charges only when all agree, so nobody pays for another limit's refusal.
//!
//! No kind but a way to count: [`cluster`], for limits that several gates share.

pub mod adaptive;
mod admission;
mod asked;
mod attempt;
pub mod cluster;
pub mod connections;
pub mod distinct;
pub mod fair_share;
mod follows;
mod gauges;
mod hold;
pub mod inflight;
pub mod inflight_by_key;
pub mod judgement;
pub mod kind;
pub mod kinds;
pub mod leveled;
pub mod needs;
mod pardon;
mod pardoned;
mod part;
pub mod pending;
mod quota;
mod rate;
mod recent_average;
mod sliding_quota;
mod spec;
mod state;
mod succession;
pub mod tiered;

pub use adaptive::Adaptive;
pub use attempt::Attempt;
pub use connections::{CapReached, CapsSpec, ConnectionCaps, ConnectionPlace};
pub use distinct::Distinct;
pub use fair_share::{FairShare, Offered};
pub use gauges::Gauges;
pub use hold::{Hold, Keeper};
pub use inflight::{Inflight, Permit, Slots};
pub use inflight_by_key::{InflightByKey, KeyPermit};
pub use judgement::{Judgement, Left, Lost, Near, Place, Refuses, Said};
pub use kind::{Capacity, RefusedCount, Scope, Sketch};
pub use kinds::{FORMS, Form, Kind, LimitKind};
pub use needs::{Needs, Owed};
pub use pardoned::{Full, MOST_PARDONS};
pub use pending::Pending;
pub use spec::Spec;
pub use state::Limiter;
pub use succession::Moved;
pub use tiered::Tiered;
