//! A limit in its long form.

use http::Method;

use super::words::{key, word};
use crate::client::key::{KeyPart, KeySpec};
use crate::config::day::Day;
use crate::config::limit_value::{amount_text, rate_text};
use crate::config::scalar::{duration, percent};
use crate::config::tree::Tree;
use crate::limiter::cluster::Sharing;
use crate::limiter::{Capacity, Kind, RefusedCount, Scope};
use crate::policy::{Condition, CostRule, Counted, Mode, OnLimit, Policy, Rule, Tier};
use crate::units::{Bytes, CalendarUnit, Cost, Period, Share, Weekday};

/// The limit, with the names of those that it refers to.
pub fn limit(rule: &Rule, policy: &Policy) -> Tree {
    let mut tree = vec![("type", Tree::text(rule.kind.word()))];
    if !matches!(rule.kind, Kind::FairShare { .. }) {
        tree.push(("key", counted_by(rule)));
    }
    tree.extend(missing(rule, policy).map(|missing| ("missing", missing)));
    tree.extend(rule.of.iter().map(|of| ("of", key(of))));
    numbers(rule, policy, &mut tree);
    cost(rule, &mut tree);
    tree.push(("mode", word::<Mode>(&rule.mode)));
    // what is counted exactly has no keys to choose from
    if rule.mode == Mode::Enforce && !is_exact(&rule.kind) {
        tree.push(("enforce", share(rule.enforced)));
    }
    if !rule.exempt.is_empty() {
        tree.push(("exempt", Tree::List(rule.exempt.iter().map(condition).collect())));
    }
    if !rule.tiers.is_empty() {
        tree.push(("tiers", Tree::List(rule.tiers.iter().map(|one| tier(one, unit(rule))).collect())));
    }
    tree.push(("action", action(&rule.action)));
    if let Some((shared, store)) = rule.shared.and_then(|shared| Some((shared, policy.stores.get(shared.store)?))) {
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
    if let Kind::Inflight { scope: Scope::Origin, .. } = rule.kind {
        return Tree::List(vec![origin()]);
    }
    let mut parts: Vec<Tree> = rule.key.parts().iter().map(Tree::text).collect();
    if rule.by_origin {
        // `origin` alone stands beside one key for all; of `inflight` that would be the exact count
        if rule.key.parts() == [KeyPart::Global] && !matches!(rule.kind, Kind::Inflight { .. }) {
            parts.clear();
        }
        parts.push(origin());
    }
    Tree::List(parts)
}

fn missing(rule: &Rule, policy: &Policy) -> Option<Tree> {
    let can_be_missing = |key: &KeySpec| key.parts().iter().any(KeyPart::can_be_missing);
    if !can_be_missing(&rule.key) && !rule.of.as_ref().is_some_and(can_be_missing) {
        return None;
    }
    match rule.instead.and_then(|other| policy.rules.get(other)) {
        Some(other) => Some(Tree::map([("use", Tree::text(&other.name))])),
        None => Some(word(&rule.key.missing())),
    }
}

fn numbers(rule: &Rule, policy: &Policy, tree: &mut Vec<(&'static str, Tree)>) {
    match &rule.kind {
        Kind::Rate { rate, burst, memory } => {
            tree.push(("rate", Tree::text(rate_text(*rate, unit(rule)))));
            tree.push(("burst", Tree::text(amount_text(*burst, unit(rule)))));
            tree.push(size(rule, *memory));
        }
        Kind::Quota { max, window: Period::Calendar(calendar), memory, .. } => {
            tree.push(("max", Tree::text(max)));
            tree.push(("per", Tree::text(calendar.unit.word())));
            if let CalendarUnit::Week { starts } = calendar.unit {
                tree.push(("week_starts", word::<Weekday>(&starts)));
            }
            tree.push(("time_zone", Tree::text(calendar.zone.name())));
            tree.push(size(rule, *memory));
        }
        Kind::Quota { max, window: Period::Length(window), sliding, memory }
        | Kind::Distinct { max, window, sliding, memory, .. } => {
            tree.push(("max", Tree::text(max)));
            tree.push(("window", Tree::text(duration(*window))));
            tree.push(("sliding", Tree::text(sliding)));
            tree.extend(max_penalty(rule.kind.refused()));
            tree.push(size(rule, *memory));
        }
        Kind::RecentAverage { rate, half_life, refused, memory } => {
            tree.push(("rate", Tree::text(rate)));
            tree.push(("half_life", Tree::text(duration(*half_life))));
            tree.extend(max_penalty(*refused));
            tree.push(size(rule, *memory));
        }
        Kind::FairShare { capacity, multipliers, levels, charge_parents, memory } => {
            let capacity = match capacity {
                Capacity::Rate(rate) => rate.to_string(),
                Capacity::Origin(origin) => {
                    format!("origin:{}", policy.origins.get(*origin).map_or("", |origin| origin.name.as_str()))
                }
            };
            tree.push(("capacity", Tree::text(capacity)));
            let nodes = rule.nodes.iter().zip(multipliers.iter().zip(levels)).map(|(node, (multiplier, level))| {
                let numbers = [("multiplier", Tree::text(multiplier)), ("level", Tree::text(level))];
                Tree::map([("key", key(node))].into_iter().chain(numbers))
            });
            tree.push(("nodes", Tree::List(nodes.collect())));
            tree.push(("charge_parents", Tree::text(charge_parents)));
            tree.push(size(rule, *memory));
        }
        Kind::Inflight { max, upgraded, scope } => {
            tree.push(("max", Tree::text(max)));
            tree.push(("upgraded", Tree::text(upgraded)));
            if let Scope::Key { memory } = scope {
                tree.push(size(rule, *memory));
            }
        }
    }
}

/// How long refused requests can keep a key out, if they count.
fn max_penalty(refused: RefusedCount) -> Option<(&'static str, Tree)> {
    match refused {
        RefusedCount::All { max_penalty } => Some(("max_penalty", Tree::text(duration(max_penalty)))),
        RefusedCount::Admitted => None,
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
        _ if matches!(rule.kind, Kind::Distinct { .. } | Kind::FairShare { .. } | Kind::Inflight { .. }) => {}
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
    match (&rule.counted, &rule.kind) {
        (Counted::Responses(statuses), _) => tree.push(("count", Tree::text(format!("responses {statuses}")))),
        (_, Kind::RecentAverage { refused, .. } | Kind::Distinct { refused, .. }) => {
            let all = matches!(refused, RefusedCount::All { .. });
            tree.push(("count", Tree::text(if all { "all" } else { "admitted" })));
        }
        _ => {}
    }
}

fn unit(rule: &Rule) -> Option<u32> {
    if let CostRule::Bytes { unit } = rule.cost { Some(unit) } else { None }
}

fn is_exact(kind: &Kind) -> bool {
    matches!(kind, Kind::Inflight { scope: Scope::Global | Scope::Route | Scope::Origin, .. })
}

fn share(share: Share) -> Tree {
    Tree::text(percent(share.get()))
}

fn condition(condition: &Condition) -> Tree {
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
fn tier(tier: &Tier, unit: Option<u32>) -> Tree {
    let mut tree = vec![("when", condition(&tier.when))];
    match &tier.kind {
        None => tree.push(("exempt", Tree::text(true))),
        Some(Kind::Rate { rate, burst, .. }) => {
            tree.push(("rate", Tree::text(rate_text(*rate, unit))));
            tree.push(("burst", Tree::text(amount_text(*burst, unit))));
        }
        Some(Kind::RecentAverage { rate, .. }) => tree.push(("rate", Tree::text(rate))),
        Some(Kind::Quota { max, .. } | Kind::Distinct { max, .. } | Kind::Inflight { max, .. }) => {
            tree.push(("max", Tree::text(max)));
        }
        // has no tiers
        Some(Kind::FairShare { .. }) => {}
    }
    Tree::map(tree)
}

fn action(action: &OnLimit) -> Tree {
    match action {
        OnLimit::Reject => Tree::text("reject"),
        OnLimit::Close => Tree::text("close"),
        OnLimit::Delay { max } => Tree::map([("delay", Tree::map([("max", Tree::text(duration(*max)))]))]),
        OnLimit::Tag { header } => Tree::map([("tag", Tree::map([("header", Tree::text(header))]))]),
    }
}
