//! Warns of fields that decide something although no client may tell them.

use std::collections::BTreeSet;

use http::HeaderName;

use super::WrittenRoute;
use crate::client::trust::X_FORWARDED_PROTO;
use crate::client::{ClientRules, Trust};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::settings::Settings;
use crate::config::span::Span;
use crate::policy::Policy;
use crate::policy::fields::read_by;

/// Warns of each limit, tier and match that reads a field which is always taken out before it is judged. `limits` are the places of the
/// policy's limits, `tiers` those of its tiers of clients.
pub fn warn(
    policy: &Policy,
    settings: &Settings,
    (limits, tiers): (&[Span], &[Span]),
    routes: &[WrittenRoute],
    faults: &mut Faults,
) {
    let untold = |names: &mut dyn Iterator<Item = &HeaderName>| -> BTreeSet<String> {
        let untold = names.filter(|name| is_untold(&policy.clients, settings, name));
        untold.map(ToString::to_string).collect()
    };
    for (rule, at) in policy.rules.iter().zip(limits) {
        for name in untold(&mut read_by(rule)) {
            faults.push(fault(&name, *at, &format!("the limit `{}`", rule.name)));
        }
    }
    for (tier, at) in policy.tiers.iter().zip(tiers) {
        for name in untold(&mut tier.when.headers.iter().map(|(name, _)| name)) {
            faults.push(fault(&name, *at, &format!("the tier `{}`", tier.name)));
        }
    }
    for (route, written) in policy.routes.iter().zip(routes) {
        for (asked, at) in route.matches.iter().zip(&written.alternatives) {
            for name in untold(&mut asked.headers.iter().map(|(name, _)| name)) {
                faults.push(fault(&name, *at, &format!("the route `{}`", route.name)));
            }
        }
    }
}

fn fault(name: &str, at: Span, reader: &str) -> Diagnostic {
    Diagnostic::new(Code::UNTOLD_FIELD, at, format!("{reader} reads `{name}`, which no client may send"))
        .label("taken out before the request is judged, so it is never there")
        .help("list the proxies that write it in `trusted_proxies`, or count and match by something else")
}

/// Whether a field is taken out whoever sends it, and not written by the gate itself.
fn is_untold(rules: &ClientRules, settings: &Settings, name: &HeaderName) -> bool {
    let trusts = match &rules.trust {
        Trust::Off | Trust::Hops { hops: 0, .. } => false,
        Trust::Hops { from, .. } | Trust::Proxies(from) => !from.is_empty(),
    };
    let mut tls = settings.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let is_own = match name.as_str() {
        "client-cert" => tls.any(|tls| tls.client_certificates.is_some()),
        _ => name == X_FORWARDED_PROTO && tls.next().is_some(),
    };
    !is_own && rules.may_not_tell(trusts, name.as_str())
}
