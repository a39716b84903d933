//! Client connections, from the listening socket to a complete head. No policy here: [`common`] has the traits by which the edge
//! asks and reports.
//!
//! In the order of a connection:
//! * [`bind`] makes the socket that is [`listening`] (with its [`socket_file`] if it is a UNIX socket); [`listen`] accepts from
//!   it.
//! * [`accept`] brings a connection to HTTP. [`proxy_protocol`] takes off the header that names a client behind a proxy, [`tls`]
//!   does the handshake, [`connection_info`] holds the facts about the connection.
//! * [`connection`] serves HTTP/1, request by request as [`requests`] brings them. [`stream`] is its bytes on their [`transport`]; [`repack`] joins small
//!   chunks.
//! * [`h2`] serves HTTP/2.
//! * [`limits`] bounds time and space of a connection: [`min_rate`] is the least speed of bodies, [`answer_deadline`] the time
//!   until the answer begins.
//! * [`client_side`] is shared by a request's connection and the gate. [`absence`] covers clients that leave while the origin
//!   works for them.
//!
//! [`tidegate_http`] reads the bytes and refuses each head that has two readings.

pub mod absence;
pub mod accept;
pub mod answer_deadline;
pub mod bind;
pub mod client_side;
pub mod client_socket;
pub mod common;
pub mod connection;
pub mod connection_info;
pub mod h2;
pub mod idle_place;
pub mod limits;
pub mod listen;
pub mod listening;
pub mod min_rate;
pub mod proxy_protocol;
pub mod repack;
pub mod requests;
pub mod socket_file;
pub mod stream;
pub mod tls;
pub mod transport;
