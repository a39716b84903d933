//! What a limit counts by: which requests share a key and which never do.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate_limits::sketch::hash::{KeyHash, KeyHasher, Seed};
use tidegate_policy::client::key::Keys;
use tidegate_policy::client::{Client, ClientRules, ForwardHeader, KeyPart, KeySpec, Missing, NoKey, resolve};
use tidegate_policy::request::Request;

use crate::support::{client, peer};

const SEED: Seed = Seed::from_bytes(*b"sixteen bytes...");

/// A key of these parts, in the words of the policy file.
fn key(parts: &[&str]) -> KeySpec {
    KeySpec::new(parts.iter().map(|part| part.parse().unwrap()), Some(Missing::Deny)).unwrap()
}

/// Everything about a request that a key may use.
struct Asked {
    client: Client,
    method: Method,
    host: &'static str,
    path: &'static str,
    query: Option<&'static str>,
    route: &'static str,
    headers: HeaderMap,
}

impl Asked {
    fn from(address: &str) -> Asked {
        let headers = HeaderMap::new();
        let client = resolve(&ClientRules::default(), peer(address), &headers).unwrap();
        Asked { client, method: Method::GET, host: "example.com", path: "/", query: None, route: "shop", headers }
    }

    fn with(fields: &[(&'static str, &'static str)]) -> Asked {
        let mut asked = Asked::from("203.0.113.9");
        for (name, value) in fields {
            asked.headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        asked
    }

    fn query(query: &'static str) -> Asked {
        Asked { query: Some(query), ..Asked::from("203.0.113.9") }
    }

    fn try_hash<'k>(&self, key: &'k KeySpec) -> Result<KeyHash, NoKey<'k>> {
        let Asked { client, method, host, path, query, route, headers } = self;
        let request = Request { peer: peer("203.0.113.9"), method, host, path, query: *query, headers, tls_sni: None };
        key.hash(&request, client, route, &SEED)
    }

    fn hash(&self, key: &KeySpec) -> KeyHash {
        self.try_hash(key).unwrap()
    }
}

#[test]
fn one_network_is_one_key_and_the_next_is_another() {
    let key = key(&["client_ip"]);
    let hash = |address| Asked::from(address).hash(&key);
    assert_eq!(hash("2001:db8:1:1::dead"), hash("2001:db8:1:1::beef"));
    assert_ne!(hash("2001:db8:1:1::dead"), hash("2001:db8:1:2::dead"));
    assert_eq!(hash("192.0.2.1"), hash("::ffff:192.0.2.1"));
    assert_eq!(hash("8.8.8.8"), hash("64:ff9b::8.8.8.8"));
    assert_ne!(hash("192.0.2.1"), hash("192.0.2.2"));
    assert_ne!(hash("unix"), hash("0.0.0.0"));
}

#[test]
fn a_limit_may_count_by_other_lengths() {
    let key = key(&["client_ip:ipv4_prefix=24,ipv6_prefix=48"]);
    let hash = |address| Asked::from(address).hash(&key);
    assert_eq!(hash("192.0.2.1"), hash("192.0.2.200"));
    assert_ne!(hash("192.0.2.1"), hash("192.0.3.1"));
    assert_eq!(hash("2001:db8:1:1::1"), hash("2001:db8:1:2::1"));
    assert_ne!(hash("2001:db8:1::1"), hash("2001:db8:2::1"));
    // the length is part of the key: the first address of a network is not the network
    assert_ne!(hash("192.0.2.0"), Asked::from("192.0.2.0").hash(&self::key(&["client_ip"])));
}

