//! Values that stand in many sections.

use crate::client::key::KeySpec;
use crate::config::networks::clients;
pub use crate::config::networks::networks;
use crate::config::tree::Tree;
use crate::config::word::Word;
use crate::policy::ClientList;

/// `deny` of a route or listener, if it has any.
pub fn deny(deny: &ClientList) -> Option<(&'static str, Tree)> {
    let list = clients(deny);
    (!matches!(&list, Tree::List(list) if list.is_empty())).then_some(("deny", list))
}

/// What is counted by.
pub fn key(key: &KeySpec) -> Tree {
    Tree::texts(key.parts())
}

/// The word for a value.
pub fn word<T: Word>(value: &T) -> Tree {
    Tree::text(value.word())
}
