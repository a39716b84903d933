//! Where in the policy file something is written.

use serde::{Deserialize, Serialize};

use crate::config::Place;

/// A line of the policy file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacePart {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl From<&Place> for PlacePart {
    fn from(place: &Place) -> PlacePart {
        PlacePart { file: place.file.to_string(), line: place.line }
    }
}
