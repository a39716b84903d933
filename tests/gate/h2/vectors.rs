//! Requests in HTTP/2 that could be read in two ways once they go on in HTTP/1. Each is refused, or reaches the origin as one
//! request that can be understood in one way only; a second request never does.

use super::gate_before;
use super::raw::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, PUSH_PROMISE, Raw, block, frame, get, head,
};
use crate::harness::{Origin, Reply};
use crate::malformed::{one_reading, source_of};

/// What must come of a case.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// This status, and nothing at the origin.
    Status(u16),
    /// Any refusal: a status from 400, a reset, the end of the connection. Nothing complete at the origin.
    Turned,
    /// One request for this target at the origin, and its answer.
    Forwarded(&'static str),
    /// One or the other.
    Either,
    /// Refused, though an origin may have had a request that is complete without a body.
    Emptied,
}

use Want::{Either, Emptied, Forwarded, Status, Turned};

const SMUGGLED: &[u8] = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: gate.example\r\n\r\n";

/// A head with these in the place of the honest pseudo-header fields.
fn with(path: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut fields: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", path)];
    fields.extend_from_slice(more);
    head(1, &fields, true)
}

fn path(path: &[u8]) -> Vec<u8> {
    with(path, &[])
}

fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    with(b"/x", &[(name, value)])
}

fn bare(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    head(1, fields, true)
}

