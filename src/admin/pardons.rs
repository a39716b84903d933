//! Pardons: `POST /api/v1/pardon`, `POST /api/v1/pardon/revoke`, `GET /api/v1/pardons`.
//!
//! A client is named as [`whom`] reads it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::asked::Asked;
use super::context::Context;
use super::whom;
use crate::engine::NotPardoned;
use crate::observe::state::{Pardon, Pardoned, PardonedLimit, Pardons, Revoked};
use crate::running::pardoned::{Given, named};
use crate::small_server::Answer;
use crate::units::Timestamp;

/// So many clients may be pardoned at a time.
pub const MOST_PARDONED: usize = 1_024;

/// The longest exemption: a month.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// An address, a network, `unix`, or a name from log or lists.
    client: String,
    /// In this limit only.
    #[serde(default)]
    limit: Option<String>,
    /// For how long limits leave the client alone.
    #[serde(default)]
    exempt_seconds: u64,
}

/// `POST /api/v1/pardon`.
pub fn pardon(context: &Arc<Context>, asked: &Asked) -> Answer {
    let wanted: Wanted = match asked.json() {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    let generation = context.process.generation();
    let engine = generation.engine();
    let rules = &engine.policy().rules;
    let only = match &wanted.limit {
        None => None,
        Some(name) => match rules.iter().position(|rule| rule.name == *name) {
            Some(rule) => Some(rule),
            None => return Answer::error(StatusCode::NOT_FOUND, format!("there is no limit `{name}`")),
        },
    };
    let found = match whom::find(context, &wanted.client) {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let now = context.process.clock.now();
    let exempt = Duration::from_secs(wanted.exempt_seconds);
    if exempt > LONGEST {
        return Answer::error(StatusCode::BAD_REQUEST, "an exemption lasts for 31 days at most");
    }
    let mut pardons = context.process.pardons.kept(now);
    if pardons.len() >= MOST_PARDONED && named(&pardons, &found.clients).is_none() {
        let why = format!("{MOST_PARDONED} clients are pardoned already; revoke one of them first");
        return Answer::error(StatusCode::CONFLICT, why);
    }
    let mut outcomes: BTreeMap<usize, Result<Timestamp, NotPardoned>> = BTreeMap::new();
    for client in &found.clients {
        for pardon in engine.pardon(client, found.network, only, now, exempt) {
            outcomes.insert(pardon.rule, pardon.outcome);
        }
    }
    let name_of = |rule: &usize| rules.get(*rule).map(|rule| rule.name.clone()).unwrap_or_default();
    let told: Vec<PardonedLimit> = outcomes
        .iter()
        .map(|(rule, outcome)| PardonedLimit {
            limit: name_of(rule),
            pardoned: outcome.is_ok(),
            reason: outcome.err().map(|reason| reason.text().into()),
        })
        .collect();
    let limits: Vec<String> =
        outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(rule, _)| name_of(rule)).collect();
    if limits.is_empty() {
        // the first that says more than that the limit counts something else
        let reasons = || outcomes.values().filter_map(|outcome| outcome.err());
        let telling = reasons().find(|reason| *reason != NotPardoned::OtherKey);
        let why = match telling.or_else(|| reasons().next()) {
            Some(reason) if only.is_some() => format!("the limit {}", reason.text()),
            Some(NotPardoned::Full) => format!("a limit {}", NotPardoned::Full.text()),
            Some(reason @ (NotPardoned::Narrower | NotPardoned::Running | NotPardoned::Shared)) => {
                format!("a limit by client {}", reason.text())
            }
            _ => "no limit counts by the client alone".to_owned(),
        };
        return Answer::error(StatusCode::CONFLICT, why);
    }
    context.process.snapshots.ordered();
    tracing::info!(client = found.name, limits = limits.join(","), exempt_seconds = exempt.as_secs(), "pardoned");
    let ends = outcomes.values().filter_map(|outcome| outcome.ok()).max().unwrap_or(now);
    // under the name that it has now, if another key gave it another one before
    if let Some(known) = named(&pardons, &found.clients) {
        pardons.remove(&known);
    }
    let given = Given { clients: found.clients, limits, at: now, exempt_until: now.after(exempt), ends };
    pardons.insert(found.name.clone(), given);
    let told = Pardoned {
        client: found.name,
        exempt_seconds: exempt.as_secs(),
        limits: told,
        schema: "tidegate.pardon/1".into(),
    };
    Answer::json(StatusCode::OK, &told)
}

/// `POST /api/v1/pardon/revoke`.
pub fn revoke(context: &Arc<Context>, asked: &Asked) -> Answer {
    let wanted: Wanted = match asked.json() {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    let now = context.process.clock.now();
    let mut pardons = context.process.pardons.kept(now);
    // by the name that the list has, or by whom that stands for
    let name = if pardons.contains_key(&wanted.client) {
        Some(wanted.client.clone())
    } else {
        whom::find(context, &wanted.client).ok().and_then(|found| named(&pardons, &found.clients))
    };
    let Some((name, given)) = name.and_then(|name| pardons.remove_entry(&name)) else {
        return Answer::error(StatusCode::NOT_FOUND, "this client is not pardoned");
    };
    let generation = context.process.generation();
    for client in &given.clients {
        generation.engine().revoke_pardon(client, now);
    }
    context.process.snapshots.ordered();
    tracing::info!(client = name, "pardon revoked");
    Answer::json(StatusCode::OK, &Revoked { client: name, revoked: true, schema: "tidegate.pardon/1".into() })
}

/// `GET /api/v1/pardons`.
pub fn list(context: &Arc<Context>, _: &Asked) -> Answer {
    let now = context.process.clock.now();
    let seconds = |later: Timestamp, earlier: Timestamp| later.since(earlier).as_secs();
    let pardon = |(name, given): (&String, &Given)| Pardon {
        // its name at present
        client: given.clients.first().map_or_else(|| name.clone(), |client| context.name_of(client)),
        exempt_for_seconds: seconds(given.exempt_until, now),
        given_seconds_ago: seconds(now, given.at),
        limits: given.limits.clone(),
    };
    let pardons = context.process.pardons.kept(now).iter().map(pardon).collect();
    Answer::json(StatusCode::OK, &Pardons { pardons, schema: "tidegate.pardons/1".into() })
}
