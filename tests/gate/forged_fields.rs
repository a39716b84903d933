//! Fields that name the client or another target: an origin gets them from whom it may believe, in one spelling.

use crate::h2::raw::{DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, Raw, block, frame, head};
use crate::harness::{Arrival, Gate, Origin, Reply};
use tidegate_http::hearsay;

fn gate_before(origin: &Origin, words: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
{words}
routes:
  - name: site
    origin: \"{}\"
    request_headers: {{ set: {{ X-Tenant: ours, X_Plan: free }}, add: {{ X-Step: two }}, remove: [X-Debug] }}
",
        origin.address()
    ))
}

/// Names of the fields of an arrival that are in the list, or spell a name of it.
fn hearsay_of(arrival: &Arrival) -> Vec<String> {
    let names = arrival.fields.iter().map(|(name, _)| name.to_ascii_lowercase());
    names.filter(|name| hearsay::standing(name).is_some() || hearsay::is_twin(name.as_bytes(), &[])).collect()
}

/// All names of the list, and some that only begin like one.
fn names() -> Vec<String> {
    hearsay::listed().chain(["x-forwarded-user", "x-forwarded-proto", "x-forwarded-host"]).map(str::to_owned).collect()
}

#[test]
fn a_stranger_names_neither_a_client_nor_another_target() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    let lines: String = names().iter().map(|name| format!("{name}: 192.0.2.66\r\n")).collect();
    assert_eq!(gate.fetch("/", &lines).status, 200);
    let mut raw = Raw::open(gate.address("main"), &[]);
    let names = names();
    let mut fields: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")];
    fields.extend(names.iter().map(|name| (name.as_bytes(), &b"192.0.2.66"[..])));
    raw.send(&head(1, &fields, true)).unwrap();
    assert_eq!(raw.outcome(1).unwrap(), Outcome::Status(200));
    for arrival in origin.arrivals() {
        assert_eq!(hearsay_of(&arrival), [""; 0]);
        assert!(!String::from_utf8_lossy(&arrival.head).contains("192.0.2.66"), "{arrival:?}");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn every_other_spelling_of_such_a_field_is_refused() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    let mut tried = 0;
    for name in names().iter().filter(|name| name.contains('-')) {
        for other in ["_", "."] {
            tried += 1;
            let answer = gate.fetch("/", &format!("{}: 192.0.2.66\r\n", name.replacen('-', other, 1)));
            assert_eq!(answer.status, 400, "{name} with {other}");
        }
    }
    for name in ["CF_Connecting_IP", "X_Client_IP", "Fastly_Client_Ip", "X-Original_URL", "x_rewrite_url"] {
        assert_eq!(gate.fetch("/", &format!("{name}: 192.0.2.66\r\n")).status, 400, "{name}");
    }
    assert!(tried > 80);
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_trusted_proxy_names_the_client_in_the_field_that_is_read_and_in_those_that_are_kept() {
    let origin = Origin::that(Reply::Ok);
    let trust = "trusted_proxies: { header: cf-connecting-ip, from: [127.0.0.0/8], keep_headers: [X-Real-IP] }";
    let gate = gate_before(&origin, trust);
    let lines: String = names().iter().map(|name| format!("{name}: 192.0.2.66\r\n")).collect();
    assert_eq!(gate.fetch("/", &lines).status, 200);
    let mut passed = hearsay_of(&origin.only_arrival());
    passed.retain(|name| hearsay::standing(name) != Some(hearsay::Standing::Trusted));
    passed.sort();
    assert_eq!(passed, ["cf-connecting-ip", "x-real-ip"]);
    assert_eq!(origin.only_arrival().lines("x-forwarded-proto"), ["192.0.2.66"]);
    assert_eq!(origin.only_arrival().lines("client-cert"), ["192.0.2.66"]);
}

#[test]
fn what_the_gate_says_of_a_request_no_client_says_in_another_spelling() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    let lines = "X_Tenant: theirs\r\nx.tenant: theirs\r\nX-Tenant: theirs\r\nX-Plan: gold\r\nX_Step: zero\r\nX-Step: one\r\n\
                 X_Debug: 1\r\nx-debug: 1\r\nX_Other: fine\r\n";
    assert_eq!(gate.fetch("/", lines).status, 200);
    let arrival = origin.only_arrival();
    let of = |folded: &str| -> Vec<(String, String)> {
        let fields =
            arrival.fields.iter().filter(|(name, _)| name.to_ascii_lowercase().replace(['_', '.'], "-") == folded);
        fields.cloned().collect()
    };
    let said = |name: &str| of(name).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(said("x-tenant"), ["ours"]);
    assert_eq!(said("x-plan"), ["free"]);
    assert_eq!(said("x-step"), ["one", "two"], "what is added to stays");
    assert_eq!(said("x-debug"), [""; 0]);
    assert_eq!(said("x-other"), ["fine"]);
}

#[test]
fn a_host_with_an_empty_port_is_the_host() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    for request in
        ["GET / HTTP/1.1\r\nHost: a.example:\r\n\r\n", "GET http://a.example:/ HTTP/1.1\r\nHost: a.example:\r\n\r\n"]
    {
        let mut client = gate.connect();
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.answer_to("GET").unwrap().status, 200);
    }
    let mut raw = Raw::open(gate.address("main"), &[]);
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a.example:"), (b":path", b"/")];
    raw.send(&head(1, &fields, true)).unwrap();
    assert_eq!(raw.outcome(1).unwrap(), Outcome::Status(200));
    let hosts: Vec<String> = origin.arrivals().iter().map(|arrival| arrival.lines("host").join(",")).collect();
    assert_eq!(hosts, ["a.example"; 3]);
}

#[test]
fn trailers_that_speak_of_the_request_are_refused() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    // (fields of the trailers, whether the request is served)
    let cases: [(Vec<u8>, bool); 6] = [
        (block(&[(b"x-checksum", b"1")]), true),
        (block(&[(b":path", b"/admin")]), false),
        (b"\x82".to_vec(), false),
        // an entry that this connection's own request added to the table
        (b"\xbe".to_vec(), false),
        (block(&[(b"content-length", b"5")]), false),
        (block(&[(b"host", b"b")]), false),
    ];
    for (trailers, served) in &cases {
        let mut raw = Raw::open(gate.address("main"), &[]);
        let mut request = block(&[(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a")]);
        // `:path` as a literal that is added to the dynamic table (RFC 7541 section 6.2.1)
        request.extend_from_slice(b"\x44\x01/");
        raw.send(&frame(HEADERS, END_HEADERS, 1, &request)).unwrap();
        raw.send(&frame(DATA, 0, 1, b"hello")).unwrap();
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers)).unwrap();
        let outcome = raw.outcome(1).unwrap();
        match outcome {
            Outcome::Status(200) => assert!(served, "{}", trailers.escape_ascii()),
            Outcome::Status(400) | Outcome::Reset(_) => assert!(!served, "{}", trailers.escape_ascii()),
            other => panic!("{other:?}: {}", trailers.escape_ascii()),
        }
    }
    let whole = origin.arrivals().into_iter().filter(|arrival| arrival.complete).count();
    assert_eq!(whole, 1, "what is refused is never whole at the origin");
}
