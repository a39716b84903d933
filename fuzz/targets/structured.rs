//! The structured fields that we write (`answer::structured`), against a reader that others wrote (`sfv`).
//!
//! The input is a list of steps: a byte for what to write, a byte for the length of each text, the texts.
//!
//! - What is written is what `sfv` writes of the same values, and reads back as them.
//! - A step fails exactly when the format cannot hold its value, or the field has no room.

use bytes::BytesMut;
use sfv::{BareItem, Item, List as Model, ListEntry, Parser, SerializeValue};
use tidegate::answer::structured::{List, MAX_FIELD_BYTES, MAX_INTEGER, Unwritable};

use super::cost::{self, Bound, USUAL, Work};
use super::cursor::Cursor;

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let mut input = Cursor::new(data);
    let mut steps = Vec::new();
    while let Some(step) = input.byte() {
        steps.push((step, input.text(), input.text(), input.number()));
    }
    Some(Box::new(move || {
        let mut list = List::new();
        for (step, one, other, number) in &steps {
            // what has no room is left out, as where it is used
            let _ = match step % 5 {
                0 => list.string(one, other),
                1 => list.integer(one, *number),
                2 => list.token(one, other),
                3 => list.text(one, other),
                _ => list.bytes(one, other.as_bytes()),
            };
        }
        drop(list.finish(&mut BytesMut::new()));
    }))
}

/// The target.
pub fn structured(data: &[u8]) {
    cost::is_bounded(data, Bound { loops: 400, ..USUAL }, work);
    let mut input = Cursor::new(data);
    let mut list = List::new();
    let mut model = Model::new();
    while let Some(step) = input.byte() {
        let (one, other) = (input.text(), input.text());
        let number = input.number();
        let (written, value) = match step % 5 {
            0 => (list.string(&one, &other), BareItem::String(format!("{one}{other}"))),
            1 => (list.integer(&one, number), BareItem::Integer(number.min(MAX_INTEGER) as i64)),
            2 => (list.token(&one, &other), BareItem::Token(other.clone())),
            3 => (list.text(&one, &other), BareItem::String(other.clone())),
            _ => (list.bytes(&one, other.as_bytes()), BareItem::ByteSeq(other.clone().into_bytes())),
        };
        let expected = if step % 5 == 0 { member(&mut model, value) } else { parameter(&mut model, &one, value) };
        let before = list.finish(&mut BytesMut::new()).map_or(0, |field| field.len());
        match written {
            // the same key again would replace the first one in the model
            Ok(()) if expected == Err(Expected::Twice) => return,
            Ok(()) => assert_eq!(expected, Ok(())),
            // no room may be found out before a wrong character is; what is left of the text counts in any case
            Err(Unwritable::TooLong) => {
                let most = 2 * (one.len() + other.len()) + 32;
                return assert!(before + most > MAX_FIELD_BYTES, "{before} bytes and at most {most} more had no room");
            }
            Err(Unwritable::NoMember) => return assert_eq!(expected, Err(Expected::NoMember)),
            Err(Unwritable::Character) => return assert_eq!(expected, Err(Expected::Character)),
        }
        let field = list.finish(&mut BytesMut::new()).expect("a member has been written");
        assert!(field.len() <= MAX_FIELD_BYTES);
        assert_eq!(field.to_str().ok(), model.serialize_value().ok().as_deref());
        assert_eq!(Parser::parse_list(field.as_bytes()).as_ref(), Ok(&model));
    }
    assert_eq!(list.finish(&mut BytesMut::new()).is_none(), model.is_empty());
}

/// Why the format does not take a value.
#[derive(Debug, PartialEq)]
enum Expected {
    Character,
    NoMember,
    Twice,
}

fn member(model: &mut Model, value: BareItem) -> Result<(), Expected> {
    let item = Item::new(value);
    item.serialize_value().map_err(|_| Expected::Character)?;
    model.push(item.into());
    Ok(())
}

fn parameter(model: &mut Model, key: &str, value: BareItem) -> Result<(), Expected> {
    let Some(ListEntry::Item(item)) = model.last_mut() else { return Err(Expected::NoMember) };
    let mut alone = Item::new(BareItem::Integer(0));
    alone.params.insert(key.to_owned(), value.clone());
    alone.serialize_value().map_err(|_| Expected::Character)?;
    item.params.insert(key.to_owned(), value).map_or(Ok(()), |_| Err(Expected::Twice))
}
