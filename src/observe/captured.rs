//! A log that a test can read.

use std::io;
use std::sync::{Arc, Mutex};

/// What has been written, by whichever clone.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// The text since the last call.
    pub fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }

    /// The lines since the last call, as objects.
    pub fn lines(&self) -> Vec<serde_json::Value> {
        self.take().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
