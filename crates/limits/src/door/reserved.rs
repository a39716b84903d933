//! Places for important requests.

use crate::units::Criticality;

/// The places that are kept for each class: less important ones leave them free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved(pub [u32; 4]);

impl Reserved {
    /// How many places a request of this class must leave free for more important ones.
    pub fn before(&self, criticality: Criticality) -> u32 {
        self.0.iter().take(criticality.position()).fold(0, |sum, places| sum.saturating_add(*places))
    }
}
