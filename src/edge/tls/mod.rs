//! TLS towards clients, by rustls. Pingora's own settings know no tickets and panic on a bad file. Begin with [`acceptor`].
//!
//! * [`acceptor`]: the TLS of a listener. Its certificate is [`chosen`] by the name that the client asks for.
//! * [`handshake`]: ends in its time or closes the connection. [`secure`]: the facts about a secure connection.
//! * [`watch`]: puts renewed files in use without closing connections. [`expiry`]: says when a certificate must be renewed.
//!
//! TLS 1.2 and 1.3 with rustls' own ciphers (ring), no early data (it could be sent twice), no renegotiation. A returning client
//! resumes by a ticket. Its keys live in this process for at most 12 hours and change every 6; after a restart each client makes
//! one full handshake. Where client certificates are required no session is resumed, so each connection shows a valid
//! certificate.

pub mod acceptor;
pub mod chosen;
pub mod expiry;
pub mod handshake;
pub mod secure;
pub mod watch;
