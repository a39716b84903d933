//! Origins and the way to them. Begin with [`origin`].
//!
//! * [`origin`] has the addresses of an origin, [`door`] its places; [`resolve`] looks names up in the background.
//! * [`way`] makes connections to an origin: a [`wire`], with [`tls`] if the policy says so. Pingora gets them through
//!   [`connector`]; the direct lane speaks over an [`exchange`] and leaves connections [`kept`] for the next.
//! * Answers over HTTP/1 are checked: [`stream`] passes on only what [`reader`] lets through, by [`tidegate_http::answer_head`].
//!   [`http2`] checks the rest of HTTP/2.
//! * Sick addresses: [`verdict`] holds the results of checks ([`health`], by [`probe`]), [`ejection`] those of requests.
//!   [`endpoint`] joins both, and [`ring`] chooses an address by it. [`budget`] bounds retries.

pub mod budget;
pub mod connector;
pub mod door;
pub mod ejection;
pub mod endpoint;
pub mod exchange;
pub mod health;
pub mod http2;
pub mod kept;
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
