//! The way back: a line of the log → [`Entry`].

use std::borrow::Cow;

use arrayvec::ArrayVec;
use serde::Deserialize;

use super::{ADMITTED, Entry, LimitEntry, REFUSED, SCHEMA, time};
use crate::engine::{DecisionId, Outcome, Refusal, Verdict};
use crate::policy::{Mode, Route};
use crate::units::Timestamp;

/// Why a line is not an entry.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// No JSON, a field missing, or one of another type.
    #[error("not an access log line: {0}")]
    Json(#[source] serde_json::Error),
    /// A line of another kind or version, by its own word.
    #[error("schema: found {0:?}; allowed {SCHEMA:?}")]
    Schema(String),
    /// A field whose text says nothing that we know: its name and the text.
    #[error("{0}: found {1:?}, which is unknown")]
    Word(&'static str, String),
    /// More limits than a route can have.
    #[error("limits: found {0}; allowed up to {max}", max = Route::MAX_RULES)]
    Limits(usize),
}

impl Entry<'static> {
    /// Reads a line, with or without its line break. Fields that are not known are passed over, because later versions
    /// may add some.
    ///
    /// # Errors
    /// The line is not one of ours, or of another schema.
    pub fn read(line: &[u8]) -> Result<Entry<'static>, Unreadable> {
        let Schema { schema } = serde_json::from_slice(line).map_err(Unreadable::Json)?;
        if schema != SCHEMA {
            return Err(Unreadable::Schema(schema));
        }
        let raw: Raw = serde_json::from_slice(line).map_err(Unreadable::Json)?;
        let known = raw.limits.len();
        let mut limits = ArrayVec::new();
        for limit in raw.limits {
            limits.try_push(limit.entry()?).map_err(|_| Unreadable::Limits(known))?;
        }
        Ok(Entry {
            time_unix_nanos: known_word("time", raw.time, time::read)?,
            at: Timestamp::from_nanos(raw.at),
            at_zero: raw.at_zero,
            id: known_word("id", raw.id, DecisionId::parse)?,
            listener: raw.listener.into(),
            protocol: raw.protocol.map(Cow::Owned),
            client: raw.client.map(Cow::Owned),
            client_source: raw.client_source.map(Cow::Owned),
            client_mark: raw.client_mark.map(Cow::Owned),
            method: raw.method.into(),
            host: raw.host.into_bytes().into(),
            path: raw.path.into_bytes().into(),
            route: raw.route.map(Cow::Owned),
            criticality: raw.criticality.map(Cow::Owned),
            status: raw.status,
            verdict: verdict(raw.verdict, raw.reason)?,
            limits,
            origin: raw.origin.map(Cow::Owned),
            origin_address: raw.origin_address.map(Cow::Owned),
            delay_nanos: raw.delay_ns,
            attempts: raw.attempts,
            duration_nanos: raw.duration_ns,
            origin_nanos: raw.origin_ns,
            bytes_in: raw.bytes_in,
            bytes_out: raw.bytes_out,
            error: raw.error.map(Cow::Owned),
            sampled: raw.sampled,
        })
    }
}

/// Read first, so that a line of another schema is named and not called faulty.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// The line as JSON has it.
#[derive(Deserialize)]
struct Raw {
    time: String,
    at: u64,
    at_zero: Option<u64>,
    id: String,
    listener: String,
    protocol: Option<String>,
    client: Option<String>,
    client_source: Option<String>,
    client_mark: Option<String>,
    method: String,
    host: String,
    path: String,
    route: Option<String>,
    criticality: Option<String>,
    status: u16,
    verdict: Option<String>,
    reason: Option<String>,
    limits: Vec<RawLimit>,
    origin: Option<String>,
    origin_address: Option<String>,
    #[serde(default)]
    delay_ns: u64,
    attempts: u32,
    duration_ns: u64,
    origin_ns: Option<u64>,
    bytes_in: u64,
    bytes_out: u64,
    error: Option<String>,
    sampled: Option<u64>,
}

#[derive(Deserialize)]
struct RawLimit {
    name: String,
    mode: String,
    #[serde(default)]
    tier: u8,
    outcome: String,
    remaining: u32,
    retry_ns: Option<u64>,
    node: Option<String>,
    prefix: Option<String>,
}

impl RawLimit {
    fn entry(self) -> Result<LimitEntry<'static>, Unreadable> {
        const MODES: [Mode; 2] = [Mode::Enforce, Mode::Shadow];
        Ok(LimitEntry {
            name: self.name.into(),
            mode: known_word("mode", self.mode, |word| MODES.into_iter().find(|mode| mode.word() == word))?,
            tier: self.tier,
            outcome: known_word("outcome", self.outcome, |word| {
                Outcome::ALL.into_iter().find(|outcome| outcome.word() == word)
            })?,
            remaining: self.remaining,
            retry_nanos: self.retry_ns,
            node: self.node.map(Cow::Owned),
            prefix: self.prefix.map(Cow::Owned),
        })
    }
}

fn verdict(verdict: Option<String>, reason: Option<String>) -> Result<Option<Verdict>, Unreadable> {
    match (verdict.as_deref(), reason) {
        (None, _) => Ok(None),
        (Some(ADMITTED), _) => Ok(Some(Verdict::Admitted)),
        (Some(REFUSED), reason) => {
            let refusal = known_word("reason", reason.unwrap_or_default(), |word| {
                Refusal::ALL.iter().copied().find(|refusal| refusal.word() == word)
            })?;
            Ok(Some(Verdict::Refused(refusal)))
        }
        (Some(other), _) => Err(Unreadable::Word("verdict", other.to_owned())),
    }
}

fn known_word<T>(name: &'static str, word: String, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Unreadable> {
    read(&word).ok_or(Unreadable::Word(name, word))
}
