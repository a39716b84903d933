//! Hands the chunks that have arrived on as one chunk.
//!
//! Whoever decodes behind us makes a piece, and a write, of every chunk: 50,000 chunks of one byte in a few segments would
//! cost 50,000 writes. Repacked they cost one for each read. Nothing waits: what has arrived is passed on at once.

use std::io;
use std::task::Poll;

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use tidegate_http::chunk::ChunkScanner;
use tidegate_http::fault::BodyFault;

/// The size line of the chunk that is made: as many digits as any buffer needs.
const SIZE_LINE: &[u8; 10] = b"00000000\r\n";
const CHUNK_END: &[u8; 2] = b"\r\n";
const LAST_CHUNK: &[u8; 5] = b"0\r\n\r\n";
/// What must be left behind the data.
const TAIL: usize = CHUNK_END.len() + LAST_CHUNK.len();
/// The least room into which a chunk is made.
pub const LEAST_ROOM: usize = SIZE_LINE.len() + TAIL + 1;

/// Why no chunk was made.
#[derive(Debug)]
pub enum Failed {
    /// The connection failed.
    Read(io::Error),
    /// The body is malformed or too large.
    Body(BodyFault),
}

/// Appends one chunk to `buf`, made of the data in `inbox` and of one read, if more is readable; and the last chunk if the
/// body ends there. Returns how many bytes of the body were taken; 0 at the end of the stream. Bytes behind the body end up in
/// `inbox`.
///
/// # Errors
/// [`Failed`]. A buffer with less than [`LEAST_ROOM`] is refused.
pub fn poll_repack(
    scanner: &mut ChunkScanner,
    inbox: &mut BytesMut,
    buf: &mut ReadBuf<'_>,
    mut read: impl FnMut(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
) -> Poll<Result<usize, Failed>> {
    if buf.remaining() < LEAST_ROOM {
        return Poll::Ready(Err(Failed::Read(io::ErrorKind::InvalidInput.into())));
    }
    let start = buf.filled().len();
    let most = buf.capacity() - TAIL;
    buf.put_slice(SIZE_LINE);
    let data = start + SIZE_LINE.len();
    let mut taken = 0;
    while !inbox.is_empty() && buf.filled().len() < most && !scanner.is_done() {
        let from = buf.filled().len();
        let offered = inbox.get(..most - from).unwrap_or(inbox);
        buf.put_slice(offered);
        let unpacked = unpack(scanner, buf, from)?;
        inbox.advance(unpacked);
        taken += unpacked;
    }
    // framing alone is nothing to pass on, so what follows it is read until there is data, or nothing more has come
    while inbox.is_empty() && !scanner.is_done() && buf.filled().len() < most {
        let from = buf.filled().len();
        let had_data = from > data;
        match read(buf) {
            Poll::Ready(Ok(())) if buf.filled().len() > from => {}
            _ if had_data => break,
            Poll::Ready(Ok(())) => {
                buf.set_filled(start);
                return Poll::Ready(Ok(0));
            }
            Poll::Ready(Err(error)) => {
                buf.set_filled(start);
                return Poll::Ready(Err(Failed::Read(error)));
            }
            Poll::Pending => {
                buf.set_filled(start);
                return Poll::Pending;
            }
        }
        // what leaves no room for the end of the chunk, and what does not belong to the body, waits
        let surplus = buf.filled().get(most..).unwrap_or_default();
        inbox.extend_from_slice(surplus);
        buf.set_filled(buf.filled().len().min(most));
        let raw = buf.filled_mut().get_mut(from..).unwrap_or_default();
        let unpacked = scanner.unpack(raw).map_err(Failed::Body)?;
        let behind = raw.get(unpacked.taken..).unwrap_or_default();
        if !behind.is_empty() {
            let rest = inbox.split();
            inbox.extend_from_slice(behind);
            inbox.extend_from_slice(&rest);
        }
        buf.set_filled(from + unpacked.kept);
        taken += unpacked.taken;
        if had_data || unpacked.kept > 0 {
            break;
        }
    }
    finish(scanner, buf, start, data);
    Poll::Ready(Ok(taken))
}

/// Unpacks what stands behind `from`; returns how much of it belonged to the body.
fn unpack(scanner: &mut ChunkScanner, buf: &mut ReadBuf<'_>, from: usize) -> Result<usize, Failed> {
    let raw = buf.filled_mut().get_mut(from..).unwrap_or_default();
    let unpacked = scanner.unpack(raw).map_err(Failed::Body)?;
    buf.set_filled(from + unpacked.kept);
    Ok(unpacked.taken)
}

/// Writes the size of the chunk and what ends it.
fn finish(scanner: &ChunkScanner, buf: &mut ReadBuf<'_>, start: usize, data: usize) {
    let mut size = buf.filled().len() - data;
    if size == 0 {
        buf.set_filled(start);
    } else {
        buf.put_slice(CHUNK_END);
        let digits = buf.filled_mut().get_mut(start..data - CHUNK_END.len()).unwrap_or_default();
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef".get(size & 0xf).copied().unwrap_or(b'0');
            size >>= 4;
        }
    }
    if scanner.is_done() {
        buf.put_slice(LAST_CHUNK);
    }
}
