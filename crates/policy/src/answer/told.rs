//! What an answer tells about limits, as lines for the people who run the gate.

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};

use super::headers::{RouteFields, retry_after_seconds, shown};
use crate::engine::{Decision, Verdict};
use crate::policy::Policy;

/// What an answer tells about limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `Retry-After`, in seconds; none where no wait helps, and for what was admitted.
    pub retry_after: Option<u64>,
    /// Every field as it reads: `RateLimit: "login";r=0;t=12`.
    pub lines: Vec<String>,
}

impl Told {
    /// Of a decision. One that was admitted is told beside the origin's answer, of this status and with these fields; a refusal
    /// does not look at them. `wall_unix_nanos` is for the legacy spelling only.
    pub fn of(
        decision: &Decision,
        policy: &Policy,
        (status, beside): (StatusCode, &HeaderMap),
        wall_unix_nanos: u64,
    ) -> Told {
        let route = decision.route.and_then(|route| policy.routes.route(route));
        let own = route.map(|route| RouteFields::new(policy, route));
        let (retry_after, fields) = match decision.verdict {
            Verdict::Refused(why) => (
                retry_after_seconds(why, decision, policy),
                own.map(|own| own.on_refusal(why, decision, policy, wall_unix_nanos)),
            ),
            // a route without limits tells of none, and a preflight is answered without a word about them
            Verdict::Admitted if decision.readings.is_empty() || decision.answers_preflight => (None, None),
            Verdict::Admitted => {
                let around = (wall_unix_nanos, &mut BytesMut::new());
                (None, own.map(|own| own.on_answer(decision, policy, status, beside, around)))
            }
        };
        let fields = fields.unwrap_or_default();
        let wait = retry_after.map(|seconds| format!("Retry-After: {seconds}"));
        Told {
            retry_after,
            lines: wait.into_iter().chain(fields.iter().map(|(name, value)| shown(name, value))).collect(),
        }
    }
}
