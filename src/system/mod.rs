//! The system's clock, sockets, descriptors and memory for bodies, as the process uses them.

pub mod buffers;
pub mod cause;
pub mod clock;
pub mod descriptors;
pub mod overload;
pub mod socket;
pub mod timer;
