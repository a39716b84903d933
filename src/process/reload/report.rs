//! What a reload did, for people and for programs.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::difference::{Change, Changes, followed, renamed, waiting};
use crate::config::concealed::Concealed;
use crate::config::day::Day;
use crate::engine::{Carried, Fate, Succession};
use crate::human::count;
use crate::running::generation::Source;

/// The schema of the report as JSON. Fields may be added under this number, none taken away.
pub const JSON_SCHEMA: &str = "tidegate.reload/2";

/// Changes that a summary names.
const MOST_SUMMARIZED: usize = 3;

/// What a reload did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`JSON_SCHEMA`].
    pub schema: &'static str,
    /// Whether it was only tried: then nothing was touched.
    pub dry_run: bool,
    /// The fingerprint of the configuration before.
    pub from: String,
    /// That of the one after.
    pub to: String,
    /// How long it took, from the first look at the files to the moment at which the new policy was in force.
    pub milliseconds: u64,
    /// Routes.
    pub routes: Changes,
    /// Origins.
    pub origins: Changes,
    /// Limits.
    pub limits: Limits,
    /// Everything that is in force now and was not before, names that came and went among them.
    pub changed: Vec<Change>,
    /// Stores that are new to this process, and whether they answered before the new policy was put in force. A dry run asks
    /// none.
    pub stores: Vec<StoreAnswer>,
    /// Certificates.
    pub tls: Tls,
    /// Paths of what the file says and the process does not do before `tidegate upgrade`.
    pub waiting: Vec<String>,
    /// How many warnings there were.
    pub warnings: usize,
}

/// What became of the state of limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Limits {
    /// Those whose counts go on as they were.
    pub kept: Vec<Kept>,
    /// Those whose counts go on under other numbers.
    pub rerated: Vec<Rerated>,
    /// Those that begin empty, although there was one of their name.
    pub reset: Vec<Cause>,
    /// Those that there were none of.
    pub added: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
}

/// A limit that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The name before, if that was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
}

/// A limit whose numbers changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rerated {
    /// Its name.
    pub name: String,
    /// The name before, if that was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// The numbers that changed.
    pub numbers: Vec<Number>,
}

/// A number of a limit, as the policy file writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Number {
    /// Its word.
    pub word: String,
    /// Before.
    pub from: String,
    /// Now.
    pub to: String,
}

/// A limit that begins empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its name.
    pub name: String,
    /// What of it is another: `type`, `key`, `of`, `window`, `memory`, or `age`.
    pub because: &'static str,
    /// The same in words.
    #[serde(skip)]
    pub told: String,
}

/// Certificates, all listeners together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Tls {
    /// How many there are.
    pub certificates: usize,
    /// Those that were not in use before.
    pub renewed: Vec<Renewed>,
    /// Those whose files cannot be used; the ones before are still shown.
    pub unusable: Vec<String>,
}

/// A store that a reload waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreAnswer {
    /// Its name.
    pub name: String,
    /// Whether it answered in time.
    pub answered: bool,
    /// How long it was waited for at most, as the policy file writes it.
    pub ready_within: String,
}

/// A certificate that was renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Renewed {
    /// What it is called.
    pub certificate: String,
    /// When it ends, in seconds since 1970.
    pub expires: i64,
}

impl Limits {
    /// Makes of the succession what became of the limits; `changed` has their words.
    fn of(succession: Succession, changed: &[Change]) -> Limits {
        let mut limits = Limits { removed: succession.removed, ..Limits::default() };
        for carried in succession.limits {
            let name = carried.name;
            match carried.fate {
                Fate::Kept { from } => limits.kept.push(Kept { name, renamed_from: from }),
                Fate::Rerated { from } => {
                    let numbers = numbers(&name, changed);
                    if numbers.is_empty() {
                        // the origin whose capacity it shares has another place in the file
                        limits.kept.push(Kept { name, renamed_from: from });
                    } else {
                        limits.rerated.push(Rerated { name, renamed_from: from, numbers });
                    }
                }
                Fate::Reset(reset) => {
                    limits.reset.push(Cause { name, because: reset.word(), told: reset.to_string() });
                }
                Fate::New => limits.added.push(name),
            }
        }
        limits
    }

