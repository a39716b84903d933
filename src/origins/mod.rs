//! What is protected, and how it is reached.
//!
//! * [`origin`] has the places and addresses of one, [`resolve`] looks names up in the background.
//! * [`way`] makes connections to one origin: a [`wire`], with [`tls`] on it if the policy says so. [`connector`] is the
//!   door by which Pingora gets them.
//! * What an origin sends over HTTP/1 is not believed: [`stream`] passes on only what [`reader`] lets through, which judges
//!   heads by [`tidegate_http::answer_head`]. [`http2`] is what is left to do there.
//! * Sick addresses: [`verdict`] is what checks ([`health`], by [`probe`]) have found, [`ejection`] what requests have met,
//!   [`endpoint`] puts both together and [`ring`] chooses by it. [`budget`] bounds what is tried again.

pub mod budget;
pub mod connector;
pub mod ejection;
pub mod endpoint;
pub mod health;
pub mod http2;
pub mod origin;
pub mod probe;
pub mod reader;
pub mod resolve;
pub mod ring;
pub mod stream;
pub mod tls;
pub mod verdict;
pub mod way;
pub mod wire;
