//! What the running process answers.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::data::{Model, SECONDS};
use crate::admin::client::{self, Reply};

/// Everything, from the process that listens there; its own words if it says no, or is not understood.
///
/// # Errors
/// Nobody answers.
pub fn model(socket: &Path) -> io::Result<Result<Model, String>> {
    let history = client::target("/api/v1/history", &[("seconds", &SECONDS.to_string())]);
    let status = client::get(socket, "/api/v1/status")?;
    let history = client::get(socket, &history)?;
    let offenders = client::get(socket, "/api/v1/offenders")?;
    let all = || Ok(Model::of(read(&status)?, &read(&history)?, read(&offenders)?));
    Ok(all())
}

/// What an answer says; the process's own words if it says no, or is not understood.
pub fn read<T: DeserializeOwned>(reply: &Reply) -> Result<T, String> {
    if !reply.is_good() {
        return Err(reply.error());
    }
    serde_json::from_str(&reply.body)
        .map_err(|error| format!("the running process speaks another version of this: {error}"))
}