    /// Returns the names before and now of those that were renamed.
    fn renamed(succession: &Succession) -> Vec<(String, String)> {
        let from = |carried: &Carried| match &carried.fate {
            Fate::Kept { from } | Fate::Rerated { from } => from.clone(),
            Fate::Reset(_) | Fate::New => None,
        };
        succession.limits.iter().filter_map(|carried| Some((from(carried)?, carried.name.clone()))).collect()
    }
}

/// Returns the numbers of a limit that changed.
fn numbers(name: &str, changed: &[Change]) -> Vec<Number> {
    /// Words that say what is promised.
    const WORDS: [&str; 17] = [
        "rate",
        "burst",
        "max",
        "half_life",
        "max_penalty",
        "count",
        "capacity",
        "upgraded",
        "window",
        "per",
        "time_zone",
        "week_starts",
        "queue",
        "wait",
        "networks",
        "reserve",
        "reserved",
    ];
    let number = |change: &Change| {
        let word = change.path.strip_prefix("limits.")?.strip_prefix(name)?.strip_prefix('.')?;
        let of_tier = word.strip_prefix("tiers.").and_then(|rest| rest.split_once('.')).map(|(_, word)| word);
        let first = of_tier.unwrap_or(word).split('.').next()?;
        WORDS.contains(&first).then(|| Number {
            word: word.to_owned(),
            from: told_value(change.from.as_ref()),
            to: told_value(change.to.as_ref()),
        })
    };
    let mut numbers: Vec<Number> = changed.iter().filter_map(number).collect();
    // it goes along with `max` unless it is said
    if let Some(max) = numbers.iter().find(|number| number.word == "max").cloned() {
        numbers.retain(|number| number.word != "upgraded" || number.to != max.to);
    }
    numbers
}

/// The names as they may be shown.
fn hidden(names: Vec<String>, concealed: &Concealed) -> Vec<String> {
    names.into_iter().map(|name| concealed.text(&name).into_owned()).collect()
}

impl Report {
    /// Reports what the configuration `after` changes in the place of the one `before`, in a process that was `started` by yet another.
    pub fn of(started: &Source, before: &Source, after: &Source, succession: Succession) -> Report {
        let changed = followed(&renamed(before, &Limits::renamed(&succession)), after);
        Report {
            schema: JSON_SCHEMA,
            dry_run: false,
            from: before.fingerprint.clone(),
            to: after.fingerprint.clone(),
            milliseconds: 0,
            routes: Changes::of(&before.effective, &after.effective, "routes"),
            origins: Changes::of(&before.effective, &after.effective, "origins"),
            limits: Limits::of(succession, &changed),
            changed,
            stores: Vec::new(),
            tls: Tls::default(),
            waiting: waiting(started, after),
            warnings: 0,
        }
    }

    /// Takes values of variables out of all names: an origin that is written as its address has that for a name.
    pub fn conceal(&mut self, concealed: &Concealed) {
        let changes = |changes: &mut Changes| {
            [&mut changes.added, &mut changes.changed, &mut changes.removed].map(std::mem::take)
        };
        for changed in [&mut self.routes, &mut self.origins] {
            let [added, altered, removed] = changes(changed).map(|names| hidden(names, concealed));
            *changed = Changes { added, changed: altered, removed };
        }
        self.waiting = hidden(std::mem::take(&mut self.waiting), concealed);
        for Change { path, from, to } in &mut self.changed {
            concealed.hide(path);
            from.iter_mut().chain(to).for_each(|value| hide(value, concealed));
        }
    }

