//! Request lines, versions, line ends, early ends, sizes.

use super::Want::{Refused, Turned, Unambiguous};
use super::{BAD, Case, Want, case, cut_off};

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        // versions
        case("HTTP/1.2", Unambiguous, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
        case("HTTP/1.10", Turned, b"GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
        case("HTTP/2.0 over the wire of 1.1", Turned, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        case("HTTP/3.0", Turned, b"GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
        case("HTTP/0.9 with a head", Turned, b"GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
        case("a lower-case protocol", Turned, b"GET / http/1.1\r\nHost: a\r\n\r\n"),
        case("another protocol", Turned, b"GET / HTTPS/1.1\r\nHost: a\r\n\r\n"),
        case("a version with a blank", Turned, b"GET / HTTP/ 1.1\r\nHost: a\r\n\r\n"),
        case("a version with a comma", Turned, b"GET / HTTP/1,1\r\nHost: a\r\n\r\n"),
        case("bytes behind the version", Turned, b"GET / HTTP/1.1 x\r\nHost: a\r\n\r\n"),
        cut_off("the whole request of HTTP/0.9", Turned, b"GET /\r\n"),
        case("no version", Turned, b"GET /\r\nHost: a\r\n\r\n"),
        case("the preface of HTTP/2", Turned, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        cut_off(
            "a TLS hello",
            Turned,
            b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03random bytes of a client hello\r\n\r\n",
        ),
        cut_off(
            "a header of the PROXY protocol",
            Turned,
            b"PROXY TCP4 6.6.6.6 10.0.0.1 1 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        // methods
        case("CONNECT", Refused(&[400, 403, 404, 405, 501]), b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
        case("TRACE", Unambiguous, b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a lower-case method", Unambiguous, b"get / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("an unknown method", Unambiguous, b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("no method", Turned, b" / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a method that is no token", Turned, b"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a method with a NUL", Turned, b"G\0T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        // line ends and blanks
        case("lines that end in a bare LF", Unambiguous, b"GET / HTTP/1.1\nHost: a\n\n"),
        case("one line that ends in a bare LF", Unambiguous, b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
        cut_off("lines that end in a bare CR", Turned, b"GET / HTTP/1.1\rHost: a\r\r"),
        case("a CR inside the request line", Turned, b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("an empty line first", Unambiguous, b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a blank first", Turned, b" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("two blanks before the target", BAD, b"GET  /admin HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("two blanks before the version", BAD, b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a tab before the target", BAD, b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        case("a tab before the version", BAD, b"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
        // early ends
        cut_off("nothing at all", Turned, b""),
        cut_off("half a request line", Turned, b"GET /hid"),
        cut_off("a head without its end", Turned, b"GET /hidden HTTP/1.1\r\nHost: a\r\n"),
        cut_off("half a field", Turned, b"GET /hidden HTTP/1.1\r\nHost: a\r\nX-Half"),
        // sizes
        large("a target of 1 MiB", b"GET /", 1 << 20, b" HTTP/1.1\r\nHost: a\r\n\r\n"),
        large("a field of 2 MiB", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", 2 << 20, b"\r\n\r\n"),
        large("a field name of 2 MiB", b"GET / HTTP/1.1\r\nHost: a\r\n", 2 << 20, b": x\r\n\r\n"),
        large("a method of 100 KB", b"", 100_000, b" / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (name, count) in [("300 fields", 300), ("10,000 fields", 10_000)] {
        let lines: String = (0..count).map(|number| format!("X-{number}: {number}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        cases.push(case(name, Turned, bytes.as_bytes()));
    }
    cases
}

fn large(name: &'static str, before: &[u8], size: usize, after: &[u8]) -> Case {
    let want: Want = Unambiguous;
    case(name, want, &[before, &vec![b'a'; size], after].concat())
}
