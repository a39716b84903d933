//! What gates tell each other of the keys they admitted (`limiter::sharing::deltas::message`), read from a store that others
//! may write into.
//!
//! - Read exactly when a slow reading of the table in the module says so, and then the same.
//! - What is read writes bytes that read the same; no part of a message is one.
//! - Noise allocates no more than its length is worth.

use tidegate::limiter::sharing::deltas::message::{Message, Unread};

use super::cost::{self, USUAL, Work};

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| drop(Message::decode(data))))
}

/// The target.
pub fn deltas(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let read = Message::decode(data);
    let slow = slowly(data);
    assert_eq!(read.as_ref().ok().map(flat), slow, "two readings differ");
    assert_eq!(read == Err(Unread::Version), data.first().is_some_and(|version| *version != 1));
    let Ok(message) = read else { return };
    assert!(message.sections.iter().map(|section| section.deltas.capacity()).sum::<usize>() * 18 <= data.len());
    let written = message.encode();
    assert_eq!(Message::decode(&written), Ok(message));
    for end in 0..written.len() {
        assert!(Message::decode(&written[..end]).is_err(), "{end} bytes of {}", written.len());
    }
}

/// All numbers of a message in their order, as wide as any can be.
fn flat(message: &Message) -> Vec<u128> {
    let mut numbers = vec![
        u128::from(message.secret),
        u128::from_le_bytes(message.node.0),
        u128::from(message.sequence),
        u128::from(message.age_millis),
    ];
    for section in &message.sections {
        numbers.extend([section.limit.name, section.limit.shape, section.deltas.len() as u64].map(u128::from));
        for delta in &section.deltas {
            numbers.extend([u128::from_le_bytes(delta.name.0), u128::from(delta.tier), u128::from(delta.units)]);
        }
    }
    numbers
}

/// The same numbers, one byte after the other; `None` where there is no message.
fn slowly(data: &[u8]) -> Option<Vec<u128>> {
    let mut bytes = data.iter().copied();
    let mut numbers = Vec::new();
    if bytes.next()? != 1 {
        return None;
    }
    for width in [8, 16, 8, 4] {
        numbers.push(fixed(&mut bytes, width)?);
    }
    if numbers[2] == 0 {
        return None;
    }
    let sections = fixed(&mut bytes, 2)?;
    for _ in 0..sections {
        numbers.push(fixed(&mut bytes, 8)?);
        numbers.push(fixed(&mut bytes, 8)?);
        let keys = fixed(&mut bytes, 4)?;
        numbers.push(keys);
        for _ in 0..keys {
            numbers.push(fixed(&mut bytes, 16)?);
            numbers.push(fixed(&mut bytes, 1)?);
            numbers.push(units(&mut bytes)?);
        }
    }
    bytes.next().is_none().then_some(numbers)
}

fn fixed(bytes: &mut impl Iterator<Item = u8>, width: u32) -> Option<u128> {
    let mut number = 0;
    for place in 0..width {
        number += u128::from(bytes.next()?) << (8 * place);
    }
    Some(number)
}

/// Above zero, below 2⁶⁴, in at most ten bytes of seven bits.
fn units(bytes: &mut impl Iterator<Item = u8>) -> Option<u128> {
    let mut number = 0_u128;
    for place in 0..10 {
        let byte = bytes.next()?;
        number += u128::from(byte & 127) << (7 * place);
        if byte < 128 {
            return (1..1 << 64).contains(&number).then_some(number);
        }
    }
    None
}
