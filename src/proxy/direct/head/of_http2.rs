//! The head of a request that came by HTTP/2, as an origin of HTTP/1.1 gets it.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Version, header};

use super::LaneHead;
use crate::proxy::fields::titled;
use crate::proxy::request_view::read_of;
use tidegate_http::head::Body;
use tidegate_http::head::fields::plain_number;

impl LaneHead {
    /// Takes the place of the one before: a head that the edge has judged and brought into the form of HTTP/1
    /// ([`read`](tidegate_http::h2::request::read)), of which decisions may read the fields of these names. `bodiless`: the request has
    /// ended with it. `None` if no head in HTTP/1 can hold it.
    pub fn take(&mut self, parts: &Parts, bodiless: bool, names: &[HeaderName]) -> Option<()> {
        self.method = parts.method.clone();
        let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        self.target.clear();
        self.target.push_str(target);
        self.path = memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len());
        self.version = Version::HTTP_2;
        self.lines.clear();
        self.hop_by_hop = false;
        let mut length = None;
        for (name, value) in &parts.headers {
            match *name {
                header::CONTENT_LENGTH => length = Some(plain_number(value.as_bytes())?),
                // of those about a connection the edge lets no others through
                header::TE | header::TRAILER | header::PROXY_AUTHENTICATE | header::PROXY_AUTHORIZATION => {
                    self.hop_by_hop = true;
                }
                _ => {}
            }
            self.lines.add_value(titled(name).as_bytes(), value).ok()?;
        }
        self.body = match length {
            Some(length) => Body::Length(length),
            None if bodiless => Body::None,
            None => Body::Chunked,
        };
        // chunks are of a connection
        self.hop_by_hop |= self.body == Body::Chunked;
        self.read.clear();
        for name in &*read_of(&self.method, names) {
            for value in parts.headers.get_all(name) {
                self.read.try_append(name, value.clone()).ok()?;
            }
        }
        self.note_host();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use tidegate_http::lines::Lines;

    fn forwarded(request: http::request::Builder, bodiless: bool) -> String {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut head = LaneHead::default();
        head.take(&parts, bodiless, &[header::HOST]).expect("a head");
        assert!(head.read.keys().eq([header::HOST].iter()));
        let (mut upstream, mut out) = (Lines::default(), Vec::new());
        head.travels_on(&mut upstream).unwrap();
        head.write(&upstream, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn it_is_written_as_one_of_http1_without_what_concerns_the_connection() {
        let request = || Request::get("/a?b=c").header("te", "trailers").header("accept", "*/*").header("x-a", "1");
        assert_eq!(
            forwarded(request().header("host", "a.test").header("x-a", "2"), true),
            "GET /a?b=c HTTP/1.1\r\naccept: */*\r\nx-a: 1\r\nx-a: 2\r\nHost: a.test\r\n\r\n"
        );
    }

    #[test]
    fn a_body_goes_by_its_length_and_without_one_in_chunks() {
        let request = || Request::post("/").header("host", "a");
        let head = "POST / HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(forwarded(request(), true), format!("{head}\r\n"));
        assert_eq!(forwarded(request(), false), format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
        for length in ["0", "5"] {
            let request = request().header("content-length", length);
            assert_eq!(forwarded(request, false), format!("{head}Content-Length: {length}\r\n\r\n"));
        }
    }
}
