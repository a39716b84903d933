//! Framing: lengths, codings, chunks. Most cases hide a second request where another reader would see its start.

use super::Want::{Refused, Turned, Unambiguous};
use super::{BAD, Case, Want, case, cut_off};

/// A coding that nobody here speaks may also be answered 501.
const CODING: Want = Refused(&[400, 501]);

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        // two framings
        post("a length and a coding", BAD, "Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        post("a coding and a length", BAD, "Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
        post("a zero length and a coding", BAD, "Content-Length: 0\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        post("two lengths", BAD, "Content-Length: 0\r\nContent-Length: 44", ""),
        post("two lengths the other way round", BAD, "Content-Length: 44\r\nContent-Length: 0", ""),
        case("the same length twice", Unambiguous, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        case("a list of equal lengths", BAD, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello"),
        post("a list of lengths", BAD, "Content-Length: 0, 44", ""),
        // lengths that are no numbers
        post("a length with a plus", BAD, "Content-Length: +5", "hello"),
        post("a negative length", BAD, "Content-Length: -5", ""),
        post("a hexadecimal length", BAD, "Content-Length: 0x5", "hello"),
        post("a length with a blank inside", BAD, "Content-Length: 4 4", ""),
        post("an empty length", BAD, "Content-Length:", ""),
        post("a length with a leading zero", BAD, "Content-Length: 043", ""),
        post("a length of two zeros", BAD, "Content-Length: 00", ""),
        post("a length with a fraction", BAD, "Content-Length: 5.0", "hello"),
        post("a length with letters behind", BAD, "Content-Length: 5abc", "hello"),
        post("a length beyond 64 bits", BAD, "Content-Length: 18446744073709551621", "hello"),
        post("a length in other digits", BAD, "Content-Length: \u{0665}", "hello"),
        // codings
        post("identity", CODING, "Transfer-Encoding: identity", ""),
        post("identity, then chunked", CODING, "Transfer-Encoding: identity, chunked", "0\r\n\r\n"),
        post("gzip, then chunked", CODING, "Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
        post("chunked, then gzip", CODING, "Transfer-Encoding: chunked, gzip", "0\r\n\r\n"),
        post("chunked twice", CODING, "Transfer-Encoding: chunked, chunked", "0\r\n\r\n"),
        post("two coding fields", CODING, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n"),
        post("an unknown coding", CODING, "Transfer-Encoding: xchunked", "0\r\n\r\n"),
        post("a quoted coding", CODING, "Transfer-Encoding: \"chunked\"", "0\r\n\r\n"),
        post("a coding behind a vertical tab", CODING, "Transfer-Encoding: \x0bchunked", "0\r\n\r\n"),
        post("a coding with a parameter", CODING, "Transfer-Encoding: chunked;q=1", "0\r\n\r\n"),
        post("an empty coding", CODING, "Transfer-Encoding:", ""),
        post("a coding before the colon", CODING, "Transfer-Encoding : chunked", "0\r\n\r\n"),
        post("a folded coding", CODING, "Transfer-Encoding:\r\n chunked", "0\r\n\r\n"),
        case(
            "a coding in HTTP/1.0",
            BAD,
            b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        case("chunked in capitals", Unambiguous, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        case(
            "chunked with a chunk extension",
            Unambiguous,
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\n\r\n",
        ),
        case(
            "all that the grammar of chunk extensions has",
            Want::Forwarded("/"),
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 ; a = \"\\\"b\" ;c;d=e\r\nhello\r\n0;f\r\n\r\n",
        ),
        case(
            "trailers that speak of framing",
            Unambiguous,
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 44\r\nHost: b\r\n\r\n",
        ),
        // bodies that end early
        cut_off("a body that ends early", Turned, b"POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello"),
        cut_off("chunks that end early", Turned, b"POST /cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
        cut_off("chunks without the last", Turned, b"POST /cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        cut_off("a body with nothing of it", Turned, b"POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n"),
    ];
    let chunks: [(&'static str, &str); 20] = [
        ("a chunk extension without a name", "5;\r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension without a value", "5;a=\r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension with a blank behind it", "5;a=b \r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension with an open quote", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension with two words", "5;a b\r\nhello\r\n0\r\n\r\n"),
        ("a blank behind a chunk size", "5 \r\nhello\r\n0\r\n\r\n"),
        ("a comma behind a chunk size", "5,a\r\nhello\r\n0\r\n\r\n"),
        ("a chunk size that is no number", "zz\r\nhello\r\n0\r\n\r\n"),
        ("an empty chunk size", "\r\nhello\r\n0\r\n\r\n"),
        ("a negative chunk size", "-5\r\nhello\r\n0\r\n\r\n"),
        ("a chunk size with a plus", "+5\r\nhello\r\n0\r\n\r\n"),
        ("a chunk size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"),
        ("a chunk size beyond 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        ("a chunk size of all ones", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        ("a chunk longer than its size", "3\r\nhello\r\n0\r\n\r\n"),
        ("chunks that end in a bare LF", "5\nhello\n0\n\n"),
        ("a chunk extension with a bare LF", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension with a bare CR", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        ("a NUL in a chunk size", "5\0\r\nhello\r\n0\r\n\r\n"),
        ("a chunk without its end", "5\r\nhello0\r\n\r\n"),
    ];
    for (name, body) in chunks {
        let head = "POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let bytes = format!("{head}{body}GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n");
        cases.push(cut_off(name, Turned, bytes.as_bytes()));
    }
    cases
}

/// A POST with these framing fields and this body, and a hidden request behind it.
fn post(name: &'static str, want: Want, framing: &str, body: &str) -> Case {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    case(name, want, format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}{hidden}").as_bytes())
}