fn method(method: &[u8]) -> Vec<u8> {
    bare(&[(b":method", method), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/x")])
}

fn authority(authority: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut fields: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", authority), (b":path", b"/x")];
    fields.extend_from_slice(more);
    bare(&fields)
}

/// A POST with these fields and this body in one DATA frame.
fn post(more: &[(&[u8], &[u8])], body: &[u8]) -> Vec<u8> {
    let mut bytes = post_head(more);
    bytes.extend(frame(DATA, END_STREAM, 1, body));
    bytes
}

fn post_head(more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut fields: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/x")];
    fields.extend_from_slice(more);
    head(1, &fields, false)
}

fn trailers(fields: &[(&[u8], &[u8])], end: bool) -> Vec<u8> {
    [post_head(&[]), frame(DATA, 0, 1, b"hello"), head(1, fields, end)].concat()
}

fn cases() -> Vec<(&'static str, Want, Vec<u8>)> {
    let mut cases = targets();
    cases.extend(pseudo());
    cases.extend(hosts());
    cases.extend(fields());
    cases.extend(lengths());
    cases.extend(frames());
    cases
}

fn targets() -> Vec<(&'static str, Want, Vec<u8>)> {
    vec![
        ("an honest path", Forwarded("/x?a=b"), path(b"/x?a=b")),
        ("no path", Turned, path(b"")),
        ("a star", Status(400), path(b"*")),
        ("an absolute URI", Turned, path(b"http://evil.example/hidden")),
        ("no leading slash", Turned, path(b"admin")),
        ("a query alone", Turned, path(b"?x")),
        ("a blank", Turned, path(b"/a b")),
        ("a tab", Turned, path(b"/a\tb")),
        ("a whole request", Turned, path(b"/x HTTP/1.1\r\nHost: a\r\n\r\nGET /hidden")),
        ("a line feed", Turned, path(b"/x\nX: y")),
        ("a carriage return", Turned, path(b"/x\rX: y")),
        ("a NUL", Turned, path(b"/x\0")),
        ("a byte beyond ASCII", Turned, path(b"/caf\xe9")),
        ("a fragment", Either, path(b"/x#/admin")),
        ("dot segments", Status(400), path(b"/a/../admin")),
        ("a lone dot segment", Status(400), path(b"/./admin")),
        ("escaped dot segments", Status(400), path(b"/a/%2e%2E/admin")),
        ("dot segments behind escaped slashes", Status(400), path(b"/a%2f..%2fadmin")),
        ("dot segments with parameters", Status(400), path(b"/a/..;x=1/admin")),
        ("a backslash", Turned, path(b"/a\\..\\admin")),
        ("doubled slashes", Status(403), path(b"//admin")),
        ("an escaped letter", Status(403), path(b"/%61dmin")),
        ("an escaped NUL", Status(400), path(b"/x%00")),
        ("an escaped line end", Status(400), path(b"/x%0d%0aX:y")),
        ("half an escape", Status(400), path(b"/x%4")),
        ("a NUL in the query", Status(400), path(b"/x?a=%00")),
        ("a path that is written otherwise", Forwarded("/a/~b"), path(b"/a//%7eb")),
        ("a very long path", Status(414), path(&[b"/".as_slice(), &[b'a'; 9_000]].concat())),
    ]
}

fn pseudo() -> Vec<(&'static str, Want, Vec<u8>)> {
    let good: [(&[u8], &[u8]); 4] =
        [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/x")];
    let without = |name: &[u8]| bare(&good.into_iter().filter(|(field, _)| *field != name).collect::<Vec<_>>());
    let and = |name: &'static [u8], value: &'static [u8]| with(b"/x", &[(name, value)]);
    vec![
        ("no method", Turned, without(b":method")),
        ("no scheme", Turned, without(b":scheme")),
        ("no path at all", Turned, without(b":path")),
        ("two methods", Turned, and(b":method", b"GET")),
        ("two paths", Turned, and(b":path", b"/admin")),
        ("two authorities", Turned, and(b":authority", b"gate.example")),
        ("two schemes", Turned, and(b":scheme", b"http")),
        ("a pseudo-header field that nobody knows", Turned, and(b":hidden", b"x")),
        ("one of answers", Turned, and(b":status", b"200")),
        ("one after another field", Turned, bare(&[good[0], good[1], good[2], (b"a", b"b"), good[3]])),
        ("a method in small letters", Status(400), method(b"get")),
        ("a method with a blank", Turned, method(b"GET /hidden HTTP/1.1\r\nX:")),
        ("an empty method", Turned, method(b"")),
        ("a very long method", Status(400), method(&[b'A'; 40])),
        ("CONNECT", Turned, bare(&[(b":method", b"CONNECT"), (b":authority", b"gate.example:80")])),
        ("CONNECT with all the rest", Turned, method(b"CONNECT")),
        ("a WebSocket by extended CONNECT", Turned, with(b"/x", &[(b":protocol", b"websocket")])),
        ("TRACE", Status(405), method(b"TRACE")),
        ("another scheme", Turned, bare(&[good[0], (b":scheme", b"ftp"), good[2], good[3]])),
        ("a scheme with a line end", Turned, bare(&[good[0], (b":scheme", b"http\r\nX: y"), good[2], good[3]])),
    ]
}

fn hosts() -> Vec<(&'static str, Want, Vec<u8>)> {
    let pathless: [(&[u8], &[u8]); 3] = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/x")];
    let hosted = |hosts: &[(&'static [u8], &'static [u8])]| bare(&[&pathless[..], hosts].concat());
    vec![
        ("no host of any kind", Turned, hosted(&[])),
        ("a host alone", Forwarded("/x"), hosted(&[(b"host", b"gate.example")])),
        ("two hosts", Turned, hosted(&[(b"host", b"gate.example"), (b"host", b"evil.example")])),
        ("the same host twice", Turned, hosted(&[(b"host", b"gate.example"), (b"host", b"gate.example")])),
        ("an authority and the same host", Forwarded("/x"), authority(b"gate.example", &[(b"host", b"gate.example")])),
        ("an authority and another host", Status(400), authority(b"gate.example", &[(b"host", b"evil.example")])),
        (
            "an authority and the same host twice",
            Turned,
            authority(b"gate.example", &[(b"host", b"gate.example"), (b"host", b"gate.example")]),
        ),
        ("an empty authority", Turned, authority(b"", &[])),
        ("an empty authority and a host", Turned, authority(b"", &[(b"host", b"gate.example")])),
        ("userinfo", Turned, authority(b"user@gate.example", &[])),
        ("a port that is none", Turned, authority(b"gate.example:0", &[])),
        ("a path in the authority", Turned, authority(b"gate.example/hidden", &[])),
        ("a line end in the authority", Turned, authority(b"gate.example\r\nX: y", &[])),
        ("a blank in the authority", Turned, authority(b"gate example", &[])),
        ("two names in the authority", Turned, authority(b"gate.example,evil.example", &[])),
        ("an authority in capitals", Forwarded("/x"), authority(b"GATE.example:80", &[])),
    ]
}

fn fields() -> Vec<(&'static str, Want, Vec<u8>)> {
    vec![
        ("a name in capitals", Turned, field(b"X-Upper", b"a")),
        ("a name with a colon", Turned, field(b"a:b", b"c")),
        ("a name with a blank", Turned, field(b"host ", b"evil.example")),
        ("a name with a line end", Turned, field(b"a\r\nhost", b"evil.example")),
        ("no name", Turned, field(b"", b"a")),
        ("a name with a NUL", Turned, field(b"a\0", b"b")),
        ("a value with a request", Turned, field(b"a", b"b\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")),
        ("a value with a line feed", Turned, field(b"a", b"b\nc: d")),
        ("a value with a carriage return", Turned, field(b"a", b"b\rc: d")),
        ("a value with a NUL", Turned, field(b"a", b"b\0")),
        ("a blank before the value", Status(400), field(b"a", b" b")),
        ("a tab behind the value", Status(400), field(b"a", b"b\t")),
        ("connection", Turned, field(b"connection", b"close")),
        ("a nominating connection", Turned, field(b"connection", b"x-forwarded-for")),
        ("keep-alive", Turned, field(b"keep-alive", b"timeout=5")),
        ("proxy-connection", Turned, field(b"proxy-connection", b"keep-alive")),
        ("upgrade", Turned, field(b"upgrade", b"websocket")),
        ("http2-settings", Turned, field(b"http2-settings", b"AAMAAABkAAQAAP__")),
        ("te: trailers", Forwarded("/x"), field(b"te", b"trailers")),
        ("another te", Turned, field(b"te", b"gzip")),
        ("transfer-encoding", Turned, post(&[(b"transfer-encoding", b"chunked")], SMUGGLED)),
        ("transfer-encoding in capitals", Turned, post(&[(b"Transfer-Encoding", b"chunked")], SMUGGLED)),
        (
            "transfer-encoding with a length",
            Turned,
            post(&[(b"transfer-encoding", b"chunked"), (b"content-length", b"48")], SMUGGLED),
        ),
        ("an authority with an empty port", Forwarded("/x"), authority(b"gate.example:", &[])),
        ("a twin with a dot", Status(400), field(b"x.real.ip", b"192.0.2.1")),
        ("a twin of a trusted field", Status(400), field(b"x_forwarded_for", b"192.0.2.1")),
        ("a twin of the length", Status(400), field(b"content_length", b"5")),
        ("a twin of the coding", Status(400), field(b"transfer_encoding", b"chunked")),
        ("an expectation of something else", Status(417), field(b"expect", b"200-ok")),
        ("cookies in crumbs", Forwarded("/x"), with(b"/x", &[(b"cookie", b"a=1"), (b"cookie", b"b=2")])),
    ]
}

fn lengths() -> Vec<(&'static str, Want, Vec<u8>)> {
    let length = |length: &'static [u8], body: &[u8]| post(&[(b"content-length", length)], body);
    vec![
        ("a body with its length", Forwarded("/x"), length(b"5", b"hello")),
        ("a body without a length", Forwarded("/x"), post(&[], b"hello")),
        ("a chunk's end and a request as a body", Forwarded("/x"), post(&[], SMUGGLED)),
        ("less than the length", Turned, length(b"50", b"hello")),
        ("more than the length", Turned, length(b"4", b"hello")),
        ("a request behind the length", Turned, length(b"5", SMUGGLED)),
        ("a request behind the length zero", Emptied, length(b"0", SMUGGLED)),
        ("a length without a body", Turned, with(b"/x", &[(b"content-length", b"5")])),
        ("the length twice", Turned, post(&[(b"content-length", b"5"), (b"content-length", b"5")], b"hello")),
        ("two lengths", Turned, post(&[(b"content-length", b"5"), (b"content-length", b"0")], b"hello")),
        ("a list of lengths", Turned, length(b"5, 5", b"hello")),
        ("a signed length", Turned, length(b"+5", b"hello")),
        ("a negative length", Turned, length(b"-5", b"hello")),
        ("a length in hex", Turned, length(b"0x5", b"hello")),
        ("a length with a blank", Turned, length(b" 5", b"hello")),
        ("an empty length", Turned, length(b"", b"hello")),
        ("a length beyond all", Turned, length(b"99999999999999999999", b"hello")),
        ("trailers", Forwarded("/x"), trailers(&[(b"x-sum", b"1")], true)),
        ("trailers that do not end", Turned, trailers(&[(b"x-sum", b"1")], false)),
        ("a path in the trailers", Either, trailers(&[(b":path", b"/hidden")], true)),
        ("a length in the trailers", Either, trailers(&[(b"content-length", b"0")], true)),
        ("a coding in the trailers", Either, trailers(&[(b"transfer-encoding", b"chunked")], true)),
    ]
}

fn frames() -> Vec<(&'static str, Want, Vec<u8>)> {
    let whole =
        block(&[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/x")]);
    let (front, rear) = whole.split_at(20);
    let begun = frame(HEADERS, END_STREAM, 1, front);
    let padded = |padding: u8| [&[padding][..], &whole].concat();
    vec![
        ("a head in two frames", Forwarded("/x"), [begun.clone(), frame(CONTINUATION, END_HEADERS, 1, rear)].concat()),
        (
            "a head with another frame inside",
            Turned,
            [begun.clone(), frame(DATA, 0, 1, b"x"), frame(CONTINUATION, END_HEADERS, 1, rear)].concat(),
        ),
        ("a head that goes on on another stream", Turned, [begun, frame(CONTINUATION, END_HEADERS, 3, rear)].concat()),
        ("a continuation of nothing", Turned, frame(CONTINUATION, END_HEADERS, 1, &whole)),
        ("more padding than there is", Turned, frame(HEADERS, END_HEADERS | END_STREAM | 8, 1, &padded(250))),
        ("a head on the connection", Turned, frame(HEADERS, END_HEADERS | END_STREAM, 0, &whole)),
        ("a head on a stream of ours", Turned, frame(HEADERS, END_HEADERS | END_STREAM, 2, &whole)),
        ("a body before its head", Turned, [frame(DATA, END_STREAM, 1, SMUGGLED), get(1, "/x")].concat()),
        ("a body on the connection", Turned, [frame(DATA, END_STREAM, 0, SMUGGLED), get(1, "/x")].concat()),
        ("a promise by a client", Turned, frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2][..], &whole].concat())),
        ("an unknown entry of the table", Turned, frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0x80, 0x01])),
        ("a string that does not end", Turned, frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0, 0x7f, 0xff, 0x7f])),
    ]
}

