//! What was gathered and what is to be written, in one system call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use pingora::protocols::IO;

/// Writes the outbox and the parts behind it; says how many bytes of both went out.
pub fn send_parts<S: IO>(
    transport: Pin<&mut S>,
    outbox: &[u8],
    parts: &[IoSlice<'_>],
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    // the size, the data and the end of a chunk are three parts; what has no room waits for the next call
    let mut all = [IoSlice::new(outbox), IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
    for (place, part) in all.iter_mut().skip(1).zip(parts) {
        *place = IoSlice::new(part);
    }
    transport.poll_write_vectored(cx, &all)
}
