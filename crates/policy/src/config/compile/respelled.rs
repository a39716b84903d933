//! Warns of limits that a client escapes by writing its key in another way, or not at all.

use http::header::AUTHORIZATION;

use crate::client::key::{KeyPart, Missing};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::span::Span;
use crate::policy::{Mode, OnLimit, Policy, Rule};

/// Warns of each enforced limit that counts by nothing but what a stranger writes, where no other limit of a route counts who is
/// asking. `places` are those of the policy's limits.
pub fn warn(policy: &Policy, places: &[Span], faults: &mut Faults) {
    for (index, (rule, at)) in policy.rules.iter().zip(places).enumerate() {
        let Some((part, escape)) = escape(rule) else { continue };
        let uncounted = policy.routes.iter().find(|route| {
            let others = route.rules.iter().filter(|other| **other != index);
            let mut others = others.filter_map(|other| policy.rules.get(*other));
            route.rules.contains(&index) && !others.any(|other| counts_who_asks(other) || denies(other, part, rule))
        });
        let Some(route) = uncounted else { continue };
        faults.push(
            Diagnostic::new(Code::FREE_KEY, *at, format!("a client escapes the limit `{}` {escape}", rule.name))
                .label(format!("no limit of the route `{}` counts by `client_ip`", route.name))
                .help("add a limit by `client_ip` beside it, such as `limits: [THIS, 20/s burst 40]`"),
        );
    }
}

/// By which part of its key a client escapes a limit, and how; `None` if there is no such way that shows in the policy.
fn escape(rule: &Rule) -> Option<(&KeyPart, String)> {
    let refuses = matches!(rule.action, OnLimit::Reject | OnLimit::Close | OnLimit::Delay { .. });
    if rule.mode == Mode::Shadow || !refuses || counts_who_asks(rule) {
        return None;
    }
    let parts = rule.key.parts();
    if let Some(part) = parts.iter().find(|part| is_written(part))
        && rule.key.missing() == Missing::Allow
        && rule.instead.is_none()
    {
        return Some((part, format!("by leaving `{part}` out")));
    }
    let part = parts.iter().find(|part| matches!(part, KeyPart::Header(name) if *name == AUTHORIZATION))?;
    Some((part, "by writing `Bearer` as `bearer`".to_owned()))
}

/// Whether another limit refuses requests that escape this one, as they lack what it counts by too.
fn denies(other: &Rule, part: &KeyPart, escaped: &Rule) -> bool {
    let refuses = other.mode == Mode::Enforce && other.enforced.get() >= 1.0 && other.key.missing() == Missing::Deny;
    escaped.key.missing() == Missing::Allow && refuses && other.key.parts().contains(part)
}

/// Whether a client writes it into its request.
fn is_written(part: &KeyPart) -> bool {
    matches!(part, KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_))
}

/// Whether it counts by something that a client cannot choose.
fn counts_who_asks(rule: &Rule) -> bool {
    let mut parts = rule.nodes.iter().chain([&rule.key]).flat_map(|key| key.parts());
    // a request without the value that `distinct` counts is not counted at all
    let always = rule.of.as_ref().is_none_or(|of| of.missing() == Missing::Deny);
    rule.mode == Mode::Enforce && always && parts.any(|part| matches!(part, KeyPart::ClientIp { .. }))
}
