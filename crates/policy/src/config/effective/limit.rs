//! A limit in its long form.

use http::Method;

use super::answer::own_answer;
use super::words::{key, reserved, word};
use crate::client::ban_terms::BanTerms;
use crate::client::key::{KeyPart, KeySpec};
use crate::config::day::Day;
use crate::config::scalar::{duration, percent};
use crate::config::tree::Tree;
use crate::limiter::kinds::Value;
use crate::limiter::sharing::Sharing;
use crate::limiter::{RefusedCount, Scope};
use crate::policy::{Condition, CostRule, Counted, Mode, OnLimit, Policy, Preflights, Rule, Tier};
use crate::units::amount::{amount_text, rate_text};
use crate::units::{Bytes, Cost, Share, Weekday};

/// The limit, with the names of those that it refers to.
pub fn limit(rule: &Rule, policy: &Policy) -> Tree {
    let mut tree = vec![("type", Tree::text(rule.kind.word()))];
    tree.push(("key", counted_by(rule)));
    tree.extend(missing(rule, policy).map(|missing| ("missing", missing)));
    tree.extend(rule.of.iter().map(|of| ("of", key(of))));
    let by_address = rule.key.parts().iter().any(|part| matches!(part, KeyPart::ClientIp { .. }));
    let settings = rule.kind.settings().into_iter().filter(|(word, _)| *word != "networks" || by_address);
    tree.extend(settings.map(|(word, value)| (word, setting(value, rule))));
    tree.extend(rule.kind.sketch().map(|(_, memory)| size(rule, memory)));
    cost(rule, &mut tree);
    if rule.preflights == Preflights::Count {
        tree.push(("preflights", word(&rule.preflights)));
    }
    tree.push(("mode", word::<Mode>(&rule.mode)));
    // what is counted exactly has no keys to choose from
    if rule.mode == Mode::Enforce && (rule.kind.sketch().is_some() || rule.kind.has_nodes()) {
        tree.push(("enforce", share(rule.enforced)));
    }
    if !rule.exempt.is_empty() {
        tree.push(("exempt", Tree::List(rule.exempt.iter().map(condition).collect())));
    }
    if !rule.tiers.is_empty() {
        tree.push(("tiers", Tree::List(rule.tiers.iter().map(|one| tier(one, rule)).collect())));
    }
    tree.push(("action", action(&rule.action)));
    tree.extend(rule.ban.as_ref().map(|terms| ("ban", ban(terms))));
    let response = own_answer(&rule.response);
    if !response.is_empty() {
        tree.push(("response", response));
    }
    if let Some((shared, store)) = rule.shared.and_then(|shared| Some((shared, policy.store(shared.store)?))) {
        tree.push(("store", Tree::text(&store.name)));
        tree.push(("sharing", word(&shared.sharing)));
        if shared.sharing != Sharing::Estimate {
            tree.push(("on_store_error", word(&shared.on_store_error)));
        }
    }
    tree.extend(rule.since.map(|since| ("since", Tree::text(Day(since)))));
    tree.extend(rule.renamed_from.iter().map(|name| ("renamed_from", Tree::text(name))));
    Tree::map(tree)
}

/// The key's parts, the origin last.
fn counted_by(rule: &Rule) -> Tree {
    let origin = || Tree::text("origin");
    if rule.kind.scope() == Some(Scope::Origin) {
        return Tree::List(vec![origin()]);
    }
    let mut parts: Vec<Tree> = rule.key.parts().iter().map(Tree::text).collect();
    if rule.by_origin {
        // `origin` alone stands beside one key for all, but where that would be the exact count
        if rule.key.parts() == [KeyPart::Global] && rule.kind.scope().is_none() {
            parts.clear();
        }
        parts.push(origin());
    }
    Tree::List(parts)
}

fn missing(rule: &Rule, policy: &Policy) -> Option<Tree> {
    // who lacks it is held together with all others who do
    if rule.kind.has_nodes() {
        return None;
    }
    let can_be_missing = |key: &KeySpec| key.parts().iter().any(KeyPart::can_be_missing);
    if !can_be_missing(&rule.key) && !rule.of.as_ref().is_some_and(can_be_missing) {
        return None;
    }
    match rule.instead.and_then(|other| policy.rules.get(other)) {
        Some(other) => Some(Tree::map([("use", Tree::text(&other.name))])),
        None => Some(word(&rule.key.missing())),
    }
}

