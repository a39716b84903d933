//! Diagnostics for people, editors, machines and continuous integration. None of them shows a secret: `veil` says what is one.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

use super::Loaded;
use super::fault::{Diagnostic, Severity};
use super::source::Sources;
use super::span::Span;
use super::veil::{self, Veiled};

/// How diagnostics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With an excerpt of the source, for people.
    Text,
    /// `FILE:LINE:COLUMN: error[E0203]: …`, one line each, for editors.
    Short,
    /// One JSON document.
    Json,
    /// Workflow commands that annotate the lines of a change on GitHub.
    Github,
}

/// The schema of [`Format::Json`]. Fields may be added under this number, none taken away.
pub const JSON_SCHEMA: &str = "tidegate.check/1";

/// All diagnostics of a load. `color` matters to [`Format::Text`] only. Empty when there is nothing to say, except as JSON.
pub fn render(loaded: &Loaded, format: Format, color: bool) -> String {
    let diagnostics: Vec<Diagnostic> =
        loaded.diagnostics.iter().map(|fault| fault.without(&loaded.concealed)).collect();
    let each = |one: fn(&Diagnostic, &Sources) -> String| {
        diagnostics.iter().map(|fault| one(fault, &loaded.sources)).collect::<String>()
    };
    let mut out = match format {
        Format::Text => {
            let renderer = if color { Renderer::styled() } else { Renderer::plain() }.decor_style(DecorStyle::Ascii);
            let secrets = Secrets::of(loaded);
            diagnostics.iter().map(|fault| text(fault, &secrets, &renderer)).collect()
        }
        Format::Short => each(short),
        Format::Github => each(github),
        Format::Json => return json(loaded, &diagnostics),
    };
    if loaded.left_out > 0 {
        out.push_str(&format!("and {} more\n", loaded.left_out));
    }
    out
}

/// The texts that excerpts are taken from, and what is secret in each.
struct Secrets<'l> {
    sources: &'l Sources,
    ranges: Vec<Vec<Range<usize>>>,
}

impl<'l> Secrets<'l> {
    /// Looks through the sources that diagnostics point into: once each, however many do.
    fn of(loaded: &'l Loaded) -> Secrets<'l> {
        let mut secrets = Secrets { sources: &loaded.sources, ranges: Vec::new() };
        let places = |fault: &'l Diagnostic| std::iter::once(fault.at).chain(fault.related.iter().map(|(at, _)| *at));
        let mut shown: Vec<usize> = loaded.diagnostics.iter().flat_map(places).map(Span::source).collect();
        shown.sort_unstable();
        shown.dedup();
        for source in shown {
            secrets.ranges.resize(source, Vec::new());
            secrets.ranges.push(veil::in_source(loaded.sources.text(source)));
        }
        secrets
    }

    /// A part of a source, which begins at `start`.
    fn veil<'t>(&'t self, source: usize, part: &'t str, start: usize) -> Veiled<'t> {
        Veiled::new(part, self.ranges.get(source).map_or(&[], Vec::as_slice), start)
    }
}

/// A diagnostic as a compiler draws it, followed by an empty line.
fn text(fault: &Diagnostic, secrets: &Secrets<'_>, renderer: &Renderer) -> String {
    let sources = secrets.sources;
    let level = match fault.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(veil::shown(&fault.message)).id(fault.code.text());
    let mut group = Group::with_title(title);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    if sources.text(fault.at.source()).is_empty() {
        // a file that could not be read has no lines to show
        group = group.element(annotate_snippets::Origin::path(name));
        if !fault.label.is_empty() {
            group = group.element(Level::NOTE.message(veil::shown(&fault.label)));
        }
    } else {
        let near = fault.related.iter().filter(|(at, _)| at.source() == fault.at.source());
        group = group.element(excerpt(fault, near.map(|(at, what)| (*at, what.as_str())).collect(), secrets));
    }
    for (at, what) in fault.related.iter().filter(|(at, _)| at.source() != fault.at.source()) {
        let text = sources.text(at.source());
        if text.is_empty() {
            continue;
        }
        let (slice, line, offset) = lines_around(text, &[first_line(*at, text)]);
        let shown = first_line(*at, text);
        let veiled = secrets.veil(at.source(), slice, offset);
        let span = veiled.at(shown.start - offset)..veiled.at(shown.end - offset);
        let annotation = AnnotationKind::Context.span(span).label(veil::shown(what));
        let name = sources.of(*at).map_or("", |source| source.name.as_str());
        group = group
            .element(Snippet::source(veiled.text().into_owned()).path(name).line_start(line).annotation(annotation));
    }
    for help in &fault.help {
        group = group.element(Level::HELP.message(veil::shown(help)));
    }
    format!("{}\n\n", renderer.render(&[group]))
}

/// The lines of a fault and of what is related to it in the same source.
fn excerpt<'a>(
    fault: &'a Diagnostic,
    related: Vec<(Span, &'a str)>,
    secrets: &'a Secrets<'_>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let sources = secrets.sources;
    let text = sources.text(fault.at.source());
    let own = first_line(fault.at, text);
    let others: Vec<_> = related.into_iter().map(|(at, what)| (first_line(at, text), what)).collect();
    let mut all = vec![own.clone()];
    all.extend(others.iter().map(|(range, _)| range.clone()));
    let (slice, line, offset) = lines_around(text, &all);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    let veiled = secrets.veil(fault.at.source(), slice, offset);
    let within = |range: &Range<usize>| veiled.at(range.start - offset)..veiled.at(range.end - offset);
    let mut primary = AnnotationKind::Primary.span(within(&own));
    if !fault.label.is_empty() {
        primary = primary.label(veil::shown(&fault.label));
    }
    let mut snippet = Snippet::source(veiled.text().into_owned()).path(name).line_start(line).annotation(primary);
    for (range, what) in others {
        snippet = snippet.annotation(AnnotationKind::Context.span(within(&range)).label(veil::shown(what)));
    }
    snippet
}

/// The part of a span that lies on its first line, on character boundaries: a caret under a whole block helps nobody.
fn first_line(at: Span, text: &str) -> Range<usize> {
    let boundary = |mut offset: usize| {
        offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    };
    let (start, end) = (boundary(at.range().start), boundary(at.range().end));
    let covered = text.get(start..end).unwrap_or("");
    let line = covered.find(['\n', '\r']).unwrap_or(covered.len());
    start..start + line
}

/// The lines that these ranges touch, from the first to the last; the number of the first, and where it starts. Only what
/// is shown goes to the renderer, whose time grows with its input.
fn lines_around<'a>(text: &'a str, ranges: &[Range<usize>]) -> (&'a str, usize, usize) {
    let first = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let last = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let start = text.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let end = text.get(last..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| last + at);
    let line = text.get(..start).map_or(0, |before| before.bytes().filter(|byte| *byte == b'\n').count()) + 1;
    let lines = text.get(start..end).unwrap_or("");
    // the carriage return of the last line would be drawn; those before are part of their line breaks
    (lines.strip_suffix('\r').unwrap_or(lines), line, start)
}

