//! `limits` and the unnamed limits of routes.

use std::sync::Arc;

use super::{checked32, number32, out_of_place};
use crate::client::key::{KeyFault, KeyPart, KeySpec, Missing};
use crate::config::fault::{Code, Diagnostic, Faults, nearest};
use crate::config::limit_text::{LimitKey, LimitText};
use crate::config::read::{At, Field};
use crate::config::scalar::Count;
use crate::config::schema::{Inflight, Limit};
use crate::config::shape::{Either, Keyed, OneOrMany};
use crate::config::source::Span;
use crate::config::text::Name;
use crate::config::word::LimitType;
use crate::limiter::{Kind, Scope};
use crate::policy::{Mode, Rule};
use crate::sketch::MonotoneTable;
use crate::sketch::meter::Bucket;
use crate::units::{Bytes, Cost, Rate};

/// The sizes that a sketch can have; beyond that it must be a power of two.
const MEMORY: std::ops::RangeInclusive<u64> = 4 << 10..=512 << 20;

/// All limits, as they are found.
pub struct Limits {
    mode: Mode,
    rules: Vec<Arc<Rule>>,
    named: Vec<Named>,
}

/// A limit of `limits`.
struct Named {
    name: String,
    at: Span,
    /// `None`: it has faults of its own.
    rule: Option<usize>,
    used: bool,
}

impl Limits {
    /// Reads the section `limits`.
    pub fn named(section: &Field<Keyed<Name, Limit>>, mode: Mode, faults: &mut Faults) -> Limits {
        let mut limits = Limits { mode, rules: Vec::new(), named: Vec::new() };
        for entry in section.value().iter().flat_map(|map| &map.0) {
            let rule = match (&entry.key, &entry.value) {
                (Some(name), Some(limit)) => limits.long(&name.0, entry.key_span, &limit.value, faults),
                _ => None,
            };
            let rule = rule.map(|rule| limits.add(rule));
            // a name that is none cannot be used, and is not told to be unused as well
            let used = entry.key.is_none();
            limits.named.push(Named { name: entry.name.clone(), at: entry.key_span, rule, used });
        }
        limits
    }

    /// The rules, in the order of [`crate::policy::Policy::rules`].
    pub fn rules(self) -> Vec<Arc<Rule>> {
        self.rules
    }

