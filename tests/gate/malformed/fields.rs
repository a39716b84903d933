//! Header fields: hosts, names, values, folding, nominations.

use super::Want::{Forwarded, Turned, Unambiguous};
use super::{BAD, Case, case};

pub fn cases() -> Vec<Case> {
    vec![
        // hosts
        case("no host", BAD, b"GET / HTTP/1.1\r\nX: y\r\n\r\n"),
        case("no field at all", BAD, b"GET / HTTP/1.1\r\n\r\n"),
        case("no host in HTTP/1.0", Unambiguous, b"GET / HTTP/1.0\r\n\r\n"),
        case("an empty host", BAD, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        case("a host of blanks", BAD, b"GET / HTTP/1.1\r\nHost:   \r\n\r\n"),
        case("two hosts", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        case("the same host twice", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        case("the same host twice in other case", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n"),
        case("a list of hosts", BAD, b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        case("two hosts with a blank", BAD, b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        case("a host with user information", BAD, b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        case("a host with a path", BAD, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        case("a host with a query", BAD, b"GET / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
        case("a host with a port that is no number", BAD, b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        case("a host with a port above the last", BAD, b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n"),
        case("a host with an empty port", Forwarded("/"), b"GET / HTTP/1.1\r\nHost: a:\r\n\r\n"),
        case("an absolute form with an empty port", Forwarded("/"), b"GET http://a:/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a host with an open bracket", BAD, b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        case("a host with a high byte", Unambiguous, b"GET / HTTP/1.1\r\nHost: \xe4\r\n\r\n"),
        case("another host than the absolute form", BAD, b"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"),
        case("a folded host", BAD, b"GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n"),
        case("a blank before the host", BAD, b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        // names
        case("a blank before the colon", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n"),
        case("a blank before the colon of the length", BAD, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello"),
        case("a tab before the colon", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX\t: y\r\n\r\n"),
        case("a name that is empty", BAD, b"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n"),
        case("a line without colon", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"),
        case("a name with brackets", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX(y): z\r\n\r\n"),
        case("a name with a NUL", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX\0Y: z\r\n\r\n"),
        case("a name with a high byte", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX\xff: z\r\n\r\n"),
        // values
        case("a NUL in a value", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n"),
        case("a bare CR in a value", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz: w\r\n\r\n"),
        case("an escape in a value", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\x1bz\r\n\r\n"),
        case("a DEL in a value", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\x7fz\r\n\r\n"),
        case("a high byte in a value", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe4\xf6\r\n\r\n"),
        case("a folded value", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n"),
        case("a value folded by a tab", BAD, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n"),
        case("a first field that is folded", BAD, b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
        // fields that speak about other fields
        case("a connection that names the host", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n"),
        case(
            "a connection that names the client's address",
            Unambiguous,
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, x-forwarded-for\r\n\r\n",
        ),
        case(
            "a connection that names the length",
            Unambiguous,
            b"POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello",
        ),
        case("an expectation nobody can meet", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n"),
        case(
            "an upgrade to HTTP/2 with settings",
            Unambiguous,
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        ),
        case("an upgrade without a protocol", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n"),
        case("a range that ends before it starts", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=9-1\r\n\r\n"),
        case("a trailer without a body", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: host\r\n\r\n"),
        case("a colon as the first byte of a value", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\r\nX::y\r\n\r\n"),
        case("a line of blanks instead of the end", Turned, b"GET / HTTP/1.1\r\nHost: a\r\n  \r\n\r\n"),
    ]
}
