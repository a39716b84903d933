//! What the two processes say.

use std::collections::VecDeque;
use std::io;

use crate::limiter::Place;
use crate::limiter::journal::What;
use crate::sketch::KeyHash;
use crate::units::{Cost, Timestamp};

const WORDS: usize = 9;
pub(super) const FRAME: usize = WORDS * 8;
pub(super) const NEVER: u64 = u64::MAX;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Charged = 1,
    Refused,
    Taken,
    Returned,
    HeldBack,
    LetGo,
    /// new → old: it has all that was told so far.
    CaughtUp,
    /// From here on the new process is asked.
    Moved,
    /// A question of so many charges, which follow.
    Ask,
    Charge,
    Sent,
    Failed,
    Settled,
    Dropped,
    /// new → old: the answer about one charge.
    Answer,
}

const KINDS: [Kind; 15] = [
    Kind::Charged,
    Kind::Refused,
    Kind::Taken,
    Kind::Returned,
    Kind::HeldBack,
    Kind::LetGo,
    Kind::CaughtUp,
    Kind::Moved,
    Kind::Ask,
    Kind::Charge,
    Kind::Sent,
    Kind::Failed,
    Kind::Settled,
    Kind::Dropped,
    Kind::Answer,
];

pub(super) const EVENTS: [(What, Kind); 6] = [
    (What::Charged, Kind::Charged),
    (What::Refused, Kind::Refused),
    (What::Taken, Kind::Taken),
    (What::Returned, Kind::Returned),
    (What::HeldBack, Kind::HeldBack),
    (What::LetGo, Kind::LetGo),
];

/// A frame: a kind, a small number, a position, a number, and eight words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: Kind,
    pub small: u8,
    pub position: u16,
    pub number: u32,
    pub words: [u64; WORDS - 1],
}

impl Frame {
    pub fn new(kind: Kind) -> Frame {
        Frame { kind, small: 0, position: 0, number: 0, words: [0; WORDS - 1] }
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        let first = u64::from(self.kind as u8)
            | u64::from(self.small) << 8
            | u64::from(self.position) << 16
            | u64::from(self.number) << 32;
        to.extend(first.to_le_bytes());
        self.words.iter().for_each(|word| to.extend(word.to_le_bytes()));
    }

    pub fn read(bytes: &[u8; FRAME]) -> io::Result<Frame> {
        let mut all = [0; WORDS];
        for (word, bytes) in all.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        }
        let [first, words @ ..] = all;
        let kind = KINDS.into_iter().find(|kind| u64::from(*kind as u8) == first & 0xFF);
        let kind = kind.ok_or_else(|| io::Error::other("a word that is not of this conversation"))?;
        Ok(Frame {
            kind,
            small: (first >> 8) as u8,
            position: (first >> 16) as u16,
            number: (first >> 32) as u32,
            words,
        })
    }

    /// A charge of the limit at this position.
    pub fn of_charge(kind: Kind, limit: usize, place: &Place, at: Timestamp, cost: Cost) -> Frame {
        let ([key_low, key_high], [value_low, value_high]) = (place.key.halves(), place.value.halves());
        let origin = place.origin.map_or(0, |origin| origin as u64 + 1);
        let noted = place.noted.map_or(NEVER, Timestamp::nanos);
        let cost = u64::from(cost.get()) | (place.route as u64) << 32;
        Frame {
            small: place.tier,
            // a policy has fewer limits
            position: u16::try_from(limit).unwrap_or(u16::MAX),
            words: [key_low, key_high, value_low, value_high, at.nanos(), cost, origin, noted],
            ..Frame::new(kind)
        }
    }

    pub fn charge(&self) -> Option<(usize, Place, Timestamp, Cost)> {
        let [key_low, key_high, value_low, value_high, at, cost, origin, noted] = self.words;
        let place = Place {
            key: KeyHash::from_halves([key_low, key_high]),
            value: KeyHash::from_halves([value_low, value_high]),
            route: (cost >> 32) as usize,
            origin: usize::try_from(origin).ok().and_then(|origin| origin.checked_sub(1)),
            tier: self.small,
            noted: (noted != NEVER).then(|| Timestamp::from_nanos(noted)),
        };
        let cost = Cost::new(cost as u32).ok()?;
        Some((usize::from(self.position), place, Timestamp::from_nanos(at), cost))
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The beginning of a frame.
    pub bytes: Vec<u8>,
    /// Whole frames.
    frames: VecDeque<Frame>,
}

impl Unread {
    /// The next whole frame.
    pub fn next(&mut self) -> io::Result<Option<Frame>> {
        if self.frames.is_empty() {
            let (whole, rest) = self.bytes.as_chunks::<FRAME>();
            for bytes in whole {
                self.frames.push_back(Frame::read(bytes)?);
            }
            self.bytes = rest.to_vec();
        }
        Ok(self.frames.pop_front())
    }
}

/// The flags of an answer.
pub(super) const CHARGED: u16 = 1;
pub(super) const PLACE: u16 = 2;
pub(super) const ATTEMPT: u16 = 4;
pub(super) const LAST: u16 = 8;
