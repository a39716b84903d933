//! Networks and lists of clients as the effective configuration writes them.

use super::tree::Tree;
use crate::policy::ClientList;
use crate::policy::client_list::Written;
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

/// A list of clients; files by their names.
pub fn clients(clients: &ClientList) -> Tree {
    let Written { networks: own, unix, files } = clients.written();
    let files = files.iter().map(|file| Tree::map([("file", Tree::text(file))]));
    match networks(own, *unix) {
        Tree::List(list) => Tree::List(list.into_iter().chain(files).collect()),
        other => other,
    }
}
