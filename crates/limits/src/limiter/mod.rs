//! Limits: [`kinds`] has one file per kind, and the only list of them; the other files are what several kinds are made of.
//!
//! A request meets four verbs of a [`Limiter`]. [`Limiter::prefetch`] and [`Limiter::probe`] read; [`Limiter::commit`] charges what
//! was probed; [`Limiter::charge`] does not ask. The engine probes every limit of a route first and commits only when all agree, so
//! no client pays for another limit's refusal. What a kind keeps, and how, is behind one trait, [`State`].
//!
//! No kind but a way to count: [`sharing`], for limits that several gates share.

pub mod adaptive;
mod admission;
mod attempt;
mod by_level;
pub mod connections;
mod demand;
mod elsewhere;
mod gauges;
mod held;
mod hold;
pub mod journal;
pub mod judgement;
pub mod kind;
pub mod kinds;
pub mod leveled;
pub mod limit;
pub mod needs;
mod pardon;
mod pardoned;
mod part;
pub mod pending;
mod place;
mod probe;
pub mod sharing;
pub mod slots;
mod spec;
mod state;
mod succession;
mod taken;
pub mod tiered;

pub use adaptive::Adaptive;
pub use attempt::Attempt;
pub use connections::{CapReached, CapsSpec, ConnectionCaps, ConnectionPlace};
pub use demand::Demand;
pub use elsewhere::Elsewhere;
pub use gauges::Gauges;
pub use held::{HeldCells, HeldElsewhere};
pub use hold::{Hold, HoldElsewhere, Lent};
pub use judgement::{Judgement, Lost, Refuses};
pub use kind::{RefusedCount, Scope, Sketch};
pub use kinds::{FORMS, Form, Kind, LimitKind};
pub use limit::Limiter;
pub use needs::{Needs, Owed};
pub use pardoned::{Full, MOST_PARDONS};
pub use pending::Pending;
pub use place::Place;
pub use probe::Probe;
pub use slots::{Permit, Slots};
pub use spec::Spec;
pub use state::State;
pub use succession::Moved;
pub use taken::Taken;
pub use tiered::Tiered;
