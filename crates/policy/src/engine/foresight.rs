//! What of a judgement hangs on the request and the policy alone: the route, and the hashes of the keys. Whoever judges one request
//! after the other, as a replay does, may find it on another thread, ahead of the limits' state.

use arrayvec::ArrayVec;

use super::keys::{Hashed, SharedKeys};
use super::offered::is_share;
use super::read::Read;
use super::snapshot::Snapshot;
use crate::client::Client;
use crate::limiter::Place;
use crate::policy::Policy;
use crate::policy::route::KeyRoom;
use crate::request::Request;
use crate::sketch::{KeyHash, Seed};
use crate::units::Timestamp;

/// Looks ahead for every [`Snapshot`] of the same policy and seed.
#[derive(Debug)]
pub struct Foresight {
    policy: Policy,
    keys: SharedKeys,
}

/// Of so many keys the hashes are kept, which is more than most routes have; those of others are taken when they are asked for.
const MOST_KEYS: usize = 2;

/// What was found of one request.
#[derive(Debug, Clone, Default)]
pub struct Foreseen {
    route: Option<usize>,
    keys: ArrayVec<(usize, KeyHash), MOST_KEYS>,
}

impl Foresight {
    /// Of the policy and the seed that the snapshots are made with.
    pub fn new(policy: Policy, seed: &Seed) -> Foresight {
        let keys = SharedKeys::new(&policy, seed);
        Foresight { policy, keys }
    }

    /// The rule book.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Looks ahead at a request of this client.
    pub fn foresee(&self, request: &Request<'_>, client: &Client) -> Foreseen {
        let Ok(Some((index, route))) = self.policy.routes.find(request) else { return Foreseen::default() };
        let mut room = KeyRoom::new();
        let request = &route.counted(request, &mut room);
        let about = Read { request, client, route, index, at: Timestamp::ZERO };
        let mut hashed = Hashed::default();
        for &rule_index in &route.rules {
            if let Some(rule) = self.policy.rules.get(rule_index)
                && !is_share(rule)
            {
                self.keys.hash_shared(rule_index, rule, &self.policy, &about, &mut hashed);
            }
        }
        let keys = hashed.known().iter().take(MOST_KEYS).copied().collect();
        Foreseen { route: Some(index), keys }
    }
}

impl Snapshot {
    /// Has what the request will be judged by brought near, and changes nothing. Done for some requests in a row before the first of
    /// them is judged, their cache misses overlap.
    pub fn approach(&self, foreseen: &Foreseen) {
        let route = foreseen.route.and_then(|index| self.policy().routes.route(index));
        for &index in route.into_iter().flat_map(|route| &route.rules) {
            // where values of keys are counted, it is the pair that says where
            if let Some((_, limiter)) = self.rule(index).filter(|(rule, _)| rule.of.is_none())
                && let Some(key) = self.keys().own_of(index, limiter, &foreseen.keys)
            {
                limiter.prefetch(&Place { key, ..Place::default() });
            }
        }
    }
}

impl Foreseen {
    /// The position of the route in the policy; `None` when none matched.
    pub fn route(&self) -> Option<usize> {
        self.route
    }

