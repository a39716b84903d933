//! What is said of answers to refused requests.

use super::words::word;
use crate::config::tree::Tree;
use crate::policy::OwnAnswer;
use crate::policy::body::BodyMedia;

/// The words that are said; bodies with their text, wherever it came from.
pub fn own_answer(own: &OwnAnswer) -> Tree {
    let mut tree = Vec::new();
    tree.extend(own.status.map(|status| ("status", Tree::text(status.as_u16()))));
    tree.extend(own.format.as_ref().map(|format| ("format", word(format))));
    if let Some(bodies) = &own.bodies {
        let all = BodyMedia::ALL.into_iter();
        tree.push((
            "body",
            Tree::map(all.filter_map(|(word, media)| Some((word, Tree::text(&bodies.get(media)?.text))))),
        ));
    }
    if let Some(headers) = &own.headers {
        let mut fields: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            match fields.iter_mut().find(|(known, _)| known == name.as_str()) {
                Some((_, values)) => values.push(value),
                None => fields.push((name.to_string(), vec![value])),
            }
        }
        tree.push(("headers", Tree::map(fields.into_iter().map(|(name, values)| (name, Tree::texts(values))))));
    }
    Tree::map(tree)
}