#[test]
fn results_that_a_client_can_provoke_are_counted_apart() {
    let key = key(&["client_ip"]);
    let hash = |trust, lines: &[&str]| {
        let client = client(trust, "10.0.0.1", lines, ForwardHeader::XForwardedFor);
        assert_eq!(client.network.to_string(), "10.0.0.1", "{trust}");
        Asked { client, ..Asked::from("10.0.0.1") }.hash(&key)
    };
    let keys = [
        hash("off", &[]),
        hash("proxies 10.0.0.0/8", &["garbage"]),
        hash("hops 2", &["1.2.3.4"]),
        hash("proxies 10.0.0.0/8", &["10.0.0.1"]),
    ];
    for (at, hash) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(hash), "mark {at} shares a bucket");
    }
    assert_eq!(hash("off", &[]), hash("proxies 10.0.0.0/8", &[]), "verified is verified, however it came about");
    assert_eq!(hash("hops 2", &["1.2.3.4"]), hash("hops 1", &[]), "and short is short");
}

#[test]
fn the_boundary_between_parts_cannot_be_shifted() {
    let key = key(&["header:x-a", "header:x-b"]);
    let hash = |a, b| Asked::with(&[("x-a", a), ("x-b", b)]).hash(&key);
    assert_ne!(hash("ab", "c"), hash("a", "bc"));
    assert_ne!(hash("abc", ""), hash("", "abc"));
    assert_eq!(hash("ab", "c"), hash("ab", "c"));
}

#[test]
fn several_lines_of_a_header_are_all_of_its_value() {
    let one = key(&["header:x-a"]);
    let hash = |fields| Asked::with(fields).hash(&one);
    let keys = [
        hash(&[("x-a", "a")]),
        hash(&[("x-a", "a"), ("x-a", "a")]),
        hash(&[("x-a", "a, a")]),
        hash(&[("x-a", "aa")]),
        hash(&[("x-a", "")]),
        hash(&[("x-a", ""), ("x-a", "a")]),
        hash(&[("x-a", "a"), ("x-a", "")]),
    ];
    for (at, hash) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(hash), "value {at} is another's");
    }
    // a second line of the first header is no first line of the second
    let two = key(&["header:x-a", "header:x-b"]);
    let first = Asked::with(&[("x-a", "1"), ("x-a", "2"), ("x-b", "3")]).hash(&two);
    let second = Asked::with(&[("x-a", "1"), ("x-b", "2"), ("x-b", "3")]).hash(&two);
    assert_ne!(first, second);
}

#[test]
fn kinds_of_parts_do_not_meet() {
    let asked = Asked {
        query: Some("same=same"),
        host: "same",
        path: "same",
        route: "same",
        method: "same".parse().unwrap(),
        ..Asked::with(&[("x-a", "same"), ("cookie", "same=same")])
    };
    let parts = [
        "header:x-a",
        "cookie:same",
        "query:same",
        "host",
        "path",
        "path:segments=1",
        "method",
        "method_class",
        "route",
        "global",
    ];
    let hashes: Vec<KeyHash> = parts.iter().map(|part| asked.hash(&key(&[part]))).collect();
    for (at, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(hash), "{}", parts[at]);
    }
}

#[test]
fn each_part_follows_its_own_piece_of_the_request() {
    let plain = || Asked::from("203.0.113.9");
    let changed = [
        ("client_ip", Asked::from("203.0.113.10")),
        ("host", Asked { host: "example.org", ..plain() }),
        ("path", Asked { path: "/login", ..plain() }),
        ("method", Asked { method: Method::HEAD, ..plain() }),
        ("method_class", Asked { method: Method::POST, ..plain() }),
        ("route", Asked { route: "login", ..plain() }),
    ];
    for (part, asked) in &changed {
        for (other, _) in &changed {
            let key = key(&[other]);
            // a change of method from GET to POST is one of method and class; all others stand alone
            let follows = other == part || (*part == "method_class" && *other == "method");
            assert_eq!(asked.hash(&key) != plain().hash(&key), follows, "{other} when {part} changes");
        }
        assert_eq!(asked.hash(&key(&["global"])), plain().hash(&key(&["global"])), "{part}");
    }
}