    /// The limit that a route names; `None` when there is none or it has faults, which have been told.
    pub fn find(&mut self, name: &At<String>, faults: &mut Faults) -> Option<usize> {
        if let Some(named) = self.named.iter_mut().find(|named| named.name == name.value) {
            named.used = true;
            return named.rule;
        }
        let near = nearest(&name.value, self.named.iter().map(|named| named.name.as_str())).filter(|_| !name.masked);
        let mut fault = Diagnostic::error(
            Code::UNKNOWN_LIMIT,
            name.span,
            format!("route refers to an unknown limit {}", name.shown),
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
            None => fault = fault.help("define it under `limits:`, or write a limit such as `50/s burst 100`"),
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
                    .label("only headers, cookies and parameters can be missing"),
            );
        }
        let missing = limit.missing.or(Some(Missing::Deny));
        let key = KeySpec::new(parts, missing.filter(|_| can_be_missing)).ok()?;
        let at = BucketPlaces { rate: text.span, burst: text.span, burst_is_own: limit.burst.is_some() };
        let burst = match limit.burst {
            None => None,
            Some(burst) => match u32::try_from(burst) {
                Ok(burst @ 1..) => Some(burst),
                _ => {
                    faults.push(
                        Diagnostic::error(Code::OUT_OF_RANGE, text.span, "the burst is out of range")
                            .label("must be 1 to 4294967295"),
                    );
                    return None;
                }
            },
        };
        let burst = bucket(limit.rate, burst, Cost::ONE, &at, faults)?;
        let kind = Kind::Rate { rate: limit.rate, burst, memory: MonotoneTable::DEFAULT_MEMORY };
        let name = self.derived_name(route, "limit");
        Some(self.add(Rule { name, key, kind, cost: Cost::ONE, mode: limit.mode.unwrap_or(self.mode) }))
    }

    /// The cap that a route writes as `inflight`.
    pub fn route_inflight(
        &mut self,
        route: &str,
        field: &Field<Either<Count, Inflight>>,
        faults: &mut Faults,
    ) -> Option<usize> {
        let at = field.get()?;
        let max = match &at.value {
            Either::Short(_) => {
                let number = at.with(if let Either::Short(count) = &at.value { *count } else { Count(1) });
                number32(&Field::Set { key: at.span, at: number }, 1..=u32::MAX, 1, faults)
            }
            Either::Long(long) => {
                if let Some(queue) = long.queue.get().filter(|queue| queue.value.0 > 0) {
                    faults.push(
                        Diagnostic::error(Code::OUT_OF_RANGE, queue.span, "a route has no queue")
                            .label("must be 0")
                            .help("give the origin an `inflight` with a `queue`"),
                    );
                }
                out_of_place(&long.queue_timeout, "`queue_timeout` without a queue", "a route has no queue", faults);
                number32(&long.max, 1..=u32::MAX, 1, faults)
            }
        };
        let key = KeySpec::new([KeyPart::Route], None).ok()?;
        let name = self.derived_name(route, "inflight");
        Some(self.add(Rule {
            name,
            key,
            kind: Kind::Inflight { max, scope: Scope::Route },
            cost: Cost::ONE,
            mode: self.mode,
        }))
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

    fn add(&mut self, rule: Rule) -> usize {
        self.rules.push(Arc::new(rule));
        self.rules.len() - 1
    }

    /// `ROUTE_limit`, `ROUTE_limit_2` and so on, within the length of names and unlike any other.
    fn derived_name(&self, route: &str, what: &str) -> String {
        let taken = |name: &str| {
            self.named.iter().any(|named| named.name == name) || self.rules.iter().any(|rule| rule.name == name)
        };
        (1..)
            .map(|nth| {
                let suffix = if nth == 1 { format!("_{what}") } else { format!("_{what}_{nth}") };
                let room = Name::MAX.saturating_sub(suffix.len());
                format!("{}{suffix}", route.get(..room).unwrap_or(route))
            })
            .find(|name| !taken(name))
            .unwrap_or_default()
    }

    /// A limit of `limits`.
    fn long(&self, name: &str, at: Span, limit: &Limit, faults: &mut Faults) -> Option<Rule> {
        let mode = limit.mode.value().copied().unwrap_or(self.mode);
        let name = name.to_owned();
        match (&limit.r#type, limit.r#type.value()) {
            (Field::Bad { .. }, _) => None,
            (_, Some(LimitType::Inflight)) => {
                for (present, field) in [
                    (limit.rate.key(), "rate"),
                    (limit.burst.key(), "burst"),
                    (limit.memory.key(), "memory"),
                    (limit.cost.key(), "cost"),
                ] {
                    if let Some(key) = present {
                        faults.push(
                            Diagnostic::error(
                                Code::CONFLICT,
                                key,
                                format!("`{field}` has no meaning for type `inflight`"),
                            )
                            .label("belongs to type `rate`"),
                        );
                    }
                }
                let scope = inflight_scope(limit, faults);
                if !limit.max.is_present() {
                    faults.push(missing_number(at, &name, "max"));
                }
                let max = number32(&limit.max, 1..=u32::MAX, 1, faults);
                limit.max.value()?;
                let scope = scope?;
                // the scope says where to count; a hash of the key is of no use then
                let part = if scope == Scope::Route { KeyPart::Route } else { KeyPart::Global };
                let key = KeySpec::new([part], None).ok()?;
                Some(Rule { name, key, kind: Kind::Inflight { max, scope }, cost: Cost::ONE, mode })
            }
            _ => {
                out_of_place(
                    &limit.max,
                    "`max` has no meaning for type `rate`",
                    "say `type: inflight`, or give a `rate`",
                    faults,
                );
                let key = rate_key(limit, at, &name, faults);
                if !limit.rate.is_present() && !limit.max.is_present() {
                    faults.push(missing_number(at, &name, "rate"));
                }
                let cost = Cost::new(number32(&limit.cost, 1..=u32::MAX, 1, faults)).unwrap_or(Cost::ONE);
                let memory = memory(&limit.memory, faults);
                let burst = checked32(&limit.burst, 1..=u32::MAX, faults);
                let rate = limit.rate.get()?;
                if limit.burst.is_present() && burst.is_none() {
                    return None;
                }
                let places = BucketPlaces {
                    rate: rate.span,
                    burst: limit.burst.get().map_or(rate.span, |burst| burst.span),
                    burst_is_own: burst.is_some(),
                };
                let burst = bucket(rate.value, burst, cost, &places, faults)?;
                Some(Rule { name, key: key?, kind: Kind::Rate { rate: rate.value, burst, memory }, cost, mode })
            }
        }
    }
}

fn missing_number(at: Span, name: &str, field: &str) -> Diagnostic {
    Diagnostic::error(Code::MISSING_FIELD, at, format!("limit `{name}` has no `{field}`"))
        .label(format!("needs `{field}`"))
}

/// Where faults of rate and burst are shown.
struct BucketPlaces {
    rate: Span,
    burst: Span,
    burst_is_own: bool,
}

