//! Where things stand in the policy file, for people who ask why: a table beside the [`Policy`](crate::policy::Policy), which no
//! request ever looks into.

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

impl Place {
    /// Where a span begins.
    pub(super) fn of(span: Span, sources: &Sources) -> Place {
        let file = sources.of(span).map_or("", |source| source.name.as_str());
        Place { file: Arc::from(file), line: sources.position(span).line }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
