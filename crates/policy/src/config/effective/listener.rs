//! A listener and all that its connections may take.

use super::words::{networks, word};
use crate::config::scalar::duration;
use crate::config::settings::{Connections, Http2, ListenOn, Listener, Pace, Tls};
use crate::config::tree::Tree;
use crate::units::Bytes;

/// A listener by its name.
pub fn listener(listener: &Listener) -> (String, Tree) {
    let Listener { name, address, connections, tls, redirect, protocols, h2 } = listener;
    let head = Tree::map([
        ("timeout", Tree::text(duration(connections.head_timeout))),
        ("size", Tree::text(connections.head.bytes)),
        ("line", Tree::text(connections.head.line)),
        ("fields", Tree::text(connections.head.fields)),
        ("underscore_twins", word(&connections.head.twins)),
        ("escaped_slash", word(&connections.head.escaped_slash)),
    ]);
    let mut tree = vec![("address", Tree::text(address))];
    if let ListenOn::Unix { permissions, .. } = address {
        tree.push(("permissions", Tree::text(format!("0{permissions:03o}"))));
    }
    tree.extend(tls.as_ref().map(|tls| ("tls", self::tls(tls))));
    tree.push(("protocols", Tree::List(protocols.list().map(|protocol| word(&protocol)).collect())));
    tree.extend(protocols.h2.then(|| ("h2", http2(h2))));
    tree.extend(redirect.map(|redirect| ("redirect", Tree::text(redirect))));
    tree.extend([
        ("proxy_protocol", word(&connections.proxy_protocol)),
        ("connections", caps(connections, tls.is_some())),
        ("request_head", head),
        ("request_body", pace(&connections.request_body)),
        ("response", pace(&connections.response)),
    ]);
    (name.clone(), Tree::map(tree))
}

fn tls(tls: &Tls) -> Tree {
    let certificates = tls.certificates.iter().map(|files| {
        let mut tree = vec![("cert", Tree::text(&files.cert.written)), ("key", Tree::text(&files.key.written))];
        if !files.names.is_empty() {
            tree.push(("names", Tree::texts(&files.names)));
        }
        Tree::map(tree)
    });
    let mut tree = vec![("certificates", Tree::List(certificates.collect()))];
    tree.extend(tls.client_certificates.as_ref().map(|asked| {
        let asked = Tree::map([("ca", Tree::text(&asked.ca.written)), ("mode", word(&asked.mode))]);
        ("client_certificates", asked)
    }));
    Tree::map(tree)
}

fn http2(h2: &Http2) -> Tree {
    Tree::map([
        ("max_concurrent_streams", Tree::text(h2.max_concurrent_streams)),
        ("max_pending_resets", Tree::text(h2.max_pending_resets)),
        ("resets", Tree::text(h2.resets)),
        ("control_frames", Tree::text(h2.control_frames)),
        ("head_memory", Tree::text(h2.head_memory)),
    ])
}

fn caps(connections: &Connections, over_tls: bool) -> Tree {
    let mut tree = vec![
        ("max", Tree::text(connections.max)),
        ("per_client", connections.per_client.map_or_else(none, Tree::text)),
        ("handshakes", connections.handshakes.map_or_else(none, Tree::text)),
    ];
    if over_tls {
        tree.push(("handshake_deadline", Tree::text(duration(connections.handshake_deadline))));
    }
    tree.extend([
        ("requests", Tree::text(connections.requests)),
        ("lifetime", connections.lifetime.map_or_else(none, |span| Tree::text(duration(span)))),
        ("idle", Tree::text(duration(connections.idle))),
        ("linger", Tree::text(duration(connections.linger))),
    ]);
    if connections.refuse.unix || !connections.refuse.networks.is_empty() {
        tree.push(("refuse", networks(&connections.refuse.networks, connections.refuse.unix)));
    }
    if let Some(at_accept) = &connections.refuse_at_accept {
        let limit = ("limit", Tree::text(&at_accept.limit));
        tree.push(("refuse_at_accept", Tree::map([limit, ("above", Tree::text(duration(at_accept.above)))])));
    }
    Tree::map(tree)
}

fn pace(pace: &Pace) -> Tree {
    Tree::map([
        ("least_rate", Tree::text(format!("{}/s", Bytes(u64::from(pace.least_rate))))),
        ("grace", Tree::text(duration(pace.grace))),
        ("timeout", pace.timeout.map_or_else(none, |span| Tree::text(duration(span)))),
    ])
}

fn none() -> Tree {
    Tree::text("none")
}
