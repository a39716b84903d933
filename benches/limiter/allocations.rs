//! Counts what the process allocates, as the published table does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator with four counters in front.
pub struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static BLOCKS: AtomicU64 = AtomicU64::new(0);

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(live, Relaxed);
    TOTAL.fetch_add(bytes as u64, Relaxed);
    BLOCKS.fetch_add(1, Relaxed);
}

// SAFETY: every call is handed to the system's allocator as it came; the counters own no memory. A global allocator cannot
// be written without `unsafe`, and nothing but this benchmark uses it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are passed on unchanged
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are passed on unchanged
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on unchanged
        unsafe { System.dealloc(block, layout) }
    }
}

/// What was allocated since a [`Usage::start`].
#[derive(Clone, Copy)]
pub struct Usage {
    live: u64,
    total: u64,
    blocks: u64,
}

/// The differences at its end.
#[derive(Clone, Copy, Default)]
pub struct Used {
    pub live: i64,
    pub peak: u64,
    pub total: u64,
    pub blocks: u64,
}

impl Usage {
    pub fn start() -> Usage {
        let live = LIVE.load(Relaxed);
        PEAK.store(live, Relaxed);
        Usage { live, total: TOTAL.load(Relaxed), blocks: BLOCKS.load(Relaxed) }
    }

    pub fn end(self) -> Used {
        Used {
            live: LIVE.load(Relaxed) as i64 - self.live as i64,
            peak: PEAK.load(Relaxed) - self.live,
            total: TOTAL.load(Relaxed) - self.total,
            blocks: BLOCKS.load(Relaxed) - self.blocks,
        }
    }
}
