//! The tools of the black-box tests: a gate, an origin, a client. Standard threads and sockets only.

#[cfg(feature = "store")]
pub mod apart;
pub mod client;
pub mod gate;
pub mod load;
pub mod log;
pub mod metrics;
pub mod origin;
pub mod ports;
#[cfg(feature = "store")]
pub mod redis;
#[cfg(feature = "store")]
pub mod relay;
pub mod secure;
#[cfg(feature = "store")]
pub mod shared;
pub mod systemd;
pub mod talker;
#[cfg(test)]
mod tests;
pub mod tls;

use std::time::{Duration, Instant};

pub use client::{Answer, Connection};
pub use gate::Gate;
pub use log::Entry;
pub use metrics::Metrics;
pub use origin::{Arrival, Latch, Origin, Reply};

/// How long anything may take before the test says that it hangs. Generous: the tests share two slow cores.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until there is an answer, or gives up after [`PATIENCE`] with what was waited for.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, &mut ask)
}

/// The same with a deadline of its own.
pub fn wait_within<T>(deadline: Duration, what: &str, ask: &mut dyn FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(start.elapsed() < deadline, "waited {deadline:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Repeats a measurement until it gives something: until what it needs was in time, a store for one, and the machine was fast enough for
/// what it is to prove. A gate at fault spoils every run.
pub fn undisturbed<T>(what: &str, mut run: impl FnMut() -> Option<T>) -> T {
    const RUNS: usize = 10;
    (0..RUNS).find_map(|_| run()).unwrap_or_else(|| panic!("{what}: none of {RUNS} runs was undisturbed"))
}
