//! Whether a limit decides, for whom, and what follows when a request does not fit.

use std::time::Duration;

use http::{HeaderName, header};

use super::written::Written;
use crate::client::trust::X_FORWARDED_FOR;
use crate::config::compile::checks::span;
use crate::config::compile::own_fields::is_of_the_connection;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::Field;
use crate::config::schema::{DelayAction, TagAction};
use crate::config::shape::Either;
use crate::config::span::Span;
use crate::config::word::ActionWord;
use crate::policy::{Mode, OnLimit};
use crate::units::Share;

/// A person waits this long for a page without giving up on it.
const DELAY: Duration = Duration::from_secs(1);

/// What is asked of an operator's own header by default.
const TAG: HeaderName = HeaderName::from_static("x-tidegate-limited");

/// The mode, and for which share of the keys it holds.
pub fn mode(written: &Written<'_>, default: Mode, faults: &mut Faults) -> (Mode, Share) {
    let limit = written.limit;
    let Some(enforced) = limit.enforce.get() else {
        return (limit.mode.value().copied().unwrap_or(default), Share::ALL);
    };
    if let Some(mode) = limit.mode.get().filter(|mode| mode.value == Mode::Shadow) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, enforced.span, "`enforce` beside `mode: shadow`")
                .label("obeyed for a share of the keys")
                .related(mode.span, "obeyed for none")
                .help("remove one of them: the other keys are counted as in `shadow` anyway"),
        );
    }
    (Mode::Enforce, enforced.value)
}

/// What follows; `None` when there are faults, which have been told.
pub fn action(written: &Written<'_>, deferred: bool, faults: &mut Faults) -> Option<OnLimit> {
    let field = &written.limit.action;
    let Some(at) = field.get() else { return (!field.is_present()).then_some(OnLimit::Reject) };
    match &at.value {
        Either::Short(ActionWord::Reject) => Some(OnLimit::Reject),
        Either::Short(ActionWord::Close) => Some(OnLimit::Close),
        Either::Short(ActionWord::Delay) => delay(written, deferred, at.span, None, faults),
        Either::Short(ActionWord::Tag) => tag(None, faults),
        Either::Long(long) => match (&long.delay, &long.tag) {
            (Field::Set { key, at }, Field::Absent) => delay(written, deferred, *key, Some(&at.value), faults),
            (Field::Absent, Field::Set { at, .. }) => tag(Some(&at.value), faults),
            (Field::Absent, Field::Absent) => {
                faults.push(
                    Diagnostic::error(Code::MISSING_FIELD, at.span, "`delay` or `tag` is missing")
                        .label("needs one of them"),
                );
                None
            }
            (delay, tag) => {
                if let (Some(delay), Some(tag)) = (delay.key(), tag.key()) {
                    faults.push(
                        Diagnostic::error(Code::CONFLICT, tag, "both `delay` and `tag`")
                            .label("a limit does one thing")
                            .related(delay, "the other"),
                    );
                }
                None
            }
        },
    }
}

fn delay(
    written: &Written<'_>,
    deferred: bool,
    at: Span,
    long: Option<&DelayAction>,
    faults: &mut Faults,
) -> Option<OnLimit> {
    let max =
        long.map_or(DELAY, |long| span(&long.max, Duration::from_millis(1)..=Duration::from_secs(30), DELAY, faults));
    let why = match written.form.no_delay {
        Some(why) => why,
        None if deferred => "what is charged is known only when the answer comes",
        None => return Some(OnLimit::Delay { max }),
    };
    faults.push(
        Diagnostic::error(Code::CONFLICT, at, "`delay` where no wait can be promised")
            .label(why)
            .help("`reject`, `close` and `tag` are possible"),
    );
    None
}

fn tag(long: Option<&TagAction>, faults: &mut Faults) -> Option<OnLimit> {
    let Some(long) = long else { return Some(OnLimit::Tag { header: TAG }) };
    let Some(at) = long.header.get() else {
        return (!long.header.is_present()).then_some(OnLimit::Tag { header: TAG });
    };
    let name = &at.value;
    let why = if is_of_the_connection(name) {
        "belongs to the connection"
    } else if [header::HOST, header::COOKIE, header::AUTHORIZATION, header::FORWARDED].contains(name)
        || *name == X_FORWARDED_FOR
    {
        "has a meaning of its own, and a client's own would be removed"
    } else {
        return Some(OnLimit::Tag { header: name.clone() });
    };
    faults.push(
        Diagnostic::error(Code::BAD_HEADER, at.span, format!("the header `{name}` cannot be a mark"))
            .label(why)
            .help(format!("the default is `{TAG}`")),
    );
    None
}
