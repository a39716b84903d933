//! A store in its long form.

use crate::config::scalar::duration;
use crate::config::setting::Values;
use crate::config::store_text::StoreUrl;
use crate::config::text::HostPort;
use crate::config::tree::Tree;
use crate::policy::{Store, StoreMode};

/// The store, with the place of its password or a mask.
pub fn store(store: &Store, password: Option<&Tree>) -> Tree {
    let servers = store.servers.iter().map(|(host, port)| HostPort { host: host.clone(), port: *port }).collect();
    let url = StoreUrl { tls: store.tls, servers, database: store.database, credentials: false };
    let mut tree = vec![("url", Tree::text(url))];
    match &store.mode {
        StoreMode::Single => tree.push(("mode", Tree::text("single"))),
        StoreMode::Cluster => tree.push(("mode", Tree::text("cluster"))),
        StoreMode::Sentinel { primary } => {
            tree.push(("mode", Tree::text("sentinel")));
            tree.push(("primary", Tree::text(primary)));
        }
    }
    tree.extend(store.username.iter().map(|name| ("username", Tree::text(name))));
    tree.extend(password.map(|password| ("password", password.clone())));
    tree.extend(store.ca.iter().map(|file| ("ca", Tree::text(file.display()))));
    tree.push(("timeout", Tree::text(duration(store.timeout))));
    tree.push(("ready_within", Tree::text(duration(store.ready_within))));
    tree.push(("prefix", Tree::text(&store.prefix)));
    // the default says so only where there is a secret: written out it would ask for one
    if !store.share_bans {
        tree.push(("share_bans", Tree::text(false)));
    }
    tree.push(("breaker", store.breaker.tree()));
    Tree::map(tree)
}
