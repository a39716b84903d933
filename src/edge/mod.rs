//! The edge: client connections, below HTTP's meaning.
//!
//! * [`bind`] makes a socket that is [`listening`] (with its [`socket_file`] if it is a UNIX one), [`listen`] accepts from it, [`arrive`] brings what was accepted as far as its first byte of HTTP, and [`link`] is what is known of it then.
//! * [`door`] decides who is let in, and [`proxy_protocol`] takes the header off that names a client behind a proxy.
//! * [`tls`] makes a connection a secure one first, where its listener says so.
//! * [`connection`] is one client's connection, [`stream`] its bytes on their [`transport`].
//! * [`common`] is what all connections of a listener share, [`limits`] how much each may take.
//! * [`h2`] is the same for clients that speak HTTP/2.
//! * What the bytes mean is told by [`tidegate_http`], which refuses every head with two readings.
//! * Time: [`pace`] is the least speed of bodies, [`due`] the time until the answer.
//! * [`absence`]: a client that leaves while the origin works for it.
//! * [`common`] has the trait by which all of it reports what happened.

pub mod absence;
pub mod arrive;
pub mod bind;
pub mod common;
pub mod connection;
pub mod door;
pub mod due;
pub mod h2;
pub mod limits;
pub mod link;
pub mod listen;
pub mod listening;
pub mod pace;
pub mod proxy_protocol;
pub mod repack;
pub mod socket_file;
pub mod stream;
pub mod tls;
pub mod transport;