/// The burst of a limit, checked together with its rate and cost; `None` when they do not go together.
fn bucket(rate: Rate, burst: Option<u32>, cost: Cost, at: &BucketPlaces, faults: &mut Faults) -> Option<u32> {
    // at least one request must fit, or the limit would refuse everything
    let second = rate.per_second().ceil().max(1.0) as u32;
    let burst = burst.unwrap_or(second.max(cost.get()));
    if burst < cost.get() {
        faults.push(
            Diagnostic::error(
                Code::BURST_BELOW_COST,
                at.burst,
                format!("a burst of {burst} cannot hold one request of cost {}", cost.get()),
            )
            .label(format!("must be {} or more", cost.get())),
        );
        return None;
    }
    if let Err(out) = Bucket::new(rate, burst) {
        let fault =
            Diagnostic::error(Code::OUT_OF_RANGE, at.burst, format!("a burst of {burst} at {rate} is out of range"))
                .label(out.to_string());
        faults.push(if at.rate == at.burst { fault } else { fault.related(at.rate, "with this rate") });
        return None;
    }
    if at.burst_is_own && f64::from(burst) < rate.per_second().floor() {
        faults.push(
            Diagnostic::new(
                Code::SMALL_BURST,
                at.burst,
                format!("a burst of {burst} is less than one second of {rate}"),
            )
            .label("requests that come together are refused below the rate")
            .help(format!("write {second} or more")),
        );
    }
    Some(burst)
}

fn memory(field: &Field<Bytes>, faults: &mut Faults) -> Bytes {
    let Some(at) = field.get() else { return MonotoneTable::DEFAULT_MEMORY };
    if at.value.0.is_power_of_two() && MEMORY.contains(&at.value.0) {
        return at.value;
    }
    let near = Bytes(at.value.0.clamp(*MEMORY.start(), *MEMORY.end()).next_power_of_two());
    let fault = Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} cannot be the size of a sketch", at.shown))
        .label("must be a power of two from 4KiB to 512MiB");
    faults.push(if at.masked { fault } else { fault.help(format!("write `{near}`")) });
    MonotoneTable::DEFAULT_MEMORY
}

/// What a limit of type `rate` counts by.
fn rate_key(limit: &Limit, at: Span, name: &str, faults: &mut Faults) -> Option<KeySpec> {
    let missing = limit.missing.value().copied();
    let Some(OneOrMany(list)) = limit.key.value() else {
        if limit.key.is_present() {
            return None;
        }
        needless_missing(limit, faults);
        return KeySpec::new([KeyPart::CLIENT_IP], None).ok();
    };
    if list.bad {
        return None;
    }
    let span = limit.key.get().map_or(at, |key| key.span);
    let mut parts: Vec<KeyPart> = Vec::with_capacity(list.items.len());
    for item in &list.items {
        match &item.value {
            LimitKey::Part(part) => parts.push(part.clone()),
            LimitKey::Origin => {
                faults.push(
                    Diagnostic::error(
                        Code::KEY_NOT_AVAILABLE,
                        item.span,
                        "limits of type `rate` cannot count by `origin`",
                    )
                    .label("belongs to type `inflight`"),
                );
                return None;
            }
        }
    }
    let can_be_missing = parts.iter().any(KeyPart::can_be_missing);
    if !can_be_missing {
        needless_missing(limit, faults);
    }
    match KeySpec::new(parts, missing.filter(|_| can_be_missing)) {
        Ok(key) => Some(key),
        // its own fault has been told
        Err(KeyFault::NoMissing(_)) if limit.missing.is_present() => None,
        Err(KeyFault::NoMissing(part)) => {
            faults.push(
                Diagnostic::error(
                    Code::NO_MISSING_RULE,
                    span,
                    format!("limit `{name}` does not say what happens without {part}"),
                )
                .label("a request may come without it")
                .help("add `missing: deny` (refuse it) or `missing: allow` (do not count it)"),
            );
            None
        }
        Err(KeyFault::Empty) => {
            faults.push(
                Diagnostic::error(Code::EMPTY_VALUE, span, "the key has no part").label("needs one, such as client_ip"),
            );
            None
        }
        Err(fault) => {
            faults.push(Diagnostic::error(Code::BAD_KEY, span, "these parts make no key").label(fault.to_string()));
            None
        }
    }
}

fn needless_missing(limit: &Limit, faults: &mut Faults) {
    out_of_place(
        &limit.missing,
        "`missing` beside a key that every request has",
        "remove it: only headers, cookies and parameters can be missing",
        faults,
    );
}

/// What a limit of type `inflight` counts together: things whose number is fixed here, so that every count is exact.
fn inflight_scope(limit: &Limit, faults: &mut Faults) -> Option<Scope> {
    needless_missing(limit, faults);
    let Some(OneOrMany(list)) = limit.key.value() else {
        return if limit.key.is_present() { None } else { Some(Scope::Global) };
    };
    match list.items.as_slice() {
        _ if list.bad => None,
        [one] if one.value == LimitKey::Origin => Some(Scope::Origin),
        [one] if one.value == LimitKey::Part(KeyPart::Route) => Some(Scope::Route),
        [one] if one.value == LimitKey::Part(KeyPart::Global) => Some(Scope::Global),
        _ => {
            let span = limit.key.get().map(|key| key.span).unwrap_or_default();
            faults.push(
                Diagnostic::error(Code::KEY_NOT_AVAILABLE, span, "limits of type `inflight` cannot count by this key")
                    .label("must be `global`, `route` or `origin`")
                    .help("per-key in-flight limits are not available in this version"),
            );
            None
        }
    }
}