    pub(super) fn keys(&self) -> &[(usize, KeyHash)] {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http::{HeaderMap, Method};

    use super::*;
    use crate::client::key::{KeyPart, KeySpec, Missing};
    use crate::client::{self, ClientRules};
    use crate::engine::{Arrival, DecisionId, Holds, Judged, Refusal, Verdict};
    use crate::limiter::Capacity;
    use crate::policy::{Action, HeaderEdits, Kind, Mode, Responses, Route, RouteTable, Rule, kinds, origin};
    use crate::request::Peer;
    use crate::units::{Bytes, Rate};

    fn policy() -> Policy {
        let rule = |name: &str, parts: &[KeyPart], burst| {
            let kind = Kind::Rate(kinds::Rate {
                rate: Rate::new(1, Duration::from_secs(1)).unwrap(),
                burst,
                memory: Bytes(1 << 20),
            });
            let missing = matches!(parts, [KeyPart::Header(_)]).then_some(Missing::Allow);
            let key = KeySpec::new(parts.iter().cloned(), missing).unwrap();
            Arc::new(Rule::new(name, key, kind, Mode::Enforce))
        };
        let capacity = Capacity::Rate(Rate::new(400, Duration::from_secs(1)).unwrap());
        let kind = Kind::FairShare(kinds::FairShare {
            capacity,
            multipliers: vec![1; 4],
            levels: vec![0, 1, 2, 3],
            charge_parents: false,
            memory: Bytes(1 << 20),
        });
        let key = |parts: &[KeyPart], missing| KeySpec::new(parts.iter().cloned(), missing).unwrap();
        let mut share = Rule::new("e", key(&[KeyPart::CLIENT_IP], None), kind, Mode::Enforce);
        share.nodes = vec![
            key(&[KeyPart::CLIENT_IP, KeyPart::Path], None),
            key(&[KeyPart::CLIENT_IP], None),
            key(&[KeyPart::Header(http::header::COOKIE)], Some(Missing::Allow)),
            key(&[KeyPart::Host], None),
        ];
        // more keys than are foreseen, and one that some requests lack
        let rules = vec![
            rule("a", &[KeyPart::CLIENT_IP], 5),
            rule("b", &[KeyPart::CLIENT_IP, KeyPart::Path], 3),
            rule("c", &[KeyPart::Header(http::header::COOKIE)], 4),
            rule("d", &[KeyPart::CLIENT_IP, KeyPart::Method], 4),
            Arc::new(share),
        ];
        let route = Route {
            name: "all".into(),
            matches: vec![],
            rules: vec![0, 1, 2, 3, 4],
            action: Action::Forward(0),
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            body_limit: None,
            timeouts: origin::Timeouts::default(),
        };
        Policy {
            clients: ClientRules::default(),
            repeated_fields: Default::default(),
            rules,
            origins: vec![],
            stores: vec![],
            routes: RouteTable::new(vec![route]),
            responses: Responses::default(),
            fingerprint: String::new(),
        }
    }

    #[test]
    fn what_was_foreseen_is_judged_as_what_was_not() {
        let seed = Seed::from_bytes([7; 16]);
        let [plain, ahead] = [(); 2].map(|()| Snapshot::new(policy(), &seed, 0).unwrap());
        let foresight = Foresight::new(policy(), &seed);
        let arrival = |id| Arrival { id: DecisionId(id), at: Timestamp::from_nanos(1 << 50), dice: 0 };
        let mut reused = Judged::new(arrival(0));
        let (mut refused, mut shared) = (0, 0);
        for id in 0..200_u64 {
            let mut headers = HeaderMap::new();
            if id % 3 > 0 {
                headers.insert(http::header::COOKIE, format!("a={}", id % 7).parse().unwrap());
            }
            let path = format!("/{}", id % 5);
            let peer = Peer::Ip([192, 0, 2, (id % 11) as u8].into());
            let method = if id % 2 == 0 { Method::GET } else { Method::POST };
            let request = Request {
                peer,
                method: &method,
                host: "h",
                path: &path,
                query: None,
                headers: &headers,
                tls_sni: None,
            };
            let client = client::resolve(&plain.policy().clients, peer, &headers).unwrap();
            let mut judged = plain.judge_for(&request, Some(client), arrival(id));
            let now = judged.decision.at;
            let (holds, _) = plain.admit(&mut judged, now);
            let foreseen = foresight.foresee(&request, &client);
            ahead.approach(&foreseen);
            ahead.judge_foreseen(&foreseen, &request, client, arrival(id), &mut reused);
            let mut own_holds = Holds::new();
            ahead.admit_into(&mut reused, now, &mut own_holds);
            assert_eq!(format!("{judged:?} {holds:?}"), format!("{reused:?} {own_holds:?}"));
            refused += u64::from(judged.decision.verdict != Verdict::Admitted);
            shared += u64::from(judged.decision.verdict == Verdict::Refused(Refusal::FairShare));
        }
        assert!((50..150).contains(&refused) && shared > 5, "{refused} refused, {shared} by the fair share");
    }
}
