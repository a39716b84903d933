//! HTTP/2 (RFC 9113): [`frames`] counts what the library that speaks it would not, [`field_names`] sees what it drops, and
//! [`request`] is the strict reading of a head. [`trailers`] says what may stand behind a body.

pub mod field_names;
pub mod frames;
pub mod request;
pub mod trailers;
