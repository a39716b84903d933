//! When a limit's penalty ends in a ban.

use std::sync::Arc;
use std::time::Duration;

use super::written::Written;
use crate::client::ban_terms::BanTerms;
use crate::client::key::{KeyPart, KeySpec};
use crate::config::compile::checks::span;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::limiter::{Kind, RefusedCount};

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(744 * 3_600);
const FIRST: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);

/// The terms of `ban`; `None` when there are faults, which have been told.
pub fn ban(written: &Written<'_>, kind: &Kind, key: &KeySpec, faults: &mut Faults) -> Option<Option<Arc<BanTerms>>> {
    let field = &written.limit.ban;
    let Some(at) = field.get() else { return (!field.is_present()).then_some(None) };
    let before = faults.errors();
    let first = span(&at.value.r#for, SHORTEST..=LONGEST, FIRST, faults);
    let longest = span(&at.value.max, SHORTEST..=LONGEST, DAY.max(first), faults);
    let forgive = span(&at.value.forgive, SHORTEST..=LONGEST, DAY, faults);
    if longest < first {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "`max` of a ban is less than `for`")
                .label("the first ban would be longer than any may be"),
        );
    }
    if !matches!(key.parts(), [KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None }]) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "`ban` on a limit by another key than `client_ip`")
                .label("bans clients, and this key is none")
                .help("give clients a limit of their own with `key: client_ip`"),
        );
    }
    let Some(RefusedCount::All { max_penalty: pause }) = kind.refused() else {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "`ban` on a limit without a penalty")
                .label("needs `count: all`")
                .help("types with a penalty are `recent_average`, and `distinct` with `sliding: true`, each with `count: all`"),
        );
        return None;
    };
    let after = at.value.after();
    let terms = BanTerms { limit: written.name.to_owned(), after, first, longest, forgive, pause };
    (faults.errors() == before).then(|| Some(Arc::new(terms)))
}