#[test]
fn the_first_segments_of_a_path_are_one_key_whatever_follows() {
    let hash =
        |count: u8, path| Asked { path, ..Asked::from("203.0.113.9") }.hash(&key(&[&format!("path:segments={count}")]));
    for same in ["/shop/", "/shop/cart", "/shop/cart/7", "/shop//"] {
        assert_eq!(hash(1, same), hash(1, "/shop"), "{same}");
    }
    for other in ["/", "/sho", "/shops", "/shops/cart", "/Shop"] {
        assert_ne!(hash(1, other), hash(1, "/shop"), "{other}");
    }
    assert_eq!(hash(2, "/shop/cart/7"), hash(2, "/shop/cart"));
    assert_ne!(hash(2, "/shop/cart"), hash(2, "/shop/news"));
    assert_eq!(hash(1, "/"), hash(1, "/"));
    assert_ne!(hash(1, "/shop"), hash(2, "/shop/cart"));
}

#[test]
fn safe_methods_are_reads_and_all_others_writes() {
    let key = key(&["method_class"]);
    let hash = |method: &str| Asked { method: method.parse().unwrap(), ..Asked::from("203.0.113.9") }.hash(&key);
    for read in ["HEAD", "OPTIONS", "TRACE"] {
        assert_eq!(hash(read), hash("GET"), "{read}");
    }
    for write in ["PUT", "PATCH", "DELETE", "CONNECT", "PURGE", "get"] {
        assert_eq!(hash(write), hash("POST"), "{write}");
    }
    assert_ne!(hash("GET"), hash("POST"));
}

#[test]
fn a_cookie_is_found_by_its_name_and_is_one_however_it_is_spelled() {
    let key = key(&["cookie:sid"]);
    let expected = Asked::with(&[("cookie", "sid=a")]).hash(&key);
    for line in [
        "sid=a",
        "other=x; sid=a",
        "sid=a; sid=b",
        "ssid=b;sid=a",
        "sidx=b; SID=c; sid=a ",
        "bare; sid=a",
        "sid=\"a\"",
        "sid=%61",
        "s%69d=a",
        "sid=\"\\141\"",
    ] {
        assert_eq!(Asked::with(&[("cookie", line)]).hash(&key), expected, "{line}");
    }
    assert_eq!(Asked::with(&[("cookie", "x=1"), ("cookie", "sid=a"), ("cookie", "sid=b")]).hash(&key), expected);
    for line in ["sid=b", "sid=\"a", "sid=a=", "sid=", "sid=A", "sid", "sid=%zz", "sid=b; sid=a"] {
        assert_ne!(Asked::with(&[("cookie", line)]).hash(&key), expected, "{line}");
    }
    for line in ["", "sidx=a", "x=sid=a", "sid%3Da"] {
        assert!(Asked::with(&[("cookie", line)]).try_hash(&key).is_err(), "{line}");
    }
}

#[test]
fn a_parameter_is_found_by_its_name_and_is_one_however_it_is_spelled() {
    let key = key(&["query:token"]);
    let expected = Asked::query("token=a").hash(&key);
    for query in [
        "token=a",
        "x=1&token=a",
        "token=a&token=b",
        "&&token=a",
        "Token=b&xtoken=c&token=a",
        "token=%61",
        "%74oken=a",
        "x=1;token=a",
    ] {
        assert_eq!(Asked::query(query).hash(&key), expected, "{query}");
    }
    for query in ["token=b", "token=%2561", "token=a+", "token", "token=", "token=a=b", "token=b&token=a"] {
        assert_ne!(Asked::query(query).hash(&key), expected, "{query}");
    }
    assert_eq!(Asked::query("token").hash(&key), Asked::query("token=").hash(&key));
    for query in ["", "tokens=a", "x=token=a", "%2574oken=a"] {
        assert!(Asked::query(query).try_hash(&key).is_err(), "{query}");
    }
    assert!(Asked::from("203.0.113.9").try_hash(&key).is_err(), "no query at all");
}

