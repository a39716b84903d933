//! What the system gives a process, and what all of its parts share: time, sockets, descriptors, memory for bytes on their way.

pub mod buffers;
pub mod cause;
pub mod clock;
pub mod descriptors;
pub mod socket;
pub mod timer;