/// One number as it stands in the file.
fn setting(value: Value, rule: &Rule) -> Tree {
    match value {
        Value::Rate(rate) => Tree::text(rate_text(rate, unit(rule))),
        Value::Amount(amount) => Tree::text(amount_text(amount, unit(rule))),
        Value::Number(number) => Tree::text(number),
        Value::Duration(span) => Tree::text(duration(span)),
        Value::Flag(flag) => Tree::text(flag),
        Value::Calendar(part) => Tree::text(part.word()),
        Value::Weekday(day) => word::<Weekday>(&day),
        Value::Zone(zone) => Tree::text(zone.name()),
        Value::Size(size) => Tree::text(size),
        // no kind has them among its own numbers
        Value::LongRate { .. } | Value::ByteRate { .. } => Tree::text(""),
        Value::Share(part) => share(part),
        Value::Networks(networks) => {
            Tree::map(networks.iter().map(|(length, clients)| (length.to_string(), Tree::text(clients))))
        }
        Value::Classes(shares) => reserved(&shares),
    }
}

/// The size of the sketch, as the operator said it.
fn size(rule: &Rule, memory: Bytes) -> (&'static str, Tree) {
    match rule.accuracy {
        None => ("memory", Tree::text(memory)),
        Some(accuracy) => {
            ("accuracy", Tree::map([("error", share(accuracy.error)), ("confidence", share(accuracy.confidence))]))
        }
    }
}

/// `cost` and `count`, where the type has them.
fn cost(rule: &Rule, tree: &mut Vec<(&'static str, Tree)>) {
    let number = |cost: Cost| Tree::text(cost.get());
    match &rule.cost {
        _ if !rule.kind.form().takes("cost") => {}
        CostRule::Bytes { .. } => {}
        CostRule::Fixed(cost) => tree.push(("cost", number(*cost))),
        CostRule::ByMethod { methods, other } => {
            let methods = methods.iter().map(|(method, cost): &(Method, Cost)| (method.to_string(), number(*cost)));
            tree.push(("cost", Tree::map(methods.chain([("other".to_owned(), number(*other))]))));
        }
        CostRule::Response { header, estimate, max } => {
            tree.push(("cost", Tree::text(format!("response:{header}"))));
            tree.push(("cost_estimate", number(*estimate)));
            tree.extend(max.map(|max| ("cost_max", number(max))));
        }
    }
    match (&rule.counted, rule.kind.refused()) {
        (Counted::Responses(statuses), _) => tree.push(("count", Tree::text(format!("responses {statuses}")))),
        (_, Some(RefusedCount::All { .. })) => tree.push(("count", Tree::text("all"))),
        (_, Some(RefusedCount::Admitted)) => tree.push(("count", Tree::text("admitted"))),
        (_, None) => {}
    }
}

fn unit(rule: &Rule) -> Option<u32> {
    if let CostRule::Bytes { unit } = rule.cost { Some(unit) } else { None }
}

fn share(share: Share) -> Tree {
    Tree::text(percent(share.get()))
}

pub fn condition(condition: &Condition) -> Tree {
    let mut tree = Vec::new();
    if !condition.networks.is_empty() {
        tree.push(("cidr", Tree::texts(&condition.networks)));
    }
    if !condition.headers.is_empty() {
        let fields = condition.headers.iter().map(|(name, value)| (name.as_str(), Tree::text(value)));
        tree.push(("header", Tree::map(fields)));
    }
    Tree::map(tree)
}

/// A tier with all of its numbers, those too that it has from its limit.
fn tier(tier: &Tier, rule: &Rule) -> Tree {
    let mut tree = vec![("when", condition(&tier.when))];
    match &tier.kind {
        None => tree.push(("exempt", Tree::text(true))),
        Some(kind) => {
            let own = kind.settings().into_iter().filter(|(word, _)| kind.form().takes_in_tier(word));
            tree.extend(own.map(|(word, value)| (word, setting(value, rule))));
        }
    }
    Tree::map(tree)
}

fn ban(terms: &BanTerms) -> Tree {
    let BanTerms { after, first, longest, forgive, .. } = terms;
    let spans = [("for", first), ("max", longest), ("forgive", forgive)]
        .map(|(word, span)| (word, Tree::text(duration(*span))));
    Tree::map([("after", Tree::text(after))].into_iter().chain(spans))
}

fn action(action: &OnLimit) -> Tree {
    match action {
        OnLimit::Reject => Tree::text("reject"),
        OnLimit::Close => Tree::text("close"),
        OnLimit::Delay { max } => Tree::map([("delay", Tree::map([("max", Tree::text(duration(*max)))]))]),
        OnLimit::Tag { header } => Tree::map([("tag", Tree::map([("header", Tree::text(header))]))]),
    }
}