#[test]
fn each_different_value_is_a_key_up_to_four() {
    let keys = |key: &KeySpec, query: &'static str| {
        let Asked { client, method, host, path, query, route, headers } = &Asked::query(query);
        let request = Request { peer: peer("203.0.113.9"), method, host, path, query: *query, headers, tls_sni: None };
        let mut found = Keys::from_iter([KeyHasher::new(&SEED)]);
        key.add_to(&mut found, &request, client, route).ok()?;
        Some(found.into_iter().map(KeyHasher::finish).collect::<Vec<_>>())
    };
    let one = key(&["query:a"]);
    let alone = |query| keys(&one, query).unwrap()[0];
    assert_eq!(keys(&one, "a=1&a=2&a=%31&a=3;b=4").unwrap().len(), 4, "1, 2, `3;b=4` and 3");
    assert_eq!(keys(&one, "a=1&a=2").unwrap(), [alone("a=1"), alone("a=2")]);
    assert_eq!(keys(&one, "a=1&a=2&a=3&a=4&a=5"), None);
    let two = key(&["query:a", "query:b"]);
    let all = keys(&two, "a=1&a=2&b=3&b=4").unwrap();
    for (query, number) in [("a=1&b=3", 0), ("a=2&b=3", 1), ("a=1&b=4", 2), ("a=2&b=4", 3)] {
        assert_eq!(keys(&two, query).unwrap(), [all[number]], "{query}");
    }
    assert_eq!(keys(&two, "a=1&a=2&a=3&b=3&b=4"), None, "six pairs");
}

#[test]
fn a_missing_part_is_named_and_the_policy_answers() {
    let parts = || ["client_ip", "header:x-api-key"].map(|part| part.parse::<KeyPart>().unwrap());
    for then in [Missing::Allow, Missing::Deny] {
        let key = KeySpec::new(parts(), Some(then)).unwrap();
        let Err(NoKey::Missing(missing)) = Asked::from("203.0.113.9").try_hash(&key) else { panic!("a key") };
        assert_eq!((missing.part.to_string().as_str(), missing.then), ("header:x-api-key", then));
        assert!(Asked::with(&[("x-api-key", "")]).try_hash(&key).is_ok(), "an empty value is a value");
    }
}

#[test]
fn another_seed_is_another_key() {
    let asked = Asked::from("203.0.113.9");
    let Asked { client, method, host, path, query, route, headers } = &asked;
    let request = Request { peer: peer("203.0.113.9"), method, host, path, query: *query, headers, tls_sni: None };
    let other = key(&["client_ip"]).hash(&request, client, route, &Seed::from_bytes([9; 16])).unwrap();
    assert_ne!(other, asked.hash(&key(&["client_ip"])));
}

#[test]
fn values_of_any_length_are_hashed_whole() {
    let key = key(&["header:x-a"]);
    let hash = |last: char| {
        let mut asked = Asked::from("203.0.113.9");
        let value = "v".repeat(60_000) + &last.to_string();
        asked.headers.insert("x-a", HeaderValue::try_from(value).unwrap());
        asked.hash(&key)
    };
    assert_eq!(hash('a'), hash('a'));
    assert_ne!(hash('a'), hash('b'));
}

#[test]
fn a_name_in_the_handshake_is_a_key_and_may_be_missing() {
    let key = KeySpec::new([KeyPart::TlsSni], Some(Missing::Deny)).unwrap();
    let asked = Asked::from("203.0.113.9");
    let hash = |tls_sni| {
        let Asked { client, method, host, path, query, route, headers } = &asked;
        let request = Request { peer: peer("203.0.113.9"), method, host, path, query: *query, headers, tls_sni };
        key.hash(&request, client, route, &SEED)
            .map_err(|none| if let NoKey::Missing(missing) = none { missing.then } else { Missing::Allow })
    };
    assert_eq!(hash(Some("a.example")), hash(Some("a.example")));
    assert_ne!(hash(Some("a.example")), hash(Some("b.example")));
    assert_eq!(hash(None), Err(Missing::Deny));
    assert!(KeySpec::new([KeyPart::TlsSni], None).is_err());
}

