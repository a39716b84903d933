//! `defaults`: what routes, origins and limits fall back on.

use crate::config::schema::File;
use crate::config::setting::values;
use crate::limiter::sharing::OnStoreError;
use crate::policy::{Mode, Timeouts};
use crate::units::Bytes;

/// What routes, origins and limits fall back on.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub timeouts: Timeouts,
    pub body_limit: Option<Bytes>,
    pub mode: Mode,
    pub on_store_error: OnStoreError,
}

/// Those of the file.
pub fn defaults(file: &File) -> Defaults {
    let own = file.defaults.value().cloned().unwrap_or_default();
    Defaults {
        timeouts: values(&own.timeouts),
        body_limit: own.body_limit(),
        mode: own.mode(),
        on_store_error: own.on_store_error(),
    }
}