/// Message, label and help in one line.
fn in_one_line(fault: &Diagnostic) -> String {
    let mut line = veil::shown(&fault.message).into_owned();
    for part in std::iter::once(&fault.label).chain(&fault.help).filter(|part| !part.is_empty()) {
        line.push_str("; ");
        line.push_str(&veil::shown(part));
    }
    line
}

fn short(fault: &Diagnostic, sources: &Sources) -> String {
    let position = sources.position(fault.at);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    format!(
        "{name}:{}:{}: {}[{}]: {}\n",
        position.line,
        position.column,
        fault.severity().word(),
        fault.code.text(),
        in_one_line(fault)
    )
}

/// Source: GitHub, "Workflow commands"; `%`, line breaks, and in properties `:` and `,`, are percent-encoded.
fn github(fault: &Diagnostic, sources: &Sources) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let position = sources.position(fault.at);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    format!(
        "::{} file={},line={},col={},endLine={},endColumn={},title={}::{}\n",
        fault.severity().word(),
        property(name),
        position.line,
        position.column,
        position.end_line,
        position.end_column,
        fault.code.text(),
        data(&in_one_line(fault))
    )
}

fn json(loaded: &Loaded, diagnostics: &[Diagnostic]) -> String {
    let place = |at: Span| {
        let position = loaded.sources.position(at);
        json!({
            "file": loaded.sources.of(at).map_or("", |source| source.name.as_str()),
            "line": position.line,
            "column": position.column,
            "end_line": position.end_line,
            "end_column": position.end_column,
        })
    };
    let diagnostics: Vec<Value> = diagnostics
        .iter()
        .map(|fault| {
            let related: Vec<Value> =
                fault.related.iter().map(|(at, what)| json!({ "at": place(*at), "message": veil::shown(what) })).collect();
            json!({
                "code": fault.code.text(),
                "severity": fault.severity().word(),
                "message": veil::shown(&fault.message),
                "at": place(fault.at),
                "label": veil::shown(&fault.label),
                "help": fault.help.iter().map(|help| veil::shown(help)).collect::<Vec<_>>(),
                // one that may not be shown mends nothing
                "replacement": fault.replacement.as_deref().filter(|text| matches!(veil::shown(text), Cow::Borrowed(_))),
                "related": related,
            })
        })
        .collect();
    let document = json!({
        "schema": JSON_SCHEMA,
        "valid": loaded.outcome.is_ok(),
        "errors": loaded.outcome.as_ref().err().map_or(0, |refused| refused.errors),
        "warnings": loaded.warnings(),
        "left_out": loaded.left_out,
        "fingerprint": loaded.outcome.as_ref().ok().map(|config| config.fingerprint.as_str()),
        "diagnostics": diagnostics,
    });
    format!("{document:#}\n")
}
