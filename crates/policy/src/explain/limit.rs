//! What one limit said, and what it would have taken.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::book::{Book, Counted};
use super::place::PlacePart;
use super::record::{Record, Said};
use crate::client::key::{KeyPart, KeySpec};
use crate::config::{amount_text, duration_text, rate_text};
use crate::engine::{DecidedBy, Outcome, Refusal, Verdict};
use crate::human::{probability, wait};
use crate::limiter::kinds::Part;
use crate::limiter::sharing::{OnStoreError, Sharing, StoreError};
use crate::limiter::{FORMS, Needs, Owed};
use crate::policy::{CostRule, Kind, Mode, OnLimit, Rule, Scope};
use crate::units::{Period, Rate};

/// What one limit said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitPart {
    /// Its name.
    pub name: String,
    /// The word in `type:`.
    pub r#type: String,
    /// `enforce` or `shadow`, for this key.
    pub mode: String,
    /// Which of its tiers the numbers are those of, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// `allowed`, `limited`, `delayed`, `tagged` or `exempt`.
    pub outcome: String,
    /// The same as it meets the eye.
    pub state: String,
    /// What it counts by.
    pub key: String,
    /// The pseudonym of what was counted, where that is the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pseudonym: Option<String>,
    /// Where the request stood: `5 of 5 per minute used`, or `3 of 5 per minute` with an admitted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How many more requests like it would fit after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u32>,
    /// Nanoseconds until a request like it fits; none when no wait helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_ns: Option<u64>,
    /// Nanoseconds until more budget appears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_ns: Option<u64>,
    /// Of `fair_share`, when it refused: what weighed most, its key or a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What would have let it through, as numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<NeedsPart>,
    /// The same as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// How far the count may be off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimatePart>,
    /// Whose word it is, where it is not this limit's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<ByPart>,
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PlacePart>,
}

/// Whose word a reading is, where it is not the limit's own count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByPart {
    /// `lease`, `store`, `fallback`, `estimate` or `offered`.
    pub word: String,
    /// The store's name; empty for a limit that is not shared.
    pub store: String,
    /// How the limit is shared: `lease`, `exact` or `estimate`.
    pub sharing: String,
    /// What the limit does when the store is silent: `local`, `open` or `closed`; empty for `estimate`, which asks nobody.
    pub on_store_error: String,
    /// Of a `fallback`: `timeout`, `unreachable`, `breaker_open`, `busy` or `faulty`, what the store met the request with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
}

impl ByPart {
    /// In a few words.
    pub fn words(&self) -> String {
        let ByPart { word, store, on_store_error, store_error, .. } = self;
        match word.as_str() {
            "lease" => format!("by what this gate knows of store `{store}` without asking it"),
            "store" => format!("by store `{store}`, asked for this request"),
            "estimate" => format!("by what this gate counts, with what others told it through store `{store}`"),
            "offered" => {
                "by what the client asks for, refused requests included, as `fair_share` measures it".to_owned()
            }
            _ => {
                let store_error =
                    StoreError::ALL.into_iter().find(|known| store_error.as_deref() == Some(known.word()));
                let (why, then) = match store_error {
                    None => ("said nothing", ""),
                    Some(StoreError::TimedOut) => ("did not answer in time", ""),
                    Some(StoreError::Unreachable) => ("could not be reached", ""),
                    Some(StoreError::Breaker) => ("is left alone after failures", ""),
                    Some(StoreError::Busy) => ("has too many questions before it", ""),
                    Some(StoreError::Faulty) => ("gave what is no answer", ", which a fault makes closed"),
                };
                let word = store_error.map_or_else(String::new, |store_error| format!(" ({})", store_error.word()));
                format!("without store `{store}`, which {why}{word}: on_store_error {on_store_error}{then}")
            }
        }
    }
}

/// The smallest numbers, each enough by itself, that would have let the request through on the same charges.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NeedsPart {
    /// Of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<String>,
    /// Of `quota`, `distinct`, `inflight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Of `rate` and `recent_average`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Of limits that delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max: Option<String>,
}

/// How far a count may be off. It is never too low.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimatePart {
    /// Whether the key was counted exactly when it was judged.
    pub exact: bool,
    /// Otherwise: the probability that a key below its limit is refused beside [`BUSY`] others that are at theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_refusal: Option<f64>,
}

