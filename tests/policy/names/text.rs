//! What a document names, and what of it the program does not have.

use std::fs;
use std::path::Path;

use regex::{Captures, Regex};

use super::program::Program;
use crate::path;

/// How many names were held against the program.
#[derive(Debug, Default, Clone, Copy)]
pub struct Checked {
    pub metrics: usize,
    pub labels: usize,
    pub verbs: usize,
    pub options: usize,
    pub words: usize,
    pub codes: usize,
    pub defaults: usize,
    pub files: usize,
}

/// Crates and files whose names begin like metrics.
const NO_METRICS: [&str; 4] = ["tidegate_limits", "tidegate_http", "tidegate_policy", "tidegate_offline"];

/// Whose values are a fixed list.
const FIXED: [&str; 8] = ["verdict", "code", "mode", "stream", "notice", "result", "state", "policy"];

/// Maps in backticks that are no words of the policy: fields of the log, kinds of keys, and what others write.
const NO_WORDS: [&str; 12] = [
    "header",
    "cookie",
    "query",
    "systemd",
    "unix",
    "client",
    "preset",
    "tidegate",
    "tg",
    "te",
    "client_source",
    "skipped",
];

/// Programs of others, whose options stand in sentences beside their names.
const FOREIGN: [&str; 6] =
    ["--ulimit", "--locked", "--no-ip-validation", "--log-format", "--test-threads", "--nocapture"];

/// Defaults that the effective configuration does not show, as what they are of needs files that are not here.
const NOT_SHOWN: [&str; 1] = ["required"];

/// Sections of the reference that the effective configuration does not show: tests are run, not served.
const OF_TESTS: [&str; 4] = ["## Test", "## Expect", "## Send", "## Reply"];

/// Ends of file names, which look like words with dots between.
const FILES: &str = r"\.(rs|md|ya?ml|json|service|socket|timer|log|key|pem|txt|sock|conf|sh|py|toml|svg|html|gz|com|org|example|dict|token|svc|c|events|tenant|pass)$";

struct Reader<'a> {
    program: &'a Program,
    name: &'a str,
    /// The last heading of the second level.
    section: String,
    checked: &'a mut Checked,
    found: Vec<String>,
    line: usize,
    patterns: Patterns,
}

struct Patterns {
    metric: Regex,
    label: Regex,
    code: Regex,
    span: Regex,
    dotted: Regex,
    file: Regex,
    word: Regex,
    link: Regex,
    tree: Regex,
    installed: Regex,
    default: Regex,
    value: Regex,
    of_reference: Regex,
}

impl Patterns {
    fn new() -> Patterns {
        let of = |pattern: &str| Regex::new(pattern).unwrap();
        Patterns {
            metric: of(
                r"\b(tidegate_[a-z0-9_]+|process_(?:resident|virtual|cpu|open|max|start|threads)[a-z_]*)(\*|\{[^}]*\}?)?",
            ),
            label: of(r#"`([a-z_]+)="?([^"`]*)"?`"#),
            code: of(r"\b[EW]0\d{3}\b"),
            span: of(r"`([^`]+)`"),
            dotted: of(r"^([a-z_]+(?:\.[a-z_]+)+)(?::.*)?$"),
            file: of(FILES),
            word: of(r"^([a-z_]{2,}):(?: .*)?$"),
            link: of(r"\]\(([^)\s]+)\)"),
            tree: of(
                r"(?:^|[\s`\[])((?:docs|conf|tests|src|crates|packaging|systemd|benches|fuzz|models|mutants)/[\w./*-]+)",
            ),
            installed: of(r"(?:^|[\s(`\[:=])(/usr/[\w./-]*tidegate[\w./-]*|/etc/logrotate\.d/[\w.-]+)"),
            default: of(r"`([a-z_.]+)`[^`|]{0,30}\(default:? (`[^`]+`|\d[\w,]*)"),
            value: of(r"`([^`]+)` \((?:the )?default[),;]"),
            of_reference: of(r"\bDefault (`[^`]+`|[\d][\w/%.]*\w|\d|none|true|false)[.,;]"),
        }
    }
}

/// What is wrong in a document, a line each.
pub fn faults(program: &Program, name: &str, text: &str, checked: &mut Checked) -> Vec<String> {
    let mut reader = Reader {
        program,
        name,
        section: String::new(),
        checked,
        found: Vec::new(),
        line: 0,
        patterns: Patterns::new(),
    };
    let markdown = name.ends_with(".md");
    let mut fence: Option<String> = None;
    let mut columns: Vec<String> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        reader.line = place + 1;
        if let Some(info) = line.trim().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(info.to_owned()) };
            continue;
        }
        if line.starts_with("## ") {
            line.clone_into(&mut reader.section);
        }
        reader.metrics(line);
        reader.codes(line);
        match &fence {
            Some(info) if info.starts_with("yaml") => {}
            Some(_) => reader.commands(line.trim().trim_start_matches("$ ")),
            None => {
                let spans: Vec<&str> = reader.spans(line);
                spans.iter().for_each(|span| reader.commands(span));
                if let Some((_, command)) = line.split_once('=').filter(|(word, _)| word.starts_with("Exec")) {
                    reader.commands(command);
                }
                reader.installed(line);
                reader.tree(line);
                if markdown {
                    spans.iter().for_each(|span| reader.words(span));
                    reader.links(line);
                    columns = reader.table(line, columns);
                    reader.defaults(line);
                }
            }
        }
    }
    reader.found
}

