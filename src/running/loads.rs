//! The policies that were loaded, or refused, since the start.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::observe::state::Load;
use crate::system::clock::wall_nanos;

/// So many are remembered.
const MOST: usize = 8;

/// A text has so many characters at most.
const LONGEST: usize = 200;

/// The last loads, the newest first.
#[derive(Debug, Default)]
pub struct Loads(Mutex<VecDeque<Load>>);

impl Loads {
    /// Notes a policy that is in force from now on, with what it changed.
    pub fn loaded(&self, fingerprint: &str, text: &str) {
        let mut loads = self.0.lock();
        loads.iter_mut().filter(|load| load.state == "in_force").for_each(|load| load.state = "replaced".into());
        push(&mut loads, fingerprint, "in_force", text);
    }

    /// Notes a policy file that was refused, with its first fault.
    pub fn refused(&self, text: &str) {
        push(&mut self.0.lock(), "", "refused", text);
    }

    /// Returns the newest first.
    pub fn list(&self) -> Vec<Load> {
        self.0.lock().iter().cloned().collect()
    }
}

fn push(loads: &mut VecDeque<Load>, fingerprint: &str, state: &'static str, text: &str) {
    loads.truncate(MOST - 1);
    loads.push_front(Load {
        at: wall_nanos() / 1_000_000_000,
        fingerprint: fingerprint.to_owned(),
        state: state.into(),
        text: crate::human::shortened(text.trim(), LONGEST),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_in_force_and_the_oldest_are_forgotten() {
        let loads = Loads::default();
        for number in 0..20 {
            loads.loaded(&format!("f{number}"), "start");
            loads.refused("error[E0102]: unknown key");
        }
        let list = loads.list();
        let states: Vec<&str> = list.iter().take(3).map(|load| load.state.as_ref()).collect();
        assert_eq!(states, ["refused", "in_force", "refused"]);
        assert_eq!((list.len(), list.iter().filter(|load| load.state == "in_force").count()), (MOST, 1));
        assert_eq!(list[1].fingerprint, "f19");
    }
}
