//! The clients of a load that speak HTTP/1.1.

use std::io;
use std::sync::Arc;

use super::{HOST, Kind, PAUSE, Part};
use crate::harness::client::request;
use crate::harness::{Connection, tls};

/// Asks until it is told to stop.
pub fn ask(part: &Part) {
    // a client that takes a fresh connection for each request remembers its sessions
    let remembering = Arc::new(part.target.client.config.clone());
    let mut turn = 0;
    while part.goes_on() {
        let connection = open(part, &remembering);
        let mut connection = match connection {
            Ok(connection) => connection,
            Err(fault) => {
                part.refused(fault);
                continue;
            }
        };
        part.connected();
        loop {
            turn += 1;
            let goes_on = ask_once(part, &mut connection, Part::path(turn));
            std::thread::sleep(PAUSE);
            if !(goes_on && part.goes_on()) {
                break;
            }
        }
    }
}

fn open(part: &Part, remembering: &Arc<tokio_rustls::rustls::ClientConfig>) -> io::Result<Connection> {
    let address = part.target.address(part.kind);
    match part.kind {
        Kind::Http1TlsKept => part.target.client.try_connect(address, HOST),
        Kind::Http1TlsFresh => tls::connect(Arc::clone(remembering), address, HOST),
        _ => Connection::try_open(address),
    }
}

/// One request and its answer; whether the connection may be used again.
fn ask_once(part: &Part, connection: &mut Connection, path: &str) -> bool {
    let lines = if part.kind.keeps() { "" } else { "Connection: close\r\n" };
    let sent = connection.send(&request("GET", path, lines, b""));
    match sent.and_then(|()| connection.answer_to("GET")) {
        Ok(answer) if answer.complete => {
            part.answered(answer.status, answer.field("x-generation").as_deref());
            part.kind.keeps() && answer.keeps_connection()
        }
        Ok(answer) => {
            part.failed(format!("{path}: {answer:?}"));
            false
        }
        Err(fault) => {
            part.failed(format!("{path}: {fault}"));
            false
        }
    }
}
