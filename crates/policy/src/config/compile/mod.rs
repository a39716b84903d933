//! From what is written to what is meant: a [`File`](super::schema::File) becomes a [`Policy`](crate::policy::Policy) and
//! [`Settings`](super::settings::Settings).
//!
//! Every function here reports what it finds and goes on with a stand-in, so that one fault hides no other; whether any
//! was found decides at the end. What a fault would only repeat is not said twice.

mod cases;
mod checks;
mod clash;
mod client_list;
mod clients;
mod connections;
mod context;
mod cors;
mod defaults;
mod guards;
mod health;
mod http2;
mod limit;
mod limits;
mod matches;
mod origin_tls;
mod origins;
mod own_fields;
mod pages;
mod queue;
mod respelled;
mod responses;
mod routes;
mod settings;
mod stores;
mod tiers;
mod tls;
mod untold;
mod whole;

pub use clients::WrittenClients;
pub use context::Context;
pub use routes::WrittenRoute;
pub use whole::{compile, more_cases};
