//! The edge: client connections, below HTTP's meaning.
//!
//! * [`bind`] makes a socket that is [`listening`] (with its [`socket_file`] if it is a UNIX one), [`listen`] accepts from it, [`arrive`] brings what was accepted as far as its first byte of HTTP, and [`link`] is what is known of it then.
//! * [`listen`] binds and accepts, [`arrive`] brings what was accepted as far as its first byte of HTTP, and [`link`] is what is known of it then.
//! * [`door`] decides who is let in, and [`proxy_protocol`] takes the header off that names a client behind a proxy.
//! * [`tls`] makes a connection a secure one first, where its listener says so; one that says [`redirect`] serves nothing else.
//! * [`connection`] is one client's connection, [`stream`] its bytes on their [`transport`].
//! * [`h2`] is the same for clients that speak HTTP/2.
//! * [`head`] is the strict reading of a request's head, with [`authority`], [`path`], [`query`] and [`chunk`] beside it.
//! * Time: [`pace`] is the least speed of bodies, [`due`] the time until the answer, [`alarm`] what both sleep by.
//! * [`absence`]: a client that leaves while the origin works for it.
//! * What went wrong is a [`fault`]; [`events`] is who hears of it, with a [`glimpse`] of what was asked for.
//! * [`early`] judges a request without a body before Pingora sees it, and answers a refusal with the bytes of [`written`].

pub mod absence;
pub mod alarm;
pub mod arrive;
pub mod authority;
pub mod bind;
pub mod chunk;
pub mod connection;
pub mod door;
pub mod due;
pub mod early;
pub mod events;
pub mod fault;
pub mod glimpse;
pub mod h2;
pub mod head;
pub mod link;
pub mod listen;
pub mod listening;
pub mod pace;
pub mod path;
pub mod proxy_protocol;
pub mod query;
pub mod redirect;
pub mod socket_file;
pub mod stream;
pub mod tls;
pub mod transport;
pub mod written;
