//! Values that stand in many sections.

use crate::client::key::KeySpec;
use crate::config::tree::Tree;
use crate::config::word::Word;
use crate::policy::Deny;
use crate::policy::deny::Written;
use crate::units::Prefix;

/// Networks, and the peers of UNIX sockets.
pub fn networks(networks: &[Prefix], unix: bool) -> Tree {
    let unix = unix.then(|| Tree::text("unix"));
    let networks = networks.iter().map(|prefix| match prefix.length() {
        // a bare `0.0.0.0` would be one address
        0 => Tree::text(format!("{}/0", prefix.address())),
        _ => Tree::text(prefix),
    });
    Tree::List(unix.into_iter().chain(networks).collect())
}

/// `deny` of a route or listener, if it has any; files by their names.
pub fn deny(deny: &Deny) -> Option<(&'static str, Tree)> {
    let Written { networks: own, unix, files } = deny.written();
    let Tree::List(mut list) = networks(own, *unix) else { return None };
    list.extend(files.iter().map(|file| Tree::map([("file", Tree::text(file))])));
    (!list.is_empty()).then_some(("deny", Tree::List(list)))
}

/// What is counted by.
pub fn key(key: &KeySpec) -> Tree {
    Tree::texts(key.parts())
}

/// The word for a value.
pub fn word<T: Word>(value: &T) -> Tree {
    Tree::text(value.word())
}
