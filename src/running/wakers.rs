//! Wakes requests that wait for another request's call to a store.

use tokio::sync::Notify;

use crate::sketch::KeyHash;

/// One waker for many keys. A request that is woken looks again, as keys share wakers.
#[derive(Debug)]
pub struct Wakers([Notify; Wakers::COUNT]);

impl Wakers {
    const COUNT: usize = 256;

    /// Waits until the next [`Wakers::wake`] for the key, or for one that shares its waker.
    pub async fn wait(&self, key: KeyHash) {
        if let Some(waker) = self.of(key) {
            waker.notified().await;
        }
    }

    /// Wakes the requests that wait for the key.
    pub fn wake(&self, key: KeyHash) {
        if let Some(waker) = self.of(key) {
            waker.notify_waiters();
        }
    }

    fn of(&self, key: KeyHash) -> Option<&Notify> {
        self.0.get(key.halves()[1] as usize % Self::COUNT)
    }
}

impl Default for Wakers {
    fn default() -> Wakers {
        Wakers(std::array::from_fn(|_| Notify::new()))
    }
}
