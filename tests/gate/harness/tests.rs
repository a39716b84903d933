//! The tools against each other, without a gate: what they report of a good and a broken peer is true.

use std::time::Duration;

use super::client::request;
use super::origin::{deaf, refusing};
use super::{Connection, Latch, Origin, Reply};

#[test]
fn a_client_and_an_origin_understand_each_other() {
    let origin = Origin::that(Reply::Echo);
    let mut connection = Connection::open(origin.address());
    assert_eq!(connection.ask("POST", "/a?b", "X: y\r\n", b"hello").text(), "hello");
    connection
        .send(b"PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n")
        .unwrap();
    assert_eq!(connection.answer_to("PUT").unwrap().text(), "hello");
    let arrivals = origin.arrivals();
    assert_eq!((arrivals[0].method.as_str(), arrivals[0].target.as_str()), ("POST", "/a?b"));
    assert_eq!(arrivals[0].lines("x"), ["y"]);
    assert!(arrivals.iter().all(|arrival| arrival.complete && arrival.body == b"hello"));
    drop(connection);
    origin.wait_until_left();
}

#[test]
fn a_broken_answer_is_not_complete() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for reply in [Reply::ThenClose(HALF), Reply::ThenReset(HALF)] {
        let origin = Origin::that(reply);
        let answer = Connection::open(origin.address()).ask("GET", "/", "", b"");
        assert_eq!((answer.text().as_str(), answer.complete), ("half", false));
    }
    let origin = Origin::that(Reply::ThenStall(b""));
    let mut connection = Connection::open(origin.address());
    connection.be_patient_for(Duration::from_millis(50));
    connection.send(&request("GET", "/", "", b"")).unwrap();
    assert!(connection.answer_to("GET").is_err());
    assert_eq!(origin.only_arrival().target, "/");
}

#[test]
fn a_latch_holds_until_it_opens() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let mut connection = Connection::open(origin.address());
    connection.send(&request("GET", "/", "", b"")).unwrap();
    origin.wait_for(1);
    latch.open();
    assert_eq!(connection.answer_to("GET").unwrap().text(), "ok");
}

#[test]
fn nobody_gets_through_to_an_address_that_refuses_or_is_deaf() {
    let (refuses, _bound) = refusing();
    assert!(Connection::try_open(refuses).is_err_and(|fault| fault.kind() == std::io::ErrorKind::ConnectionRefused));
    let (silent, _queue) = deaf();
    let connecting = std::net::TcpStream::connect_timeout(&silent, Duration::from_millis(200));
    assert!(connecting.is_err_and(|fault| fault.kind() == std::io::ErrorKind::TimedOut));
}
