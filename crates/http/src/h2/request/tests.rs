use http::Request;

use super::*;
use crate::head::UnderscoreTwins;
use crate::path::EscapedSlash;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 4_096,
    request_line: 200,
    fields: 10,
    twins: UnderscoreTwins::Refuse,
    escaped_slash: EscapedSlash::Keep,
};

fn parts(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn judged(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Parts, HeadFault> {
    let mut parts = parts(method, uri, fields);
    read(&mut parts, &LIMITS).map(|_| parts)
}

#[test]
fn a_head_is_brought_into_the_form_of_http1() {
    let parts = judged("GET", "https://Shop.example:8443//a/%7euser?x=%zz", &[("accept", "*/*")]).unwrap();
    assert_eq!(parts.uri.to_string(), "/a/~user?x=%zz");
    assert_eq!(parts.uri.authority(), None);
    assert_eq!(parts.headers[header::HOST], "Shop.example:8443");
    let parts = judged("GET", "/", &[("host", "a.example")]).unwrap();
    assert_eq!(parts.headers[header::HOST], "a.example");
}

#[test]
fn host_and_authority_are_one() {
    let same = judged("GET", "http://a.example/", &[("host", "a.example")]).unwrap();
    assert_eq!(same.headers.get_all(header::HOST).iter().count(), 1);
    for (uri, hosts, fault) in [
        ("http://a.example/", vec![("host", "b.example")], HeadFault::HostMismatch),
        ("http://a.example/", vec![("host", "A.example")], HeadFault::HostMismatch),
        ("http://a.example/", vec![("host", "a.example:80")], HeadFault::HostMismatch),
        ("http://a.example/", vec![("host", "a.example"), ("host", "a.example")], HeadFault::Host),
        ("/", vec![], HeadFault::Host),
        ("/", vec![("host", "a.example"), ("host", "a.example")], HeadFault::Host),
        ("/", vec![("host", "")], HeadFault::Host),
        ("http://user@a.example/", vec![], HeadFault::Host),
    ] {
        assert_eq!(judged("GET", uri, &hosts).err(), Some(fault), "{uri} {hosts:?}");
    }
}

#[test]
fn crumbs_of_cookies_become_one_line() {
    let crumbs = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")];
    let parts = judged("GET", "http://a/", &crumbs).unwrap();
    assert_eq!(parts.headers.get_all(header::COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    let parts = judged("GET", "http://a/", &[("cookie", ""), ("cookie", "b=2"), ("cookie", "")]).unwrap();
    assert_eq!(parts.headers.get_all(header::COOKIE).iter().collect::<Vec<_>>(), ["b=2"]);
}

#[test]
fn a_line_of_cookies_hides_no_blanks_around_a_crumb() {
    for padded in [" b=2", "b=2 ", "\tb=2"] {
        let crumbs = [("cookie", "a=1"), ("cookie", padded), ("cookie", "c=3")];
        assert_eq!(judged("GET", "http://a/", &crumbs).unwrap_err(), HeadFault::FieldValue, "{padded:?}");
    }
}

#[test]
fn each_fault_is_told_by_its_name() {
    let long = "x".repeat(5_000);
    let many: Vec<(String, &str)> = (0..11).map(|number| (format!("x-{number}"), "1")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let long_path = format!("http://a/{}", "a".repeat(200));
    for (method, uri, fields, fault) in [
        ("TRACE", "http://a/", &[][..], HeadFault::MethodRefused),
        ("CONNECT", "a:80", &[][..], HeadFault::MethodRefused),
        ("get", "http://a/", &[][..], HeadFault::Method),
        ("GET", "ftp://a/", &[][..], HeadFault::TargetForm),
        ("GET", long_path.as_str(), &[][..], HeadFault::TargetTooLong),
        ("GET", "http://a/../b", &[][..], HeadFault::DotSegment),
        ("GET", "http://a/%0d", &[][..], HeadFault::Escape),
        ("GET", "http://a/?%00", &[][..], HeadFault::Escape),
        ("GET", "http://a/", &[("connection", "close")][..], HeadFault::Connection),
        ("GET", "http://a/", &[("keep-alive", "1")][..], HeadFault::Connection),
        ("GET", "http://a/", &[("te", "gzip")][..], HeadFault::Connection),
        ("GET", "http://a/", &[("upgrade", "websocket")][..], HeadFault::Upgrade),
        ("GET", "http://a/", &[("transfer-encoding", "chunked")][..], HeadFault::TransferEncoding),
        ("GET", "http://a/", &[("content-length", "1"), ("content-length", "1")][..], HeadFault::ContentLength),
        ("GET", "http://a/", &[("content-length", "1, 1")][..], HeadFault::ContentLength),
        ("GET", "http://a/", &[("x_real_ip", "192.0.2.1")][..], HeadFault::UnderscoreTwin),
        ("GET", "http://a/", &[("expect", "something")][..], HeadFault::Expectation),
        ("GET", "http://a/", &[("x", long.as_str())][..], HeadFault::TooLarge),
        ("GET", "http://a/", many.as_slice(), HeadFault::TooManyFields),
    ] {
        assert_eq!(judged(method, uri, fields).err(), Some(fault), "{method} {uri} {fields:?}");
    }
    let mut blank = parts("GET", "http://a/", &[]);
    blank.headers.insert("x", HeaderValue::from_bytes(b" y").unwrap());
    assert_eq!(read(&mut blank, &LIMITS), Err(HeadFault::FieldValue));
    // as the library makes names, which is not how it makes them elsewhere
    let name = http::HeaderName::from_lowercase(b"a\"b").expect("it is taken for a name");
    let mut quoted = parts("GET", "http://a/", &[]);
    quoted.headers.insert(name, HeaderValue::from_static("c"));
    assert_eq!(read(&mut quoted, &LIMITS), Err(HeadFault::FieldName));
}

#[test]
fn whoever_waits_to_go_on_is_known() {
    let waits = |fields: &[(&str, &str)]| read(&mut parts("POST", "http://a/", fields), &LIMITS).unwrap();
    assert!(waits(&[("expect", "100-continue"), ("content-length", "5")]));
    assert!(waits(&[("expect", "100-continue")]));
    assert!(!waits(&[("expect", "100-continue"), ("content-length", "0")]));
    assert!(!waits(&[("content-length", "5")]));
}

#[test]
fn the_size_of_a_head_counts_what_each_field_costs() {
    let one = bytes(&parts("GET", "http://a/", &[]));
    let two = bytes(&parts("GET", "http://a/", &[("x", "")]));
    assert_eq!(two - one, 33);
}