/// The level of a request that a limit could not count.
const KEYLESS: &str = "without the key";

/// The level of one whose client asks for more than the limit admits, while `fair_share` holds it below.
const OVER_BY_OFFERED: &str = "asks for more than this limit admits";

/// The level of one that was refused because nobody knew the count.
const UNANSWERED: &str = "not counted: its store was silent";

/// The state of a limit that lets nobody pass while its store is silent.
const CLOSED: &str = "CLOSED";

/// A rate so many times the present one is not named.
const FAR: f64 = 10.0;

/// So many keys are taken to be at their limits.
pub const BUSY: u64 = 1_000;

impl LimitPart {
    /// What a limit said; `None` for one that the book does not have.
    pub fn new(said: &Said, record: &Record, book: &Book) -> Option<LimitPart> {
        let rule = book.rules.get(usize::from(said.rule))?;
        let kind = rule.kind_of(said.tier);
        let asked = said.outcome != Outcome::Exempt;
        let short = matches!(said.outcome, Outcome::Refused | Outcome::Tagged);
        // a request without the key was refused unasked
        let can_lack =
            rule.key.parts().iter().chain(rule.of.iter().flat_map(KeySpec::parts)).any(KeyPart::can_be_missing);
        // what a limit is short of is told where this gate counts
        let ours = said.by.counts_here();
        let on_store_error = short && refuses_on_store_error(said, record, rule);
        let counted = asked && !on_store_error && !(ours && short && can_lack && said.owed == Owed::default());
        let needs = short.then(|| kind.needs(said.owed)).filter(|_| counted && ours);
        let counted_by = book.keys.get(usize::from(said.rule))?;
        let view = View { said, record, rule, counted_by, kind, needs: needs.unwrap_or_default() };
        Some(LimitPart {
            name: rule.name.clone(),
            r#type: kind.word().to_owned(),
            mode: said.mode.word().to_owned(),
            tier: (said.tier > 0).then_some(said.tier),
            outcome: said.outcome.word().to_owned(),
            state: if on_store_error && said.mode == Mode::Enforce { CLOSED } else { state(said.outcome, said.mode) }
                .to_owned(),
            key: view.key(),
            key_pseudonym: None,
            level: match counted {
                true if said.by == DecidedBy::Offered => Some(OVER_BY_OFFERED.to_owned()),
                true => view.level(),
                false => asked.then(|| if on_store_error { UNANSWERED } else { KEYLESS }.to_owned()),
            },
            remaining: (counted && !kind.has_nodes()).then_some(said.remaining),
            retry_ns: said.wait_nanos.filter(|_| short && counted),
            reset_ns: said.wait_nanos.filter(|_| !short && counted),
            node: view.node(),
            needs: needs.map(|_| view.needs_part()),
            change: if !ours {
                None
            } else if counted {
                view.change()
            } else {
                view.without_key(asked)
            },
            estimate: (counted && ours).then(|| view.estimate()).flatten(),
            by: (said.by != DecidedBy::Gate).then(|| view.by(book)),
            place: book.places.limits.get(usize::from(said.rule)).map(PlacePart::from),
        })
    }

    /// Whether it is a reason why the request was refused.
    pub fn forbade(&self) -> bool {
        self.mode == Mode::Enforce.word() && self.outcome == Outcome::Refused.word()
    }
}

/// Returns whether the limit refused because its store did not answer, and not because of what the client did.
fn refuses_on_store_error(said: &Said, record: &Record, rule: &Rule) -> bool {
    let closed = rule.shared.is_some_and(|shared| shared.on_store_error == OnStoreError::Closed);
    let faulty = record.store_error == Some(StoreError::Faulty);
    said.by == DecidedBy::Fallback && (closed || faulty || record.verdict == Verdict::Refused(Refusal::StoreSilent))
}

/// One limit of one decision, with everything that words about it are made from.
struct View<'a> {
    said: &'a Said,
    record: &'a Record,
    rule: &'a Rule,
    counted_by: &'a Counted,
    kind: &'a Kind,
    needs: Needs,
}

