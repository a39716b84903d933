//! `cors` of a route.

use std::fmt::Display;

use crate::config::scalar::duration;
use crate::config::tree::Tree;
use crate::policy::cors::{AllowedOrigins, Cors, Listed};

/// The section, with its defaults.
pub fn cors(cors: &Cors) -> Tree {
    let origins = match &cors.origins {
        AllowedOrigins::Any => Tree::texts(["*"]),
        AllowedOrigins::These(these) => Tree::texts(these),
    };
    let mut tree = vec![("allow_origins", origins), ("allow_methods", listed(&cors.methods))];
    for (word, list) in [("allow_headers", &cors.headers), ("expose_headers", &cors.expose)] {
        let list = listed(list);
        if !list.is_empty() {
            tree.push((word, list));
        }
    }
    tree.push(("allow_credentials", Tree::text(cors.credentials)));
    tree.push(("max_age", Tree::text(duration(cors.max_age))));
    Tree::map(tree)
}

fn listed<T: Display>(list: &Listed<T>) -> Tree {
    match list {
        Listed::Any => Tree::texts(["*"]),
        Listed::These(these) => Tree::texts(these),
    }
}
