//! Values of variables, which no text may show.

use std::borrow::Cow;

/// A shorter value is a number or a word like many others; hiding it in messages would hide those.
const SHORTEST: usize = 4;

/// The values of variables that were used, which no text may show.
#[derive(Debug, Clone, Default)]
pub struct Concealed(Vec<(String, String)>);

impl Concealed {
    /// Adds the value of a variable.
    pub fn add(&mut self, name: &str, value: String) {
        self.put(format!("${{{name}}}"), value);
    }

    fn put(&mut self, name: String, value: String) {
        if value.len() >= SHORTEST && !self.0.iter().any(|(_, known)| *known == value) {
            self.0.push((name, value));
            // one may be a part of another
            self.0.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        }
    }

    /// Adds all of another.
    pub fn add_all(&mut self, other: &Concealed) {
        for (name, value) in &other.0 {
            self.put(name.clone(), value.clone());
        }
    }

    /// Whether no text has to be changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without the values, whatever the case of their letters.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for (name, value) in &self.0 {
            if let Some(replaced) = replaced(&shown, value, name) {
                shown = Cow::Owned(replaced);
            }
        }
        shown
    }

    /// The same in place.
    pub fn hide(&self, text: &mut String) {
        if let Cow::Owned(shown) = self.text(text) {
            *text = shown;
        }
    }
}

/// `text` with every `value` in it replaced; `None` when there is none.
fn replaced(text: &str, value: &str, by: &str) -> Option<String> {
    let (low, wanted) = (text.to_ascii_lowercase(), value.to_ascii_lowercase());
    let mut shown = String::new();
    let mut from = 0;
    while let Some(at) = low.get(from..).and_then(|rest| rest.find(&wanted)).map(|at| from + at) {
        shown.push_str(text.get(from..at).unwrap_or_default());
        shown.push_str(by);
        from = at + wanted.len();
    }
    (from > 0).then(|| shown + text.get(from..).unwrap_or_default())
}
