//! A line of the process's log as one JSON object: `timestamp`, `level`, the line's own fields, `target`.
//!
//! What the `log` crate adds to a line of a library (`log.file`, `log.line`, …) is left out: it names files of the machine that
//! built the program.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::answer::json;

/// Writes events as JSON.
#[derive(Debug)]
pub struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Line(b"{\"timestamp\":".to_vec());
        line.value(&time);
        line.text("level", event.metadata().level().as_str());
        event.record(&mut line);
        line.text("target", &target_of(event));
        line.0.extend_from_slice(b"}\n");
        writer.write_str(std::str::from_utf8(&line.0).map_err(|_| fmt::Error)?)
    }
}

/// Returns the target of an event: of one that came through the `log` crate, the target that it had there.
pub fn target_of(event: &Event<'_>) -> Cow<'static, str> {
    let target = event.metadata().target();
    if target != "log" {
        return target.into();
    }
    text_of(event, "log.target").into()
}

/// Returns the text of a field; empty without one.
pub fn text_of(event: &Event<'_>, name: &'static str) -> String {
    let mut found = One { name, text: String::new() };
    event.record(&mut found);
    found.text
}

/// Looks for one field.
struct One {
    name: &'static str,
    text: String,
}

impl Visit for One {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == self.name {
            value.clone_into(&mut self.text);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == self.name {
            self.text = format!("{value:?}");
        }
    }
}

/// An object that is being written.
struct Line(Vec<u8>);

impl Line {
    fn value(&mut self, text: &str) {
        json::text(&mut self.0, text.as_bytes(), usize::MAX);
    }

    /// Appends a name; `false` for what a line does not show.
    fn name(&mut self, name: &str) -> bool {
        let shown = !name.starts_with("log.");
        if shown {
            self.0.push(b',');
            self.value(name.strip_prefix("r#").unwrap_or(name));
            self.0.push(b':');
        }
        shown
    }

    fn text(&mut self, name: &str, text: &str) {
        if self.name(name) {
            self.value(text);
        }
    }

    /// Appends a value that JSON writes as Rust does.
    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        if self.name(field.name()) {
            self.0.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.plain(field, value),
            false => self.plain(field, "null"),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field.name(), &format!("{value:?}"));
    }
}
