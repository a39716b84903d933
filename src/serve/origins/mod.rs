//! What is protected: [`origin`] has the places and addresses of one, [`resolve`] looks names up in the background.
//!
//! What an origin sends over HTTP/1 is not believed: [`reader`] says what belongs to an answer, and judges heads by
//! [`answer_head`]. What it refuses is a [`fault`].

pub mod answer_head;
pub mod fault;
pub mod origin;
pub mod reader;
pub mod resolve;
