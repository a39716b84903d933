//! A listener and all that its connections may take.

use super::words::{deny, networks, word};
use crate::config::scalar::duration;
use crate::config::setting::Values;
use crate::config::settings::{ListenOn, Listener, Tls};
use crate::config::tree::Tree;

/// A listener by its name.
pub fn listener(listener: &Listener) -> (String, Tree) {
    let mut tree = vec![("address", Tree::text(&listener.address))];
    if let ListenOn::Unix { permissions, .. } = listener.address {
        tree.push(("permissions", Tree::text(format!("0{permissions:03o}"))));
    }
    tree.extend(listener.tls.as_ref().map(|tls| ("tls", self::tls(tls))));
    let protocols = listener.protocols.list().map(|protocol| word(&protocol));
    tree.push(("protocols", Tree::List(protocols.collect())));
    tree.extend(listener.protocols.h2.then(|| ("h2", listener.h2.tree())));
    tree.extend(listener.redirect.map(|redirect| ("redirect", Tree::text(redirect))));
    tree.extend([
        ("proxy_protocol", word(&listener.proxy_protocol)),
        ("connections", connections(listener)),
        ("request_head", listener.request_head.tree()),
        ("request_body", listener.request_body.tree()),
        ("response", listener.response.tree()),
    ]);
    tree.extend(deny(&listener.deny));
    (listener.name.clone(), Tree::map(tree))
}

fn connections(listener: &Listener) -> Tree {
    let mut tree = listener.connections.fields();
    tree.retain(|(word, _)| listener.tls.is_some() || *word != "handshake_deadline");
    if listener.refuse.unix || !listener.refuse.networks.is_empty() {
        tree.push(("refuse", networks(&listener.refuse.networks, listener.refuse.unix)));
    }
    if let Some(at_accept) = &listener.refuse_at_accept {
        let limit = ("limit", Tree::text(&at_accept.limit));
        tree.push(("refuse_at_accept", Tree::map([limit, ("above", Tree::text(duration(at_accept.above)))])));
    }
    Tree::map(tree)
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
