//! What the operator says of the answer to a refusal: the limit that refuses, then its route, then the policy as a whole. Each word is
//! taken from the first of them that has it.

use http::{HeaderName, HeaderValue, StatusCode};

use super::headers;
use crate::engine::{Decision, Refusal};
use crate::policy::body::Bodies;
use crate::policy::{BodyFormat, OwnAnswer, Policy};

/// What the operator says of one answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own<'a> {
    layers: [Option<&'a OwnAnswer>; 3],
    /// The status where he says none.
    usual: Option<StatusCode>,
}

impl<'a> Own<'a> {
    /// Of a refusal; nothing of one that neither a limit nor want of room is the reason of.
    pub fn of(refusal: Refusal, decision: Option<&Decision>, policy: &'a Policy) -> Own<'a> {
        let limited = match refusal {
            Refusal::Limit | Refusal::Penalty | Refusal::Concurrency => true,
            Refusal::Inflight | Refusal::FairShare | Refusal::OriginFull | Refusal::StoreSilent | Refusal::Overload => {
                false
            }
            Refusal::KeyMissing
            | Refusal::AmbiguousValue
            | Refusal::RepeatedField
            | Refusal::NominatedField
            | Refusal::ValueTooLong
            | Refusal::NoRoute
            | Refusal::ClientUnresolved
            | Refusal::Banned
            | Refusal::Denied => return Own::default(),
        };
        let rule = decision.and_then(|decision| refusing(refusal, decision, policy));
        let rule = rule.and_then(|rule| policy.rules.get(rule)).map(|rule| &rule.response);
        let route = decision.and_then(|decision| policy.routes.route(decision.route?));
        let (route, all, usual) = if limited {
            (route.map(|route| &route.limited), &policy.responses.limited, StatusCode::TOO_MANY_REQUESTS)
        } else {
            (route.map(|route| &route.overloaded), &policy.responses.overloaded, StatusCode::SERVICE_UNAVAILABLE)
        };
        Own { layers: [rule, route, Some(all)], usual: Some(usual) }
    }

    /// The status of a refusal that has one of the operator's choice.
    pub fn status(&self) -> Option<StatusCode> {
        self.first(|own| own.status.as_ref()).copied().or(self.usual)
    }

    /// Which body is sent.
    pub fn format(&self) -> BodyFormat {
        self.first(|own| own.format.as_ref()).copied().unwrap_or(BodyFormat::Auto)
    }

    /// The bodies in the place of the gate's own.
    pub fn bodies(&self) -> Option<&'a Bodies> {
        self.first(|own| own.bodies.as_ref())
    }

    /// Further fields.
    pub fn headers(&self) -> &'a [(HeaderName, HeaderValue)] {
        self.first(|own| own.headers.as_ref()).map_or(&[], Vec::as_slice)
    }

    fn first<T>(&self, word: impl Fn(&'a OwnAnswer) -> Option<&'a T>) -> Option<&'a T> {
        self.layers.iter().flatten().find_map(|own| word(own))
    }
}

/// The position of the limit that an answer to a refusal is about: of several the one that is told first.
fn refusing(refusal: Refusal, decision: &Decision, policy: &Policy) -> Option<usize> {
    let says_something = |rule: usize| policy.rules.get(rule).is_some_and(|rule| rule.response != OwnAnswer::default());
    if !decision.violated().any(|reading| says_something(reading.rule)) {
        // which of them is told first takes sorting
        return None;
    }
    match refusal {
        Refusal::OriginFull => None,
        Refusal::Limit | Refusal::Penalty | Refusal::Concurrency => headers::first_violated(refusal, decision, policy),
        _ => decision.violated().next().map(|reading| reading.rule),
    }
}
