//! What stands between a gate and its store: passes everything on, writes it down, and is slow if it is told to be.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A relay to a port of this machine. Lives as long as the test does.
pub struct Relay {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    delay_millis: AtomicU64,
    /// What was said so far: to the server, and by it.
    heard: [Mutex<Vec<u8>>; 2],
}

impl Relay {
    /// One that leads to this port.
    pub fn to(port: u16) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Relay { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let state = Arc::clone(&relay.state);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // a server that is gone ends the connection, as it would have
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)) {
                    carry(0, [near.try_clone().unwrap(), far.try_clone().unwrap()], &state);
                    carry(1, [far, near], &state);
                }
            }
        });
        relay
    }

    /// From now on everything arrives so much later, both ways.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_millis.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// All bytes so far, of all connections: those to the server, and those that it answered.
    pub fn heard(&self) -> [Vec<u8>; 2] {
        [0, 1].map(|way| self.state.heard[way].lock().unwrap().clone())
    }
}

/// Carries one way of a connection, in order, until either end closes.
fn carry(way: usize, [mut from, to]: [TcpStream; 2], state: &Arc<State>) {
    to.set_nodelay(true).unwrap();
    let (pass, passed) = channel();
    std::thread::spawn(move || hand_on(&passed, to));
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            state.heard[way].lock().unwrap().extend_from_slice(&bytes[..count]);
            let due = Instant::now() + Duration::from_millis(state.delay_millis.load(Ordering::Relaxed));
            if pass.send((due, bytes[..count].to_vec())).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
    });
}

fn hand_on(passed: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due, bytes) in passed {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
