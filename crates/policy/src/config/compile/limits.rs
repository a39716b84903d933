//! `limits` and the unnamed limits of routes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::checks::number32;
use super::context::Context;
use super::limit;
use super::limit::kind::report;
use super::origins::Origins;
use super::responses;
use super::stores::Stores;
use crate::client::key::{KeyPart, KeySpec, Missing};
use crate::config::dated::Shadow;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_text::LimitText;
use crate::config::nearest::nearest;
use crate::config::read::{At, Field};
use crate::config::scalar::Count;
use crate::config::schema::{Limit, RouteInflight};
use crate::config::shape::{Either, Keyed};
use crate::config::span::Span;
use crate::config::text::Name;
use crate::limiter::kinds::words::{Entries, Entry};
use crate::limiter::kinds::{Value, Words};
use crate::limiter::{Kind, Scope, kinds};
use crate::policy::{Mode, Rule};

/// All limits, as they are found.
pub struct Limits {
    mode: Mode,
    rules: Vec<Rule>,
    /// Where each of them is written.
    places: Vec<Span>,
    named: Vec<Named>,
    /// Those in shadow that say since when.
    shadows: Vec<Shadow>,
    /// Where a name stands in `named`: a file may have a thousand limits, and as many routes that look for them.
    by_name: HashMap<String, usize>,
    /// The names of all rules and of `named`.
    taken: HashSet<String>,
}

/// A limit of `limits`.
struct Named {
    name: String,
    at: Span,
    /// `None`: it has faults of its own, or does nothing.
    rule: Option<usize>,
    /// Whether it does nothing, as an origin does its work.
    idle: bool,
    used: bool,
}

impl Limits {
    /// Reads the section `limits`.
    pub fn named(
        section: &Field<Keyed<Name, Limit>>,
        mode: Mode,
        origins: &mut Origins,
        stores: &mut Stores,
        faults: &mut Faults,
    ) -> Limits {
        let mut limits = Limits {
            mode,
            rules: Vec::new(),
            places: Vec::new(),
            named: Vec::new(),
            shadows: Vec::new(),
            by_name: HashMap::new(),
            taken: HashSet::new(),
        };
        let mut others: Vec<(usize, At<Name>)> = Vec::new();
        for entry in section.value().iter().flat_map(|map| &map.0) {
            let mut idle = false;
            let compiled = match (&entry.key, &entry.value) {
                (Some(name), Some(limit)) if limit::is_origins_own(&limit.value) => {
                    limit::origins_own(&name.0, entry.key_span, &limit.value, origins, faults);
                    idle = true;
                    None
                }
                (Some(name), Some(limit)) => limit::limit(&name.0, entry.key_span, &limit.value, mode, stores, faults),
                _ => None,
            };
            let rule = compiled.map(|compiled| {
                let since = entry.value.as_ref().and_then(|limit| limit.value.since.get());
                if let Some(since) = since.filter(|_| compiled.rule.mode == Mode::Shadow) {
                    let (limit, since, at) = (compiled.rule.name.clone(), since.value.0, since.span);
                    limits.shadows.push(Shadow { limit, at, since });
                }
                let index = limits.add(compiled.rule, entry.key_span);
                others.extend(compiled.instead.map(|name| (index, name)));
                index
            });
            // a name that is none cannot be used, and is not told to be unused as well
            let used = entry.key.is_none();
            limits.by_name.entry(entry.name.clone()).or_insert(limits.named.len());
            limits.taken.insert(entry.name.clone());
            limits.named.push(Named { name: entry.name.clone(), at: entry.key_span, rule, idle, used });
        }
        limits.check_renamed(section, faults);
        let handing_on: Vec<usize> = others.iter().map(|(rule, _)| *rule).collect();
        for (rule, name) in others {
            let other = limits.other(rule, &name, &handing_on, faults);
            if let Some(rule) = limits.rules.get_mut(rule) {
                rule.instead = other;
            }
        }
        limits
    }

    /// Reads what limits say of the answers to requests that they refuse.
    pub fn add_responses(&mut self, section: &Field<Keyed<Name, Limit>>, context: &mut Context<'_>) {
        for entry in section.value().iter().flat_map(|map| &map.0) {
            let Some(limit) = &entry.value else { continue };
            let response = responses::refusal(&limit.value.response, context);
            let named = self.by_name.get(&entry.name).and_then(|place| self.named.get(*place));
            if let Some(rule) = named.and_then(|named| named.rule).and_then(|rule| self.rules.get_mut(rule)) {
                rule.response = response;
            }
        }
    }

