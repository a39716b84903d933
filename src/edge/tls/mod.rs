//! TLS towards clients (rustls, by our own accept path: Pingora's settings know no tickets and panic on a bad file).
//!
//! * [`acceptor`]: what a listener does TLS with; its certificate is [`chosen`] by the name that the client asks for.
//! * [`handshake`]: a connection becomes a secure one in its time, or is given up; [`secure`] is what is known of it then.
//! * [`watch`]: renewed files take the place of the old ones while connections come and go; [`expiry`] says when one is due.
//!
//! TLS 1.2 and 1.3 with rustls' own choice of ciphers (ring), no early data (it could be sent twice), no renegotiation.
//! A returning client resumes by a ticket, sealed with keys that live in this process for at most 12 hours and change every 6;
//! after a restart every client makes one full handshake again. Where client certificates are asked for nothing is resumed, so
//! that each connection shows one that is good now.

pub mod acceptor;
pub mod chosen;
pub mod expiry;
pub mod handshake;
pub mod secure;
pub mod watch;
