//! The fair door in virtual time: floods against bystanders, and its laws.

mod attacks;
mod fate;
mod laws;
mod rate;
mod scenes;
mod table;
mod threads;
mod world;
