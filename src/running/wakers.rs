//! Wakes requests that wait for another request's question to a store.

use tokio::sync::Notify;

use crate::sketch::KeyHash;

/// One waker for many keys. A request that is woken looks again, as keys share wakers.
#[derive(Debug)]
pub struct Wakers([Notify; Wakers::COUNT]);

impl Wakers {
    const COUNT: usize = 256;

    /// Returns the waker of a key.
    pub fn of(&self, key: KeyHash) -> Option<&Notify> {
        self.0.get(key.halves()[1] as usize % Self::COUNT)
    }
}

impl Default for Wakers {
    fn default() -> Wakers {
        Wakers(std::array::from_fn(|_| Notify::new()))
    }
}
