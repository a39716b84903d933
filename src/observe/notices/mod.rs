//! What the gate notices of its own misuse: one list, told in the same words by the log, `status`, the page, `top` and the
//! metric that alerts read.
//!
//! The housekeeping looks every `INTERVAL` at numbers that exist anyway, and at a [`sample`] of the requests; requests pay for that
//! sample alone. `seen` gathers, `judge` makes [`Notice`]s of it without knowing any clock, and [`Notices`] keeps the list: since when
//! each holds, and a line in the log when it begins and when it ends.
//!
//! Not noticed here: a burst below what a page loads. Whether a refused client kept its rate over a minute is not kept anywhere; `check`
//! warns of bursts below a second's worth (`W0403`), and `replay` shows whom a burst hits.

mod judge;
pub mod sample;
mod seen;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use self::seen::Memory;
use crate::running::process::Shared;
use crate::system::clock::wall_nanos;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// The list is for people: more notices of one kind than this are counted, not told.
const MOST_OF_A_KIND: usize = 20;

/// What a notice is about. The words are those of `tidegate_notice{notice="…"}` and of JSON, and stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The policy file was refused at the last reload.
    ReloadRefused,
    /// An origin has no address that is in use.
    OriginDown,
    /// Everybody behind a proxy is one client.
    ClientsCollapsed,
    /// Most requests lack the key of a limit.
    KeyMissing,
    /// A sketch is too small for its load.
    SketchCrowded,
    /// A limit has been in shadow for long.
    ShadowOld,
    /// Nobody comes from a trusted network.
    TrustUnseen,
    /// The policy makes very many metric series.
    ManySeries,
}

impl Kind {
    /// All of them, the most urgent first.
    pub const ALL: [Kind; 8] = [
        Kind::ReloadRefused,
        Kind::OriginDown,
        Kind::ClientsCollapsed,
        Kind::KeyMissing,
        Kind::SketchCrowded,
        Kind::ShadowOld,
        Kind::TrustUnseen,
        Kind::ManySeries,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::ReloadRefused => "reload_refused",
            Kind::OriginDown => "origin_down",
            Kind::ClientsCollapsed => "clients_collapsed",
            Kind::KeyMissing => "key_missing",
            Kind::SketchCrowded => "sketch_crowded",
            Kind::ShadowOld => "shadow_old",
            Kind::TrustUnseen => "trust_unseen",
            Kind::ManySeries => "many_series",
        }
    }

    /// Whether requests fare wrongly meanwhile; the others are worth a look.
    pub const fn is_urgent(self) -> bool {
        matches!(self, Kind::ReloadRefused | Kind::OriginDown | Kind::ClientsCollapsed | Kind::SketchCrowded)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Something that the operator should know of, in words that are the same wherever it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What it is about, a word that stays.
    pub kind: Kind,
    /// Whether requests fare wrongly meanwhile.
    pub urgent: bool,
    /// The limit, origin or network that it is about; empty when it is the whole.
    pub subject: String,
    /// What is the matter, in one line.
    pub text: String,
    /// What can be done, in one line.
    pub hint: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// More of it, as it would stand in a terminal; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl Notice {
    fn new(kind: Kind, subject: impl Into<String>, text: String, hint: impl Into<String>) -> Notice {
        let (subject, hint) = (subject.into(), hint.into());
        Notice { kind, urgent: kind.is_urgent(), subject, text, hint, since: 0, details: String::new() }
    }

    /// Whether it is the same matter, in whatever numbers.
    fn is_about(&self, other: &Notice) -> bool {
        // who collapses into one is counted anew all the time
        self.kind == other.kind && (self.kind == Kind::ClientsCollapsed || self.subject == other.subject)
    }
}

/// The list, and what is remembered from one look to the next.
#[derive(Default)]
pub struct Notices {
    list: ArcSwap<Vec<Notice>>,
    /// The housekeeping's own.
    memory: Mutex<Memory>,
    /// What was wrong with the policy file at the last reload.
    refusal: Mutex<String>,
    lines: Mutex<Lines>,
}

impl Notices {
    /// What is the matter now, the most urgent first.
    pub fn list(&self) -> Arc<Vec<Notice>> {
        self.list.load_full()
    }

    /// Remembers why a policy file was refused, as the verb prints it.
    pub fn reload_refused(&self, diagnostics: &str) {
        diagnostics.clone_into(&mut self.refusal.lock());
    }

    /// Looks, if it is time to: for the housekeeping, about once a second.
    pub fn look(&self, shared: &Shared) {
        let now = shared.clock.now();
        let mut memory = self.memory.lock();
        if !memory.is_due(now) {
            return;
        }
        let refusal = self.refusal.lock().clone();
        let seen = memory.gather(shared, &refusal, now);
        let before = self.list();
        let held: &[Notice] = if seen.fresh { &[] } else { &before };
        let found = shortened(&judge::notices(&seen, held));
        drop(memory);
        let holds = |kind| found.iter().any(|notice| notice.kind == kind);
        shared.installed().metrics().notices(holds, seen.clients.top_share);
        self.replace(&before, found, wall_nanos() / 1_000_000_000);
    }

    /// Puts what was found in the place of the list, and tells the log what has begun and what has ended.
    fn replace(&self, before: &[Notice], mut found: Vec<Notice>, wall_seconds: u64) {
        for notice in &mut found {
            let known = before.iter().find(|known| known.is_about(notice));
            notice.since = known.map_or(wall_seconds, |known| known.since);
        }
        let has = |list: &[Notice], notice: &Notice| list.iter().any(|other| other.is_about(notice));
        let mut lines = self.lines.lock();
        for notice in found.iter().filter(|notice| !has(before, notice)) {
            lines.tell(notice, true, wall_seconds);
        }
        for notice in before.iter().filter(|notice| !has(&found, notice)) {
            lines.tell(notice, false, wall_seconds);
        }
        self.list.store(Arc::new(found));
    }
}

/// No more lines than this in a minute; whatever is not told there is in the list all the same.
const MOST_LINES: u32 = 30;

/// How many lines there were in the minute of this number.
#[derive(Debug, Default)]
struct Lines {
    minute: u64,
    told: u32,
}

impl Lines {
    /// A line for the log: it `begins`, or is over.
    fn tell(&mut self, notice: &Notice, begins: bool, wall_seconds: u64) {
        let minute = wall_seconds / 60;
        if minute != self.minute {
            *self = Lines { minute, told: 0 };
        }
        self.told += 1;
        if self.told > MOST_LINES {
            return;
        }
        let Notice { subject, text, hint, .. } = notice;
        let kind = notice.kind.word();
        if begins {
            tracing::warn!(notice = kind, subject, hint, "notice: {text}");
        } else {
            tracing::info!(notice = kind, subject, "notice is over: {text}");
        }
    }
}

/// No more of a kind than people read; the last one of them says how many more there are.
fn shortened(notices: &[Notice]) -> Vec<Notice> {
    let mut kept: Vec<Notice> = Vec::new();
    for kind in Kind::ALL {
        let of_kind: Vec<&Notice> = notices.iter().filter(|notice| notice.kind == kind).collect();
        kept.extend(of_kind.iter().take(MOST_OF_A_KIND).map(|notice| (*notice).clone()));
        let more = of_kind.len().saturating_sub(MOST_OF_A_KIND);
        if let Some(last) = kept.last_mut().filter(|_| more > 0) {
            last.details = format!("and {more} more like this");
        }
    }
    kept
}
