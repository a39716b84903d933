//! The names that a page for operators answers to.
//!
//! A browser lets a stranger's page read what has the page's own name, so a stranger has its name resolve to an address of
//! ours (DNS rebinding). An IP address and `localhost` cannot be made to point elsewhere; every other name has to be
//! written in the policy file.
//!
//! Source: Jackson et al. 2007, "Protecting browsers from DNS rebinding attacks".

use std::net::IpAddr;

use http::{HeaderMap, header};

use crate::policy::route::HostMatch;

/// What is said to any other name.
pub const REFUSAL: &str =
    "the Host is neither an IP address nor `localhost`, and the policy file does not name it under `hosts`";

/// The names of one address.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<HostMatch>);

impl Hosts {
    /// IP addresses, `localhost`, and these.
    pub fn new(named: &[HostMatch]) -> Hosts {
        Hosts(named.to_vec())
    }

    /// Whether a request with these fields may be answered: it has one `Host`, and that is one of ours.
    pub fn allow(&self, fields: &HeaderMap) -> bool {
        let mut hosts = fields.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
        host.is_some_and(|host| self.has(host))
    }

    fn has(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // the colons of an address in brackets are not a port's
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        if let Some(inner) = name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            return inner.parse::<std::net::Ipv6Addr>().is_ok();
        }
        let is_named = |named: &HostMatch| match named {
            HostMatch::Any => true,
            HostMatch::Exact(known) => name.eq_ignore_ascii_case(known),
            HostMatch::Suffix(suffix) => {
                name.to_ascii_lowercase().strip_suffix(suffix.as_str()).is_some_and(|rest| !rest.is_empty())
            }
        };
        name.eq_ignore_ascii_case("localhost")
            || matches!(name.parse(), Ok(IpAddr::V4(_)))
            || self.0.iter().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn allows(named: &[HostMatch], hosts: &[&str]) -> bool {
        let mut fields = HeaderMap::new();
        for host in hosts {
            fields.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        Hosts::new(named).allow(&fields)
    }

    #[test]
    fn only_addresses_and_localhost_are_names_of_ours() {
        for host in ["127.0.0.1", "127.0.0.1:9901", "localhost", "LocalHost:9901", "[::1]", "[::1]:9901", "10.1.2.3:80"]
        {
            assert!(allows(&[], &[host]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9901",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.",
            "",
            ":9901",
            "::1",
            "[evil.example]",
            "[::1",
            "127.0.0.1@evil.example",
            "0x7f000001",
            "2130706433",
            "127.1",
            "localhost:9901:80",
        ] {
            assert!(!allows(&[], &[host]), "{host}");
        }
        assert!(!allows(&[], &[]));
        assert!(!allows(&[], &["localhost", "evil.example"]));
    }

    #[test]
    fn a_name_in_the_policy_file_is_ours_and_its_neighbours_are_not() {
        let named = [HostMatch::Exact("gate.monitoring.svc".into()), HostMatch::Suffix(".internal".into())];
        for host in ["gate.monitoring.svc", "GATE.monitoring.svc:9464", "a.internal", "a.b.internal:1", "localhost"] {
            assert!(allows(&named, &[host]), "{host}");
        }
        for host in ["monitoring.svc", "x.gate.monitoring.svc", "internal", ".internal", "a.internal.evil.example"] {
            assert!(!allows(&named, &[host]), "{host}");
        }
    }
}
