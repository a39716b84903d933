//! The process's own log, on [`standard_error`]: what an operator must know, not what each request did. The
//! caller never waits for the reader.
//!
//! Pingora and other crates speak through the `log` crate; they are joined here. Many of their lines are caused by
//! clients that send bad requests, one line each, so each line that a client can cause has a budget: [`LINES`] per
//! [`PERIOD`] and source. What goes beyond is counted (in the metrics, and in a line when the period is over), not
//! written. Of other crates only warnings and errors are shown, one level more at `debug`. No line names a file of the machine that
//! built the program.

mod json_line;

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use self::json_line::{JsonLine, target_of, text_of};
use super::lines::LogState;
use super::standard_error;
use crate::config::settings::{Log, LogFormat, LogLevel};

/// The target of our own lines that single requests or connections cause:
/// `tracing::warn!(target: log::TRAFFIC, "…")`.
pub const TRAFFIC: &str = "tidegate::traffic";

/// The target of panics.
const PANIC: &str = "tidegate::panic";

/// How many lines of one source are written per [`PERIOD`]: enough to see what is wrong, too few to fill a disk.
pub const LINES: u64 = 10;

/// See [`LINES`].
pub const PERIOD: Duration = Duration::from_secs(60);

/// Sources with a budget of their own, so that one cannot silence another; the first that is a prefix of a line's target
/// takes it. Of ours, only these two; of others, everything.
const SOURCES: [&str; 6] = [TRAFFIC, PANIC, "pingora_core::services::listening", "pingora_proxy", "pingora", ""];

/// Whose warnings are of what clients or stores do, which is counted, and written, where it happens.
const TOLD_HERE: [&str; 2] = ["h2::", "redis::"];

/// Lines of libraries, by target and message, that call an error what is none. Two threads can meet at a connection of Pingora's pool:
/// its watcher has given the lock back and still holds a reference, so that it cannot be taken. Pingora closes it and opens another
/// one, which `tidegate_origin_connections_total{reused="false"}` counts; no request fails.
const NO_FAULTS: [(&str, &str); 1] = [("pingora_core::connectors", "failed to acquire reusable stream")];

/// Sends this process's log where `settings` say, from now on.
///
/// # Errors
/// Another log was set up before in this process.
pub fn init(settings: &Log) -> Result<(), TryInitError> {
    let journal = is_journal();
    let text = match settings.format {
        LogFormat::Auto => journal || io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let style = match (text, journal) {
        (false, _) => Style::Json,
        (true, true) => Style::TextWithoutTime,
        (true, false) => Style::Text { colours: io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() },
    };
    set_level(settings.level);
    let quiet = Quiet { level: LevelOf::Process, ..Quiet::new(settings.level, since_start) };
    tracing_subscriber::registry().with(quiet).with(lines(style, || standard_error::Writer)).try_init()
}

/// Writes lines from this level on, from now on.
pub fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
    // what was decided of each line by the level before is decided again
    tracing::callsite::rebuild_interest_cache();
}

/// The process's own level, which a reload may change.
static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);

/// Counts every panic and writes it as one line of the log, within the budget. For a process that goes on after one.
pub fn hook_panics() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        let location = without_build_path(&location);
        tracing::error!(target: PANIC, location, "panic: {message}");
    }));
}

/// Returns the place of a panic from its crate on: `pingora-core-0.9.1/src/lib.rs:1:1`. What is before it is where the crates were on
/// the machine that built the program.
fn without_build_path(location: &str) -> &str {
    // the standard library's own folder, on a machine that has its sources, and its name elsewhere
    if let Some((_, behind)) = location.split_once("/lib/rustlib/src/rust/") {
        return behind;
    }
    let behind = location.strip_prefix("/rustc/").or(location.split_once("/registry/src/").map(|(_, behind)| behind));
    let Some(behind) = behind else { return location };
    behind.split_once('/').map_or(behind, |(_, rest)| rest)
}

