//! `/api/v1/decisions`: what was decided lately, and why.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::context::Context;
use super::whom;
use crate::answer::entry;
use crate::config;
use crate::engine::DecisionId;
use crate::explain::Explanation;
use crate::observe::decisions::budget::{PERIOD, WHOLE};
use crate::observe::decisions::{SAMPLE, Several, Surroundings, Whom};
use crate::observe::pseudonym::Pseudonym;
use crate::running::process::Process;
use crate::small_server::Answer;
use crate::units::Timestamp;

/// What the first member of a list says.
pub const SCHEMA: &str = "tidegate.decisions/1";

/// How many decisions are told when nobody says how many.
const FEW: usize = 20;

/// More are not told at once.
const MOST: usize = 1_000;

/// The document of a list.
#[derive(Debug, Serialize)]
struct List {
    schema: &'static str,
    /// The latest first.
    decisions: Vec<Explanation>,
}

/// `GET /api/v1/decisions/{id}`.
pub fn one(context: &Arc<Context>, asked: &Asked) -> Answer {
    let text = asked.parameter("id");
    let Some(id) = DecisionId::parse_lenient(text) else {
        let why = format!(
            "`{text}` is not a decision id: 13 letters and digits, such as 23B02RXE6B1F0 (the answer's x-tidegate-decision field)"
        );
        return Answer::error(StatusCode::BAD_REQUEST, why);
    };
    match around(&context.process, |around| context.process.decisions.explain(id, around)) {
        Some(explanation) => Answer::json(StatusCode::OK, &explanation),
        None => Answer::error(StatusCode::NOT_FOUND, forgotten(&context.process, id)),
    }
}

/// Says that a decision is not in memory: what is, and where else it may be.
fn forgotten(process: &Process, id: DecisionId) -> String {
    let oldest = process.decisions.oldest().map(|at| {
        let time = entry::time_text(process.unix_nanos_at_origin().saturating_add(at.nanos()));
        let time: String = time.chars().take("2026-11-21T10:15:09".len()).collect();
        format!(" (the oldest is of {} UTC)", time.replace('T', " "))
    });
    let log = match process.access_log.is_some() {
        true => format!(". The access log may have it: look there for {id}"),
        false => String::new(),
    };
    format!(
        "decision {id} is not in memory{}: of a client that is refused over and over the first {WHOLE} refusals are kept, then one \
         in {} minutes; of admitted requests one in {SAMPLE}; `--client` shows those that are kept{log}",
        oldest.unwrap_or_default(),
        PERIOD.as_secs() / 60,
    )
}

/// `GET /api/v1/decisions?client=WHO&since=10m&latest=N`, all of which may be left out.
pub fn latest(context: &Arc<Context>, asked: &Asked) -> Answer {
    let process = &context.process;
    let since = match asked.query("since").map(|text| config::parse_duration(&text)).transpose() {
        Ok(since) => since,
        Err(allowed) => return Answer::error(StatusCode::BAD_REQUEST, format!("`since` {allowed}")),
    };
    let since = since.map_or(Timestamp::ZERO, |since| {
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(process.clock.now().nanos().saturating_sub(nanos))
    });
    let most = match asked.query("latest").map(|text| text.parse::<usize>()).transpose() {
        Ok(most) => most.unwrap_or(FEW).min(MOST),
        Err(_) => return Answer::error(StatusCode::BAD_REQUEST, "`latest` must be a whole number"),
    };
    let client = asked.query("client");
    let whom = match &client {
        None => None,
        Some(text) => {
            let generation = process.generation();
            let lately = generation.refused().list(process.clock.now()).entries;
            let known = lately.into_iter().map(|entry| entry.payload);
            let whom = match Whom::of_address(text, &generation.engine().policy().clients, &process.pseudonyms) {
                Some(whom) => whom,
                None if Pseudonym::may_begin(text) => {
                    match Whom::of_pseudonym(text, &process.pseudonyms, known, &process.decisions) {
                        Ok(whom) => whom,
                        Err(Several) => return whom::several(text),
                    }
                }
                None => {
                    let why = format!(
                        "`{text}` is neither an address nor a pseudonym, which has {} characters, of which the first {} are enough",
                        Pseudonym::CHARACTERS,
                        Pseudonym::SHORTEST,
                    );
                    return Answer::error(StatusCode::BAD_REQUEST, why);
                }
            };
            Some((whom, text.as_str()))
        }
    };
    // a pseudonym is told anyway, and no address that could be shown
    let shown = |text: &'_ str| text.parse::<std::net::IpAddr>().is_ok();
    let decisions = around(process, |around| {
        let whom = whom.as_ref().map(|(whom, text)| (whom, Some(*text).filter(|text| shown(text))));
        process.decisions.latest(whom, since, most, around)
    });
    Answer::json(StatusCode::OK, &List { schema: SCHEMA, decisions })
}

/// Asks with what the process knows now.
fn around<T>(process: &Process, ask: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let generation = process.generation();
    let bans = generation.engine().bans().table();
    ask(&Surroundings {
        policy: generation.engine().policy(),
        fields: &|route| generation.fields(route),
        unix_nanos_at_origin: process.unix_nanos_at_origin(),
        bans: &bans,
        name: &|mark, network, level| process.name_of(mark, network, level),
    })
}
