//! What lines of some format give beside what every request has.

/// Whether a log of some format has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// In every line.
    Always,
    /// In none.
    Never,
    /// As its server was told.
    Perhaps,
}

/// Header fields of formats that give them at places of their own, by position.
pub const LISTED: [&str; 4] = ["user-agent", "referer", "x-forwarded-for", "cookie"];
pub const USER_AGENT: u16 = 0;
pub const REFERER: u16 = 1;
pub const FORWARDED_FOR: u16 = 2;
pub const COOKIE: u16 = 3;