impl View<'_> {
    fn short(&self) -> bool {
        matches!(self.said.outcome, Outcome::Refused | Outcome::Tagged)
    }

    fn by(&self, book: &Book) -> ByPart {
        let shared = self.rule.shared;
        let asked = shared.filter(|shared| shared.sharing != Sharing::Estimate);
        ByPart {
            word: self.said.by.word().to_owned(),
            store: shared.and_then(|shared| book.stores.get(shared.store.0)).cloned().unwrap_or_default(),
            sharing: shared.map_or("", |shared| shared.sharing.word()).to_owned(),
            on_store_error: asked.map_or("", |shared| shared.on_store_error.word()).to_owned(),
            store_error: self
                .record
                .store_error
                .filter(|_| self.said.by == DecidedBy::Fallback)
                .map(|store_error| store_error.word().to_owned()),
        }
    }

    fn unit(&self) -> Option<u32> {
        if let CostRule::Bytes { unit } = self.rule.cost { Some(unit) } else { None }
    }

    /// The parts of the key, `origin` last.
    fn key(&self) -> String {
        match self.kind.scope() {
            _ if self.kind.has_nodes() => self.counted_by.nodes.join(" < "),
            Some(Scope::Global) => "global".to_owned(),
            Some(Scope::Origin) => "origin".to_owned(),
            _ if self.rule.by_origin => format!("{}, origin", self.counted_by.key),
            _ => self.counted_by.key.clone(),
        }
    }

    fn node(&self) -> Option<String> {
        let node = usize::from(self.said.node?);
        self.counted_by.nodes.get(node).cloned()
    }

    /// Where the request stands in the limit's own count.
    fn level(&self) -> Option<String> {
        let of = |most: u32| {
            let cost =
                self.record.method.as_ref().map_or(self.rule.cost.least(), |method| self.rule.cost.on_entry(method));
            match (self.needs.units, self.unit()) {
                // what stood before it
                (Some(units), unit) => amount_text(units.saturating_sub(cost.get()), unit),
                // it fitted, and with it so many are taken
                (None, unit) => {
                    let left = self.said.remaining.saturating_mul(cost.get());
                    amount_text(most.saturating_sub(left), unit)
                }
            }
        };
        let mut text = String::new();
        let mut used = self.needs.units.map(|_| " used");
        for part in self.kind.standing() {
            match part {
                Part::Text(words) if words.starts_with(", ") => {
                    text.push_str(used.take().unwrap_or_default());
                    text.push_str(words);
                }
                Part::Text(words) => text.push_str(words),
                Part::Position(most) => text.push_str(&of(most)),
                Part::Amount(amount) => text.push_str(&amount_text(amount, self.unit())),
                Part::Rate(rate) => text.push_str(&rate_text(rate, self.unit())),
                Part::Duration(span) => text.push_str(&duration_text(span)),
                Part::Window(window) => text.push_str(&window_text(&window)),
                Part::Values if self.rule.of.is_some() => text.push_str(&format!(" of {}", self.counted_by.of)),
                Part::Values => {}
            }
        }
        text.push_str(used.unwrap_or_default());
        Some(text)
    }

    fn needs_part(&self) -> NeedsPart {
        let units = self.needs.units;
        let word = self.kind.most().map(|(word, _)| word);
        NeedsPart {
            burst: units.filter(|_| word == Some("burst")).map(|units| amount_text(units, self.unit())),
            max: units.filter(|_| word == Some("max")),
            rate: self.needs.rate.map(|rate| rate_text(rate, self.unit())),
            delay_max: match (&self.rule.action, self.said.wait_nanos) {
                (OnLimit::Delay { max }, Some(wait)) if u128::from(wait) > max.as_nanos() => {
                    Some(duration_text(Duration::from_millis(wait.div_ceil(1_000_000))))
                }
                _ => None,
            },
        }
    }

    /// What would have let the request through.
    fn change(&self) -> Option<String> {
        if !self.short() {
            return None;
        }
        if self.kind.has_nodes() {
            return Some(match self.node() {
                Some(node) => format!("more `capacity`, or less traffic of the same {node}"),
                None => "more `capacity`".to_owned(),
            });
        }
        if self.is_of_no_number() {
            return Some("no other number: it was not refused for its count".to_owned());
        }
        let NeedsPart { burst, max, rate, delay_max, .. } = self.needs_part();
        // a rate far above the present one is no advice, where another number does
        let near = |wanted: Rate| self.kind.refill().is_none_or(|now| wanted.per_second() < FAR * now.per_second());
        let rate = rate.filter(|_| (burst.is_none() && max.is_none()) || self.needs.rate.is_some_and(near));
        let ways = [
            burst.map(|burst| format!("burst ≥ {burst}")),
            max.map(|max| format!("max ≥ {max}")),
            rate.map(|rate| format!("rate ≥ {rate}")),
            delay_max.map(|delay| format!("delay of up to {delay}")),
        ];
        let ways: Vec<String> = ways.into_iter().flatten().collect();
        if ways.is_empty() {
            return Some("no other number would have let it through".to_owned());
        }
        let comma = if ways.len() > 1 { "," } else { "" };
        Some(format!("{}{comma} would have let it through", ways.join(", or ")))
    }

    /// Refused although its count is within its number: for a wait that could not be taken, or a race.
    fn is_of_no_number(&self) -> bool {
        let most = self.kind.most();
        self.needs.units.zip(most).is_some_and(|(units, (_, most))| units <= most)
    }

    fn without_key(&self, asked: bool) -> Option<String> {
        (asked && self.short()).then(|| format!("a request with {}, or `missing: allow`", self.counted_by.key))
    }

    fn estimate(&self) -> Option<EstimatePart> {
        // it is weighed against others, not counted
        if self.kind.has_nodes() {
            return None;
        }
        let false_refusal = self.kind.sketch().map(|(sketch, memory)| sketch.shape(memory).covered(BUSY));
        let exact = self.said.exact || self.kind.sketch().is_none();
        // two digits are all that an approximation deserves
        let digits = |chance: f64| format!("{chance:.1e}").parse().ok();
        Some(EstimatePart { exact, false_refusal: false_refusal.filter(|_| !exact).and_then(digits) })
    }
}

