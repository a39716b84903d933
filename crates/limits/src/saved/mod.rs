//! The saved form of state: a stream of sections that is written without a copy of the state, and read without trust in it.
//!
//! **Promise.** What [`Reader`] returns is what a [`Writer`] with the same secret and the same [`VERSION`] wrote, in the same place of the
//! same stream. A stream that was cut, changed, put together from two others, or written with another secret is a [`Fault`] before any
//! byte of the damaged part is returned. Reading allocates [`CHUNK`] bytes, whatever the stream says.
//!
//! ```text
//! stream:   head  section*  end
//! head:     "tidegate" 's' 't' 'a' 't' 'e' 0 0 0   version u32   fingerprint [u8; 16]   check [u8; 16]
//! section:  frame(Begin, name)  frame(Data, bytes)*  frame(End)
//! frame:    kind u8   length u32   bytes   check [u8; 16]
//! end:      frame(Last)
//! ```
//!
//! Numbers are little-endian. A check is SipHash-1-3 with 128 bits, under a key that the secret gives, of the check before it, the kind,
//! the length and the bytes. As each check includes the one before, no frame can be moved, repeated or left out. The fingerprint tells a
//! stream of another secret from a damaged one.
//!
//! Stamps in a stream are those of the process that wrote it. Whoever reads them goes on with that process's axis of stamps.
//!
//! Increase [`VERSION`] with every change of what is written, or of how keys are hashed: a reader knows one version. What changes apart from
//! limits has streams of its own, with a version of its own ([`Writer::of_version`]).

mod cells;
mod reader;
mod writer;

use std::fmt;
use std::hash::Hasher;
use std::io;

use siphasher::sip128::{Hasher128, SipHasher13};

pub use cells::{restore_cells, save_cells};
pub use reader::Reader;
pub use writer::Writer;

/// The version of streams with the state of limits.
pub const VERSION: u32 = 2;

/// The most bytes of one frame.
pub const CHUNK: usize = 64 << 10;

/// The first bytes of a stream.
const MAGIC: [u8; 16] = *b"tidegatestate\0\0\0";

/// The longest name of a section.
const LONGEST_NAME: usize = 1_024;

/// What streams are checked with: a secret, of which a stream has no more than the fingerprint.
#[derive(Clone)]
pub struct Key([u8; 16]);

impl Key {
    /// A key of its own; not one that anything else is hashed under.
    pub const fn from_bytes(bytes: [u8; 16]) -> Key {
        Key(bytes)
    }

    /// Sixteen bytes that tell this key from others, and say nothing else about it.
    pub fn fingerprint(&self) -> [u8; 16] {
        self.check([0; 16], u8::MAX, b"fingerprint")
    }

    fn check(&self, before: [u8; 16], kind: u8, bytes: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&before);
        hasher.write(&[kind]);
        hasher.write(&(bytes.len() as u64).to_le_bytes());
        hasher.write(bytes);
        hasher.finish128().as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Begin = 1,
    Data = 2,
    End = 3,
    Last = 4,
}

impl Frame {
    fn of(kind: u8) -> Option<Frame> {
        [Frame::Begin, Frame::Data, Frame::End, Frame::Last].into_iter().find(|frame| *frame as u8 == kind)
    }
}

/// Why a stream cannot be used.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Io(io::Error),
    /// It is no saved state.
    Alien,
    /// Another version wrote it.
    Version {
        /// The one that wrote it.
        found: u32,
        /// The one that can be read.
        known: u32,
    },
    /// It was written with another secret.
    Foreign,
    /// It ends too early.
    Cut,
    /// Its bytes are not those that were written.
    Corrupt,
    /// It is as it was written, but does not fit what it is read into.
    Unfit(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "cannot be read: {error}"),
            Fault::Alien => f.write_str("is no saved state"),
            Fault::Version { found, known } => {
                let age = if found > known { "a newer" } else { "an older" };
                write!(f, "was written by {age} tidegate (version {found}, this one reads {known})")
            }
            Fault::Foreign => f.write_str("was written with another secret"),
            Fault::Cut => f.write_str("is cut off"),
            Fault::Corrupt => f.write_str("is corrupt: a checksum does not match"),
            Fault::Unfit(what) => write!(f, "does not fit: {what}"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Fault::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        if error.kind() == io::ErrorKind::UnexpectedEof { Fault::Cut } else { Fault::Io(error) }
    }
}

/// A table that saved levels go into, and what each of them is there.
pub type Target<'a, T> = (&'a T, &'a dyn Fn(u64) -> u64);

#[cfg(test)]
mod tests;
