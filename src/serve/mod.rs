//! The live face: the only part of the gate that knows sockets, Pingora, the clock and the dice.

pub mod access_log;
pub mod alarm;
pub mod authority;
pub mod chunk;
pub mod clock;
pub mod connection;
pub mod due;
pub mod fault;
pub mod head;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod pace;
pub mod path;
pub mod pseudonym;
pub mod scrape;
pub mod stream;
pub mod transport;
