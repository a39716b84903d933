//! Diagnostics for people, editors, machines and continuous integration.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

use super::Loaded;
use super::fault::{Diagnostic, Severity};
use super::source::{Sources, Span};

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
    let each = |one: fn(&Diagnostic, &Sources) -> String| {
        loaded.diagnostics.iter().map(|fault| one(fault, &loaded.sources)).collect::<String>()
    };
    let mut out = match format {
        Format::Text => {
            let renderer = if color { Renderer::styled() } else { Renderer::plain() }.decor_style(DecorStyle::Ascii);
            loaded.diagnostics.iter().map(|fault| text(fault, &loaded.sources, &renderer)).collect()
        }
        Format::Short => each(short),
        Format::Github => each(github),
        Format::Json => return json(loaded),
    };
    if loaded.left_out > 0 {
        out.push_str(&format!("and {} more\n", loaded.left_out));
    }
    out
}

/// A diagnostic as a compiler draws it, followed by an empty line.
fn text(fault: &Diagnostic, sources: &Sources, renderer: &Renderer) -> String {
    let level = match fault.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(fault.message.as_str()).id(fault.code.text());
    let mut group = Group::with_title(title);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    if sources.text(fault.at.source()).is_empty() {
        // a file that could not be read has no lines to show
        group = group.element(annotate_snippets::Origin::path(name));
        if !fault.label.is_empty() {
            group = group.element(Level::NOTE.message(fault.label.as_str()));
        }
    } else {
        let near = fault.related.iter().filter(|(at, _)| at.source() == fault.at.source());
        group = group.element(excerpt(fault, near.map(|(at, what)| (*at, what.as_str())).collect(), sources));
    }
    for (at, what) in fault.related.iter().filter(|(at, _)| at.source() != fault.at.source()) {
        let text = sources.text(at.source());
        if text.is_empty() {
            continue;
        }
        let (slice, line, offset) = lines_around(text, &[first_line(*at, text)]);
        let shown = first_line(*at, text);
        let annotation = AnnotationKind::Context.span(shown.start - offset..shown.end - offset).label(what.as_str());
        let name = sources.of(*at).map_or("", |source| source.name.as_str());
        group = group.element(Snippet::source(slice).path(name).line_start(line).annotation(annotation));
    }
    for help in &fault.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    format!("{}\n\n", renderer.render(&[group]))
}

/// The lines of a fault and of what is related to it in the same source.
fn excerpt<'a>(
    fault: &'a Diagnostic,
    related: Vec<(Span, &'a str)>,
    sources: &'a Sources,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = sources.text(fault.at.source());
    let own = first_line(fault.at, text);
    let others: Vec<_> = related.into_iter().map(|(at, what)| (first_line(at, text), what)).collect();
    let mut all = vec![own.clone()];
    all.extend(others.iter().map(|(range, _)| range.clone()));
    let (slice, line, offset) = lines_around(text, &all);
    let name = sources.of(fault.at).map_or("", |source| source.name.as_str());
    let mut primary = AnnotationKind::Primary.span(own.start - offset..own.end - offset);
    if !fault.label.is_empty() {
        primary = primary.label(fault.label.as_str());
    }
    let mut snippet = Snippet::source(slice).path(name).line_start(line).annotation(primary);
    for (range, what) in others {
        snippet =
            snippet.annotation(AnnotationKind::Context.span(range.start - offset..range.end - offset).label(what));
    }
    snippet
}

/// The part of a span that lies on its first line, on character boundaries: a caret under a whole block helps nobody.
fn first_line(at: Span, text: &str) -> std::ops::Range<usize> {
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
fn lines_around<'a>(text: &'a str, ranges: &[std::ops::Range<usize>]) -> (&'a str, usize, usize) {
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
    let mut line = fault.message.clone();
    for part in std::iter::once(&fault.label).chain(&fault.help).filter(|part| !part.is_empty()) {
        line.push_str("; ");
        line.push_str(part);
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

fn json(loaded: &Loaded) -> String {
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
    let diagnostics: Vec<Value> = loaded
        .diagnostics
        .iter()
        .map(|fault| {
            let related: Vec<Value> =
                fault.related.iter().map(|(at, what)| json!({ "at": place(*at), "message": what })).collect();
            json!({
                "code": fault.code.text(),
                "severity": fault.severity().word(),
                "message": fault.message,
                "at": place(fault.at),
                "label": fault.label,
                "help": fault.help,
                "replacement": fault.replacement,
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
        "fingerprint": loaded.outcome.as_ref().ok().map(|config| config.policy.fingerprint.as_str()),
        "diagnostics": diagnostics,
    });
    format!("{document:#}\n")
}
