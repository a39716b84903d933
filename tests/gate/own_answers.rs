//! Answers that the operator wrote: by limit, by route, for all; for people and for programs.

use std::fs;

use crate::harness::gate::{Folder, binary};
use crate::harness::talker::{Talker, request, talk};
use crate::harness::{Gate, Latch, Origin, Reply, wait_for};

const POLICY: &str = "listeners:
  main: { address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }
trusted_proxies: [127.0.0.0/8]
responses:
  limited:
    body: { html: { file: sorry.html } }
    headers: { x-help: [\"https://example.com/limits\"] }
origins:
  app: { addresses: [\"ORIGIN\"], inflight: 1 }
limits:
  own: { key: client_ip, rate: 1/h, burst: 1 }
  named:
    key: client_ip
    rate: 1/h
    burst: 1
    response: { status: 420, body: { text: \"{limit} says {status}: {retry_after}\" } }
routes:
  - { name: plain, match: { path: /plain }, limits: [own], respond: { status: 200, body: ok } }
  - name: api
    match: { path: /api }
    limits: [own]
    origin: app
    responses:
      limited: { body: { json: '{\"wait\": {retry_after}, \"limit\": \"{limit}\", \"route\": {route}, \"id\": {request.id}}' } }
      overloaded: { status: 529, body: { json: '{\"wait\": {retry_after}, \"limit\": {limit}}' } }
  - { name: named, match: { path: /named }, limits: [named], respond: { status: 200, body: ok } }
";

/// A gate with a page in a file beside its policy.
fn gate(origin: &Origin) -> Gate {
    let folder = Folder::new();
    fs::write(folder.path().join("sorry.html"), "<!doctype html><title>{title}</title><p>One: {detail}</p>").unwrap();
    let policy = POLICY.replace("ORIGIN", &origin.address().to_string());
    Gate::start_in(folder, std::process::Stdio::null(), binary(), &policy)
}

fn client(number: u8, accept: &str) -> String {
    format!("X-Forwarded-For: 198.51.100.{number}\r\nAccept: {accept}\r\n")
}

#[test]
fn each_limit_and_route_answers_in_its_own_words() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin);
    let mut connection = gate.connect();
    let mut refused = |method: &str, path: &str, number: u8, accept: &str| {
        connection.ask("GET", path, &client(number, accept), b"");
        connection.ask(method, path, &client(number, accept), b"")
    };
    let page = refused("GET", "/plain", 1, "text/html");
    assert_eq!((page.status, page.field("content-type").as_deref()), (429, Some("text/html; charset=utf-8")));
    assert!(
        page.text()
            .starts_with("<!doctype html><title>Too Many Requests</title><p>One: Too many requests. Try again in 36")
    );
    assert_eq!(page.field("x-help").as_deref(), Some("https://example.com/limits"));
    assert_eq!(page.field("vary").as_deref(), Some("Accept"));
    // the gate's own stands beside it for programs
    let problem = refused("GET", "/plain", 2, "application/json");
    assert_eq!(problem.field("content-type").as_deref(), Some("application/problem+json"));
    let json = refused("GET", "/api", 3, "*/*");
    assert_eq!((json.status, json.field("content-type").as_deref()), (429, Some("application/json")));
    let value: serde_json::Value = serde_json::from_slice(&json.body).expect("JSON");
    assert!(value["wait"].as_u64().is_some_and(|wait| wait >= 3_500), "{value}");
    assert_eq!((value["limit"].as_str(), value["route"].as_str()), (Some("own"), Some("api")));
    assert_eq!(value["id"].as_str(), json.field("x-tidegate-decision").as_deref());
    assert_eq!(
        json.field("x-help").as_deref(),
        Some("https://example.com/limits"),
        "what the route does not say is that of all"
    );
    let text = refused("GET", "/named", 4, "text/plain");
    assert_eq!((text.status, text.field("content-type").as_deref()), (420, Some("text/plain; charset=utf-8")));
    assert!(text.text().starts_with("named says 420: 3"), "{}", text.text());
    let head = refused("HEAD", "/named", 5, "text/plain");
    assert_eq!((head.status, head.body.len()), (420, 0));
    assert!(head.field("content-length").is_some_and(|length| length != "0"), "{head:?}");
    assert!(head.keeps_connection(), "{head:?}");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let fields = [("x-forwarded-for", "198.51.100.4"), ("accept", "text/plain")];
        let answer = talker.ask(request("GET", "/named", &fields), b"").await.unwrap();
        assert_eq!(answer.status, 420);
        assert!(answer.body.starts_with(b"named says 420: 3"), "{answer:?}");
    });
}

#[test]
fn a_full_origin_answers_in_the_words_of_its_route() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let gate = gate(&origin);
    let mut slow = gate.connect();
    slow.send(b"GET /api HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n").unwrap();
    origin.wait_for(1);
    let full = gate.connect().ask("GET", "/api", &client(2, "application/json"), b"");
    assert_eq!((full.status, full.field("content-type").as_deref()), (529, Some("application/json")), "{full:?}");
    let value: serde_json::Value = serde_json::from_slice(&full.body).expect("JSON");
    assert!(value["wait"].is_u64() && value["limit"].is_null(), "{value}");
    latch.open();
    assert_eq!(slow.answer_to("GET").unwrap().status, 200);
}

#[test]
fn a_reload_brings_the_page_as_the_file_is_now() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin);
    let mut connection = gate.connect();
    let mut page = || connection.ask("GET", "/plain", &client(1, "text/html"), b"").text();
    page();
    assert!(page().contains("One: "));
    fs::write(gate.folder().join("sorry.html"), "<p>Two: {detail}</p>").unwrap();
    gate.signal("HUP");
    wait_for("the new page", || page().contains("Two: Too many").then_some(()));
    // a file that is no body any more leaves the one in force
    fs::write(gate.folder().join("sorry.html"), "<script>{detail}</script>").unwrap();
    gate.signal("HUP");
    wait_for("the refusal of the reload", || gate.talk().contains("cannot stand in an element").then_some(()));
    assert!(page().contains("Two: Too many"));
}
