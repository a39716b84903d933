//! `GET /api/v1/status`: the process and its parts on one screen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;

use super::asked::Asked;
use super::context::Context;
use crate::observe::scrape;
use crate::observe::state::Listener;
use crate::running::state;
use crate::small_server::Answer;

/// `GET /healthz`: whether the process can answer at all.
pub fn healthz(_: &Arc<Context>, _: &Asked) -> Answer {
    scrape::alive()
}

/// `GET /readyz`: whether requests are welcome.
pub fn readyz(context: &Arc<Context>, _: &Asked) -> Answer {
    scrape::ready(&context.ready)
}

/// `GET /api/v1/status`: the state as it is.
pub fn status(context: &Arc<Context>, _: &Asked) -> Answer {
    let process = &context.process;
    let mut state = state::state(process);
    state.state = match (process.draining(), context.ready.load(Ordering::Relaxed)) {
        (true, _) => "stopping".into(),
        (false, true) => "ready".into(),
        (false, false) => "starting".into(),
    };
    let listener = |(name, address): &(String, String)| {
        let counts = state.listeners.iter().find(|listener| listener.name == *name).cloned().unwrap_or_default();
        Listener { name: name.clone(), address: address.clone(), ..counts }
    };
    state.listeners = context.listeners.iter().map(listener).collect();
    state.pardons = process.pardons.len(process.clock.now());
    Answer::json(StatusCode::OK, &state)
}
