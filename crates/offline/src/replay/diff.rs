//! What one policy does otherwise than another, on the same requests.

use std::collections::HashMap;

use super::ledger::Fate;

/// The difference so far.
#[derive(Debug, Default)]
pub struct Diff {
    newly: u64,
    freed: u64,
    clients: HashMap<u32, Changed>,
}

/// What becomes of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// What it is called.
    pub name: String,
    /// Requests that only the new policy refuses.
    pub newly: u64,
    /// Requests that only the old one refuses.
    pub freed: u64,
    /// Requests that the new one refuses.
    pub refused_now: u64,
    /// Requests that the old one refuses.
    pub refused_before: u64,
}

/// The whole difference.
#[derive(Debug, Clone, Default)]
pub struct Difference {
    /// Requests that only the new policy refuses.
    pub newly: u64,
    /// Requests that only the old one refuses.
    pub freed: u64,
    /// Clients of whom only the new policy refuses anything.
    pub clients_newly: u64,
    /// Clients of whom only the old one does.
    pub clients_freed: u64,
    /// Clients to whom anything changes, those first to whom most does.
    pub changed: Vec<Changed>,
}

impl Diff {
    /// A request, its two fates and what its client is called.
    pub fn note(&mut self, new: Fate, old: Fate, name: impl FnOnce() -> String) {
        if !new.refused && !old.refused {
            return;
        }
        let (newly, freed) = (u64::from(new.refused && !old.refused), u64::from(old.refused && !new.refused));
        (self.newly, self.freed) = (self.newly + newly, self.freed + freed);
        let Some(number) = new.number else { return };
        let changed = self.clients.entry(number).or_insert_with(|| Changed { name: name(), ..Changed::default() });
        (changed.newly, changed.freed) = (changed.newly + newly, changed.freed + freed);
        changed.refused_now += u64::from(new.refused);
        changed.refused_before += u64::from(old.refused);
    }

    /// The end.
    pub fn finish(self) -> Difference {
        let all = || self.clients.values();
        let clients_newly = all().filter(|client| client.refused_before == 0 && client.refused_now > 0).count() as u64;
        let clients_freed = all().filter(|client| client.refused_now == 0 && client.refused_before > 0).count() as u64;
        let mut changed: Vec<Changed> = all().filter(|client| client.newly + client.freed > 0).cloned().collect();
        changed.sort_by(|a, b| (b.newly + b.freed).cmp(&(a.newly + a.freed)).then_with(|| a.name.cmp(&b.name)));
        Difference { newly: self.newly, freed: self.freed, clients_newly, clients_freed, changed }
    }
}
