//! HTTP/2 (RFC 9113): the checks that the `h2` library does not make. Begin with [`request`].
//!
//! * [`request`] reads the head of a request strictly; [`trailers`] says which trailers may follow a body.
//! * [`frames`] counts frames that a client can send without end; [`field_names`] finds field names that the library drops.

pub mod field_names;
pub mod frames;
pub mod request;
pub mod trailers;
