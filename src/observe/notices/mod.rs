//! Signs of misuse that the gate detects: one list, in the same words in the log, `status`, the page, `top` and the
//! metric that alerts read.
//!
//! The housekeeping looks every two seconds at numbers that exist anyway, and at a [`sample`] of the requests; requests pay for that
//! sample alone. [`seen`] reads the numbers, `judge` makes [`Notice`]s of them without a clock, and [`Notices`] keeps the list: when
//! each began, and a line in the log at its begin and at its end.
//!
//! Bursts smaller than one page load are not detected. `check` warns of bursts below a second's worth (`W0403`), and `replay` shows
//! whom a burst hits.

mod judge;
pub mod notice;
pub mod sample;
pub mod seen;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use self::notice::{Kind, Notice};
use self::seen::{Look, Memory};
use crate::system::clock::wall_nanos;
use crate::units::Timestamp;

/// The list is for people: more notices of one kind than this are counted, not told.
const MOST_OF_A_KIND: usize = 20;

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

    /// Judges what `look` shows, if it is time to. For the housekeeping, about once a second.
    pub fn look(&self, look: &Look<'_>, now: Timestamp) {
        let mut memory = self.memory.lock();
        if !memory.is_due(now) {
            return;
        }
        let refusal = self.refusal.lock().clone();
        let seen = memory.gather(look, &refusal, now);
        let before = self.list();
        let held: &[Notice] = if seen.fresh { &[] } else { &before };
        let found = shortened(&judge::notices(&seen, held));
        drop(memory);
        let holds = |kind| found.iter().any(|notice| notice.kind == kind);
        look.metrics.notices(holds, seen.clients.top_share);
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