/// How often a panic was seen by [`hook_panics`].
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// How many lines went beyond their budget or found no room before standard error, and how often that failed.
pub fn state() -> LogState {
    let LogState { dropped, errors } = standard_error::state();
    LogState { dropped: dropped + DROPPED.load(Ordering::Relaxed), errors }
}

/// Counts only; nothing is published by them.
static PANICS: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One JSON object per line.
    Json,
    /// For people.
    Text {
        /// Levels in colour.
        colours: bool,
    },
    /// For journald, which knows the time.
    TextWithoutTime,
}

/// The log as [`init`] sets it up, on any writer; `now` is the time since any fixed moment.
pub fn subscriber<W>(level: LogLevel, style: Style, writer: W, now: fn() -> Duration) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::registry().with(Quiet::new(level, now)).with(lines(style, writer))
}

fn lines<S, W>(style: Style, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // internal errors would go to standard error, whose failing is what they would be about
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    match style {
        Style::Json => layer.event_format(JsonLine).boxed(),
        Style::Text { colours } => layer.with_ansi(colours).boxed(),
        Style::TextWithoutTime => layer.with_ansi(false).without_time().boxed(),
    }
}

/// Whether standard error is the journal itself, and not merely a child of something that it was (systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let metadata = io::stderr().as_fd().try_clone_to_owned().and_then(|stderr| File::from(stderr).metadata());
    metadata.is_ok_and(|metadata| stream == format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// Decides which lines are written.
struct Quiet {
    level: LevelOf,
    budgets: [Budget; SOURCES.len()],
    now: fn() -> Duration,
}

/// Whose level.
enum LevelOf {
    /// That of [`set_level`].
    Process,
    /// One that stays.
    Fixed(LogLevel),
}

impl Quiet {
    fn new(level: LogLevel, now: fn() -> Duration) -> Quiet {
        Quiet { level: LevelOf::Fixed(level), budgets: Default::default(), now }
    }

    /// The levels of our lines and of others'.
    fn levels(&self) -> (LevelFilter, LevelFilter) {
        let level = match self.level {
            LevelOf::Fixed(level) => level,
            LevelOf::Process => {
                let number = LEVEL.load(Ordering::Relaxed);
                let all = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug];
                all.into_iter().find(|level| *level as u8 == number).unwrap_or(LogLevel::Info)
            }
        };
        match level {
            LogLevel::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
            LogLevel::Warn => (LevelFilter::WARN, LevelFilter::WARN),
            LogLevel::Info => (LevelFilter::INFO, LevelFilter::WARN),
            LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::INFO),
        }
    }

    fn allows(&self, target: &str, level: &Level) -> bool {
        let (ours, others) = self.levels();
        let most = match target {
            target if is_ours(target) => ours,
            target if TOLD_HERE.iter().any(|told| target.starts_with(told)) && others == LevelFilter::WARN => {
                LevelFilter::ERROR
            }
            _ => others,
        };
        *level <= most
    }

    /// Judges one more line of `target`; `None` when it needs no budget.
    fn spend(&self, target: &str, now: Duration) -> Option<(Spent, &'static str)> {
        let (source, budget) = SOURCES.iter().zip(&self.budgets).find(|(source, _)| target.starts_with(**source))?;
        let needs_budget = !source.is_empty() || !is_ours(target);
        needs_budget.then(|| (budget.spend(now), *source))
    }
}

fn is_ours(target: &str) -> bool {
    target.strip_prefix("tidegate").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

impl<S: Subscriber> Layer<S> for Quiet {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.allows(metadata.target(), metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let (ours, others) = self.levels();
        Some(ours.max(others))
    }

    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let target = target_of(event);
        if NO_FAULTS.iter().any(|(of, message)| target == *of && text_of(event, "message") == *message) {
            return false;
        }
        match self.spend(&target, (self.now)()) {
            None | Some((Spent::Within, _)) => true,
            Some((Spent::Beyond, _)) => {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                false
            }
            Some((Spent::NewPeriod { left_out }, source)) => {
                let source = if source.is_empty() { "other" } else { source };
                // not from one of the sources, so this ends here
                tracing::warn!(target: "tidegate::log", source, left_out, "lines of one source were left out");
                true
            }
        }
    }
}