    /// Whether nothing at all is another.
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.from == self.to
    }

    /// For people: a headline and one line for each kind of thing.
    pub fn text(&self) -> String {
        let mut text = self.headline();
        let mut line = |word: &str, told: &str| {
            let _ = writeln!(text, "  {word:<10} {told}");
        };
        if !self.is_empty() {
            line("routes", &told_changes(&self.routes));
            if !self.origins.is_empty() {
                line("origins", &told_changes(&self.origins));
            }
            line("limits", &self.told_limits());
            let empty: Vec<&str> = self.limits.reset.iter().map(|reset| reset.name.as_str()).collect();
            if !empty.is_empty() {
                let begins = if empty.len() == 1 { "begins" } else { "begin" };
                line(
                    "warning",
                    &format!("{} {begins} empty: every client has its whole budget again", empty.join(", ")),
                );
            }
            if let Some(told) = self.told_renaming() {
                line("note", &told);
            }
            self.told_changed().iter().for_each(|told| line("changed", told));
        }
        for StoreAnswer { name, answered, ready_within } in &self.stores {
            let without = || format!("has not answered within {ready_within}: its limits go by their on_store_error");
            let told = if *answered { "answered".to_owned() } else { without() };
            line("store", &format!("{name} {told}"));
        }
        if self.tls.certificates > 0 {
            line("tls", &told_tls(&self.tls));
        }
        for path in &self.waiting {
            line("waiting", &format!("{path} changed: needs `tidegate upgrade`"));
        }
        if self.warnings > 0 {
            line("warnings", &format!("{}, which `tidegate check` prints", self.warnings));
        }
        text
    }

    fn headline(&self) -> String {
        let Report { from, to, .. } = self;
        let took = format!("in {} ms", self.milliseconds);
        // what a secret is has no part in the fingerprint
        let same = if self.is_empty() {
            "nothing in it has changed"
        } else {
            "what it says is the same, not what it refers to"
        };
        match (self.dry_run, from == to) {
            (false, false) => format!("reloaded {from} → {to} {took}\n"),
            (false, true) => format!("reloaded {to} {took}, {same}\n"),
            (true, false) => format!("would reload {from} → {to}\n"),
            (true, true) => format!("would reload {to}, {same}\n"),
        }
    }

    /// Returns every change that the lines above do not tell, each in a line.
    pub fn told_changed(&self) -> Vec<String> {
        let Report { routes, origins, limits, .. } = self;
        let names = [
            ("routes", &routes.added),
            ("routes", &routes.removed),
            ("origins", &origins.added),
            ("origins", &origins.removed),
            ("limits", &limits.added),
            ("limits", &limits.removed),
        ];
        let whole =
            names.into_iter().flat_map(|(section, names)| names.iter().map(move |name| format!("{section}.{name}")));
        let numbers = limits
            .rerated
            .iter()
            .flat_map(|limit| limit.numbers.iter().map(|number| format!("limits.{}.{}", limit.name, number.word)));
        let told: HashSet<String> = whole.chain(numbers).collect();
        let line = |Change { path, from, to }: &Change| {
            let (from, to) = (told_value(from.as_ref()), told_value(to.as_ref()));
            if from == to { path.clone() } else { format!("{path} {from} → {to}") }
        };
        self.changed.iter().filter(|change| !told.contains(&change.path)).map(line).collect()
    }

    /// Returns what changed in one line: the first changes, and how many limits kept their counts.
    pub fn summary(&self) -> String {
        let numbers = self.limits.rerated.iter().flat_map(|limit| {
            let number =
                move |number: &Number| format!("{}: {} {} → {}", limit.name, number.word, number.from, number.to);
            limit.numbers.iter().map(number)
        });
        let changes: Vec<String> = numbers.chain(self.told_changed()).collect();
        let more = changes.len().saturating_sub(MOST_SUMMARIZED);
        let told = match changes.get(..MOST_SUMMARIZED).unwrap_or(&changes) {
            [] => "Nothing changed".to_owned(),
            first if more > 0 => format!("{}; {more} more", first.join("; ")),
            first => first.join("; "),
        };
        format!("{told}. {} kept their counts.", count(self.limits.kept.len() as u64, "limit"))
    }

    /// Where limits came and others went, one may be another by a new name, which nobody but the operator knows.
    fn told_renaming(&self) -> Option<String> {
        let Limits { added, removed, .. } = &self.limits;
        if added.is_empty() || removed.is_empty() {
            return None;
        }
        let begin = if added.len() == 1 { "begins" } else { "begin" };
        Some(format!(
            "{} {begin} empty, also if renamed: counts follow `renamed_from`, those of shared limits only their name",
            added.join(", ")
        ))
    }

    fn told_limits(&self) -> String {
        let limits = &self.limits;
        let mut parts = vec![format!("kept {}", limits.kept.len())];
        let from = |name: &Option<String>| name.as_ref().map(|name| format!(" (was {name})")).unwrap_or_default();
        let renamed = limits.kept.iter().filter(|kept| kept.renamed_from.is_some());
        let renamed: Vec<String> = renamed.map(|kept| format!("{}{}", kept.name, from(&kept.renamed_from))).collect();
        if let (Some(first), false) = (parts.first_mut(), renamed.is_empty()) {
            let _ = write!(first, " ({})", renamed.join(", "));
        }
        let mut add = |word: &str, items: Vec<String>, after: &str| {
            if !items.is_empty() {
                parts.push(format!("{word} {} ({}{after})", items.len(), items.join("; ")));
            }
        };
        let number = |number: &Number| match number.word.as_str() {
            "rate" | "capacity" => format!("{} → {}", number.from, number.to),
            word => format!("{word} {} → {}", number.from, number.to),
        };
        let rerated = |limit: &Rerated| {
            let numbers: Vec<String> = limit.numbers.iter().map(number).collect();
            format!("{}{} {}", limit.name, from(&limit.renamed_from), numbers.join(", "))
        };
        add("re-rated", limits.rerated.iter().map(rerated).collect(), ", counts kept");
        add("reset", limits.reset.iter().map(|reset| format!("{}: {}", reset.name, reset.told)).collect(), "");
        add("new", limits.added.clone(), "");
        add("gone", limits.removed.clone(), "");
        parts.join("   ")
    }
}

