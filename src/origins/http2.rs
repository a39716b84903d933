//! What HTTP/2 with an origin needs beyond the framework and the `h2` crate.
//!
//! Much is theirs: malformed and misplaced pseudo-headers, fields that concern a connection, bytes that no field may hold,
//! bodies of another length than was said, and frames in excess are errors of the stream or the connection there (RFC 9113
//! section 8.1.1). Left to do: two lengths, statuses out of range and bodies where none can be, which would reach clients
//! of HTTP/1; heads and trailers that are too large, since the client's end of `h2` takes 16 MiB of each; trailers
//! that may not be any (RFC 9110 section 6.5.1); and `https` as the scheme of what travels inside TLS of ours. Interim
//! answers are not counted: they are dropped one by one, until the time for the answer is over.

use http::uri::{Authority, Parts, Scheme, Uri};
use http::{HeaderMap, HeaderName, StatusCode, header};
use pingora::http::{RequestHeader, ResponseHeader};

use tidegate_http::answer_head::ANSWER_LIMITS;
use tidegate_http::fault::AnswerFault;
use tidegate_http::head::fields::plain_number;

/// Judges the head of an answer that came over HTTP/2.
///
/// # Errors
/// What is wrong with it.
pub fn judge(head: &ResponseHeader) -> Result<(), AnswerFault> {
    if !(100..600).contains(&head.status.as_u16()) {
        return Err(AnswerFault::StatusLine);
    }
    fits(&head.headers)?;
    let mut lengths = head.headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(()) };
    let length = plain_number(length.as_bytes()).filter(|_| lengths.next().is_none());
    match length {
        None => Err(AnswerFault::ContentLength),
        Some(1..) if head.status == StatusCode::NO_CONTENT => Err(AnswerFault::BodyWhereNone),
        Some(_) => Ok(()),
    }
}

/// Judges the trailers of an answer, and takes out what must not stand in any.
///
/// # Errors
/// They are too large.
pub fn judge_trailers(trailers: &mut HeaderMap) -> Result<(), AnswerFault> {
    fits(trailers)?;
    for name in NO_TRAILERS {
        trailers.remove(name);
    }
    Ok(())
}

/// What would change how the answer before it is read.
const NO_TRAILERS: [HeaderName; 9] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_RANGE,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::HOST,
    header::SET_COOKIE,
    header::CACHE_CONTROL,
];

fn fits(fields: &HeaderMap) -> Result<(), AnswerFault> {
    if fields.len() > ANSWER_LIMITS.fields {
        return Err(AnswerFault::TooManyFields);
    }
    let bytes: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > ANSWER_LIMITS.bytes { Err(AnswerFault::HeadTooLarge) } else { Ok(()) }
}

/// Says `https` in a request that leaves inside TLS. Pingora goes by its own TLS, of which there is none, and would say `http`;
/// it lets a target that has its authority and no `Host` beside it be.
pub fn say_https(request: &mut RequestHeader) {
    let host = request.headers.get(header::HOST).map(|host| host.as_bytes().to_vec());
    let host = host.and_then(|host| Authority::try_from(host.as_slice()).ok());
    let Some(authority) = host.or_else(|| request.uri.authority().cloned()) else { return };
    let mut parts = Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority);
    parts.path_and_query = request.uri.path_and_query().cloned();
    if let Ok(target) = Uri::from_parts(parts) {
        request.set_uri(target);
        request.remove_header(&header::HOST);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn head(status: u16, fields: &[(&'static str, &'static str)]) -> ResponseHeader {
        let mut head = ResponseHeader::build(status, None).unwrap();
        for (name, value) in fields {
            head.append_header(*name, *value).unwrap();
        }
        head
    }

    #[test]
    fn lengths_have_one_reading() {
        use AnswerFault as Is;
        assert_eq!(judge(&head(200, &[])), Ok(()));
        assert_eq!(judge(&head(200, &[("content-length", "5"), ("set-cookie", "a"), ("set-cookie", "b")])), Ok(()));
        assert_eq!(judge(&head(304, &[("content-length", "5")])), Ok(()));
        assert_eq!(judge(&head(204, &[("content-length", "0")])), Ok(()));
        assert_eq!(judge(&head(204, &[("content-length", "5")])), Err(Is::BodyWhereNone));
        assert_eq!(judge(&head(200, &[("content-length", "5"), ("content-length", "5")])), Err(Is::ContentLength));
        for odd in ["5, 5", "+5", "", "0x5"] {
            assert_eq!(judge(&head(200, &[("content-length", odd)])), Err(Is::ContentLength), "{odd:?}");
        }
        assert_eq!(judge(&head(999, &[])), Err(Is::StatusLine));
    }

    #[test]
    fn heads_and_trailers_are_bounded() {
        let mut large = HeaderMap::new();
        large.insert("a", HeaderValue::from_bytes(&vec![b'x'; ANSWER_LIMITS.bytes]).unwrap());
        assert_eq!(judge_trailers(&mut large), Err(AnswerFault::HeadTooLarge));
        let mut many = HeaderMap::new();
        for _ in 0..=ANSWER_LIMITS.fields {
            many.append("a", HeaderValue::from_static("b"));
        }
        assert_eq!(judge_trailers(&mut many), Err(AnswerFault::TooManyFields));
    }

    #[test]
    fn trailers_that_change_the_reading_are_taken_out() {
        let mut trailers = HeaderMap::new();
        for name in ["grpc-status", "content-length", "transfer-encoding", "set-cookie"] {
            trailers.insert(name, HeaderValue::from_static("0"));
        }
        assert_eq!(judge_trailers(&mut trailers), Ok(()));
        assert_eq!(trailers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["grpc-status"]);
    }

    #[test]
    fn the_scheme_is_that_of_the_connection() {
        let mut request = RequestHeader::build("GET", b"/a?b", None).unwrap();
        request.insert_header("host", "shop.example:8443").unwrap();
        say_https(&mut request);
        assert_eq!(request.uri.to_string(), "https://shop.example:8443/a?b");
        assert!(!request.headers.contains_key("host"));
        // and of a client's own HTTP/2
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        request.set_uri(Uri::from_static("http://shop.example/a"));
        say_https(&mut request);
        assert_eq!(request.uri.to_string(), "https://shop.example/a");
    }
}
