//! Certificates of clients.

use super::policy;
use crate::harness::tls::{Authority, Client, Files, Signed, connect};
use crate::harness::{Answer, Gate, Origin, Reply};

const FORGED: &str = "Client-Cert: :Zm9yZ2Vk:\r\nClient-Cert-Chain: :Zm9yZ2Vk:\r\n";

/// A gate that asks clients for certificates, and who signs which.
struct Place {
    gate: Gate,
    site: Authority,
    staff: Authority,
    files: Files,
}

impl Place {
    fn start(origin: &Origin, mode: &str) -> Place {
        let (site, staff, files) = (Authority::new("of the site"), Authority::new("of the staff"), Files::new());
        let pair = files.put_pair("a", &site.sign(&["a.test"]));
        let ca = files.put("staff.pem", staff.pem());
        let tls = format!("{{ certificates: {pair}, client_certificates: {{ ca: {}, mode: {mode} }} }}", ca.display());
        let gate = Gate::start(&policy(&tls, origin, ""));
        Place { gate, site, staff, files }
    }

    /// One request; `None` when the connection comes to nothing. With TLS 1.3 a client learns of that after its handshake.
    fn ask(&self, client: &Client) -> Option<Answer> {
        let mut connection = client.try_connect(self.gate.address("main"), "a.test").ok()?;
        connection.send(&crate::harness::client::request("GET", "/", FORGED, b"")).ok()?;
        connection.answer_to("GET").ok()
    }
}

/// What the origin is to be told of it (RFC 9440).
fn written(certificate: &Signed) -> String {
    // what stands between the lines of a PEM file is the very same text
    let body: String = certificate.cert.lines().filter(|line| !line.starts_with('-')).collect();
    format!(":{}:", body.trim())
}

#[test]
fn nobody_comes_in_without_a_certificate_where_it_is_required() {
    let origin = Origin::that(Reply::Ok);
    let place = Place::start(&origin, "required");
    assert!(place.ask(&place.site.client()).is_none());
    let stranger = Authority::new("of others").sign(&["client"]);
    assert!(place.ask(&place.site.client_with(&stranger)).is_none());
    assert_eq!(origin.count(), 0);
    let own = place.staff.sign(&["client"]);
    assert_eq!(place.ask(&place.site.client_with(&own)).map(|answer| answer.status), Some(200));
    let arrival = origin.only_arrival();
    assert_eq!(arrival.lines("client-cert"), [written(&own)], "the gate's word, not the client's");
    assert!(arrival.lines("client-cert-chain").is_empty());
    let failed = |reason: &str| place.gate.counts("tidegate_tls_handshake_failures_total", &[("reason", reason)], 1.0);
    failed("no_client_certificate");
    failed("client_certificate");
}

#[test]
fn one_that_is_optional_may_be_missing_but_not_be_bad() {
    let origin = Origin::that(Reply::Ok);
    let place = Place::start(&origin, "optional");
    assert_eq!(place.ask(&place.site.client()).map(|answer| answer.status), Some(200));
    assert!(origin.only_arrival().lines("client-cert").is_empty(), "what a client writes itself is no certificate");
    let stranger = Authority::new("of others").sign(&["client"]);
    assert!(place.ask(&place.site.client_with(&stranger)).is_none());
    let own = place.staff.sign(&["client"]);
    assert_eq!(place.ask(&place.site.client_with(&own)).map(|answer| answer.status), Some(200));
    assert_eq!(origin.arrivals()[1].lines("client-cert"), [written(&own)]);
}

#[test]
fn a_limit_counts_by_the_certificate_that_the_gate_has_seen() {
    let origin = Origin::that(Reply::Ok);
    let (site, staff, files) = (Authority::new("of the site"), Authority::new("of the staff"), Files::new());
    let pair = files.put_pair("a", &site.sign(&["a.test"]));
    let ca = files.put("staff.pem", staff.pem());
    let gate = Gate::start(&format!(
        "listeners:
  main:
    address: \"127.0.0.1:0\"
    tls: {{ certificates: {pair}, client_certificates: {{ ca: {}, mode: optional }} }}
limits: {{ each: {{ key: header:client-cert, missing: deny, rate: 2/h, burst: 2 }} }}
routes: [{{ name: site, limits: [each], origin: \"{}\" }}]
",
        ca.display(),
        origin.address()
    ));
    let ask = |client: &Client, nth: u8, body: &[u8]| {
        let mut connection = client.try_connect(gate.address("main"), "a.test").unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" };
        connection.ask(method, "/", &format!("Client-Cert: :Zm9y{nth}2Vk:\r\n"), body).status
    };
    for body in [&b""[..], b"hello"] {
        let invented: Vec<u16> = (0..3).map(|nth| ask(&site.client(), nth, body)).collect();
        assert!(invented.iter().all(|status| *status == invented[0] && *status >= 400), "{invented:?}");
        for own in [staff.sign(&["one"]), staff.sign(&["other"])] {
            let client = site.client_with(&own);
            let counted = [0, 1, 2].map(|nth| ask(&client, nth, body));
            assert_eq!(counted, [200, 200, 429], "an invented value is no new count, and each certificate has its own");
        }
    }
    assert_eq!(origin.count(), 8);
}

#[test]
fn authorities_are_renewed_too_and_no_ticket_outlives_them() {
    let origin = Origin::that(Reply::Ok);
    let place = Place::start(&origin, "required");
    let client = place.site.client_with(&place.staff.sign(&["client"]));
    let remembering = std::sync::Arc::new(client.config.clone());
    let ask = || {
        let mut connection = connect(remembering.clone(), place.gate.address("main"), "a.test").ok()?;
        connection.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").ok()?;
        connection.answer_to("GET").ok().map(|answer| answer.status)
    };
    assert_eq!([ask(), ask()], [Some(200), Some(200)]);
    assert_eq!(place.gate.metrics().sum("tidegate_tls_handshakes_total", &[("resumed", "true")]), 0.0);
    let next = Authority::new("of the next staff");
    place.files.put("staff.pem", next.pem());
    crate::harness::wait_for("the new authorities to be in use", || ask().is_none().then_some(()));
    let own = place.site.client_with(&next.sign(&["client"]));
    assert_eq!(place.ask(&own).map(|answer| answer.status), Some(200));
}

#[test]
fn a_listener_that_asks_for_none_passes_no_forged_one_on() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    assert_eq!(gate.fetch("/", FORGED).status, 200);
    assert!(origin.only_arrival().lines("client-cert").is_empty());
    assert_eq!(gate.fetch("/", "Client_Cert: :Zm9yZ2Vk:\r\n").status, 400, "nor a twin of it");
}
