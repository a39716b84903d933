//! What is measured: under each load, every way in which a limit can be counted.

/// One way to count, and what answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name in the table.
    pub name: &'static str,
    /// What answers.
    pub kind: Kind,
}

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The binary of this package, with this beside the numbers of its limit; `None`: without a limit.
    Gate(Option<&'static str>),
    /// A plain pingora server; `true`: that asks the store about each request, as a limiter in a script does.
    Pingora(bool),
}

/// Every way, in the order of the table. A further `sharing` is a further line.
pub const ROWS: [Row; 7] = [
    Row { name: "pingora, no limit", kind: Kind::Pingora(false) },
    Row { name: "pingora, a script per request", kind: Kind::Pingora(true) },
    Row { name: "tidegate, no limit", kind: Kind::Gate(None) },
    Row { name: "tidegate, each gate for itself", kind: Kind::Gate(Some("")) },
    Row { name: "tidegate, sharing: lease", kind: Kind::Gate(Some(", store: shared, sharing: lease")) },
    Row { name: "tidegate, sharing: exact", kind: Kind::Gate(Some(", store: shared, sharing: exact")) },
    Row { name: "tidegate, sharing: estimate", kind: Kind::Gate(Some(", store: shared, sharing: estimate")) },
];

impl Row {
    /// Whether it limits anybody.
    pub fn limits(&self) -> bool {
        !matches!(self.kind, Kind::Gate(None) | Kind::Pingora(false))
    }

    /// Whether it is what ratios are to: the same limit, without a store.
    pub fn is_local(&self) -> bool {
        self.kind == Kind::Gate(Some(""))
    }

    /// What it would be without a limit, for what the limit adds.
    pub fn base(&self) -> Option<usize> {
        let same = |other: &Row| matches!(other.kind, Kind::Gate(_)) == matches!(self.kind, Kind::Gate(_));
        ROWS.iter().position(|other| self.limits() && !other.limits() && same(other))
    }
}

/// Who asks, and how much they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scene {
    /// The heading.
    pub title: &'static str,
    /// How many clients ask in turn.
    pub clients: usize,
    /// The one status of all answers.
    pub status: u16,
}

/// All of them.
pub const SCENES: [Scene; 4] = [
    Scene { title: "one client, never over its limit", clients: 1, status: 200 },
    Scene { title: "a hundred clients in turn, never over their limit", clients: 100, status: 200 },
    Scene { title: "two thousand clients in turn, never over their limit", clients: 2_000, status: 200 },
    Scene { title: "one client over its limit, all refused", clients: 1, status: 429 },
];

impl Scene {
    /// Units, seconds for so many to come back, and the most at once.
    pub fn limit(&self) -> (u32, u32, u32) {
        if self.status == 429 { (1, 3_600, 1) } else { (100_000, 1, 100_000) }
    }

    /// Whether the row says something here: one without a limit refuses nobody.
    pub fn has(&self, row: &Row) -> bool {
        self.status == 200 || row.limits()
    }
}
