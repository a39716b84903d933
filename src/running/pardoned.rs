//! Who is pardoned.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;

use crate::client::{Client, ClientRules};
use crate::saved::{Fault, Reader, Writer};
use crate::units::Timestamp;

/// Who is pardoned, for the list. What it means is known to the limits alone.
#[derive(Debug, Default)]
pub struct Pardons(Mutex<BTreeMap<String, Given>>);

/// A pardon that was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// Every client that the name stands for.
    pub clients: Vec<Client>,
    /// The names of the limits that know of it.
    pub limits: Vec<String>,
    /// When.
    pub at: Timestamp,
    /// Until when limits leave the clients alone.
    pub exempt_until: Timestamp,
    /// When the last limit has forgotten it.
    pub ends: Timestamp,
}

impl Pardons {
    /// How many there are.
    pub fn len(&self, now: Timestamp) -> usize {
        self.kept(now).len()
    }

    /// All that hold.
    pub fn kept(&self, now: Timestamp) -> parking_lot::MutexGuard<'_, BTreeMap<String, Given>> {
        let mut pardons = self.0.lock();
        pardons.retain(|_, given| given.ends > now);
        pardons
    }

    /// Writes all that hold, for the process that takes this one's place.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        let pardons = self.kept(now).clone();
        to.number(pardons.len() as u64)?;
        for (name, given) in &pardons {
            to.text(name)?;
            to.number(given.clients.len() as u64)?;
            given.clients.iter().flat_map(Client::words).try_for_each(|word| to.number(word))?;
            to.number(given.limits.len() as u64)?;
            given.limits.iter().try_for_each(|limit| to.text(limit))?;
            for stamp in [given.at, given.exempt_until, given.ends] {
                to.number(stamp.nanos())?;
            }
        }
        Ok(())
    }

    /// Takes over those that were [saved](Pardons::save), with clients as they are counted by these rules.
    ///
    /// # Errors
    /// A damaged stream; nothing is taken over then.
    pub fn restore(&self, from: &mut Reader<'_>, rules: &ClientRules) -> Result<(), Fault> {
        let mut pardons = BTreeMap::new();
        for _ in 0..from.number_up_to(MOST)? {
            let name = from.text(LONGEST)?;
            let mut clients = Vec::new();
            for _ in 0..from.number_up_to(MOST)? {
                let words = [from.number()?, from.number()?, from.number()?];
                clients.push(Client::of_words(words, rules).ok_or(Fault::Unfit("a pardon is nobody's"))?);
            }
            let limits = from.number_up_to(MOST)?;
            let limits = (0..limits).map(|_| from.text(LONGEST)).collect::<Result<_, _>>()?;
            let [at, exempt_until, ends] = [from.number()?, from.number()?, from.number()?].map(Timestamp::from_nanos);
            pardons.insert(name, Given { clients, limits, at, exempt_until, ends });
        }
        *self.0.lock() = pardons;
        Ok(())
    }
}

/// No list has more: of pardons, of clients of one name, of limits.
const MOST: u64 = 65_536;

/// The longest name.
const LONGEST: usize = 1_024;

/// The name under which the first of these clients is pardoned.
pub fn named(pardons: &BTreeMap<String, Given>, clients: &[Client]) -> Option<String> {
    let wanted = clients.first()?;
    let is_it = |given: &Given| {
        given.clients.first().is_some_and(|client| client.network == wanted.network && client.mark == wanted.mark)
    };
    pardons.iter().find(|(_, given)| is_it(given)).map(|(name, _)| name.clone())
}
