//! One limit of `limits`: what belongs to its type, and its numbers checked against each other.
//!
//! `belongs` reports words that belong to other types; `key` what is counted by, `cost` what is counted, `kind` what
//! is promised, `memory` how large its sketch is, `exception` to whom something else is, `action` what follows, `ban` when its penalty ends in a ban, `shared` whether gates share it. Names of other limits stay names: those may be
//! defined later in the file, and `limits` looks them up when it has read them all.

mod action;
mod ban;
mod belongs;
mod cost;
pub mod exception;
mod key;
pub mod kind;
mod memory;
mod shared;
mod written;

use super::origins::Origins;
use super::stores::Stores;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::CapacityText;
use crate::config::read::{At, Field};
use crate::config::schema::Limit;
use crate::config::schema::kind_words::Given;
use crate::config::span::Span;
use crate::config::text::Name;
use crate::limiter::kinds;
use crate::policy::{Mode, Preflights, Rule};
use written::Written;

/// A limit whose references to others are still names.
pub struct Compiled {
    /// All else.
    pub rule: Rule,
    /// The limit of `missing: { use: LIMIT }`.
    pub instead: Option<At<Name>>,
}

/// Whether it is a `fair_share` of what an origin can take. It does nothing: the places of that origin are shared out by its own queue.
pub fn is_origins_own(limit: &Limit) -> bool {
    matches!(limit.own.field("capacity").value(), Some(Given::Capacity(CapacityText::Origin(_))))
        && limit.r#type.value().is_some_and(|kind| kind.0.takes("capacity"))
}

/// Reports what is wrong with a limit that [does nothing](is_origins_own), and that it does.
pub fn origins_own(name: &str, at: Span, limit: &Limit, origins: &mut Origins, faults: &mut Faults) {
    belongs::check(&Written { name, at, limit, form: &kinds::FairShare::FORM }, faults);
    let Some(Given::Capacity(CapacityText::Origin(origin))) = limit.own.field("capacity").value() else { return };
    let Some(capacity) = limit.own.field("capacity").get() else { return };
    if origins.capped(&capacity.with(origin.clone()), faults).is_some() {
        faults.push(
            Diagnostic::new(Code::ORIGINS_OWN, capacity.span, format!("the limit `{name}` does nothing"))
                .label("the origin shares out its places itself: its `inflight` has a fair queue")
                .help("remove the limit"),
        );
    }
}

/// The limit of this name. `None` when it has faults that leave nothing to go on with; all have been told.
pub fn limit(
    name: &str,
    at: Span,
    limit: &Limit,
    mode: Mode,
    stores: &mut Stores,
    faults: &mut Faults,
) -> Option<Compiled> {
    let form = match &limit.r#type {
        Field::Absent => &kinds::Rate::FORM,
        Field::Bad { .. } => return None,
        Field::Set { at, .. } => at.value.0,
    };
    let written = Written { name, at, limit, form };
    belongs::check(&written, faults);
    let nodes = key::nodes(&written, faults);
    let key = key::key(&written, nodes.as_deref(), faults);
    let exact = key.as_ref().is_some_and(|key| key.exact.is_some());
    if exact {
        belongs::check_exact(&written, faults);
    }
    let of = key::of(&written, faults);
    let cost = cost::cost(&written, faults);
    let counted = cost::counted(&written, faults);
    let deferred = cost::is_deferred(&written);
    memory::check_accuracy(&written, faults);
    let scope = key.as_ref().and_then(|key| key.exact);
    let numbers = kind::numbers(&written, scope, cost.as_ref(), nodes.as_deref(), faults);
    let exempt = exception::exempt(&limit.exempt, faults);
    let tiers = exception::tiers(&written, numbers.as_ref(), cost.as_ref(), faults);
    let (mode, enforced) = action::mode(&written, mode, faults);
    let action = action::action(&written, deferred, faults);
    let kind = numbers.as_ref().map(|numbers| &numbers.kind);
    let shared = shared::shared(&written, kind, tiers.as_deref(), action.as_ref(), stores, faults);
    let (key, numbers) = (key?, numbers?);
    let ban = ban::ban(&written, &numbers.kind, &key.spec, faults)?;
    let rule = Rule {
        renamed_from: limit.renamed_from.value().map(|name| name.0.clone()),
        since: limit.since.value().map(|day| day.0),
        by_origin: key.by_origin,
        accuracy: limit.accuracy.value().and_then(memory::accuracy),
        of: of?,
        nodes: nodes?.into_iter().map(|(key, _)| key).collect(),
        cost: numbers.bytes.map_or(cost, Some)?,
        counted: counted?,
        preflights: limit.preflights.value().copied().unwrap_or(Preflights::Apart),
        enforced,
        exempt: exempt?,
        tiers: tiers?,
        action: action?,
        shared: shared?,
        ban,
        ..Rule::new(name, key.spec, numbers.kind, mode)
    };
    Some(Compiled { rule, instead: key.instead })
}
