//! Exit codes beside 0 (done, nothing wrong) and clap's own 2 (wrong usage).

/// The answer is "no": warnings under `--deny-warnings`, a test that failed, a file that the running process refuses.
pub const NO: u8 = 1;

/// Wrong usage that only shows when it is looked at; clap's own number.
pub const USAGE: u8 = 2;

/// No server answers (`EX_UNAVAILABLE` of sysexits.h).
pub const UNAVAILABLE: u8 = 69;

/// The system refused: bind, file limit, permission, a full disk under standard output.
pub const SYSTEM: u8 = 71;

/// The configuration is invalid (`EX_CONFIG` of sysexits.h).
pub const INVALID: u8 = 78;
