//! In HTTP/2 too, what is judged is what the origin gets.

use super::raw::{Outcome, Raw, head};
use crate::harness::{Gate, Origin, Reply};

type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

#[test]
fn no_field_is_nominated_repeated_or_respelled_for_a_fresh_budget() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
trusted_proxies: {{ header: x-user-address, from: [127.0.0.0/8] }}
limits:
  by_key: {{ key: header:x-api-key, missing: allow, rate: 5/m, burst: 5 }}
  by_cookie: {{ key: cookie:sid, missing: allow, rate: 5/m, burst: 5 }}
routes:
  - {{ origin: \"{}\", limits: [by_key, by_cookie] }}
",
        origin.address()
    ));
    let ask = |fields: Fields<'_>| {
        let first: Fields<'_> =
            &[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/")];
        let mut raw = Raw::open(gate.address("main"), &[]);
        raw.send(&head(1, &[first, fields].concat(), true)).unwrap();
        raw.outcome(1).unwrap()
    };
    for nth in 0..6 {
        let junk = format!("r{nth}");
        let nominated = ask(&[(b"connection", b"x-api-key"), (b"x-api-key", b"k1")]);
        assert_ne!(nominated, Outcome::Status(200), "section 8.2.2 forbids it");
        let nominated = ask(&[(b"te", b"trailers, x-api-key"), (b"x-api-key", b"k1")]);
        assert_ne!(nominated, Outcome::Status(200));
        let twice = ask(&[(b"x-api-key", b"k1"), (b"x-api-key", junk.as_bytes())]);
        assert_eq!(twice, Outcome::Status(400));
    }
    assert_eq!(origin.count(), 0);
    let crumbs: [fn(&str) -> [String; 2]; 3] = [
        |junk| ["sid=k1".into(), format!("sid={junk}")],
        |junk| [format!("sid={junk}"), "sid=%6b1".into()],
        |junk| ["a=b".into(), format!("sid=\"k1\"; sid={junk}")],
    ];
    let passed = (0..9).filter(|nth| {
        let [one, other] = crumbs[nth % 3](&format!("r{nth}"));
        ask(&[(b"cookie", one.as_bytes()), (b"cookie", other.as_bytes())]) == Outcome::Status(200)
    });
    assert_eq!((passed.count(), origin.count()), (5, 5));
    gate.counts("tidegate_refused_requests_total", &[("reason", "repeated_field")], 6.0);
    // the field with the client's address cannot be taken out either
    let mut connection = gate.connect();
    assert_eq!(
        connection.ask("GET", "/", "Connection: x-user-address\r\nX-User-Address: 192.0.2.1\r\n", b"").status,
        400
    );
    gate.counts("tidegate_refused_requests_total", &[("reason", "nominated_field")], 1.0);
}
