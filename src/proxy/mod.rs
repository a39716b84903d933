//! One request, from the facts to its answer.
//!
//! [`framework`] is Pingora's proxy, [`gate`] its phases, [`downstream`] the client's side of them; [`settled`] makes of its head what
//! the origin gets of it, [`request_view`] goes in, [`admission`] takes its place at the origin and lets it wait among the [`waits`],
//! [`shared_limits`] asks stores and wakes by [`bells`] whoever waits for that,
//! [`context`] is what is remembered between them, [`edits`] is what the other side sees, [`reply`] what the gate answers
//! itself, [`attempts`] is what is tried again, [`abandoned`] what becomes of requests whose client has left, [`blame`] whose fault it was,
//! [`timing`] how long the origin took, [`observe`] what metrics and log are told.

pub mod abandoned;
pub mod accept;
pub mod admission;
pub mod attempts;
pub mod blame;
pub mod context;
pub mod downstream;
pub mod early;
pub mod edits;
pub mod events;
pub mod framework;
pub mod gate;
pub mod observe;
pub mod redirect;
pub mod reply;
pub mod request_view;
pub mod room;
pub mod serialize;
pub mod settled;
pub mod shared_limits;
pub mod timing;