    /// Reports limits that go on from one that is still there, or that two go on from.
    fn check_renamed(&self, section: &Field<Keyed<Name, Limit>>, faults: &mut Faults) {
        let mut known: Vec<(&str, Span)> = Vec::new();
        for limit in section.value().iter().flat_map(|map| &map.0).filter_map(|entry| entry.value.as_ref()) {
            let Some(from) = limit.value.renamed_from.get() else { continue };
            let name = from.value.0.as_str();
            let still = self.named.iter().find(|named| named.name == name).map(|named| (named.at, "by this limit"));
            let twice = known.iter().find(|(other, _)| *other == name).map(|(_, at)| (*at, "already said here"));
            if let Some((place, why)) = still.or(twice) {
                faults.push(
                    Diagnostic::error(Code::CONFLICT, from.span, format!("the name {} is taken", from.shown))
                        .label("only one limit can go on from another")
                        .related(place, why),
                );
            }
            known.push((name, from.span));
        }
    }

    /// The limit that is asked instead of the one at `rule`; `None` when it cannot be, which is then told.
    fn other(&mut self, rule: usize, name: &At<Name>, handing_on: &[usize], faults: &mut Faults) -> Option<usize> {
        let found = self.find("limit", &name.with(name.value.0.clone()), faults);
        let idle =
            self.by_name.get(&name.value.0).and_then(|place| self.named.get(*place)).is_some_and(|named| named.idle);
        let other = if idle { rule } else { found? };
        let why = if idle {
            "that limit does nothing"
        } else if other == rule {
            "a limit cannot be asked instead of itself"
        } else if handing_on.contains(&other) {
            "that limit hands on requests itself"
        } else {
            let kind = &self.rules.get(other)?.kind;
            match kind.form().no_stand_in {
                Some(why) => why,
                None if kind.sketch().is_none() => "that limit is counted exactly, and belongs to the route itself",
                None => return Some(other),
            }
        };
        faults.push(
            Diagnostic::error(Code::CONFLICT, name.span, format!("{} cannot be asked instead", name.shown)).label(why),
        );
        None
    }