impl EstimatePart {
    /// In a sentence.
    pub fn words(&self) -> String {
        match (self.exact, self.false_refusal) {
            (true, _) => "exact: the key has a counter of its own".to_owned(),
            (false, Some(chance)) => format!(
                "never too low; too high so that a key below its limit is refused with probability {} beside {BUSY} others at theirs",
                probability(chance)
            ),
            (false, None) => "never too low".to_owned(),
        }
    }
}

/// The wait that a limit tells, in a few words.
pub fn wait_words(limit: &LimitPart) -> Option<String> {
    if limit.level.as_deref().is_some_and(|level| level == KEYLESS || level == UNANSWERED) {
        return None;
    }
    let form = FORMS.iter().find(|form| form.word == limit.r#type);
    match (limit.forbade() || limit.retry_ns.is_some(), limit.retry_ns, limit.reset_ns) {
        (true, Some(nanos), _) => Some(format!("the next one fits in {}", wait(nanos))),
        (true, None, _) if form.is_some_and(|form| form.gives_back) => {
            Some("the next one fits when another ends".to_owned())
        }
        (true, None, _) if form.is_some_and(|form| form.takes("networks")) || limit.level.is_none() => None,
        (true, None, _) => Some("no wait helps".to_owned()),
        (false, _, Some(nanos)) => Some(format!("one more in {}", wait(nanos))),
        (false, _, None) => None,
    }
}

/// The word for an outcome as it meets the eye.
fn state(outcome: Outcome, mode: Mode) -> &'static str {
    match (outcome, mode) {
        (Outcome::Refused, Mode::Enforce) => "LIMITED",
        (Outcome::Refused | Outcome::Tagged, Mode::Shadow) => "shadow, over",
        (Outcome::Tagged, Mode::Enforce) => "tagged",
        (Outcome::Delayed, _) => "delayed",
        (Outcome::Admitted, Mode::Enforce) => "allowed",
        (Outcome::Admitted, Mode::Shadow) => "shadow",
        (Outcome::Exempt, _) => "not asked",
    }
}

/// A window after "per": `second`, `10m`, `month in Europe/Berlin`.
fn window_text(window: &Period) -> String {
    match window {
        Period::Length(length) => match length.as_millis() {
            1_000 => "second".to_owned(),
            60_000 => "minute".to_owned(),
            3_600_000 => "hour".to_owned(),
            86_400_000 => "day".to_owned(),
            _ => duration_text(*length),
        },
        Period::Calendar(calendar) => calendar.to_string(),
    }
}
