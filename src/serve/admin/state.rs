//! What is: the process and its parts, at a glance.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::{Asked, Context};
use crate::serve::small_server::Answer;
use crate::serve::telling::scrape;

/// `GET /healthz`: whether the process can answer at all.
pub fn healthz(_: &Arc<Context>, _: &Asked) -> Answer {
    scrape::alive()
}

/// `GET /readyz`: whether requests are welcome.
pub fn readyz(context: &Arc<Context>, _: &Asked) -> Answer {
    scrape::ready(&context.ready)
}

#[derive(Debug, Serialize)]
struct Status {
    schema: &'static str,
    version: &'static str,
    process: u32,
    config_hash: String,
}

/// `GET /api/v1/status`: one screen of it.
pub fn status(context: &Arc<Context>, _: &Asked) -> Answer {
    let installed = context.shared.installed();
    Answer::json(
        StatusCode::OK,
        &Status {
            schema: "tidegate.status/1",
            version: env!("CARGO_PKG_VERSION"),
            process: std::process::id(),
            config_hash: installed.snapshot().policy().fingerprint.clone(),
        },
    )
}
