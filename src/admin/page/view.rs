//! Everything that the page shows at one moment, gathered and drawn elsewhere.

use crate::observe::history::{Past, RoutePast};
use crate::observe::state::{BanState, Offenders, Origin, State};

/// Rows of a section at most: a page is for people.
pub const MOST_ROWS: usize = 50;

/// Everything that the page shows.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The state of the process; its routes are the busiest, in the policy's order.
    pub state: State,
    /// How many routes there are.
    pub routes_in_all: usize,
    /// Whether the process is about to stop.
    pub draining: bool,
    /// The last minutes of what is shown; all series begin and end with the same second.
    pub past: Past,
    /// All routes together, per second.
    pub flow: RoutePast,
    /// The clients that the limits refuse most.
    pub offenders: Offenders,
    /// The bans that refused most, the first [`MOST_ROWS`]; [`State::bans`] is their number.
    pub bans: Vec<BanState>,
    /// The latest decisions, the latest first: refusals, and a sample of the others.
    pub decisions: Vec<DecisionView>,
    /// Whether clients and configuration were left out, because the reader gave no token.
    pub unnamed: bool,
}

impl View {
    /// Returns the number of the last second.
    pub fn last_second(&self) -> u64 {
        self.past.second.unwrap_or(0)
    }

    /// Removes everything that names clients or configuration: addresses stand in the configuration, and notices tell of both.
    pub fn without_names(self) -> View {
        let nowhere = |origin: Origin| Origin { endpoints: Vec::new(), addresses: Vec::new(), ..origin };
        let origins = self.state.origins.into_iter().map(nowhere).collect();
        let state = State { origins, notices: Vec::new(), ..self.state };
        View { state, offenders: Offenders::default(), bans: Vec::new(), decisions: Vec::new(), unnamed: true, ..self }
    }
}

/// A decision and its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionView {
    /// Its id.
    pub id: String,
    /// First line of the explanation: when, what, the outcome.
    pub summary: String,
    /// The whole explanation, as in a terminal.
    pub explanation: String,
}
