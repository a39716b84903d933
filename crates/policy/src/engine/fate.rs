//! What becomes of the state of limits at a reload, and after a restart.

use std::fmt;

/// What became of the limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Succession {
    /// Those of the new policy, in its order.
    pub limits: Vec<Carried>,
    /// The names of those that the new policy has no successor of.
    pub removed: Vec<String>,
}

/// One limit of the new policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// Its name.
    pub name: String,
    /// What became of its state.
    pub fate: Fate,
}

impl Carried {
    /// Whether it has the state of the limit that was called so before.
    pub(super) fn goes_on_from(&self, before: &str) -> bool {
        match &self.fate {
            Fate::Kept { from } | Fate::Rerated { from } => from.as_ref().unwrap_or(&self.name) == before,
            Fate::Reset(_) | Fate::New => false,
        }
    }
}

/// What became of the state of a limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It is what it was; `from` is the name before, if that was another.
    Kept {
        /// The name before.
        from: Option<String>,
    },
    /// It is what it was, and counts under other numbers.
    Rerated {
        /// The name before, if that was another.
        from: Option<String>,
    },
    /// It begins anew, empty: all of its clients have their whole budget.
    Reset(Reset),
    /// There was no such limit.
    New,
}

/// Why state could not be carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Of another `type`.
    Type,
    /// By another `key`, or by other prefix lengths, or other nodes of `fair_share`.
    Key,
    /// Other things are counted: another `of`, or bytes instead of requests.
    Of,
    /// Other windows.
    Window,
    /// A table of another size.
    Memory,
    /// What was saved of it does not fit it.
    Unfit,
    /// Shared through another store or under other names in it (its prefix, or the limit's own name), shared in another way, or
    /// no longer.
    Store,
}

impl Reset {
    /// What changed, as the report has it.
    pub fn word(self) -> &'static str {
        match self {
            Reset::Type => "type",
            Reset::Key => "key",
            Reset::Of => "of",
            Reset::Window => "window",
            Reset::Memory => "memory",
            Reset::Store => "store",
            Reset::Unfit => "saved state",
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reset::Unfit => f.write_str("its saved state does not fit"),
            _ => write!(f, "{} changed", self.word()),
        }
    }
}
