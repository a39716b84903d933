//! Clients that never stop asking, and never accept a failure: on kept connections and on fresh ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::client::request;
use super::{Connection, wait_for};

/// Running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Two clients that keep their connection for as long as they are let, and two that take a fresh one per request.
    pub fn on(address: SocketAddr) -> Load {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let clients = [true, true, false, false].into_iter().map(|keeps| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            std::thread::spawn(move || ask(address, keeps, &stop, &answered))
        });
        Load { clients: clients.collect(), stop, answered }
    }

    /// How many requests were answered with 200.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until that many more are.
    pub fn goes_on(&self, more: usize) {
        let before = self.answered();
        wait_for(&format!("{more} more answers"), || (self.answered() >= before + more).then_some(()));
    }

    /// Ends it and tells what failed.
    pub fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().expect("a client does not panic")).collect()
    }
}

fn ask(address: SocketAddr, keeps: bool, stop: &AtomicBool, answered: &AtomicUsize) -> Vec<String> {
    let mut failures = Vec::new();
    let lines = if keeps { "" } else { "Connection: close\r\n" };
    let mut kept: Option<Connection> = None;
    while !stop.load(Ordering::Relaxed) && failures.len() < 10 {
        let mut connection = match kept.take().map_or_else(|| Connection::try_open(address), Ok) {
            Ok(connection) => connection,
            Err(fault) => {
                failures.push(format!("no connection: {fault}"));
                continue;
            }
        };
        let sent = connection.send(&request("GET", "/", lines, b""));
        match sent.and_then(|()| connection.answer_to("GET")) {
            Ok(answer) if answer.status == 200 && answer.complete => {
                answered.fetch_add(1, Ordering::Relaxed);
                kept = Some(connection).filter(|_| keeps && answer.keeps_connection());
            }
            Ok(answer) => failures.push(format!("{answer:?}")),
            Err(fault) => failures.push(format!("no answer (kept connection: {keeps}): {fault}")),
        }
    }
    failures
}
