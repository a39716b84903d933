//! What a request on the direct lane works in: taken when its head has come, and given back when it has ended, so that a connection
//! without a request holds nothing and a request finds memory that was just used.

use std::cell::RefCell;

use bytes::BytesMut;

use super::super::context::RequestContext;
use super::head::LaneHead;
use super::upload::Upload;
use crate::edge::idle_place::IdlePlace;
use crate::origins::exchange::{AnswerLines, Buffers};
use crate::system::timer::Alarm;
use tidegate_http::lines::Lines;

/// How many a thread keeps.
const MOST: usize = 128;
/// Larger buffers are not kept.
const MOST_BYTES: usize = 16 * 1024;

/// The memory of one request.
#[derive(Default)]
pub struct Scratch {
    /// The head that came.
    pub head: LaneHead,
    /// What is remembered of the request. None between requests, as it holds the policy that was in force.
    pub context: Option<RequestContext>,
    /// Heads for the client, as bytes.
    pub text: Vec<u8>,
    /// What the way to the origin needs.
    pub origin: OriginSide,
    /// For who has none of a connection: for the origin's side, and for the client's.
    pub alarms: [Alarm; 2],
}

/// What the way to an origin needs.
#[derive(Debug, Default)]
pub struct OriginSide {
    /// The fields for the origin.
    pub lines: Lines,
    /// Memory for values of such fields.
    pub values: BytesMut,
    /// Its head as bytes.
    pub text: Vec<u8>,
    /// The body of the request.
    pub upload: Upload,
    /// The head of its answer.
    pub answer: AnswerLines,
    /// What came of the answer.
    pub buffers: Buffers,
    /// How long the client was waited for.
    pub idle_place: IdlePlace,
}

thread_local! {
    /// Boxed, so that only a pointer moves.
    static FREE: RefCell<Vec<Box<Scratch>>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// One that nobody uses.
    pub fn take() -> Box<Scratch> {
        FREE.with(|free| free.borrow_mut().pop()).unwrap_or_default()
    }

    /// Gives it back.
    pub fn put(mut self: Box<Self>) {
        self.context = None;
        self.origin.buffers.rest(MOST_BYTES);
        let OriginSide { lines, values, text, upload, answer, .. } = &self.origin;
        let heads = [self.head.capacity(), lines.capacity(), answer.lines.capacity()];
        let bytes = [self.text.capacity(), values.capacity(), text.capacity(), upload.capacity()];
        if heads.into_iter().chain(bytes).sum::<usize>() > MOST_BYTES {
            return;
        }
        FREE.with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MOST {
                free.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_used_again_and_no_more_is_kept_than_a_thread_may() {
        let mut scratch = Scratch::take();
        scratch.text.reserve(100);
        let held = scratch.text.capacity();
        scratch.put();
        assert_eq!(Scratch::take().text.capacity(), held);
        let all: Vec<_> = (0..2 * MOST).map(|_| Scratch::take()).collect();
        all.into_iter().for_each(Scratch::put);
        assert_eq!(FREE.with(|free| free.borrow().len()), MOST);
        let mut large = Scratch::take();
        large.text.reserve(2 * MOST_BYTES);
        large.put();
        assert_eq!(FREE.with(|free| free.borrow().len()), MOST - 1);
    }
}
