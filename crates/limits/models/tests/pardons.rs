//! Pardons beside requests: the list that is replaced whole, and the two hashes under which a pardoned key counts.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tidegate_limits::limiter::{Kind, Limiter, Place, Probe, Spec, kinds};
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::{Bytes, Cost, Rate, Timestamp};

use crate::{at, explore, key};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_000 * SECOND;

/// The tables are the smallest that there are, and yet a thousand words: so many runs take seconds.
const MOST_RUNS: usize = 2_000;

/// One request at once, and one more every hour.
fn limiter() -> Arc<Limiter> {
    let kind = Kind::Rate(kinds::Rate {
        rate: Rate::new(1, Duration::from_secs(3_600)).unwrap(),
        burst: 1,
        memory: Bytes(4 << 10),
    });
    Arc::new(Limiter::new(&Spec::new("modelled", &[kind]), &Seed::from_bytes([7; 16])).unwrap())
}

fn place(limiter: &Limiter, number: u64) -> Place {
    Place { key: limiter.own_hash().of(key(number)), ..Place::default() }
}

fn admits(limiter: &Arc<Limiter>, place: &Place, now: Timestamp) -> bool {
    limiter.commit(&Probe::unasked(place, Cost::ONE), now).is_ok()
}

#[test]
fn beside_a_pardon_one_request_gets_the_fresh_budget_and_the_next_hour_none() {
    explore(2, Some(MOST_RUNS), || {
        let limiter = limiter();
        let spent = place(&limiter, 1);
        assert!(admits(&limiter, &spent, at(NOW)));
        let racing = {
            let limiter = limiter.clone();
            thread::spawn(move || admits(&limiter, &spent, at(NOW)))
        };
        limiter.pardon(spent.key, at(NOW), Duration::ZERO).unwrap();
        let own = admits(&limiter, &spent, at(NOW));
        let racing = racing.join().unwrap();
        assert!(own != racing, "one fresh budget: {own}, {racing}");
        assert!(!admits(&limiter, &spent, at(NOW)));
        // what was spent since is not forgotten when the pardon ends
        assert!(limiter.revoke_pardon(spent.key, at(NOW)));
        assert!(!admits(&limiter, &spent, at(NOW + SECOND)), "while both hashes count");
        assert!(!admits(&limiter, &spent, at(NOW + 3 * SECOND)), "by the own hash alone");
    });
}

#[test]
fn a_revocation_beside_a_request_forgets_nothing() {
    explore(2, Some(MOST_RUNS), || {
        let limiter = limiter();
        let pardoned = place(&limiter, 1);
        limiter.pardon(pardoned.key, at(NOW), Duration::ZERO).unwrap();
        let racing = {
            let limiter = limiter.clone();
            thread::spawn(move || admits(&limiter, &pardoned, at(NOW)))
        };
        assert!(limiter.revoke_pardon(pardoned.key, at(NOW)));
        let own = admits(&limiter, &pardoned, at(NOW));
        let racing = racing.join().unwrap();
        assert!(!(own && racing), "both had the budget of one");
        if own || racing {
            assert!(!admits(&limiter, &pardoned, at(NOW + 3 * SECOND)), "forgotten");
        }
    });
}

#[test]
fn lists_that_change_at_once_lose_no_pardon_and_hide_none() {
    explore(2, Some(MOST_RUNS), || {
        let limiter = limiter();
        let [old, one, other] = [1, 2, 3].map(|number| place(&limiter, number).key);
        let long = Duration::from_secs(60);
        limiter.pardon(old, at(NOW), long).unwrap();
        let racing = [one, other].map(|key| {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.pardon(key, at(NOW), long).unwrap())
        });
        assert!(limiter.is_exempt(old, at(NOW)), "hidden by the change");
        racing.into_iter().for_each(|thread| _ = thread.join().unwrap());
        assert!([old, one, other].into_iter().all(|key| limiter.is_exempt(key, at(NOW))), "a pardon was lost");
    });
}

#[test]
fn a_pardon_beside_the_timer_that_drops_old_ones_stays() {
    explore(3, Some(MOST_RUNS), || {
        let limiter = limiter();
        let [old, new] = [1, 2].map(|number| place(&limiter, number).key);
        limiter.pardon(old, at(NOW), Duration::ZERO).unwrap();
        let later = NOW + 10_000 * SECOND;
        let timer = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.maintain(at(later)))
        };
        limiter.pardon(new, at(later), Duration::from_secs(60)).unwrap();
        timer.join().unwrap();
        assert!(limiter.is_exempt(new, at(later)), "a pardon was lost");
    });
}
