//! Asks the running process for everything that is shown.

use std::io;
use std::path::Path;

use super::data::{Model, SECONDS};
use crate::admin::client;
use crate::cli::bans::listed;
use crate::cli::running::read;

/// Returns everything from the process that listens there, with clients by their addresses if they are to be shown; its own words if it says no, or is not understood.
///
/// # Errors
/// No process answers.
pub fn model(socket: &Path, show_clients: bool) -> io::Result<Result<Model, String>> {
    let history = client::target("/api/v1/history", &[("seconds", &SECONDS.to_string())]);
    let state = client::get(socket, "/api/v1/status")?;
    let history = client::get(socket, &history)?;
    let offenders = client::get(socket, &listed("/api/v1/offenders", show_clients))?;
    let all = || Ok(Model::of(read(&state)?, &read(&history)?, read(&offenders)?));
    Ok(all())
}
