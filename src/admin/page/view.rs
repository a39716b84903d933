//! Everything that the page shows at one moment, gathered and drawn elsewhere.

use crate::admin::Asked;
use crate::observe::history::{Past, RoutePast};
use crate::observe::state::{BanState, Condition, ConditionKind, Door, Limit, Offenders, Origin, State};

/// Rows of a section at most: a page is for people.
pub const MOST_ROWS: usize = 50;

/// Everything that the page shows.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The state of the process; its routes are the busiest, in the policy's order.
    pub state: State,
    /// How many routes there are.
    pub routes_in_all: usize,
    /// The wall clock, in seconds since 1970.
    pub now: u64,
    /// The last minutes of what is shown; all series begin and end with the same second.
    pub past: Past,
    /// All routes together, per second.
    pub flow: RoutePast,
    /// The clients that the limits refuse most.
    pub offenders: Offenders,
    /// Who is refused by each `fair_share`.
    pub shares: Vec<ShareView>,
    /// The bans that refused most, the first [`MOST_ROWS`]; [`State::bans`] is their number.
    pub bans: Vec<BanState>,
    /// The decisions of the last ten minutes, equal ones as one, the most frequent first.
    pub decisions: Vec<DecisionView>,
    /// Whether clients and configuration were left out, because the reader gave no token.
    pub unnamed: bool,
    /// Whether the reader may give orders about clients.
    pub orders: bool,
}

/// What a reader of the page may do.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Read of clients and of the configuration.
    pub names: bool,
    /// Give orders about clients.
    pub orders: bool,
}

impl Reader {
    /// Whoever asks so.
    pub fn of(asked: &Asked) -> Reader {
        Reader { names: asked.may_read_names(), orders: asked.may_order() }
    }
}

impl View {
    /// Returns the number of the last second.
    pub fn last_second(&self) -> u64 {
        self.past.second.unwrap_or(0)
    }

    /// Removes everything that names clients or configuration: addresses stand in the configuration, and notices tell of both.
    pub fn without_names(self) -> View {
        let nobody = |door: Door| Door { clients: Vec::new(), networks: Vec::new(), ..door };
        let nowhere = |origin: Origin| Origin {
            endpoints: Vec::new(),
            addresses: Vec::new(),
            door: origin.door.map(nobody),
            ..origin
        };
        let origins = self.state.origins.into_iter().map(nowhere).collect();
        let loads =
            self.state.loads.into_iter().map(|load| crate::observe::state::Load { text: String::new(), ..load });
        let condition = match self.state.condition.kind {
            ConditionKind::Trouble => Condition {
                head: "Something needs a look".to_owned(),
                text: "What it is stands on the admin socket: `sudo tidegate status`.".to_owned(),
                subject: String::new(),
                ..self.state.condition
            },
            _ => self.state.condition,
        };
        let unnamed = |limit: Limit| Limit { door: limit.door.map(nobody), ..limit };
        let limits = self.state.limits.into_iter().map(unnamed).collect();
        let mut state = State {
            origins,
            limits,
            condition,
            loads: loads.collect(),
            notices: Vec::new(),
            listeners: Vec::new(),
            access_log: None,
            ..self.state
        };
        state.config.file = None;
        View {
            state,
            offenders: Offenders::default(),
            shares: Vec::new(),
            bans: Vec::new(),
            decisions: Vec::new(),
            unnamed: true,
            ..self
        }
    }
}

/// Equal decisions and the explanation of the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionView {
    /// How many there were in ten minutes, or how many of them are remembered.
    pub count: u64,
    /// Whether `count` is of those that are remembered alone.
    pub at_least: bool,
    /// The outcome: ``429 limited by `login` ``.
    pub outcome: String,
    /// The routes, by name.
    pub routes: String,
    /// When the newest was decided.
    pub newest: String,
    /// The id of the newest.
    pub id: String,
    /// Its whole explanation, as in a terminal.
    pub explanation: String,
}

/// Who is refused by a `fair_share`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareView {
    /// The limit's name.
    pub limit: String,
    /// The levels from the outside to the inside: `/16`, `/24`, `client`.
    pub levels: Vec<String>,
    /// The clients, each with its name on every level and its recent refusals, halved every minute.
    pub clients: Vec<(Vec<String>, u64)>,
    /// All recent refusals.
    pub total: u64,
}
