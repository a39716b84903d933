//! Where things stand in the policy file, for people who ask why: a table beside the [`Policy`](crate::policy::Policy), which no
//! request ever looks into.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::source::Sources;
use super::span::Span;
use super::tree::Tree;
use crate::units::Prefix;

/// Where each limit and each route is written, and as what each trusted network.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Of every limit, in the policy's order.
    pub limits: Vec<Place>,
    /// Of every route, in the policy's order.
    pub routes: Vec<Place>,
    /// The trusted networks as they are written.
    pub trusted: Vec<Trusted>,
    /// What may be shown of the configuration, where variables have a part in it.
    pub shown: Option<Arc<Tree>>,
}

/// A line of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path, as the operator wrote it.
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    /// `tidegate.yaml, line 118`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)
    }
}

/// A trusted network, and by which words it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// The network.
    pub network: Prefix,
    /// `10.0.0.0/8`, `preset cloudflare`, `file lb.txt`.
    pub written: Arc<str>,
}

impl Places {
    /// The narrowest entry of `trusted_proxies` that this address lies in.
    pub fn trusted_as(&self, address: IpAddr) -> Option<&str> {
        let inside = self.trusted.iter().filter(|entry| entry.network.contains(address));
        inside.max_by_key(|entry| entry.network.length()).map(|entry| entry.written.as_ref())
    }
}

/// Turns spans into lines. Every text is looked through once, however many places there are in it.
pub(super) struct Lines<'a> {
    sources: &'a Sources,
    known: HashMap<usize, (Arc<str>, Vec<usize>)>,
}

impl<'a> Lines<'a> {
    pub fn of(sources: &'a Sources) -> Lines<'a> {
        Lines { sources, known: HashMap::new() }
    }

    pub fn place(&mut self, span: Span) -> Place {
        let sources = self.sources;
        let (file, breaks) = self.known.entry(span.source()).or_insert_with(|| {
            let name = sources.of(span).map_or("", |source| source.name.as_str());
            let text = sources.text(span.source());
            (Arc::from(name), text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
        });
        let line = breaks.partition_point(|at| *at < span.range().start) + 1;
        Place { file: Arc::clone(file), line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_line_that_a_diagnostic_would_name() {
        let mut sources = Sources::default();
        let text = "a: 1\n\nb:\n  c: é\nd";
        let at = sources.add("x.yaml", text);
        let mut lines = Lines::of(&sources);
        for start in 0..=text.len() {
            let span = Span::new(at, start, start);
            assert_eq!(lines.place(span).line, sources.position(span).line, "{start}");
        }
        assert_eq!(lines.place(Span::new(at, 9, 9)).to_string(), "x.yaml, line 4");
    }

    #[test]
    fn the_narrowest_network_explains_the_trust() {
        let entry = |network: &str, written: &str| {
            let (network, _) = crate::client::trust::parse_cidr(network).unwrap();
            Trusted { network, written: Arc::from(written) }
        };
        let trusted = vec![entry("10.0.0.0/8", "10.0.0.0/8"), entry("10.1.0.0/16", "preset mine")];
        let places = Places { trusted, ..Places::default() };
        assert_eq!(places.trusted_as("10.1.2.3".parse().unwrap()), Some("preset mine"));
        assert_eq!(places.trusted_as("10.2.2.3".parse().unwrap()), Some("10.0.0.0/8"));
        assert_eq!(places.trusted_as("192.0.2.1".parse().unwrap()), None);
    }
}
