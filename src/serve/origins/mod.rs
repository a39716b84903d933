//! What is protected: [`origin`] has the places and addresses of one, [`resolve`] looks names up in the background.
//!
//! Sick addresses: [`verdict`] is what checks ([`health`]) have found, [`ejection`] what requests have met, [`endpoint`] puts
//! both together and [`ring`] chooses by it. [`budget`] bounds what is tried again.

pub mod budget;
pub mod ejection;
pub mod endpoint;
pub mod health;
pub mod origin;
pub mod probe;
pub mod resolve;
pub mod ring;
pub mod verdict;
