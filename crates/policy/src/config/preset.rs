//! Lists of networks: presets by name and files by path, one network per line.
//!
//! `presets.d/NAME.txt` beside the policy file goes before the preset of that name that is built in. The program never
//! fetches a list; a `# date:` line says how old it is.

use super::compile::Context;
use super::dated::UsedPreset;
use super::day::Day;
use super::fault::{Code, Diagnostic};
use super::nearest::nearest;
use super::quoted::quoted;
use super::read::At;
use super::span::Span;
use crate::client::trust::{HostBits, parse_cidr};
use crate::units::Prefix;

/// The presets that are part of the program.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("cloudflare", include_str!("../../../../conf/presets.d/cloudflare.txt")),
    ("loopback", include_str!("../../../../conf/presets.d/loopback.txt")),
    ("private", include_str!("../../../../conf/presets.d/private.txt")),
];

/// What a list holds.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// Its networks.
    pub networks: Vec<Prefix>,
    /// Whether it lists `unix`.
    pub unix: bool,
    date: Option<i64>,
}

/// Whether a bare word in `from` is meant as a preset's name.
pub fn is_name(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
        && text.parse::<std::net::Ipv6Addr>().is_err()
}

/// The networks of a preset.
pub fn preset(name: &At<String>, context: &mut Context<'_>) -> Entries {
    let word = name.value.as_str();
    let path = context.directory.join("presets.d").join(format!("{word}.txt"));
    let source = if !is_name(word) {
        None
    } else if path.is_file() {
        match context.sources.read(&path) {
            Ok(source) => Some(source),
            Err(fault) => {
                context.faults.push(fault.related(name.span, "used here"));
                return Entries::default();
            }
        }
    } else {
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == word);
        built_in.map(|(known, text)| context.sources.add(format!("built-in preset {known}"), *text))
    };
    let Some(source) = source else {
        unknown(name, context);
        return Entries::default();
    };
    let entries = entries(source, context);
    context.presets.push(UsedPreset { name: word.to_owned(), date: entries.date, at: name.span });
    entries
}

fn unknown(name: &At<String>, context: &mut Context<'_>) {
    let mut known: Vec<String> = BUILT_IN.iter().map(|(known, _)| (*known).to_owned()).collect();
    let own = std::fs::read_dir(context.directory.join("presets.d")).into_iter().flatten().flatten();
    known.extend(own.take(1_000).filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".txt")?.to_owned())));
    known.sort_unstable();
    known.dedup();
    let near = nearest(&name.value, known.iter().map(String::as_str)).filter(|_| !name.masked);
    context.faults.push(
        Diagnostic::error(Code::UNKNOWN_PRESET, name.span, format!("there is no preset {}", name.shown))
            .label(format!("presets are {}", known.join(", ")))
            .nearest(near)
            .help("a file `presets.d/NAME.txt` beside the policy file makes one"),
    );
}

/// The networks of a file.
pub fn file(path: &At<String>, context: &mut Context<'_>) -> Entries {
    match context.sources.read(&context.directory.join(&path.value)) {
        Ok(source) => entries(source, context),
        Err(fault) => {
            let told = Diagnostic::error(Code::BAD_LIST_FILE, path.span, format!("cannot use the list {}", path.shown))
                .label(fault.label);
            context.faults.push(told);
            Entries::default()
        }
    }
}

/// The networks of a file of `deny`, which something else may fetch and renew: it may be long, and may be empty.
pub fn list(path: &At<String>, context: &mut Context<'_>) -> Entries {
    match context.sources.read_up_to(&context.directory.join(&path.value), MAX_LIST_BYTES) {
        Ok(source) => lines(source, context),
        Err(fault) => {
            let told = Diagnostic::error(Code::BAD_LIST_FILE, path.span, format!("cannot use the list {}", path.shown))
                .label(fault.label);
            context.faults.push(told);
            Entries::default()
        }
    }
}

/// A file of `deny` larger than this is refused: a million networks are 45 MiB at most.
const MAX_LIST_BYTES: usize = 64 << 20;

/// Reads the lines of a list that holds something.
fn entries(source: usize, context: &mut Context<'_>) -> Entries {
    let entries = lines(source, context);
    if entries.networks.is_empty() && !entries.unix {
        context.faults.push(
            Diagnostic::error(Code::BAD_LIST_FILE, Span::new(source, 0, 0), "the list holds no network")
                .label("needs one network per line"),
        );
    }
    entries
}

/// Reads the lines of a list.
fn lines(source: usize, context: &mut Context<'_>) -> Entries {
    let text = context.sources.text(source).to_owned();
    let mut entries = Entries::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let line_start = start;
        start += line.len();
        let (entry, comment) = line.split_once('#').map_or((line, ""), |(entry, comment)| (entry, comment));
        let at = |part: &str, offset: usize| {
            let from = line_start + offset + (part.len() - part.trim_start().len());
            Span::new(source, from, from + part.trim().len())
        };
        if let Some(date) = comment.trim_start().strip_prefix("date:") {
            entries.date = days(date.trim());
            if entries.date.is_none() {
                context.faults.push(
                    Diagnostic::error(Code::BAD_LIST_FILE, at(date, line.len() - date.len()), "invalid date")
                        .label("must be a date such as 2026-11-21"),
                );
            }
        }
        match entry.trim() {
            "" => {}
            "unix" => entries.unix = true,
            word => match parse_cidr(word) {
                Ok((prefix, host_bits)) => {
                    entries.networks.push(prefix);
                    if host_bits == HostBits::Masked {
                        context.faults.push(
                            Diagnostic::new(Code::HOST_BITS, at(entry, 0), format!("{} has host bits", quoted(word)))
                                .label(format!("bits behind the length do not count; it stands for {prefix}")),
                        );
                    }
                }
                Err(fault) => {
                    let told =
                        Diagnostic::error(Code::BAD_CIDR, at(entry, 0), format!("invalid network {}", quoted(word)))
                            .label(fault.allowed());
                    context.faults.push(match fault.way_out() {
                        Some(way_out) => told.help(way_out),
                        None => told,
                    });
                }
            },
        }
    }
    entries
}

/// The networks of a list that is part of the program; what is none is left out.
pub fn networks_of(text: &str) -> Vec<Prefix> {
    let words = text.lines().filter_map(|line| line.split('#').next().map(str::trim));
    words.filter_map(|word| parse_cidr(word).ok().map(|(network, _)| network)).collect()
}

/// `2026-11-21` as days since 1970-01-01. Gregorian, years 1970 to 9999.
pub fn days(date: &str) -> Option<i64> {
    Day::parse(date).map(|day| day.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_no_preset_names() {
        for name in ["cloudflare", "private", "my-lb_2"] {
            assert!(is_name(name), "{name}");
        }
        for other in ["10.0.0.0/8", "::1", "fe80::1", "", "Cloud", "../x", "a/b"] {
            assert!(!is_name(other), "{other}");
        }
    }
}
