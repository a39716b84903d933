//! What a limit promises: its kind reads itself from the words, and what it finds wrong is shown where they stand.

use super::cost::{is_deferred, largest};
use super::memory::memory;
use super::written::Written;
use crate::client::key::{KeyPart, KeySpec};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::{CapacityText, CountText};
use crate::config::read::At;
use crate::config::schema::Tier;
use crate::config::schema::kind_words::Given;
use crate::config::section::Section;
use crate::config::span::Span;
use crate::limiter::kinds::words::{self, Entry, Fault, Problem};
use crate::limiter::kinds::{Value, Word, Words};
use crate::policy::{CostRule, Kind, Scope};
use crate::units::Cost;

/// The promise, and for a rate of bytes what a request takes.
pub struct Numbers {
    /// The promise.
    pub kind: Kind,
    /// `CostRule::Bytes`, if the rate is one of bytes.
    pub bytes: Option<CostRule>,
    words: Words,
}

/// The numbers of a limit. `scope` is that of a limit that is counted exactly.
pub fn numbers(
    written: &Written<'_>,
    scope: Option<Scope>,
    cost: Option<&CostRule>,
    nodes: Option<&[(KeySpec, u32)]>,
    faults: &mut Faults,
) -> Option<Numbers> {
    let (limit, form) = (written.limit, written.form);
    let resolve = |_: &Word, at: &At<Given>| match &at.value {
        Given::Capacity(CapacityText::Rate(rate)) => Some(Value::Rate(*rate)),
        _ => None,
    };
    let mut entries = limit.own.entries(resolve);
    if form.takes("networks") {
        entries.retain(|(word, _)| *word != "networks");
        let networks = nodes?.iter().skip(1).map(|(key, clients)| (network_length(key), *clients));
        let value = Value::Networks(networks.collect());
        entries.push(("networks", Entry::Set { value, shown: String::new() }));
    }
    let tiers = limit.tiers.value().into_iter().flat_map(|list| &list.items);
    let mut words = Words {
        limit: entries,
        tiers: tiers.map(|tier| tier.value.own.entries(|_, _| None)).collect(),
        present: limit.present().into_iter().map(|(word, _)| word).collect(),
        cost: Some(largest(cost)),
        deferred: is_deferred(written),
        counts_refused: match limit.count.value() {
            Some(CountText::All) => Some(true),
            Some(CountText::Admitted) => Some(false),
            _ => None,
        },
        scope,
        memory: form.memory,
        ..Words::default()
    };
    let kind = (form.read)(&mut words);
    report(&mut words, |at| place(written, None, at), written.name, faults);
    let size = words.sketch.map(|sketch| memory(written, sketch, faults));
    let mut kind = kind?;
    if let (Some(memory), Some(size)) = (kind.memory_mut(), size) {
        *memory = size;
    }
    Some(Numbers { kind, bytes: words.unit.map(|unit| CostRule::Bytes { unit }), words })
}

/// The length of the IPv4 prefix by which a key tells networks apart.
fn network_length(key: &KeySpec) -> u8 {
    match key.parts() {
        [KeyPart::ClientIp { ipv4_prefix: Some(length), .. }] => *length,
        _ => 0,
    }
}

/// The numbers of a tier: the limit's own, but for those that the tier says.
pub fn tier_numbers(
    written: &Written<'_>,
    base: &Numbers,
    tier: &Tier,
    cost: Cost,
    faults: &mut Faults,
) -> Option<Kind> {
    let mut words = Words { tier: Some(tier.own.entries(|_, _| None)), cost: Some(cost), ..base.words.clone() };
    let kind = base.kind.tier(&mut words);
    report(&mut words, |at| place(written, Some(tier), at), written.name, faults);
    kind
}

/// Shows the problems of a limit of this name where `place` says.
pub fn report(words: &mut Words, place: impl Fn(words::At) -> Span, name: &str, faults: &mut Faults) {
    for Problem { fault, at, message, label, related, help } in words.problems.drain(..) {
        let code = match fault {
            Fault::Missing => Code::MISSING_FIELD,
            Fault::OutOfRange => Code::OUT_OF_RANGE,
            Fault::Conflict => Code::CONFLICT,
            Fault::BelowCost => Code::BURST_BELOW_COST,
            Fault::SmallBurst => Code::SMALL_BURST,
            Fault::NoMonth => Code::NO_MONTH,
        };
        let message = if at == words::At::Limit { format!("limit `{name}` {message}") } else { message };
        let at = place(at);
        let diagnostic = Diagnostic::new(code, at, message).label(label);
        let related = related.map(|(other, what)| (place(other), what)).filter(|(other, _)| *other != at);
        let diagnostic = related.into_iter().fold(diagnostic, |fault, (other, what)| fault.related(other, what));
        faults.push(help.into_iter().fold(diagnostic, Diagnostic::help));
    }
}

fn place(written: &Written<'_>, tier: Option<&Tier>, at: words::At) -> Span {
    let limit = written.limit;
    let found = match at {
        words::At::Limit => None,
        words::At::Name(word) => {
            let all = tier.map(Tier::present).into_iter().flatten().chain(limit.present());
            all.into_iter().find(|(name, _)| *name == word).map(|(_, at)| at)
        }
        words::At::Value("count") => limit.count.get().map(|at| at.span),
        words::At::Value(word) => {
            let own = tier.and_then(|tier| tier.own.field(word).get());
            own.or(limit.own.field(word).get()).map(|at| at.span)
        }
    };
    found.unwrap_or(written.at)
}
