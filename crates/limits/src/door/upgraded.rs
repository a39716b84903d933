//! Places of connections that were switched to another protocol, which live for hours: nobody waits for one.

use super::nodes::{Active, LEVELS, Nodes, Path};
use crate::sync::Mutex;
use crate::units::Bytes;

/// Places of which a key takes no more than are left free, so that it has half of them at most; a network as many times more as it stands for
/// clients.
///
/// Source: Choudhury and Hahne 1998, dynamic thresholds of shared buffers, with a factor of one.
#[derive(Debug)]
pub struct UpgradedDoor(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    parts: [f32; LEVELS],
    max: u32,
    held: u32,
}

/// A place that is held, to be given back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place that is not given back is lost"]
pub struct UpgradedPlace(Active);

/// Connections beyond so many are counted in all, and not by key.
const MOST_KEYS: u32 = 32_768;

impl UpgradedDoor {
    /// So many places, free; `shares` as in [`PlacesSpec`](super::PlacesSpec).
    pub fn new(max: u32, shares: [f32; LEVELS]) -> UpgradedDoor {
        let nodes = Nodes::new(LEVELS * max.min(MOST_KEYS) as usize, 0);
        UpgradedDoor(Mutex::new(Inner { nodes, parts: shares.map(f32::recip), max, held: 0 }))
    }

    /// Another number of places. What is held stays; keys beyond the number at the start are not counted.
    pub fn set_max(&self, max: u32) {
        self.0.lock().max = max;
    }

    /// How many are held.
    pub fn held(&self) -> u32 {
        self.0.lock().held
    }

    /// The memory that it holds.
    pub fn memory(&self) -> Bytes {
        Bytes(self.0.lock().nodes.memory() as u64)
    }

    /// A place, if this key and its networks may have one more.
    pub fn take(&self, path: &Path) -> Option<UpgradedPlace> {
        let mut inner = self.0.lock();
        let Inner { nodes, parts, max, held } = &mut *inner;
        let free = max.saturating_sub(*held);
        let active = nodes.enter(path);
        nodes.hold(&active, 1.0);
        // the score counts what is held in full
        if free == 0 || nodes.score(&active, parts, 1.0) > free as f32 {
            nodes.hold(&active, -1.0);
            nodes.quit(&active);
            return None;
        }
        *held += 1;
        Some(UpgradedPlace(active))
    }

    /// A place is given back.
    pub fn give_back(&self, place: UpgradedPlace) {
        let mut inner = self.0.lock();
        inner.nodes.hold(&place.0, -1.0);
        inner.nodes.quit(&place.0);
        inner.held = inner.held.saturating_sub(1);
    }
}
