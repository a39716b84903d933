//! What a gate tells the others, as bytes: how much it admitted of which key since its last message.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of this form: 1 |
//! | 8 | which secret names are made by |
//! | 16 | the sender: random, new with every start |
//! | 8 | sequence number, from 1 |
//! | 4 | milliseconds from taking the sums to this sending |
//! | 2 | how many limits follow |
//! | 16, 4 | of each limit: its name's hash and its shape; how many keys follow |
//! | 16, 1, 1–10 | of each key: its name, the tier, the units (LEB128) |
//!
//! Numbers have their least byte first. Nothing may follow. A reader takes nothing on trust: noise of any kind is an error, and
//! what it allocates is bounded by the bytes that there are. Names are HMACs, so no identifier is in it; whoever can
//! write into the store can forge one, as he can change every other count there.

use super::Delta;
use crate::limiter::sharing::StoreKey;

/// Which version of the form this is.
pub const VERSION: u8 = 1;

/// A gate, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(pub [u8; 16]);

/// A limit as all gates know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitId {
    /// The first bytes of an HMAC of its name.
    pub name: u64,
    /// What units of it mean: the kind, and of windows the length. Gates whose numbers differ otherwise understand each other: each
    /// judges by its own.
    pub shape: u64,
}

/// What is told of one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which.
    pub limit: LimitId,
    /// What was admitted.
    pub deltas: Vec<Delta>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Which secret names are made by, so that others are not taken for unknown limits.
    pub secret: u64,
    /// Who tells.
    pub node: NodeId,
    /// Its how manieth message it is.
    pub sequence: u64,
    /// How long before the message was sent the sums were taken, in milliseconds.
    pub age_millis: u32,
    /// What was admitted.
    pub sections: Vec<Section>,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Of another version, which nobody guesses at.
    Version,
    /// Cut off, with something behind it, or with numbers that cannot be.
    Garbled,
}

/// Where the age lies.
const AGE: std::ops::Range<usize> = 33..37;
/// The fewest bytes that a key takes.
const LEAST: usize = 18;

impl Message {
    /// The bytes. At most 65,535 limits are told of.
    pub fn encode(&self) -> Vec<u8> {
        let keys: usize = self.sections.iter().map(|section| section.deltas.len()).sum();
        let mut bytes = Vec::with_capacity(AGE.end + 2 + self.sections.len() * 20 + keys * (LEAST + 2));
        bytes.push(VERSION);
        bytes.extend(self.secret.to_le_bytes());
        bytes.extend(self.node.0);
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.age_millis.to_le_bytes());
        let sections = u16::try_from(self.sections.len()).unwrap_or(u16::MAX);
        bytes.extend(sections.to_le_bytes());
        for section in self.sections.iter().take(usize::from(sections)) {
            bytes.extend(section.limit.name.to_le_bytes());
            bytes.extend(section.limit.shape.to_le_bytes());
            let keys = u32::try_from(section.deltas.len()).unwrap_or(u32::MAX);
            bytes.extend(keys.to_le_bytes());
            for delta in section.deltas.iter().take(keys as usize) {
                bytes.extend(delta.name.0);
                bytes.push(delta.tier);
                put(&mut bytes, delta.units);
            }
        }
        bytes
    }

    /// The message in these bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(bytes: &[u8]) -> Result<Message, Unread> {
        let mut rest = Rest(bytes);
        if rest.array().map(u8::from_le_bytes)? != VERSION {
            return Err(Unread::Version);
        }
        let secret = rest.array().map(u64::from_le_bytes)?;
        let node = NodeId(rest.array()?);
        let sequence = rest.array().map(u64::from_le_bytes)?;
        let age_millis = rest.array().map(u32::from_le_bytes)?;
        let count = rest.array().map(u16::from_le_bytes)?;
        let sections = (0..count).map(|_| rest.section()).collect::<Result<_, _>>()?;
        if sequence == 0 || !rest.0.is_empty() {
            return Err(Unread::Garbled);
        }
        Ok(Message { secret, node, sequence, age_millis, sections })
    }
}