/// Time since the first call.
fn since_start() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// How many lines one source has had in the current period.
#[derive(Default)]
struct Budget {
    /// The period's number in the upper half, the lines asked for in the lower: one word, so that both change at once.
    /// Relaxed throughout: nothing else is published by it.
    state: AtomicU64,
}

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
enum Spent {
    Within,
    Beyond,
    /// The first line of a period after one in which lines were left out.
    NewPeriod {
        left_out: u64,
    },
}

impl Budget {
    const LINES_MASK: u64 = u32::MAX as u64;

    fn spend(&self, now: Duration) -> Spent {
        let period = (now.as_secs() / PERIOD.as_secs()) & Self::LINES_MASK;
        let next = |state: u64| match state >> 32 == period {
            // at the end of the lower half it stays there
            true => state + u64::from(state & Self::LINES_MASK != Self::LINES_MASK),
            false => period << 32 | 1,
        };
        let before = match self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state))) {
            Ok(before) | Err(before) => before,
        };
        let lines = before & Self::LINES_MASK;
        match (before >> 32 == period, lines.saturating_sub(LINES)) {
            (false, 0) => Spent::Within,
            (false, left_out) => Spent::NewPeriod { left_out },
            (true, _) if lines < LINES => Spent::Within,
            (true, _) => Spent::Beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::captured::Captured;

    fn quiet(level: LogLevel) -> Quiet {
        Quiet::new(level, || Duration::ZERO)
    }

    #[test]
    fn a_source_has_its_lines_per_period_and_then_says_what_was_left_out() {
        let budget = Budget::default();
        for _ in 0..LINES {
            assert_eq!(budget.spend(Duration::from_secs(1)), Spent::Within);
        }
        for _ in 0..5 {
            assert_eq!(budget.spend(PERIOD - Duration::from_nanos(1)), Spent::Beyond);
        }
        assert_eq!(budget.spend(PERIOD), Spent::NewPeriod { left_out: 5 });
        assert_eq!(budget.spend(PERIOD), Spent::Within);
        assert_eq!(budget.spend(3 * PERIOD), Spent::Within);
    }

    #[test]
    fn a_flood_does_not_run_over_into_the_next_period() {
        let budget = Budget::default();
        budget.state.store(u64::from(u32::MAX), Ordering::Relaxed);
        assert_eq!(budget.spend(Duration::ZERO), Spent::Beyond);
        assert_eq!(budget.spend(PERIOD), Spent::NewPeriod { left_out: u64::from(u32::MAX) - LINES });
    }

    #[test]
    fn one_source_cannot_silence_another_and_our_own_lines_need_no_budget() {
        let quiet = quiet(LogLevel::Info);
        let spend = |target| quiet.spend(target, Duration::ZERO).map(|(spent, _)| spent);
        while spend("pingora_proxy::proxy_h1") != Some(Spent::Beyond) {}
        assert_eq!(spend("pingora_core::services::listening"), Some(Spent::Within));
        assert_eq!(spend("pingora_core::server"), Some(Spent::Within));
        assert_eq!(spend("rustls::conn"), Some(Spent::Within));
        assert_eq!(spend(TRAFFIC), Some(Spent::Within));
        assert_eq!(spend(PANIC), Some(Spent::Within));
        assert_eq!(spend("tidegate::anything"), None);
        assert_eq!(spend("tidegate"), None);
        assert_eq!(spend("tidegatekeeper"), Some(Spent::Within));
    }

    #[test]
    fn other_crates_are_heard_from_warnings_on() {
        let allowed = |level, target| {
            let quiet = quiet(level);
            [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG].map(|level| quiet.allows(target, &level))
        };
        assert_eq!(allowed(LogLevel::Error, "pingora_core"), [true, false, false, false]);
        assert_eq!(allowed(LogLevel::Warn, "pingora_core"), [true, true, false, false]);
        assert_eq!(allowed(LogLevel::Info, "pingora_core"), [true, true, false, false]);
        assert_eq!(allowed(LogLevel::Debug, "pingora_core"), [true, true, true, false]);
        assert_eq!(allowed(LogLevel::Info, "h2::proto::streams::recv"), [true, false, false, false]);
        assert_eq!(allowed(LogLevel::Info, "redis::cluster_handling::async_connection"), [true, false, false, false]);
        assert_eq!(allowed(LogLevel::Debug, "h2::proto::streams::recv"), [true, true, true, false]);
        assert_eq!(allowed(LogLevel::Info, "tidegate::serve"), [true, true, true, false]);
        assert_eq!(allowed(LogLevel::Debug, "tidegate::serve"), [true, true, true, true]);
    }

    /// What is written of one event in a style.
    fn line(style: Style) -> String {
        let written = Captured::default();
        let writer = written.clone();
        let subscriber = subscriber(LogLevel::Info, style, move || writer.clone(), || Duration::ZERO);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(listener = "main", "listening on 127.0.0.1:8080");
            tracing::debug!("not at this level");
        });
        written.take()
    }

    #[test]
    fn no_place_is_on_the_machine_that_built_the_program() {
        let registry = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/pingora-core-0.9.1/src/lib.rs:7:1";
        assert_eq!(without_build_path(registry), "pingora-core-0.9.1/src/lib.rs:7:1");
        assert_eq!(without_build_path("src/main.rs:1:2"), "src/main.rs:1:2");
        let std = "/root/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/core/src/cell.rs:1:1";
        assert_eq!(without_build_path(std), "library/core/src/cell.rs:1:1");
        assert_eq!(
            without_build_path("/rustc/17067e9ac6d7e/library/core/src/cell.rs:1:1"),
            "library/core/src/cell.rs:1:1"
        );
    }

    #[test]
    fn a_line_of_a_library_that_is_no_fault_is_not_written() {
        let written = Captured::default();
        let writer = written.clone();
        let subscriber = subscriber(LogLevel::Debug, Style::Json, move || writer.clone(), || Duration::ZERO);
        tracing::subscriber::with_default(subscriber, || {
            for message in ["failed to acquire reusable stream", "failed to acquire anything"] {
                tracing::error!(
                    target: "log",
                    { log.target = "pingora_core::connectors", log.file = "/x.rs" },
                    "{message}"
                );
            }
        });
        let lines = written.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0]["message"], "failed to acquire anything");
        assert_eq!(lines[0]["target"], "pingora_core::connectors");
        assert_eq!(lines[0].as_object().unwrap().len(), 4, "{lines:?}");
    }

    #[test]
    fn values_of_a_line_are_those_of_json() {
        let written = Captured::default();
        let writer = written.clone();
        let subscriber = subscriber(LogLevel::Info, Style::Json, move || writer.clone(), || Duration::ZERO);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(count = 3_u64, less = -1_i64, share = 0.5, none = f64::NAN, well = true, why = ?"\n", "\"so\"");
        });
        let line = written.lines().remove(0);
        let expected = serde_json::json!({ "count": 3, "less": -1, "share": 0.5, "none": null, "well": true,
            "why": "\"\\n\"", "message": "\"so\"", "level": "INFO", "target": "tidegate::observe::log::tests" });
        let mut line = line.as_object().unwrap().clone();
        assert!(line.remove("timestamp").is_some());
        assert_eq!(serde_json::Value::Object(line), expected);
    }

    #[test]
    fn a_line_is_an_object_or_a_sentence() {
        let json: serde_json::Value = serde_json::from_str(&line(Style::Json)).unwrap();
        assert_eq!(json["level"], "INFO");
        assert_eq!(json["message"], "listening on 127.0.0.1:8080");
        assert_eq!(json["listener"], "main");
        assert!(json["timestamp"].as_str().unwrap().ends_with('Z'), "{json}");
        let text = line(Style::TextWithoutTime);
        assert_eq!(text, " INFO tidegate::observe::log::tests: listening on 127.0.0.1:8080 listener=\"main\"\n");
        let text = line(Style::Text { colours: false });
        assert!(text.starts_with("20") && text.contains("Z  INFO tidegate"), "{text}");
    }
}
