//! The live face: the only part of the gate that knows sockets, Pingora, the clock and the dice.
//!
//! * [`server`] builds everything and starts it; [`lifecycle`] is signals and the way to a clean end.
//! * Below HTTP: [`listen`] binds and accepts, [`connection`] is one client's connection, [`stream`] its bytes on their [`transport`], [`head`] the
//!   strict reading of a request's head, with [`authority`], [`path`], [`chunk`], [`alarm`], [`pace`], [`due`] and [`fault`] beside it, and [`events`] what it reports.
//! * A request: [`early`] judges it where it has no body, and answers a refusal with the bytes of [`written`]; [`gate`] is Pingora's phases; [`facts`] goes in, [`admission`] takes its place at the origin and lets it wait among the [`waits`], [`exchange`] is what is remembered between them, [`edits`] is what
//!   the other side sees, [`reply`] what the gate answers itself, [`blame`] whose fault it was, [`observe`] what metrics and log are told,
//!   [`flood`] what the log says of the heaviest.
//! * Origins: [`origin`] has their places and addresses, [`resolve`] looks names up in the background.
//! * What others see of it: [`metrics`], [`access_log`], [`pseudonym`], [`log`], [`refused`], [`scrape`].
//! * What requests share: [`shared`], and in it the [`installed`] policy; [`clock`] is the time, and [`housekeeping`] what is done every second.

pub mod access_log;
pub mod admission;
pub mod alarm;
pub mod authority;
pub mod blame;
pub mod chunk;
pub mod clock;
pub mod connection;
pub mod due;
pub mod early;
pub mod edits;
pub mod events;
pub mod exchange;
pub mod facts;
pub mod fault;
pub mod flood;
pub mod gate;
pub mod head;
pub mod housekeeping;
pub mod installed;
pub mod lifecycle;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod observe;
pub mod origin;
pub mod pace;
pub mod path;
pub mod pseudonym;
pub mod refused;
pub mod reply;
pub mod resolve;
pub mod scrape;
pub mod server;
pub mod shared;
pub mod stream;
pub mod transport;
pub mod waits;
pub mod written;

pub use server::{StartError, run};
