//! The configuration that is in force, as text: what `show --running` prints and `status` tells of.

use std::path::PathBuf;

use super::clock;
use crate::config::Tree;

/// The configuration in force.
#[derive(Debug, Clone)]
pub struct InForce {
    /// The file or directory that it was read from; `None` when it came from the command line.
    pub file: Option<PathBuf>,
    /// The whole as a policy file, with secrets masked.
    pub effective: Tree,
    /// When it was taken into use, in nanoseconds since 1970.
    pub since: u64,
}

impl InForce {
    /// In force from this moment.
    pub fn now(file: Option<PathBuf>, effective: Tree) -> InForce {
        InForce { file, effective, since: clock::wall_nanos() }
    }
}
