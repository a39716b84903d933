//! A limit as it is written.

use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::schema::Limit;
use crate::config::span::Span;
use crate::limiter::Form;

/// A limit as it is written.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub name: &'a str,
    /// Where its name stands.
    pub at: Span,
    pub limit: &'a Limit,
    pub form: &'static Form,
}

/// Reports a field that the limit cannot do without.
pub fn missing_field(written: &Written<'_>, field: &str, faults: &mut Faults) {
    faults.push(
        Diagnostic::error(Code::MISSING_FIELD, written.at, format!("limit `{}` has no `{field}`", written.name))
            .label(format!("needs `{field}`")),
    );
}
