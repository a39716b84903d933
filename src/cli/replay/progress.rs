//! Says how far a replay has come: on a terminal on one line that changes, otherwise a line every five seconds. On standard
//! error, as it is talk.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cli::output::say;
use crate::human::grouped;
use crate::replay::Progress;

/// Speaks until it is dropped.
pub struct Speaker {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to speak, unless the operator wants quiet.
pub fn speak(of: &Arc<Progress>, quiet: bool) -> Speaker {
    if quiet {
        return Speaker { over: None, thread: None };
    }
    let terminal = stderr().is_terminal();
    let pause = if terminal { Duration::from_millis(200) } else { Duration::from_secs(5) };
    let (over, told) = mpsc::channel();
    let of = Arc::clone(of);
    let speaking = move || {
        let began = Instant::now();
        while told.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let lines = of.lines.load(Ordering::Relaxed);
            let megabytes = of.bytes.load(Ordering::Relaxed) >> 20;
            let rate = lines as f64 / began.elapsed().as_secs_f64().max(0.001);
            let text = format!("{} lines  {megabytes} MiB  {} lines/s", grouped(lines), grouped(rate as u64));
            say(&if terminal { format!("\r\x1b[K{text}") } else { format!("{text}\n") });
        }
        if terminal {
            say("\r\x1b[K");
        }
    };
    // without a thread there is nothing to see, and nothing lost
    let thread = thread::Builder::new().name("progress".to_owned()).spawn(speaking).ok();
    Speaker { over: Some(over), thread }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
