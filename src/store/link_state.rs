//! State of the connection to a server of a store: the connection, or the reason why there is none.

use super::wire::Wire;
use crate::limiter::sharing::StoreError;

/// What questions go out by.
pub enum Line {
    /// By this.
    Up(Live),
    /// There is no connection, and this is what is said instead: [`StoreError::Faulty`] where the server refused us when it was tried last.
    Down(StoreError),
}

/// A connection and which one it is.
#[derive(Clone)]
pub struct Live {
    /// The connection itself.
    pub wire: Wire,
    /// Which of all that there were.
    pub number: u64,
}
