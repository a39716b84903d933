//! Where the request being served ends among the bytes of its connection.

use tidegate_http::chunk::ChunkScanner;
use tidegate_http::fault::BodyFault;

/// Which bytes from the client belong to the request being served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// None: the request has been read to its end.
    Complete,
    /// This many.
    Length(u64),
    /// Those up to the last chunk.
    Chunked(ChunkScanner),
    /// All: the protocol was switched and there is no next request.
    Switched,
    /// None any more, since nobody can say where the request ends.
    Broken(BodyFault),
}

impl Reading {
    /// How many of the next bytes from the client belong to this request; from now on they count as read. Not for chunks, which
    /// are read by [`poll_repack`](crate::edge::repack::poll_repack).
    pub fn account(&mut self, bytes: &[u8]) -> Result<usize, BodyFault> {
        match self {
            Reading::Complete | Reading::Chunked(_) => Ok(0),
            Reading::Broken(fault) => Err(*fault),
            Reading::Switched => Ok(bytes.len()),
            Reading::Length(left) => {
                let ours = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= ours as u64;
                if *left == 0 {
                    *self = Reading::Complete;
                }
                Ok(ours)
            }
        }
    }
}
