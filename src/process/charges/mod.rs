//! The charges of requests that are under way while one process takes another's place.
//!
//! The old process hands its state over while it serves. What happens to its limits from the copy on it tells here, and the new one does the
//! same. When the new one has all that was told so far it says so; the old one stops accepting, and from one word on, which it says here, it
//! [asks](crate::running::successor) before it admits. So no unit is given twice, by whichever process a request comes. What requests of the
//! old process hold is given back by word, and all of it when the conversation ends.
//!
//! A frame is nine words of eight bytes, little-endian, whatever it says.

mod frame;
mod giving;
mod taking;

pub use giving::Giving;
pub use taking::Taking;
