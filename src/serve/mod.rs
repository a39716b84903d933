//! The live face: the only part of the gate that knows sockets, Pingora, the clock and the dice.

pub mod alarm;
pub mod authority;
pub mod chunk;
pub mod connection;
pub mod due;
pub mod fault;
pub mod head;
pub mod listen;
pub mod pace;
pub mod path;
pub mod stream;
pub mod transport;