/// Returns a value in one line, cut off where it is long.
fn told_value(value: Option<&Value>) -> String {
    const LONGEST: usize = 60;
    fn told(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => format!("[{}]", items.iter().map(told).collect::<Vec<_>>().join(", ")),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}: {}", told(value)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            other => other.to_string(),
        }
    }
    let told = value.map_or_else(|| "none".to_owned(), told).replace('\n', " ");
    match told.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", told.get(..end).unwrap_or_default()),
        None => told,
    }
}

fn hide(value: &mut Value, concealed: &Concealed) {
    match value {
        Value::String(text) => concealed.hide(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, concealed)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, concealed)),
        _ => {}
    }
}

fn told_changes(changes: &Changes) -> String {
    let part = |sign: char, names: &[String]| match names {
        [] => format!("{sign}0"),
        names if names.len() <= 3 => format!("{sign}{} ({})", names.len(), names.join(", ")),
        names => format!("{sign}{}", names.len()),
    };
    [part('+', &changes.added), part('~', &changes.changed), part('-', &changes.removed)].join("  ")
}

fn told_tls(tls: &Tls) -> String {
    let mut told = count(tls.certificates as u64, "certificate");
    if !tls.renewed.is_empty() {
        let each = |one: &Renewed| format!("{}, expires {}", one.certificate, date(one.expires));
        let each: Vec<String> = tls.renewed.iter().map(each).collect();
        let _ = write!(told, ", {} renewed ({})", tls.renewed.len(), each.join("; "));
    }
    if !tls.unusable.is_empty() {
        let _ = write!(told, ", {} unusable ({}): see the log", tls.unusable.len(), tls.unusable.join(", "));
    }
    told
}

/// How long something took, in whole milliseconds.
pub fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// The day of a moment in seconds since 1970, in UTC.
fn date(seconds: i64) -> String {
    Day(seconds.div_euclid(86_400)).to_string()
}

#[cfg(test)]
mod tests;
