//! A configuration without faults.

use tidegate_http::path::EscapedSlash;

use super::case::Case;
use super::places::Places;
use super::settings::Settings;
use super::tree::Tree;
use crate::policy::Policy;

/// A configuration without faults.
#[derive(Debug)]
pub struct Config {
    /// What is decided by.
    pub policy: Policy,
    /// What the process is built from.
    pub settings: Settings,
    /// The hash that names it everywhere: over `effective`, twelve hexadecimal digits.
    pub fingerprint: String,
    /// The whole as a policy file: short forms expanded, defaults filled in, secrets masked.
    pub effective: Tree,
    /// What of it may be shown: the same without the values of variables.
    pub shown: Tree,
    /// What the file claims of itself, for `tidegate test`.
    pub cases: Vec<Case>,
    /// Where limits and routes stand in the file.
    pub places: Places,
}

impl Config {
    /// What the gate does with escaped slashes in paths. Where the listeners say different things, what the first one does.
    pub fn escaped_slash(&self) -> EscapedSlash {
        let first = self.settings.listeners.first().map(|listener| listener.connections.head.escaped_slash);
        first.unwrap_or(EscapedSlash::Auto).decided(self.policy.escaped_slash_walks_round())
    }
}
