//! What threads share in `sketch` and `limiter`: atomics, fences, and lists that are replaced whole.
//!
//! Those floors take them from here and from nowhere else, so that `models/` can compile the very same files on the words of
//! a model checker: the orderings that it explores are those that serve.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

pub use arc_swap::ArcSwap;
pub use parking_lot::Mutex;

/// So many words at zero. A large list asks the allocator for zeroed memory, which the kernel hands out page by page as words are written.
pub fn zeros(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}
