//! The parser that stands behind ours: Pingora's, as it is linked. What we accept it must take, with the same meaning; where
//! the two disagreed, Pingora would answer by itself, and no log or metric would know.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v1::client::HttpSession;
use tidegate_http::head::{Body, Head, Version};
use tokio::io::AsyncWriteExt;

use super::strict;

/// Asserts that Pingora reads the head in these bytes as we do: in the form in which the connection hands it on.
pub fn takes(bytes: &[u8], head: &Head) {
    let written = head.written(BytesMut::from(bytes));
    let ours = strict::fields(&written).expect("an accepted head has fields");
    let target = head.canonical_target.as_deref().map_or(&bytes[head.target.clone()], str::as_bytes);
    let (_client, server) = tokio::io::duplex(1);
    let mut session = ServerSession::new_http1(Box::new(server));
    session.set_pipelined_prefix(written.clone());
    assert!(at_once(session.read_request()).expect("what we accept is taken"));
    let theirs = session.req_header();
    assert_eq!(theirs.method.as_str().as_bytes(), &bytes[head.method.clone()]);
    assert_eq!(theirs.raw_path(), target);
    // what routes and keys are asked with, early and late
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    assert_eq!((theirs.uri.path().as_bytes(), theirs.uri.query().map(str::as_bytes)), (path, query));
    let version = if head.version == Version::Http11 { http::Version::HTTP_11 } else { http::Version::HTTP_10 };
    assert_eq!(theirs.version, version);
    for (name, _) in &ours {
        let same = ours.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let name = std::str::from_utf8(name).expect("a name is ASCII");
        assert!(theirs.headers.get_all(name).iter().map(|value| value.as_bytes()).eq(same), "{name}");
    }
    assert_eq!(theirs.headers.len(), ours.len());
    // a request that asks for another protocol has no body, and no end that could be told
    if !head.upgrade {
        // the gate takes the field out before Pingora looks for a body
        session.req_header_mut().remove_header("upgrade");
        assert_eq!(session.is_body_empty(), matches!(head.body, Body::None | Body::Length(0)));
    }
}

/// Asserts that Pingora finds this status and these fields in the head of an origin's answer.
pub fn takes_answer(bytes: &[u8], status: u16, fields: &[(&[u8], &[u8])]) {
    let (mut origin, near) = tokio::io::duplex(bytes.len().max(1));
    at_once(origin.write_all(bytes)).expect("there is room");
    let mut session = HttpSession::new(Box::new(near));
    at_once(session.read_response()).expect("what we accept is taken");
    let theirs = session.resp_header().expect("a head was read");
    assert_eq!(theirs.status.as_u16(), status);
    for (name, _) in fields {
        let same = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let name = std::str::from_utf8(name).expect("a name is ASCII");
        assert!(theirs.headers.get_all(name).iter().map(|value| value.as_bytes()).eq(same), "{name}");
    }
}

/// What comes of it when everything is there, so that nothing is waited for.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("waits for more"),
    }
}