    /// Tells whether the rule at this position judges by nodes.
    pub fn has_nodes(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.kind.has_nodes())
    }

    /// The rule at this position.
    pub fn rule(&self, index: usize) -> Option<&Rule> {
        self.rules.get(index)
    }

    /// Those in shadow that say since when.
    pub fn shadows(&self) -> Vec<Shadow> {
        self.shadows.clone()
    }

    /// Where the rules are written, in the same order.
    pub fn places(&self) -> &[Span] {
        &self.places
    }

    /// The rules, in the order of [`crate::policy::Policy::rules`].
    pub fn rules(self) -> Vec<Arc<Rule>> {
        self.rules.into_iter().map(Arc::new).collect()
    }

    /// The limit that a route or another limit names; `None` when there is none or it has faults, which have been told.
    pub fn find(&mut self, who: &str, name: &At<String>, faults: &mut Faults) -> Option<usize> {
        if let Some(named) = self.by_name.get(&name.value).and_then(|place| self.named.get_mut(*place)) {
            named.used = true;
            return named.rule;
        }
        let near = nearest(&name.value, self.named.iter().map(|named| named.name.as_str())).filter(|_| !name.masked);
        let mut fault = Diagnostic::error(
            Code::UNKNOWN_LIMIT,
            name.span,
            format!("{who} refers to an unknown limit {}", name.shown),
        )
        .label("no limit has this name")
        .nearest(near);
        let near = near.map(str::to_owned);
        match near.and_then(|near| self.named.iter_mut().find(|named| named.name == near)) {
            Some(named) => {
                // most likely meant, so it is not told to be unused as well
                named.used = true;
                fault = fault.related(named.at, "a similar limit is defined here");
            }
            None if who == "route" => {
                fault = fault.help("define it under `limits:`, or write a limit such as `50/s burst 100`");
            }
            None => fault = fault.help("define it under `limits:`"),
        }
        faults.push(fault);
        None
    }

    /// The unnamed limit that a route writes as a text.
    pub fn inline(&mut self, route: &str, text: &At<LimitText>, faults: &mut Faults) -> Option<usize> {
        let limit = &text.value;
        let parts = vec![limit.key.clone().unwrap_or(KeyPart::CLIENT_IP)];
        let can_be_missing = parts.iter().any(KeyPart::can_be_missing);
        if can_be_missing && limit.missing.is_none() {
            faults.push(
                Diagnostic::new(
                    Code::KEYLESS_REFUSED,
                    text.span,
                    format!("{} refuses requests without its key", text.shown),
                )
                .label("a client must not escape a limit by leaving something out")
                .help("say `missing deny` if that is meant, or `missing allow`"),
            );
        }
        if !can_be_missing && limit.missing.is_some() {
            faults.push(
                Diagnostic::error(Code::CONFLICT, text.span, "`missing` beside a key that every request has")
                    .label("only headers, cookies, parameters and `tls_sni` can be missing"),
            );
        }
        let missing = limit.missing.or(Some(Missing::Deny));
        let key = KeySpec::new(parts, missing.filter(|_| can_be_missing)).ok()?;
        let value = |value| Entry::Set { value, shown: "the burst".to_owned() };
        let burst = limit.burst.map(|burst| ("burst", value(Value::Amount(burst))));
        let entries: Entries = [("rate", value(Value::Rate(limit.rate)))].into_iter().chain(burst).collect();
        let form = &kinds::Rate::FORM;
        let present = entries.iter().map(|(word, _)| *word).collect();
        let mut words = Words { limit: entries, present, memory: form.memory, ..Words::default() };
        let kind = (form.read)(&mut words);
        report(&mut words, |_| text.span, route, faults);
        let kind = kind?;
        let name = self.derived_name(route, "limit");
        Some(self.add(Rule::new(name, key, kind, limit.mode.unwrap_or(self.mode)), text.span))
    }

    /// The cap that a route writes as `inflight`.
    pub fn route_inflight(
        &mut self,
        route: &str,
        field: &Field<Either<Count, RouteInflight>>,
        faults: &mut Faults,
    ) -> Option<usize> {
        let at = field.get()?;
        let max = match &at.value {
            Either::Short(_) => {
                let number = at.with(if let Either::Short(count) = &at.value { *count } else { Count(1) });
                number32(&Field::Set { key: at.span, at: number }, 1..=u32::MAX, 1, faults)
            }
            Either::Long(long) => long.max().unwrap_or(1),
        };
        let key = KeySpec::new([KeyPart::Route], None).ok()?;
        let name = self.derived_name(route, "inflight");
        let kind = Kind::Inflight(kinds::Inflight { max, upgraded: max, scope: Scope::Route });
        Some(self.add(Rule::new(name, key, kind, self.mode), at.span))
    }

    /// The names of limits that are none for their faults, which have been told.
    pub fn broken(&self) -> Vec<String> {
        self.named.iter().filter(|named| named.rule.is_none() && !named.idle).map(|named| named.name.clone()).collect()
    }

    /// Warns of every limit that no route uses.
    pub fn warn_of_unused(&self, faults: &mut Faults) {
        for named in self.named.iter().filter(|named| !named.used) {
            faults.push(
                Diagnostic::new(Code::UNUSED_LIMIT, named.at, format!("no route uses the limit `{}`", named.name))
                    .label("not used")
                    .help("name it in a route's `limits:`, or remove it"),
            );
        }
    }

    fn add(&mut self, rule: Rule, at: Span) -> usize {
        self.taken.insert(rule.name.clone());
        self.places.push(at);
        self.rules.push(rule);
        self.rules.len() - 1
    }

    /// `ROUTE_limit`, `ROUTE_limit_2` and so on, within the length of names and unlike any other.
    fn derived_name(&self, route: &str, what: &str) -> String {
        (1..)
            .map(|nth| {
                let suffix = if nth == 1 { format!("_{what}") } else { format!("_{what}_{nth}") };
                let room = Name::MAX.saturating_sub(suffix.len());
                format!("{}{suffix}", route.get(..room).unwrap_or(route))
            })
            .find(|name| !self.taken.contains(name))
            .unwrap_or_default()
    }
}
