//! What somebody who reads the cable between a gate and its store gets to see: every byte, both ways, of a limit by leases
//! and of one that asks about every request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::harness::redis::Server;
use crate::harness::relay::Relay;
use crate::harness::secure::Authority;
use crate::harness::{Gate, shared, wait_for};

const FOUR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 77);
const SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x51, 0xfade, 0xbead, 0xcafe, 0xd1ce, 0x77);
const KEY: &str = "very-secret-api-key";
const COOKIE: &str = "0123-very-secret-session";

fn policy(store: &str) -> String {
    let mut limits = String::new();
    let mut names = Vec::new();
    for (what, key) in [
        ("client", "client_ip"),
        ("header", "header:x-api-key, missing: deny"),
        ("cookie", "cookie:session, missing: deny"),
        ("both", "[client_ip, header:x-api-key], missing: deny"),
    ] {
        for sharing in ["lease", "exact"] {
            let name = format!("{sharing}_by_{what}");
            limits +=
                &format!("  {name}: {{ key: {key}, rate: 20/s, burst: 40, store: shared, sharing: {sharing} }}\n");
            names.push(name);
        }
    }
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ {store}, timeout: 1s }}
limits:
{limits}routes:
  - {{ name: site, limits: [{}], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
",
        names.join(", ")
    )
}

/// Everything that says who they are, in every form that comes to mind.
fn identifiers() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |what: &str, bytes: &[u8]| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let decimal: Vec<String> = bytes.iter().map(u8::to_string).collect();
        for (form, bytes) in [
            ("bytes", bytes.to_vec()),
            ("bytes backwards", reversed),
            ("hexadecimal digits", hex.clone().into_bytes()),
            ("large hexadecimal digits", hex.to_uppercase().into_bytes()),
            ("escapes", escaped.into_bytes()),
            ("numbers", decimal.join(".").into_bytes()),
            ("base64", base64(bytes).into_bytes()),
        ] {
            all.push((format!("{what} as {form}"), bytes));
        }
    };
    add("the address", &FOUR.octets());
    add("the address of version 6", &SIX.octets());
    add("its network of 64 bits", &SIX.octets()[..8]);
    add("the address as one of version 6", &FOUR.to_ipv6_mapped().octets()[10..]);
    for text in [&FOUR.to_string(), &SIX.to_string(), "2001:db8:51:fade", "bead:cafe", KEY, COOKIE] {
        add(text, text.as_bytes());
    }
    add("the address as a number", u32::from(FOUR).to_string().as_bytes());
    all
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes)
}

/// Asks as both clients until every limit has been asked about and has refused.
fn busy(gate: &Gate) {
    for address in [IpAddr::V4(FOUR), IpAddr::V6(SIX)] {
        let fields = format!("X-Forwarded-For: {address}\r\nX-Api-Key: {KEY}\r\nCookie: session={COOKIE}\r\n");
        let mut connection = gate.connect();
        let mut refused = 0;
        wait_for("refusals", || {
            let answer = connection.ask("GET", "/", &fields, b"");
            assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
            refused += u32::from(answer.status == 429);
            if !answer.keeps_connection() {
                connection = gate.connect();
            }
            (refused >= 5).then_some(())
        });
    }
}

fn holds(heard: &[u8], bytes: &[u8]) -> bool {
    heard.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn the_cable_to_a_store_says_what_is_limited_and_never_who_asks() {
    let store = Server::start(&[]);
    let relay = Relay::to(store.port);
    let gate = shared::gate(&policy(&format!("url: \"redis://127.0.0.1:{}\"", relay.port)));
    shared::know_one_another(std::slice::from_ref(&gate));
    busy(&gate);
    let [to_store, from_store] = relay.heard();
    println!("{} bytes to the store and {} from it were read", to_store.len(), from_store.len());
    // what is there, so that what is not there is missed for a reason
    for what in ["client", "header", "cookie", "both"] {
        for name in [format!("}}:lease_by_{what}:rate"), format!("}}:exact_by_{what}:rate")] {
            assert!(holds(&to_store, name.as_bytes()), "the relay hears the names of keys, `{name}` among them");
        }
    }
    assert!(holds(&to_store, b"tidegate:{gates}") && holds(&to_store, b"EVALSHA"));
    assert!(holds(&from_store, b"*5\r\n:"), "the relay hears the answers, of five numbers each");
    for (what, bytes) in identifiers() {
        for (way, heard) in [("to", &to_store), ("from", &from_store)] {
            assert!(!holds(heard, &bytes), "{what}: {way} the store");
        }
    }
}

#[test]
fn an_encrypted_cable_says_nothing() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("store", &["127.0.0.1"], 2100);
    let text = |path: &std::path::Path| path.display().to_string();
    let (ca, certificate, key) = (text(&authority.ca()), text(&certificate), text(&key));
    let words = ["--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no", "--tls-cert-file", &certificate];
    let store = Server::start_closed(
        &[&words[..], &["--tls-key-file", &key, "--tls-ca-cert-file", &ca]].concat(),
        &["--tls", "--cacert", &ca],
    );
    let relay = Relay::to(store.port);
    let gate = shared::gate(&policy(&format!("url: \"rediss://127.0.0.1:{}\", ca: {ca}", relay.port)));
    shared::know_one_another(std::slice::from_ref(&gate));
    busy(&gate);
    assert!(store.cli(&["KEYS", "*"]).contains("tidegate:{gates}"), "they have spoken");
    let [to_store, from_store] = relay.heard();
    println!("{} bytes to the store and {} from it were read", to_store.len(), from_store.len());
    assert!(to_store.len() > 10_000 && from_store.len() > 10_000);
    for words in ["tidegate", "EVALSHA", "evalsha", "_by_client", "rate", "{gates}"] {
        for heard in [&to_store, &from_store] {
            assert!(!holds(heard, words.as_bytes()), "`{words}` is on the cable");
        }
    }
    for (what, bytes) in identifiers() {
        // of four bytes any four of so many may be a pair by chance
        for heard in [&to_store, &from_store].into_iter().filter(|_| bytes.len() > 4) {
            assert!(!holds(heard, &bytes), "{what}");
        }
    }
}