#[test]
fn nothing_with_two_readings_reaches_an_origin() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin, "");
    let cases = cases();
    assert!(cases.len() >= 80, "{} cases", cases.len());
    let mut faults = Vec::new();
    let mut outcomes = Vec::new();
    for (number, (name, _, bytes)) in cases.iter().enumerate() {
        let mut raw = Raw::open_from(source_of(number), gate.address("main"));
        raw.send(bytes).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        outcomes.push(raw.outcome(1));
    }
    gate.comes_to_rest();
    drop(gate);
    origin.wait_until_left();
    let arrivals = origin.arrivals();
    for (number, ((name, want, _), outcome)) in cases.iter().zip(outcomes).enumerate() {
        let source = source_of(number).to_string();
        let own: Vec<_> =
            arrivals.iter().filter(|arrival| arrival.lines("x-forwarded-for") == [source.as_str()]).collect();
        let whole: Vec<_> = own.iter().filter(|arrival| arrival.complete).collect();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(fault) => {
                faults.push(format!("{name}: {fault}"));
                continue;
            }
        };
        let status = if let Outcome::Status(status) = outcome { Some(status) } else { None };
        let turned = status.is_none_or(|status| status >= 400) && whole.is_empty();
        let forwarded = status == Some(200) && whole.len() == 1 && own.len() == 1;
        let good = match *want {
            Status(wanted) => status == Some(wanted) && own.is_empty(),
            Turned => turned,
            Forwarded(target) => forwarded && whole[0].target == target,
            Either => turned || forwarded,
            Emptied => status.is_none() && own.len() <= 1 && own.iter().all(|arrival| arrival.body.is_empty()),
        };
        println!("{name}: {outcome:?}, {} at the origin", own.len());
        if !good {
            let seen: Vec<_> = own.iter().map(|arrival| String::from_utf8_lossy(&arrival.head).into_owned()).collect();
            faults.push(format!("{name}: wanted {want:?}, got {outcome:?}, at the origin {seen:?}"));
        }
    }
    faults.extend(arrivals.iter().filter_map(|arrival| one_reading(arrival).err()));
    println!("{} cases, {} faults", cases.len(), faults.len());
    assert!(faults.is_empty(), "{} cases, faults:\n{}", cases.len(), faults.join("\n"));
    let of = |name: &str| {
        let number = cases.iter().position(|(known, ..)| *known == name).unwrap();
        let source = source_of(number).to_string();
        arrivals.iter().find(|arrival| arrival.lines("x-forwarded-for") == [source.as_str()]).unwrap()
    };
    assert_eq!(of("cookies in crumbs").lines("cookie"), ["a=1; b=2"]);
    assert!(of("te: trailers").lines("te").is_empty());
    assert_eq!(of("an authority in capitals").lines("host"), ["GATE.example:80"]);
    assert_eq!(of("a chunk's end and a request as a body").body, SMUGGLED);
    assert_eq!(of("trailers").body, b"hello");
}
