//! Pardons: keys whose debt is forgotten, and keys that a limit leaves alone for a while.
//!
//! A key's debt cannot be taken out of a sketch: its cells are those of other keys too, whose budgets would grow with it. So
//! a pardoned key is counted **under another hash** from then on, one that no key has had before. In the table that is a
//! key never seen; nobody else's cells are touched.
//!
//! **Promise.** From the pardon on the key is under the limit's promise as if it had never been seen before; for every other key
//! nothing changes.
//!
//! *How it ends.* The old debt fades by itself within a known time F, which every kind can tell. Whatever the new hash is charged
//! until then, the old one is raised to as well: not by it, but *to* it, which leaves the old debt to fade as it would have. After F
//! the old hash alone says all that the new one does, which is forgotten then. For a moment before that both are
//! judged and charged, so that of any two requests of which one saw the new hash alone and the other the old one, the
//! first has long been carried over. A pardon that is revoked ends like this at once: the old debt counts again, as far as it
//! has not faded, and what was spent since the pardon is not forgotten either.
//!
//! The list is bounded by [`MOST_PARDONS`](super::MOST_PARDONS); a limit without pardons pays one load for it, one with them a search.

use std::time::Duration;

use super::Limiter;
use super::pardoned::{Full, Pardoned};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

/// How long both hashes are charged: more than a thread sleeps between being judged and being carried over.
const BOTH_NANOS: u64 = 2_000_000_000;

impl Limiter {
    /// Forgets what the key was charged before `now`, and leaves it alone until `exempt` is over. The key is the limit's
    /// [own](Limiter::own_hash) hash. Of kinds that count what is there and not what was (`inflight`, `fair_share`) there is nothing
    /// to forget. Says until when the pardon matters.
    ///
    /// # Errors
    /// [`MOST_PARDONS`](super::MOST_PARDONS) keys are pardoned already.
    pub fn pardon(&self, key: KeyHash, now: Timestamp, exempt: Duration) -> Result<Timestamp, Full> {
        let fade = self.state.fade_nanos();
        if fade.is_none() && exempt.is_zero() {
            return Ok(now);
        }
        let exempt_until = now.nanos().saturating_add(saturating_nanos(exempt));
        let both_from = fade.map_or(exempt_until, |fade| now.nanos().saturating_add(fade));
        let ends = both_from.max(exempt_until).saturating_add(BOTH_NANOS);
        self.pardons.put(key, now, |number| Pardoned {
            key,
            fresh: fade.map(|_| tag(number)),
            exempt_until,
            both_from,
            ends,
        })?;
        Ok(Timestamp::from_nanos(ends))
    }

    /// Ends the key's pardon: what it was charged before counts again, as far as it has not faded, and what it was charged since goes
    /// on to count. Says whether it had one.
    pub fn revoke_pardon(&self, key: KeyHash, now: Timestamp) -> bool {
        self.pardons.change(key, now, |pardoned| {
            pardoned.exempt_until = pardoned.exempt_until.min(now.nanos());
            pardoned.both_from = pardoned.both_from.min(now.nanos());
            pardoned.ends = now.nanos().saturating_add(BOTH_NANOS);
        })
    }

    /// Whether the limit leaves the key alone at the moment.
    #[inline]
    pub fn is_exempt(&self, key: KeyHash, now: Timestamp) -> bool {
        self.pardons.find(key).is_some_and(|pardoned| now.nanos() < pardoned.exempt_until)
    }
}

/// Public, as it only tells one pardon from another: the limiter's own hash is what makes a secret of it.
fn tag(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(*b"tidegate pardons"));
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests;
