//! Ports for programs that cannot be handed a bound socket.

use std::fs::File;
use std::net::TcpListener;
use std::sync::Mutex;

/// Below the ports that the system gives to connections, so that none takes one meanwhile.
const FIRST: u16 = 20_000;
const COUNT: u16 = 8_000;

/// A port for this process alone, as long as it runs: a locked file stands for it, so that no other run of the tests
/// takes it between this call and the program's start, nor while the program is down for a moment.
pub fn own_port() -> u16 {
    static TAKEN: Mutex<(u16, Vec<File>)> = Mutex::new((0, Vec::new()));
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("tidegate-ports-{user}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let start = std::process::id() % u32::from(COUNT);
    for _ in 0..COUNT {
        let port = FIRST + (start as u16 + taken.0) % COUNT;
        taken.0 += 1;
        let file = File::create(folder.join(port.to_string())).unwrap();
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.1.push(file);
            return port;
        }
    }
    panic!("no port is free from {FIRST} on");
}
