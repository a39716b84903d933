//! The fair door in virtual time: floods against bystanders, and its laws.

mod laws;
mod rate;
mod scenes;
mod threads;
mod world;
