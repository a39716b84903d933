//! Buffers, and lists of the lines of heads, that the connections of a thread use one after the other: one without bytes under way holds
//! none, and the next that needs one finds memory that was just used.

use std::cell::RefCell;

use bytes::BytesMut;
use tidegate_http::ranges::LineRanges;

/// Room for most heads and small answers.
const BYTES: usize = 4096;

/// How many a thread keeps.
const MOST: usize = 128;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
    static SPARE_LINES: RefCell<Vec<LineRanges>> = const { RefCell::new(Vec::new()) };
}

/// An empty one.
pub fn take() -> BytesMut {
    SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_else(|| BytesMut::with_capacity(BYTES))
}

/// One for the lines of a head.
pub fn take_lines() -> LineRanges {
    SPARE_LINES.with(|spare| spare.borrow_mut().pop()).unwrap_or_default()
}

/// Gives that back. One that has grown goes.
pub fn put_lines(lines: LineRanges) {
    SPARE_LINES.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < MOST && lines.capacity() <= BYTES {
            spare.push(lines);
        }
    });
}

/// Gives one back that is not needed any more. One that has grown goes, as does one of whose memory somebody holds a part.
pub fn put(mut buffer: BytesMut) {
    buffer.clear();
    if !buffer.try_reclaim(BYTES) || buffer.capacity() > BYTES {
        return;
    }
    SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < MOST {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_unless_it_has_grown_or_is_shared() {
        let mut first = take();
        first.extend_from_slice(b"some bytes");
        bytes::Buf::advance(&mut first, 10);
        let place = first.as_ptr() as usize - 10;
        put(first);
        let again = take();
        assert_eq!((again.as_ptr() as usize, again.capacity(), again.len()), (place, BYTES, 0));
        let mut grown = again;
        grown.reserve(2 * BYTES);
        put(grown);
        let mut shared = BytesMut::with_capacity(BYTES);
        shared.extend_from_slice(b"held");
        let held = shared.split();
        put(shared);
        assert_eq!(SPARE.with(|spare| spare.borrow().len()), 0);
        drop(held);
        for _ in 0..2 * MOST {
            put(BytesMut::with_capacity(BYTES));
        }
        assert_eq!(SPARE.with(|spare| spare.borrow().len()), MOST);
    }
}
