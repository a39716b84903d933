//! `connections.handshakes`: a client's new handshakes are limited, whether they are finished, resumed or broken off.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection};

use super::policy;
use crate::harness::tls::{Authority, Files};
use crate::harness::{Connection, Gate, Origin, Reply};

struct Limited {
    gate: Gate,
    authority: Authority,
    _files: Files,
}

fn limited(words: &str, origin: &Origin) -> Limited {
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test"]));
    let gate = Gate::start(&policy(&format!("{{ certificates: {pair} }}, {words}"), origin, ""));
    Limited { gate, authority, _files: files }
}

/// One finished handshake from this address, with a request on it; `None` when the connection was closed instead.
fn finished(config: &Arc<ClientConfig>, source: u8, address: SocketAddr) -> Option<Connection> {
    let name = ServerName::try_from("a.test").unwrap();
    let client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let connection = Connection::open_from(Ipv4Addr::new(127, 0, 0, source), address);
    let mut connection = connection.secured(client).ok()?;
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    Some(connection)
}

#[test]
fn finished_and_resumed_handshakes_count_as_those_that_are_broken_off() {
    let origin = Origin::that(Reply::Ok);
    let site = limited("connections: { handshakes: 6/h }", &origin);
    let address = site.gate.address("main");
    let refused = || site.gate.metrics().sum("tidegate_connections_refused_total", &[("reason", "handshakes")]);
    for (source, version) in [(2, &TLS12), (3, &TLS13)] {
        let before = refused();
        // it keeps its tickets, so all but the first are resumed
        let config = Arc::new(site.authority.client_of(version).config);
        let done = (0..20).filter(|_| finished(&config, source, address).is_some()).count();
        assert_eq!(done, 6, "{version:?}");
        assert_eq!(refused() - before, 14.0, "closed before the handshake costs anything");
    }
    let resumed = site.gate.metrics().sum("tidegate_tls_handshakes_total", &[("resumed", "true")]);
    assert!(resumed >= 8.0, "{resumed} were resumed");
    // half of them broken off: they share one budget
    let config = Arc::new(site.authority.client().config);
    for _ in 0..3 {
        drop(Connection::open_from(Ipv4Addr::new(127, 0, 0, 4), address));
    }
    assert_eq!((0..20).filter(|_| finished(&config, 4, address).is_some()).count(), 3);
    assert!(finished(&config, 5, address).is_some(), "another client does not notice");
}

#[test]
fn requests_on_a_connection_that_is_kept_cost_no_handshake() {
    let origin = Origin::that(Reply::Ok);
    let site = limited("connections: { handshakes: 2/h }", &origin);
    let config = Arc::new(site.authority.client().config);
    let mut connection = finished(&config, 2, site.gate.address("main")).unwrap();
    for _ in 0..50 {
        assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    }
    assert!(finished(&config, 2, site.gate.address("main")).is_some());
    assert!(finished(&config, 2, site.gate.address("main")).is_none());
}
