//! Who waits for another request's errand to a store, and how it is woken.

use tokio::sync::Notify;

use crate::sketch::KeyHash;

/// Wakes requests that wait for another one's errand. Keys share a bell with others, so a request that is woken looks again.
#[derive(Debug)]
pub struct Bells([Notify; Bells::COUNT]);

impl Bells {
    const COUNT: usize = 256;

    /// The bell of a key.
    pub fn of(&self, key: KeyHash) -> Option<&Notify> {
        self.0.get(key.halves()[1] as usize % Self::COUNT)
    }
}

impl Default for Bells {
    fn default() -> Bells {
        Bells(std::array::from_fn(|_| Notify::new()))
    }
}
