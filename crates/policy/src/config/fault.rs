//! What is wrong with a policy file, or may be: one [`Diagnostic`] per fault, gathered, never thrown.
//!
//! Loading goes on after a fault as far as sense can be made of the rest, so that one run shows all of them. How they look
//! on a screen or in a CI system is `render`'s matter.

use std::borrow::Cow;
use std::collections::HashSet;

pub use super::codes::{Code, Severity};
use super::concealed::Concealed;
use super::span::Span;

/// One fault: what, where, what is allowed, and a way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// What was found; lower case, no full stop.
    pub message: String,
    /// Where.
    pub at: Span,
    /// Said at the place itself: mostly what is allowed there. May be empty.
    pub label: String,
    /// Ways out.
    pub help: Vec<String>,
    /// Text that would mend it when put in the place of `at`.
    pub replacement: Option<String>,
    /// Other places that matter, each with what it is.
    pub related: Vec<(Span, String)>,
}

// not inlined: a thousand places make faults, none of them for a request, and each would have a copy
impl Diagnostic {
    /// A fault with this code; whether it is an error or a warning is a property of the code.
    #[inline(never)]
    pub fn new(code: Code, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            message: message.into(),
            at,
            label: String::new(),
            help: Vec::new(),
            replacement: None,
            related: Vec::new(),
        }
    }

    /// The same as [`Diagnostic::new`]; reads better where the code is an error's.
    pub fn error(code: Code, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, at, message)
    }

    /// Sets what is said at the place itself.
    #[inline(never)]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a way out.
    #[inline(never)]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// Adds the nearest right word, if there is one, as help and as replacement.
    #[inline(never)]
    pub fn nearest(mut self, near: Option<&str>) -> Diagnostic {
        if let Some(near) = near {
            self.help.push(format!("did you mean `{near}`?"));
            self.replacement = Some(near.to_owned());
        }
        self
    }

    /// Adds another place that matters.
    #[inline(never)]
    pub fn related(mut self, at: Span, what: impl Into<String>) -> Diagnostic {
        self.related.push((at, what.into()));
        self
    }

    /// The same without what may not be shown. A replacement with such a text in it would mend nothing.
    pub fn without(&self, concealed: &Concealed) -> Diagnostic {
        let mut fault = self.clone();
        if concealed.is_empty() {
            return fault;
        }
        let related = fault.related.iter_mut().map(|(_, what)| what);
        let texts = [&mut fault.message, &mut fault.label].into_iter().chain(&mut fault.help).chain(related);
        texts.for_each(|text| concealed.hide(text));
        fault.replacement = fault.replacement.filter(|text| matches!(concealed.text(text), Cow::Borrowed(_)));
        fault
    }

    /// Error or warning.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// The faults of one load. More than [`Faults::MAX`] are counted, not kept.
#[derive(Debug, Default)]
pub struct Faults {
    list: Vec<Diagnostic>,
    seen: HashSet<(Code, Span, String)>,
    errors: usize,
    left_out: usize,
    concealed: Concealed,
}

impl Faults {
    /// Nobody reads more, and a file of nothing but faults must not fill the memory.
    pub const MAX: usize = 500;

    /// Keeps a fault, unless the same one was found already: an anchored block is read once per alias.
    pub fn push(&mut self, fault: Diagnostic) {
        if !self.seen.insert((fault.code, fault.at, fault.message.clone())) {
            return;
        }
        self.errors += usize::from(fault.severity() == Severity::Error);
        if self.list.len() < Self::MAX {
            self.list.push(fault);
        } else {
            self.left_out += 1;
        }
    }

    /// No text may show this value of a variable.
    pub fn conceal(&mut self, name: &str, value: String) {
        self.concealed.add(name, value);
    }

    /// What no text may show.
    pub fn concealed(&self) -> &Concealed {
        &self.concealed
    }

    /// How many errors there are, those that were not kept included.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Returns whether a fault that was kept lies within this place and is `such`.
    pub fn within(&self, at: Span, such: impl Fn(&Diagnostic) -> bool) -> bool {
        let holds = |fault: &&Diagnostic| {
            let (inner, outer) = (fault.at.range(), at.range());
            fault.at.source() == at.source() && outer.start <= inner.start && inner.end <= outer.end
        };
        self.list.iter().filter(holds).any(such)
    }

    /// How many faults were not kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// All faults in the order of their places.
    pub fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|fault| (fault.at, fault.severity(), fault.code));
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_fault_is_told_once_and_a_flood_is_counted() {
        let mut faults = Faults::default();
        for at in 0..Faults::MAX + 10 {
            for _ in 0..2 {
                faults.push(Diagnostic::new(Code::UNKNOWN_FIELD, Span::new(0, at, at), "unknown"));
            }
        }
        assert_eq!((faults.errors(), faults.left_out()), (Faults::MAX + 10, 10));
        assert_eq!(faults.into_sorted().len(), Faults::MAX);
    }
}