/// Writes how old the sums are by now into the bytes of a message.
pub fn set_age(bytes: &mut [u8], millis: u32) {
    if let Some(age) = bytes.get_mut(AGE) {
        age.copy_from_slice(&millis.to_le_bytes());
    }
}

/// Seven bits a byte, the lowest first, the top bit of all but the last set.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Unread::Garbled)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Unread> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Unread::Garbled);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unread::Garbled)
    }

    fn section(&mut self) -> Result<Section, Unread> {
        let name = self.array().map(u64::from_le_bytes)?;
        let shape = self.array().map(u64::from_le_bytes)?;
        let keys = self.array().map(u32::from_le_bytes)? as usize;
        if keys > self.0.len() / LEAST {
            return Err(Unread::Garbled);
        }
        let mut deltas = Vec::with_capacity(keys);
        for _ in 0..keys {
            let (name, [tier], units) = (StoreKey(self.array()?), self.array()?, self.number()?);
            if units == 0 {
                return Err(Unread::Garbled);
            }
            deltas.push(Delta { name, tier, units });
        }
        Ok(Section { limit: LimitId { name, shape }, deltas })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delta() -> impl Strategy<Value = Delta> {
        let units = prop_oneof![1..200_u64, Just(u64::MAX), any::<u64>().prop_map(|units| units.max(1))];
        (any::<[u8; 16]>(), any::<u8>(), units).prop_map(|(name, tier, units)| Delta {
            name: StoreKey(name),
            tier,
            units,
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        let section = (any::<u64>(), any::<u64>(), proptest::collection::vec(delta(), 0..20))
            .prop_map(|(name, shape, deltas)| Section { limit: LimitId { name, shape }, deltas });
        let sections = proptest::collection::vec(section, 0..4);
        (any::<u64>(), any::<[u8; 16]>(), 1..u64::MAX, any::<u32>(), sections).prop_map(
            |(secret, node, sequence, age_millis, sections)| Message {
                secret,
                node: NodeId(node),
                sequence,
                age_millis,
                sections,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_told_is_what_is_read(message in message(), age in any::<u32>()) {
            let mut bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes), Ok(message.clone()));
            set_age(&mut bytes, age);
            prop_assert_eq!(Message::decode(&bytes), Ok(Message { age_millis: age, ..message }));
        }

        #[test]
        fn noise_is_an_error_and_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::decode(&bytes);
            let mut versioned = vec![VERSION];
            versioned.extend(bytes);
            let _ = Message::decode(&versioned);
        }

        #[test]
        fn a_message_that_is_cut_or_goes_on_is_none(message in message(), cut in any::<prop::sample::Index>()) {
            let mut bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes[..cut.index(bytes.len())]), Err(Unread::Garbled));
            bytes.push(0);
            prop_assert_eq!(Message::decode(&bytes), Err(Unread::Garbled));
        }

        #[test]
        fn a_flipped_bit_never_panics(message in message(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = message.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let _ = Message::decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_told_apart_from_noise() {
        assert_eq!(Message::decode(&[2, 1, 1]), Err(Unread::Version));
        assert_eq!(Message::decode(&[1, 1, 1]), Err(Unread::Garbled));
        assert_eq!(Message::decode(&[]), Err(Unread::Garbled));
    }

    #[test]
    fn more_keys_than_there_are_bytes_allocate_nothing() {
        let message = Message {
            secret: 1,
            node: NodeId([2; 16]),
            sequence: 3,
            age_millis: 4,
            sections: vec![Section { limit: LimitId { name: 5, shape: 6 }, deltas: Vec::new() }],
        };
        let mut bytes = message.encode();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Message::decode(&bytes), Err(Unread::Garbled));
    }
}
