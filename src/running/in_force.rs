//! The configuration that is in force, as text: what `show --running` prints and `status` tells of.

use std::path::PathBuf;

use crate::config::Tree;

/// The configuration in force.
#[derive(Debug, Clone)]
pub struct InForce {
    /// The file or directory that it was read from; `None` when it came from the command line.
    pub file: Option<PathBuf>,
    /// The whole as a policy file, with secrets masked.
    pub shown: Tree,
    /// Paths of what the file says otherwise by now and needs a new process.
    pub waiting: Vec<String>,
}
