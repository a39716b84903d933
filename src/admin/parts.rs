//! Parts of the state, each for itself: limits, origins, offenders and the configuration.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::asked::Asked;
use super::context::Context;
use crate::running::state;
use crate::small_server::Answer;

/// `GET /api/v1/limits`.
pub fn get_limits(context: &Arc<Context>, _: &Asked) -> Answer {
    let generation = context.process.generation();
    let mut state = state::counts(&generation);
    state::limits(&generation, &mut state, context.process.clock.now(), |_, _| true);
    Answer::json(StatusCode::OK, &json!({ "schema": "tidegate.limits/1", "limits": state.limits }))
}

/// `GET /api/v1/origins`.
pub fn get_origins(context: &Arc<Context>, _: &Asked) -> Answer {
    let generation = context.process.generation();
    let mut state = state::counts(&generation);
    state::origins(&generation, &mut state, context.process.clock.now());
    Answer::json(StatusCode::OK, &json!({ "schema": "tidegate.origins/1", "origins": state.origins }))
}

/// `GET /api/v1/config?path=PATH`: the configuration in force, or a part of it such as `limits.login`, with secrets masked. Every scalar
/// of the JSON is a text, as in the file.
pub fn get_config(context: &Arc<Context>, asked: &Asked) -> Answer {
    let generation = context.process.generation();
    let source = generation.source();
    let path = asked.query("path").unwrap_or_default();
    let Some(part) = source.shown.at(&path) else {
        return Answer::error(StatusCode::NOT_FOUND, source.shown.missing(&path));
    };
    let told = json!({
        "schema": "tidegate.config/1",
        "fingerprint": source.fingerprint,
        "config": part.to_json(),
        "yaml": part.to_yaml(),
    });
    Answer::json(StatusCode::OK, &told)
}

/// `GET /api/v1/offenders`: the clients, then the networks (/24 and /48), that the limits refused most lately. Where clients have
/// pseudonyms, networks have pseudonyms of their own. `?clients=address`: on the socket only.
pub fn get_offenders(context: &Arc<Context>, asked: &Asked) -> Answer {
    let form = match context.form_of_clients(asked) {
        Ok(form) => form,
        Err(refusal) => return refusal,
    };
    let found = state::offenders(&context.process, usize::MAX, form, |client| context.name_as(client, form));
    let told = json!({
        "schema": "tidegate.offenders/1",
        "total": found.total,
        "error_bound": found.error_bound,
        "offenders": found.clients,
        "networks": found.networks,
    });
    Answer::json(StatusCode::OK, &told)
}
