//! Values that stand in many sections.

use crate::client::key::KeySpec;
use crate::config::networks::clients;
pub use crate::config::networks::networks;
use crate::config::scalar::percent;
use crate::config::tree::Tree;
use crate::config::word::Word;
use crate::door::Reserved;
use crate::policy::ClientList;
use crate::units::Criticality;

/// `deny` of a route or listener, if it has any.
pub fn deny(deny: &ClientList) -> Option<(&'static str, Tree)> {
    let list = clients(deny);
    (!matches!(&list, Tree::List(list) if list.is_empty())).then_some(("deny", list))
}

/// The parts that are kept for classes.
pub fn reserved(reserved: &Reserved) -> Tree {
    let shares = Criticality::ALL.map(|class| (class.word(), reserved.share(class)));
    let shares = shares.into_iter().filter(|(_, share)| *share > 0.0);
    Tree::map(shares.map(|(class, share)| (class, Tree::text(percent(share)))))
}

/// What is counted by.
pub fn key(key: &KeySpec) -> Tree {
    Tree::texts(key.parts())
}

/// The word for a value.
pub fn word<T: Word>(value: &T) -> Tree {
    Tree::text(value.word())
}
