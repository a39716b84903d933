//! What is protected: [`origin`] has the places and addresses of one, [`resolve`] looks names up in the background.

pub mod origin;
pub mod resolve;
