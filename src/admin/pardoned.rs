//! Who is pardoned.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::client::Client;
use crate::units::Timestamp;

/// Who is pardoned, for the list. What it means is known to the limits alone.
#[derive(Debug, Default)]
pub struct Pardons(Mutex<BTreeMap<String, Given>>);

/// A pardon that was given.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) clients: Vec<Client>,
    pub(super) limits: Vec<String>,
    pub(super) at: Timestamp,
    pub(super) exempt_until: Timestamp,
    /// When the last limit has forgotten it.
    pub(super) ends: Timestamp,
}

impl Pardons {
    /// How many there are.
    pub fn len(&self, now: Timestamp) -> usize {
        self.kept(now).len()
    }

    /// All that hold.
    pub(super) fn kept(&self, now: Timestamp) -> parking_lot::MutexGuard<'_, BTreeMap<String, Given>> {
        let mut pardons = self.0.lock();
        pardons.retain(|_, given| given.ends > now);
        pardons
    }
}

/// The name under which the first of these clients is pardoned.
pub(super) fn named(pardons: &BTreeMap<String, Given>, clients: &[Client]) -> Option<String> {
    let wanted = clients.first()?;
    let is_it = |given: &Given| {
        given.clients.first().is_some_and(|client| client.network == wanted.network && client.mark == wanted.mark)
    };
    pardons.iter().find(|(_, given)| is_it(given)).map(|(name, _)| name.clone())
}
