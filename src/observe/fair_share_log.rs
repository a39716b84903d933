//! The source of a flood, in the process's own log.
//!
//! The access log has every refusal of `fair_share` with its node and network; an operator in an incident reads this
//! one first. So a limit that refuses writes a line with a network of the refused requests, and then none for
//! [`PAUSE`] while it counts the refusals of the next line. What is remembered is two words per limit, whatever the number
//! of clients, so the network is that of the request whose refusal made the line: one of the heaviest, not the heaviest.
//!
//! This is not the log's own [budget](super::log::LINES): these lines are few by themselves, and must not be crowded out
//! by others.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayString;

use super::pseudonym::Pseudonyms;
use crate::answer::entry::node_names;
use crate::client::{Client, ClientNetwork, KeyPart, KeySpec};
use crate::config::settings::ClientInLog;
use crate::policy::Rule;
use crate::units::Timestamp;

/// How long a limit keeps quiet after a line, in seconds.
pub const PAUSE: u64 = 10;

/// A client or a network in a log: the longest network has 43 characters, a pseudonym 22.
pub type Shown = ArrayString<64>;

/// What is known of one `fair_share` limit's refusals.
#[derive(Debug)]
pub struct Flood {
    nodes: Vec<String>,
    refusals: Seldom,
}

impl Flood {
    /// Of a `fair_share` limit; `None` for other kinds.
    pub fn of(rule: &Rule) -> Option<Flood> {
        let nodes = node_names(rule);
        (!nodes.is_empty()).then(|| Flood { nodes, refusals: Seldom::default() })
    }

    /// The word for a node.
    pub fn node(&self, node: u8) -> Option<&str> {
        self.nodes.get(usize::from(node)).map(String::as_str)
    }

    /// Writes the line: so many refusals since the last one, and where one of them came from.
    pub fn tell(&self, limit: &str, node: u8, network: Option<&str>, refused: u64) {
        let node = self.node(node);
        tracing::warn!(limit, node, prefix = network, refused, "over its capacity, refusing the heaviest traffic");
    }

    /// Counts a refusal at `now`. When it is time for a line, gives how many there were since the last one, this one
    /// included.
    pub fn refused(&self, now: Timestamp) -> Option<u64> {
        self.refusals.count(now)
    }
}

/// Lets one event per [`PAUSE`] through and counts the others.
///
/// The whole state is one word, the second from which the next line is due in its upper half, the events since the last
/// line in the lower, so every event is one exchange of it and none is lost or counted twice. It publishes nothing else,
/// hence the relaxed ordering.
#[derive(Debug, Default)]
struct Seldom {
    state: AtomicU64,
}

impl Seldom {
    fn count(&self, now: Timestamp) -> Option<u64> {
        // a second more, because the second of `now` has begun already
        let second = (now.nanos() / 1_000_000_000).min(COUNT - PAUSE - 1);
        let due = |state: u64| second >= state >> 32;
        let next = |state: u64| match due(state) {
            true => (second + PAUSE + 1) << 32,
            // at the end of the lower half it stays there
            false => state + u64::from(state & COUNT != COUNT),
        };
        let before = match self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state))) {
            Ok(before) | Err(before) => before,
        };
        due(before).then_some((before & COUNT) + 1)
    }
}

const COUNT: u64 = u32::MAX as u64;

/// The client as both logs show it.
pub fn shown_client(client: &Client, as_what: ClientInLog, pseudonyms: &Pseudonyms) -> Shown {
    let mut shown = Shown::new();
    // both fit
    let _ = match as_what {
        ClientInLog::Pseudonym => write!(shown, "{}", pseudonyms.of(client)),
        ClientInLog::Address => write!(shown, "{}", client.address),
    };
    shown
}

