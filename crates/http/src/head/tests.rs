//! Byte-level cases by name, and the laws that hold for any bytes.

use proptest::prelude::*;

use super::*;

mod generated;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 4096,
    request_line: 1024,
    fields: 20,
    twins: UnderscoreTwins::Refuse,
    escaped_slash: EscapedSlash::Keep,
};

fn verdict(bytes: &[u8]) -> Result<Option<Head>, HeadFault> {
    parse(bytes, &LIMITS)
}

fn head(text: &str) -> Head {
    verdict(text.as_bytes()).unwrap_or_else(|fault| panic!("{text:?}: {fault}")).expect("complete")
}

fn judge(cases: &[(&str, &[u8], HeadFault)]) {
    for (name, bytes, fault) in cases {
        assert_eq!(verdict(bytes), Err(*fault), "{name}: {}", bytes.escape_ascii());
    }
}

fn accept(cases: &[(&str, &[u8])]) {
    for (name, bytes) in cases {
        match verdict(bytes) {
            Ok(Some(head)) => assert_eq!(head.end, bytes.len(), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn ordinary_heads_are_accepted() {
    accept(&[
        ("the least", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("one empty line before", b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("no blank after the colon", b"GET / HTTP/1.1\r\nHost:a\r\n\r\n"),
        ("blanks and tabs around a value", b"GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n"),
        ("an empty value", b"GET / HTTP/1.1\r\nHost: a\r\nA:\r\n\r\n"),
        ("a tab within a value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\tc\r\n\r\n"),
        ("bytes beyond ASCII in a value", b"GET / HTTP/1.1\r\nHost: a\r\nA: caf\xc3\xa9\r\n\r\n"),
        ("every token character in a name", b"GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09azAZ: b\r\n\r\n"),
        ("HTTP/1.0 with a host", b"GET / HTTP/1.0\r\nHost: a\r\n\r\n"),
        ("an address with a port as the host", b"GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n\r\n"),
        ("a method with hyphens", b"VERSION-CONTROL / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a length of zero", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
        ("a chunked body", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("an expectation", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n"),
        ("an absolute target", b"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("an absolute target in other letters", b"GET HTTPS://a:1/b HTTP/1.1\r\nHost: a:1\r\n\r\n"),
        ("an absolute target without a path", b"GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a lone percent sign in the query", b"GET /?q=100% HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a backslash in the query", b"GET /?q=C:\\x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a body on GET", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"),
        ("an upgrade", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        ("nine options", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: 1,2,,3,4,5\r\nConnection: ,6,7,8,9\r\n\r\n"),
        ("an unknown option of the connection", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: te, x-y\r\n\r\n"),
        ("an underscore in an untrusted name", b"GET / HTTP/1.1\r\nHost: a\r\nX_Custom: 1\r\n\r\n"),
    ]);
}

#[test]
fn twins_of_trusted_names_pass_where_the_operator_allows_them_but_never_those_of_framing() {
    let allowing = HeadLimits { twins: UnderscoreTwins::Allow, ..LIMITS };
    let with = |field: &str| parse(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}: 1\r\n\r\n").as_bytes(), &allowing);
    for field in ["X_Forwarded_For", "x-real_ip", "True_Client-IP"] {
        assert!(matches!(with(field), Ok(Some(_))), "{field}");
    }
    for field in ["Content_Length", "transfer_encoding"] {
        assert_eq!(with(field), Err(HeadFault::UnderscoreTwin), "{field}");
    }
}

#[test]
fn request_lines_with_two_readings_are_refused() {
    use HeadFault::*;
    judge(&[
        ("two empty lines before", b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a bare LF before", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnding),
        ("a blank before", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a TLS greeting", b"\x16\x03\x01\x02\x00", Method),
        ("a NUL before", b"\0GET / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a lower-case method", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a method with a colon", b"GET: / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a method of 33 letters", b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("a method alone", b"GET\r\nHost: a\r\n\r\n", Method),
        ("a tab behind the method", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Method),
        ("two blanks behind the method", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Blank),
        ("a tab before the target", b"GET \t/ HTTP/1.1\r\nHost: a\r\n\r\n", Blank),
        ("two blanks behind the target", b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Blank),
        ("a tab behind the target", b"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", Blank),
        ("a blank behind the version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Blank),
        ("a blank within the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Version),
        ("no version", b"GET /\r\nHost: a\r\n\r\n", Version),
        ("a lower-case version", b"GET / http/1.1\r\nHost: a\r\n\r\n", Version),
        ("a version of one digit", b"GET / HTTP/1\r\nHost: a\r\n\r\n", Version),
        ("a version of three digits", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", Version),
        ("a version with a plus", b"GET / HTTP/+.1\r\nHost: a\r\n\r\n", Version),
        ("another protocol", b"GET / FTP/1.1\r\nHost: a\r\n\r\n", Version),
        ("HTTP/1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", VersionUnsupported),
        ("HTTP/0.9 in words", b"GET / HTTP/0.9\r\n\r\n", VersionUnsupported),
        ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VersionUnsupported),
        ("a bare LF behind the version", b"GET / HTTP/1.1\nHost: a\r\n\r\n", LineEnding),
        ("a bare CR behind the version", b"GET / HTTP/1.1\rHost: a\r\n\r\n", LineEnding),
        ("CONNECT", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", MethodRefused),
        ("TRACE", b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", MethodRefused),
    ]);
}

#[test]
fn targets_with_two_readings_are_refused() {
    use HeadFault::*;
    judge(&[
        ("no leading slash", b"GET admin HTTP/1.1\r\nHost: a\r\n\r\n", TargetForm),
        ("a query alone", b"GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", TargetForm),
        ("an asterisk", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", TargetForm),
        ("an authority alone", b"GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", TargetForm),
        ("another scheme", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", TargetForm),
        ("a scheme with one slash", b"GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", TargetForm),
        ("another host", b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", HostMismatch),
        ("another port", b"GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", HostMismatch),
        ("an absolute target without any Host", b"GET http://a/ HTTP/1.0\r\n\r\n", Host),
        ("userinfo", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Host),
        ("an empty authority", b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", Host),
        ("a backslash for a slash", b"GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", Host),
        ("a fragment", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("a NUL", b"GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("a control", b"GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("DEL", b"GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("a byte beyond ASCII", b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("a backslash in the path", b"GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("an escaped NUL", b"GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", Escape),
        ("an escaped NUL in the query", b"GET /?a=%00 HTTP/1.1\r\nHost: a\r\n\r\n", Escape),
        ("an escaped line end in the path", b"GET /%0d%0aA:b HTTP/1.1\r\nHost: a\r\n\r\n", Escape),
        ("half an escape", b"GET /a%4 HTTP/1.1\r\nHost: a\r\n\r\n", Escape),
        ("an escape that is not hex", b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", Escape),
        ("a way up", b"GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", DotSegment),
        ("an escaped way up", b"GET /a/%2e%2E/b HTTP/1.1\r\nHost: a\r\n\r\n", DotSegment),
        ("a way up in an absolute target", b"GET http://a/.. HTTP/1.1\r\nHost: a\r\n\r\n", DotSegment),
    ]);
}

#[test]
fn fields_with_two_readings_are_refused() {
    use HeadFault::*;
    judge(&[
        ("a bare LF at the end of a field", b"GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", LineEnding),
        ("a bare CR at the end of a field", b"GET / HTTP/1.1\r\nHost: a\rA: b\r\n\r\n", LineEnding),
        ("CR CR LF", b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", LineEnding),
        ("a bare LF for the empty line", b"GET / HTTP/1.1\r\nHost: a\r\n\n", LineEnding),
        ("a bare CR for the empty line", b"GET / HTTP/1.1\r\nHost: a\r\n\rGET", LineEnding),
        ("a NUL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n", FieldValue),
        ("a control in a value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x0bc\r\n\r\n", FieldValue),
        ("DEL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x7fc\r\n\r\n", FieldValue),
        ("a folded line", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", Folding),
        ("a line folded by a tab", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n", Folding),
        ("a first field that is folded", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Folding),
        ("a blank before the colon", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", FieldName),
        ("a tab before the colon", b"GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", FieldName),
        ("an empty name", b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", FieldName),
        ("a name with a NUL", b"GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n", FieldName),
        ("a name in brackets", b"GET / HTTP/1.1\r\nHost: a\r\n(A): b\r\n\r\n", FieldName),
        ("a name beyond ASCII", b"GET / HTTP/1.1\r\nHost: a\r\n\xc3\xa9: b\r\n\r\n", FieldName),
        ("a line without a colon", b"GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", FieldName),
        ("a twin of a length", b"POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", UnderscoreTwin),
        ("a twin of an address", b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded_For: b\r\n\r\n", UnderscoreTwin),
        ("a connection without its host", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Host\r\n\r\n", Connection),
        (
            "a connection without its length",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\n\r\n",
            Connection,
        ),
        (
            "a connection without an address",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For\r\n\r\n",
            Connection,
        ),
        // Latin-1 has a blank beyond ASCII: whoever trims it off reads `host` and drops the field
        (
            "a connection without its host for readers of Latin-1",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection:\xa0host\r\n\r\n",
            Connection,
        ),
        ("an option that is none", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, x y\r\n\r\n", Connection),
        (
            "a tenth option",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: 1,2,3,4,5\r\nConnection: 6,7,8,9,10\r\n\r\n",
            Connection,
        ),
        ("a quoted option", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: \"host\"\r\n\r\n", Connection),
        ("wonders", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", Expectation),
        ("an expectation and more", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n\r\n", Expectation),
    ]);
}

#[test]
fn hosts_with_two_readings_are_refused() {
    for (name, host) in [
        ("none", ""),
        ("an empty one", "Host:\r\n"),
        ("two equal ones", "Host: a\r\nHost: a\r\n"),
        ("two different ones", "Host: a\r\nhost: b\r\n"),
        ("a list", "Host: a, b\r\n"),
        ("userinfo", "Host: u@a\r\n"),
        ("a path", "Host: a/b\r\n"),
        ("a blank within", "Host: a b\r\n"),
        ("an empty port behind no name", "Host: :\r\n"),
        ("a port of letters", "Host: a:http\r\n"),
        ("a port beyond the last", "Host: a:65536\r\n"),
        ("two ports", "Host: a:1:2\r\n"),
        ("an open bracket", "Host: [::1\r\n"),
        ("an escape", "Host: %61\r\n"),
        ("a byte beyond ASCII", "Host: \u{e9}\r\n"),
        ("empty labels", "Host: a..b\r\n"),
    ] {
        let text = format!("GET / HTTP/1.1\r\n{host}\r\n");
        assert_eq!(verdict(text.as_bytes()), Err(HeadFault::Host), "{name}");
    }
    let none = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(
        verdict(none),
        Err(HeadFault::Host),
        "nobody could say which host an HTTP/1.0 request without one means"
    );
}

#[test]
fn framings_with_two_readings_are_refused() {
    use HeadFault::*;
    for (name, fields, fault) in [
        ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", LengthAndEncoding),
        ("both, the other way round", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", LengthAndEncoding),
        ("two equal lengths", "Content-Length: 5\r\nContent-Length: 5\r\n", ContentLength),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", ContentLength),
        ("a list of equal lengths", "Content-Length: 5, 5\r\n", ContentLength),
        ("an empty length", "Content-Length:\r\n", ContentLength),
        ("a length with a plus", "Content-Length: +5\r\n", ContentLength),
        ("a length with a minus", "Content-Length: -5\r\n", ContentLength),
        ("a length in hex", "Content-Length: 0x5\r\n", ContentLength),
        ("a length with a blank", "Content-Length: 5 5\r\n", ContentLength),
        ("a length with a point", "Content-Length: 5.0\r\n", ContentLength),
        ("a length beyond 64 bits", "Content-Length: 18446744073709551621\r\n", ContentLength),
        ("a length in other digits", "Content-Length: \u{665}\r\n", ContentLength),
        ("identity", "Transfer-Encoding: identity\r\n", TransferEncoding),
        ("an empty coding", "Transfer-Encoding:\r\n", TransferEncoding),
        ("two codings", "Transfer-Encoding: gzip, chunked\r\n", TransferEncoding),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", TransferEncoding),
        ("chunked on two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", TransferEncoding),
        ("identity behind chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", TransferEncoding),
        ("chunked in quotes", "Transfer-Encoding: \"chunked\"\r\n", TransferEncoding),
        ("chunked with a parameter", "Transfer-Encoding: chunked;q=1\r\n", TransferEncoding),
        ("nearly chunked", "Transfer-Encoding: xchunked\r\n", TransferEncoding),
        ("a vertical tab before chunked", "Transfer-Encoding: \x0bchunked\r\n", FieldValue),
        ("an upgrade with a length", "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n", Upgrade),
        ("an upgrade with chunks", "Upgrade: x\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\n", Upgrade),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(verdict(text.as_bytes()), Err(fault), "{name}");
    }
    let old = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(verdict(old), Err(TransferEncoding), "HTTP/1.0 knows no chunks");
}

#[test]
fn limits_have_statuses_of_their_own() {
    let long = "a".repeat(1100);
    for (name, text, fault) in [
        ("a long target", format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), HeadFault::TargetTooLong),
        ("a long target without an end", format!("GET /{long}"), HeadFault::TargetTooLong),
        ("a long value", format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", long.repeat(4)), HeadFault::TooLarge),
        ("a long value without an end", format!("GET / HTTP/1.1\r\nA: {}", long.repeat(4)), HeadFault::TooLarge),
        (
            "many fields",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(20)),
            HeadFault::TooManyFields,
        ),
    ] {
        assert_eq!(verdict(text.as_bytes()), Err(fault), "{name}");
    }
    head(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(19)));
}

#[test]
fn what_the_head_means_is_told() {
    let plain = head("GET /a?b HTTP/1.1\r\nHost: a\r\n\r\nrest");
    assert_eq!((plain.start, plain.method, plain.target, plain.end), (0, 0..3, 4..8, 30));
    assert_eq!((plain.version, plain.body, plain.keep_alive), (Version::Http11, Body::None, true));
    assert_eq!((plain.canonical_target, plain.expect_continue, plain.upgrade), (None, false, false));

    let upload =
        head("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nExpect: 100-continue\r\nConnection: x, close\r\n\r\n");
    assert_eq!((upload.body, upload.expect_continue, upload.keep_alive), (Body::Length(7), true, false));

    let chunked = head("PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n");
    assert_eq!(chunked.body, Body::Chunked);

    let old = head("GET / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nUpgrade: x\r\n\r\n");
    assert_eq!((old.version, old.keep_alive, old.expect_continue, old.upgrade), (Version::Http10, false, false, false));
    assert!(head("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);

    let switching = head("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(switching.upgrade);
    for (lines, wanted) in [
        ("Upgrade: websocket\r\nConnection: keep-alive, UPGRADE\r\n", true),
        ("Upgrade: websocket\r\n", false),
        ("Upgrade: websocket\r\nConnection: close\r\n", false),
        ("Upgrade: websocket\r\nConnection: x-upgrade\r\n", false),
        ("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", false),
        ("Upgrade: websocket, H2C-14\r\nConnection: Upgrade\r\n", false),
        ("Upgrade: HTTP/2.0\r\nConnection: Upgrade\r\n", false),
        ("Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n", false),
        ("Upgrade: websocket\r\nContent-Length: 5\r\n", false),
        // requests go on as they are
        ("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 5\r\n", false),
    ] {
        assert_eq!(head(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).upgrade, wanted, "{lines}");
    }
    assert_eq!(head("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").start, 2);
}

#[test]
fn an_empty_port_is_no_port() {
    for (text, written) in [
        ("GET / HTTP/1.1\r\nHost: a:\r\nA: b:\r\n\r\n", "GET / HTTP/1.1\r\nHost: a \r\nA: b:\r\n\r\n"),
        ("GET http://a/ HTTP/1.1\r\nA: b\r\nhost:[::1]: \r\n\r\n", ""),
        ("GET http://a:/ HTTP/1.1\r\nhost:a\r\n\r\n", "GET http://a:/ HTTP/1.1\r\nhost:a\r\n\r\n"),
        ("GET http://a/ HTTP/1.1\r\nhost:a: \r\n\r\n", "GET http://a/ HTTP/1.1\r\nhost:a  \r\n\r\n"),
    ] {
        if written.is_empty() {
            assert_eq!(verdict(text.as_bytes()), Err(HeadFault::HostMismatch));
            continue;
        }
        assert_eq!(head(text).empty_port, text != written, "{text}");
        let mut bytes = text.as_bytes().to_vec();
        drop_empty_port(&mut bytes);
        assert_eq!(bytes.escape_ascii().to_string(), written.as_bytes().escape_ascii().to_string());
    }
    for length in ["043", "00", "+5", "", "1, 1", "-0"] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(verdict(text.as_bytes()), Err(HeadFault::ContentLength), "{length}");
    }
}

#[test]
fn targets_get_their_canonical_form() {
    for (target, canonical) in [
        ("/%61//b?%7e", Some("/a/b?%7e")),
        ("http://a", Some("/")),
        ("http://a?q", Some("/?q")),
        ("http://a/b?q", Some("/b?q")),
        ("/a?b//c/../d", None),
    ] {
        let head = head(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.canonical_target.as_deref(), canonical, "{target}");
    }
}
