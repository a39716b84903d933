//! `tiers`: clients that stand for more than one, or matter more or less than others.

use super::limit::exception::{condition, warn_if_forgeable};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::Field;
use crate::config::schema;
use crate::config::shape::Keyed;
use crate::config::span::Span;
use crate::config::text::Name;
use crate::policy::ClientTier;
use crate::units::Criticality;

/// The tiers in the order of the file, each with its place.
pub fn tiers(field: &Field<Keyed<Name, schema::ClientTier>>, faults: &mut Faults) -> Vec<(ClientTier, Span)> {
    let Some(at) = field.get() else { return Vec::new() };
    let entries = &at.value.0;
    if let Some(beyond) = entries.get(ClientTier::MOST) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, beyond.key_span, format!("{} tiers", entries.len()))
                .label(format!("allowed are {}", ClientTier::MOST)),
        );
    }
    let mut tiers = Vec::with_capacity(entries.len());
    for entry in entries {
        let (Some(name), Some(at)) = (&entry.key, &entry.value) else { continue };
        let own = &at.value;
        let when = own.when.get().and_then(|when| condition(when.span, &when.value, faults));
        if !own.weight.is_present() && !own.criticality.is_present() {
            faults.push(
                Diagnostic::error(Code::MISSING_FIELD, entry.key_span, "a tier that changes nothing")
                    .label("needs `weight` or `criticality`"),
            );
        }
        let (weight, criticality) = (own.weight(), own.criticality.value().copied());
        let gains = weight > 1 || criticality.is_some_and(|word| word <= Criticality::Default);
        if gains {
            warn_if_forgeable(when.as_ref(), entry.key_span, "is of this tier", faults);
        }
        tiers.extend(when.map(|when| (ClientTier { name: name.0.clone(), when, weight, criticality }, at.span)));
    }
    tiers
}