/// The network that the client is in at a node; `None` when the node does not count by one, and behind a UNIX socket.
///
/// One that is wider than what a client is counted by is shown as it is, since it names nobody. Any other is that one
/// client, and shown like it.
pub fn shown_network(client: &Client, node: &KeySpec, as_what: ClientInLog, pseudonyms: &Pseudonyms) -> Option<Shown> {
    let network = node.parts().iter().find_map(|part| match part {
        KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => Some(client.network_for(*ipv4_prefix, *ipv6_prefix)),
        _ => None,
    })?;
    let (ClientNetwork::Prefix(network), ClientNetwork::Prefix(own)) = (network, client.network) else { return None };
    if network.length() >= own.length() {
        return Some(shown_client(client, as_what, pseudonyms));
    }
    let mut shown = Shown::new();
    let _ = write!(shown, "{network}");
    Some(shown)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http::HeaderMap;

    use super::*;
    use crate::client::{ClientRules, resolve};
    use crate::config::settings::LogLevel;
    use crate::observe::captured::Captured;
    use crate::observe::log::{Style, subscriber};
    use crate::policy::{Kind, Mode, kinds};
    use crate::request::Peer;
    use crate::units::Rate;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(400 * 86_400 * 1_000_000_000 + millis * 1_000_000)
    }

    fn key(part: &str) -> KeySpec {
        KeySpec::new([part.parse().unwrap()], None).unwrap()
    }

    fn flood() -> Flood {
        let kind = Kind::FairShare(kinds::FairShare::of(Rate::new(1, Duration::from_secs(1)).unwrap()));
        let mut rule = Rule::new("fair", key("global"), kind, Mode::Enforce);
        rule.nodes = vec![key("client_ip"), key("client_ip:ipv4_prefix=24,ipv6_prefix=48")];
        Flood::of(&rule).unwrap()
    }

    #[test]
    fn a_flood_is_one_line_in_ten_seconds_and_a_number() {
        let flood = flood();
        assert_eq!(flood.refused(at(500)), Some(1));
        for _ in 0..1_000 {
            assert_eq!(flood.refused(at(700)), None);
        }
        // no sooner, whatever part of a second the first one came in
        assert_eq!(flood.refused(at(10_499)), None);
        assert_eq!(flood.refused(at(11_500)), Some(1_002));
        assert_eq!(flood.refused(at(99_000)), Some(1));
    }

    #[test]
    fn a_line_names_limit_node_network_and_number() {
        let (written, flood) = (Captured::default(), flood());
        let writer = written.clone();
        let subscriber = subscriber(LogLevel::Warn, Style::Json, move || writer.clone(), || Duration::ZERO);
        tracing::subscriber::with_default(subscriber, || {
            flood.tell("fair", 1, Some("203.0.113.0/24"), 1_002);
            flood.tell("fair", 0, None, 7);
        });
        let lines = written.lines();
        let [network, whole] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&network["limit"], &network["refused"]), (&"fair".into(), &1_002.into()));
        assert_eq!(network["node"], "client_ip:ipv4_prefix=24,ipv6_prefix=48");
        assert_eq!((&network["prefix"], &network["level"]), (&"203.0.113.0/24".into(), &"WARN".into()));
        assert_eq!((&whole["node"], whole.get("prefix")), (&"client_ip".into(), None));
    }

    #[test]
    fn a_clock_that_steps_back_and_the_ends_of_the_numbers_do_no_harm() {
        let seldom = Seldom::default();
        assert_eq!(seldom.count(at(60_000)), Some(1));
        assert_eq!(seldom.count(at(0)), None);
        assert_eq!(seldom.count(at(71_000)), Some(2));
        let full = Seldom { state: AtomicU64::new(u64::MAX) };
        assert_eq!(full.count(at(0)), None);
        assert_eq!(full.state.load(Ordering::Relaxed), u64::MAX);
        assert_eq!(Seldom::default().count(Timestamp::from_nanos(u64::MAX)), Some(1));
    }

    #[test]
    fn no_refusal_is_lost_or_counted_twice_by_threads() {
        let seldom = Arc::new(Seldom::default());
        let told = |seldom: Arc<Seldom>| move || (0..20_000).filter_map(|n| seldom.count(at(n * 2))).sum::<u64>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(told(seldom.clone()))).collect();
        let told: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let left = seldom.state.load(Ordering::Relaxed) & COUNT;
        assert_eq!(told + left, 80_000);
    }

    #[test]
    fn a_network_shows_unless_it_is_one_client() {
        let pseudonyms = Pseudonyms::new(None, [7; 32]);
        let client = |address: &str| {
            resolve(&ClientRules::default(), Peer::Ip(address.parse().unwrap()), &HeaderMap::new()).unwrap()
        };
        let shown = |address: &str, node: &str, as_what| {
            shown_network(&client(address), &key(node), as_what, &pseudonyms).map(|shown| shown.to_string())
        };
        let (four, six) = ("203.0.113.77", "2001:db8:99:1::5");
        let wide = "client_ip:ipv4_prefix=24,ipv6_prefix=48";
        for as_what in [ClientInLog::Pseudonym, ClientInLog::Address] {
            assert_eq!(shown(four, wide, as_what).unwrap(), "203.0.113.0/24");
            assert_eq!(shown(six, wide, as_what).unwrap(), "2001:db8:99::/48");
            assert_eq!(shown(four, "route", as_what), None);
        }
        for (address, node) in [(four, "client_ip"), (six, "client_ip"), (six, "client_ip:ipv6_prefix=128")] {
            let pseudonym = pseudonyms.of(&client(address)).to_string();
            assert_eq!(shown(address, node, ClientInLog::Pseudonym), Some(pseudonym));
            assert_eq!(shown(address, node, ClientInLog::Address).unwrap(), address);
        }
        let unix = resolve(&ClientRules::default(), Peer::Unix, &HeaderMap::new()).unwrap();
        assert_eq!(shown_network(&unix, &key(wide), ClientInLog::Address, &pseudonyms), None);
    }
}