#[test]
fn parts_print_as_they_are_written() {
    for text in [
        "client_ip",
        "client_ip:ipv4_prefix=24",
        "client_ip:ipv6_prefix=48",
        "client_ip:ipv4_prefix=24,ipv6_prefix=48",
        "header:x-api-key",
        "cookie:sid",
        "query:token",
        "query:filter[name]",
        "host",
        "path",
        "path:segments=1",
        "path:segments=16",
        "method",
        "method_class",
        "route",
        "tls_sni",
        "global",
    ] {
        assert_eq!(text.parse::<KeyPart>().unwrap().to_string(), text);
    }
    assert_eq!("header:X-API-Key".parse::<KeyPart>().unwrap().to_string(), "header:x-api-key");
}

#[test]
fn bad_parts_are_faults_that_say_what_to_write() {
    let forms = "allowed client_ip, header:NAME, cookie:NAME, query:NAME, host, path, path:segments=N, method, method_class, route, \
                 tls_sni, global";
    let segments = "allowed path:segments=N with 1 to 16";
    let lengths = "allowed client_ip:ipv4_prefix=N,ipv6_prefix=N, either or both, with 1 to 32 and 1 to 128";
    let header = "allowed header:NAME, such as header:x-api-key";
    let cookie = "allowed cookie:NAME, such as cookie:sid";
    let query = "allowed query:NAME, such as query:token, as it stands in the URL";
    let name = "a name must follow, such as header:x-api-key";
    let forgeable = "anyone can write this header; allowed client_ip, which reads it from trusted_proxies only";
    for (text, allowed) in [
        ("", forms),
        ("clientip", forms),
        ("Client_IP", forms),
        ("asn", forms),
        ("country", forms),
        ("host:example.com", forms),
        ("global:", forms),
        ("path:", segments),
        ("path:segments=0", segments),
        ("path:segments=17", segments),
        ("path:segments=+2", segments),
        ("path:/login", segments),
        ("client_ip:", lengths),
        ("client_ip:24", lengths),
        ("client_ip:ipv4_prefix=0", lengths),
        ("client_ip:ipv4_prefix=33", lengths),
        ("client_ip:ipv4_prefix=+24", lengths),
        ("client_ip:ipv6_prefix=129", lengths),
        ("client_ip:ipv4_prefix=24,ipv4_prefix=16", lengths),
        ("client_ip:ipv4_prefix=24,", lengths),
        ("header", name),
        ("cookie", name),
        ("query", name),
        ("header:", header),
        ("header:x api", header),
        ("header:x-forwarded-for", forgeable),
        ("header:Forwarded", forgeable),
        ("cookie:", cookie),
        ("cookie:a=b", cookie),
        ("cookie:a b", cookie),
        ("query:", query),
        ("query:a&b", query),
        ("query:é", query),
    ] {
        let fault = text.parse::<KeyPart>().expect_err(text);
        assert_eq!(fault.to_string(), format!("found {text:?}; {allowed}"));
    }
}

#[test]
fn bad_lists_of_parts_are_faults_that_say_what_to_write() {
    let fault = |parts: &[&str], missing| {
        let parts = parts.iter().map(|part| part.parse().unwrap());
        KeySpec::new(parts, missing).expect_err("a fault").to_string()
    };
    assert!(fault(&[], None).starts_with("found no key part; allowed client_ip, "));
    assert_eq!(
        fault(&["host", "path", "method", "route", "client_ip"], None),
        "found more than 4 key parts; allowed 1 to 4"
    );
    assert_eq!(fault(&["host", "host"], None), "found host twice; write it once");
    assert_eq!(
        fault(&["client_ip", "header:x-api-key"], None),
        "found header:x-api-key, which a request may lack; say what then with missing: allow or missing: deny"
    );
    let whole = KeySpec::new(["host", "path", "method", "route"].map(|part| part.parse().unwrap()), None).unwrap();
    assert_eq!(whole.parts().len(), 4);
}