impl Reader<'_> {
    fn say(&mut self, kind: &str, what: &str) {
        self.found.push(format!("{}:{}: no such {kind}: {what}", self.name, self.line));
    }

    fn spans<'l>(&self, line: &'l str) -> Vec<&'l str> {
        self.patterns.span.captures_iter(line).map(|found| found.get(1).unwrap().as_str()).collect()
    }

    fn metrics(&mut self, line: &str) {
        let metric = self.patterns.metric.clone();
        let mut used = Vec::new();
        for found in metric.captures_iter(line) {
            let (name, behind) = (found.get(1).unwrap().as_str(), found.get(2).map_or("", |part| part.as_str()));
            let after = &line[found.get(0).unwrap().end()..];
            if NO_METRICS.contains(&name) || after.starts_with(".rs") || after.starts_with("::") {
                continue;
            }
            self.checked.metrics += 1;
            if behind == "*" {
                if !self.program.metrics.keys().any(|known| known.starts_with(name)) {
                    self.say("metric", name);
                }
                continue;
            }
            let Some(labels) = self.program.metrics.get(name) else {
                self.say("metric", name);
                continue;
            };
            used.push(labels);
            for part in behind.trim_matches(['{', '}']).split(',').filter(|part| !part.trim().is_empty()) {
                self.checked.labels += 1;
                let (label, value) = part.split_once(['=', '!']).unwrap_or((part, ""));
                if !labels.contains(label.trim()) {
                    self.say("label", &format!("{label} of {name}"));
                } else if let Some(value) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'))
                    && FIXED.contains(&label.trim())
                    && value != "…"
                    && !self.program.values.contains(value)
                {
                    self.say("value", &format!("{part} of {name}"));
                }
            }
        }
        let label = self.patterns.label.clone();
        for found in label.captures_iter(line).filter(|_| !used.is_empty()) {
            self.checked.labels += 1;
            if !used.iter().any(|labels| labels.contains(&found[1])) {
                self.say("label", &found[0]);
            }
        }
    }

    fn codes(&mut self, line: &str) {
        let code = self.patterns.code.clone();
        for found in code.find_iter(line) {
            self.checked.codes += 1;
            if !self.program.codes.contains(found.as_str()) {
                self.say("code", found.as_str());
            }
        }
    }

    /// A command line, or an option by itself.
    fn commands(&mut self, text: &str) {
        for command in text.split(['|', ';', '#']).flat_map(|part| part.split("&&")) {
            let is_prefix =
                |word: &&str| *word == "sudo" || *word == "-" || word.contains('=') && !word.starts_with('-');
            let words: Vec<&str> = command.split_whitespace().skip_while(is_prefix).collect();
            let Some(first) = words.first() else { continue };
            if first.rsplit('/').next() == Some("tidegate") {
                self.command(command, &words[1..]);
            } else if let Some(option) = option(first).filter(|option| !FOREIGN.contains(option)) {
                self.checked.options += 1;
                if !self.program.verbs.values().any(|options| options.contains(option)) {
                    self.say("option", command);
                }
            }
        }
    }

    fn command(&mut self, command: &str, words: &[&str]) {
        let Some((verb, rest)) = words.split_first() else { return };
        if verb.is_empty() || !verb.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return;
        }
        self.checked.verbs += 1;
        let Some(options) = self.program.verbs.get(*verb) else { return self.say("verb", command.trim()) };
        for option in rest.iter().filter_map(|word| option(word)) {
            self.checked.options += 1;
            if !options.contains(option) && !self.program.verbs[""].contains(option) {
                self.say("option", command.trim());
            }
        }
    }

    fn words(&mut self, span: &str) {
        // other programs have words of their own
        if self.name.contains("coming-from") {
            return;
        }
        let found = self.patterns.dotted.captures(span).map(|found| found[1].to_owned());
        if let Some(dotted) = found.filter(|dotted| !self.patterns.file.is_match(dotted)) {
            self.checked.words += 1;
            let steps: Vec<&str> = dotted.split('.').collect();
            if !self.program.has_path(&steps) {
                self.say("word", span);
            }
        } else if let Some(word) = self.patterns.word.captures(span).map(|found| found[1].to_owned())
            && !NO_WORDS.contains(&word.as_str())
        {
            self.checked.words += 1;
            if !self.program.words.contains(&word) {
                self.say("word", span);
            }
        }
    }

    fn links(&mut self, line: &str) {
        let link = self.patterns.link.clone();
        for found in link.captures_iter(line) {
            let target = &found[1];
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            self.checked.files += 1;
            let folder = Path::new(self.name).parent().unwrap_or(Path::new(""));
            let file = if file.is_empty() { path(self.name) } else { path(folder.join(file).to_str().unwrap()) };
            if !file.exists() {
                self.say("file", target);
            } else if !anchor.is_empty() && file.extension().is_some_and(|kind| kind == "md") {
                let text = fs::read_to_string(file).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#'));
                if !headings.map(anchor_of).any(|known| known == anchor) {
                    self.say("heading", target);
                }
            }
        }
    }

    /// Files of the repository.
    fn tree(&mut self, line: &str) {
        let tree = self.patterns.tree.clone();
        for found in tree.captures_iter(line) {
            let name = found[1].trim_end_matches('.').split('*').next().unwrap_or_default();
            // what a command makes there is not committed
            if name.starts_with("fuzz/corpus/TARGET") || name == "fuzz/found/" || name == "packaging/advisories" {
                continue;
            }
            self.checked.files += 1;
            let beside = path(Path::new(self.name).parent().unwrap().join(name).to_str().unwrap());
            if !path(name).exists() && !beside.exists() {
                self.say("file", name);
            }
        }
    }

    fn installed(&mut self, line: &str) {
        let installed = self.patterns.installed.clone();
        for found in installed.captures_iter(line) {
            let place = found[1].trim_end_matches(['.', '/']);
            self.checked.files += 1;
            let is =
                |known: &String| known.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if !self.program.installed.iter().any(is) {
                self.say("installed file", place);
            }
        }
    }

    /// Rows of tables with a column of words and one of defaults. Returns the columns of the table.
    fn table(&mut self, line: &str, columns: Vec<String>) -> Vec<String> {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { return Vec::new() };
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        if columns.is_empty() {
            return cells;
        }
        let at = |name: &str| columns.iter().position(|column| column == name);
        if let (Some(word), Some(default)) = (at("word"), at("default"))
            && let (Some(word), Some(value)) = (cells.get(word), cells.get(default))
        {
            let value = value.split(';').next().unwrap_or_default();
            self.default(word.trim_matches('`'), value);
        }
        columns
    }

    fn defaults(&mut self, line: &str) {
        let Patterns { default, value, of_reference, .. } = &self.patterns;
        let pairs =
            |found: Captures<'_>| (found[1].rsplit('.').next().unwrap_or_default().to_owned(), found[2].to_owned());
        let said: Vec<(String, String)> = default.captures_iter(line).map(pairs).collect();
        let values: Vec<String> = value.captures_iter(line).map(|found| found[1].to_owned()).collect();
        let shown = self.name == "docs/reference.md" && !OF_TESTS.contains(&self.section.as_str());
        let row = shown.then(|| line.strip_prefix("| `")?.split_once('`')).flatten();
        let row = row.and_then(|(word, rest)| Some((word.to_owned(), of_reference.captures(rest)?[1].to_owned())));
        for (word, value) in said.into_iter().chain(row) {
            self.default(&word, &value);
        }
        for value in values {
            if let Some((word, value)) = value.split_once(": ") {
                self.default(word, value);
                continue;
            }
            self.checked.defaults += 1;
            if !self.program.defaults.has(&value)
                && !self.program.words.contains(&value)
                && !NOT_SHOWN.contains(&value.as_str())
            {
                self.say("default", &value);
            }
        }
        if let Some((_, rest)) = line.split_once("at the default of ")
            && line.contains("`memory`")
        {
            let value = rest.split([' ', '|', ')', ',']).next().unwrap_or_default();
            self.default("memory", value);
        }
    }

    fn default(&mut self, word: &str, value: &str) {
        let page = self.name.strip_prefix("docs/limits/").and_then(|page| page.strip_suffix(".md"));
        let page = page.filter(|page| self.program.defaults.agrees("type", page, None) == Some(true));
        if value.trim().is_empty() || value.trim() == "–" || NOT_SHOWN.contains(&value.trim().trim_matches('`')) {
            return;
        }
        let Some(agrees) = self.program.defaults.agrees(word, value, page) else { return };
        self.checked.defaults += 1;
        if !agrees {
            self.say("default", &format!("{value} of `{word}`"));
        }
    }
}

/// The name of an option.
fn option(word: &str) -> Option<&str> {
    let rest = word.strip_prefix("--")?;
    let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
    rest.starts_with(|c: char| c.is_ascii_lowercase()).then(|| &word[..end + 2])
}

/// The anchor of a heading, as GitHub makes it.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}
