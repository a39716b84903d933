//! From which seed the tables of a limit were drawn.

use serde::{Deserialize, Serialize};

use crate::sketch::Seed;

/// What the tables of a limit were drawn by, beside the seed of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Drawn {
    /// The name that the limit had then.
    pub name: String,
    /// The generation that it began in, unless that was the first of all.
    pub generation: Option<u64>,
}

impl Drawn {
    /// The seed that a limiter of this name is made with.
    pub fn seed(&self, seed: &Seed) -> Seed {
        // no limit has a name with spaces
        self.generation.map_or_else(|| seed.clone(), |number| seed.derive(&format!("generation {number}")))
    }
}
