//! The header fields that decisions rest on, and the heads that would have the gate judge another request than the origin gets.
//!
//! Two of them are refused: a `Connection` that nominates a field, which is then taken out of the request after it was judged (RFC
//! 9110 section 7.6.1), and a field in several lines, of which one application reads the first and another the last. What the peer
//! may not tell is taken out before the request is judged ([`FieldsRead::edits`]).

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{Balance, Condition, InflightCap, Mode, Policy, Rule};
use crate::client::ClientRules;
use crate::client::key::{KeyPart, KeySpec};
use crate::client::trust::X_FORWARDED_FOR;
use crate::request::Peer;
use tidegate_http::hearsay::is_twin_of;

/// What becomes of a request that has several lines of a field that a route or an enforced limit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatedFields {
    /// It is refused.
    #[default]
    Refuse,
    /// The first line counts, and the others are taken out before the request is judged.
    First,
    /// The last line counts, and the others are taken out before the request is judged.
    Last,
}

/// Why a head is refused before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFault {
    /// `Connection` nominates a field that the policy reads.
    Nominated,
    /// A field that the policy reads stands in several lines.
    Repeated,
}

/// The header fields that a policy reads.
#[derive(Debug, Clone)]
pub struct FieldsRead {
    all: Vec<HeaderName>,
    nominable: Vec<HeaderName>,
    single: Vec<HeaderName>,
    repeated: RepeatedFields,
}

impl FieldsRead {
    /// Those of a policy.
    pub fn of(policy: &Policy) -> FieldsRead {
        let own = [header::HOST, X_FORWARDED_FOR.clone(), header::FORWARDED, header::COOKIE];
        let mut all = vec![header::HOST, X_FORWARDED_FOR.clone(), header::FORWARDED];
        let forwarding = policy.clients.header.name().clone();
        let mut single = of_routes(policy);
        let mut of_limits = Vec::new();
        for rule in &policy.rules {
            let read: Vec<HeaderName> = read_by(rule).cloned().collect();
            // a limit in shadow turns no request away
            if rule.mode == Mode::Enforce {
                single.extend_from_slice(&read);
            }
            of_limits.extend(read);
        }
        all.extend(single.iter().cloned().chain(of_limits).chain([forwarding.clone()]));
        if has_cookies(policy) {
            all.push(header::COOKIE);
        }
        sort(&mut all);
        sort(&mut single);
        // the head's reader lets nobody nominate these, and refuses a second `Host`
        let nominable: Vec<HeaderName> = all.iter().filter(|name| !own.contains(name)).cloned().collect();
        // a chain of proxies writes several lines; `resolve` has rules for them
        single.retain(|name| ![&header::HOST, &X_FORWARDED_FOR, &header::FORWARDED, &forwarding].contains(&name));
        if !nominable.is_empty() {
            all.push(header::CONNECTION);
        }
        FieldsRead { all, nominable, single, repeated: policy.repeated_fields }
    }

    /// The names of all fields that a decision may read; without doubles. A request that has just these is judged as one that has
    /// them all.
    pub fn all(&self) -> &[HeaderName] {
        &self.all
    }

    /// Whether any field can be [an imitation](FieldsRead::is_imitation).
    pub fn has_imitations(&self) -> bool {
        !self.nominable.is_empty()
    }

    /// Whether the field of this name, in any spelling, can be [an imitation](FieldsRead::is_imitation).
    pub fn may_be_imitation(&self, field: &[u8]) -> bool {
        self.nominable.iter().any(|name| name.as_str().len() == field.len())
    }

    /// Whether CGI and its descendants would take this field for another one that is read, as they read `X_Plan` and `X.Plan` as
    /// `X-Plan`. Its name in lower case.
    pub fn is_imitation(&self, field: &str) -> bool {
        let is_twin = |name: &HeaderName| is_twin_of(field, name.as_str());
        self.nominable.iter().any(is_twin) && !self.nominable.iter().any(|name| name == field)
    }

    /// Looks for a head that the origin would read in another way.
    ///
    /// # Errors
    /// The head must be refused.
    #[inline]
    pub fn check(&self, headers: &HeaderMap) -> Result<(), FieldFault> {
        if !self.nominable.is_empty() && self.is_nominated(headers) {
            return Err(FieldFault::Nominated);
        }
        if self.single.iter().any(|name| headers.get_all(name).iter().nth(1).is_some()) {
            return Err(FieldFault::Repeated);
        }
        Ok(())
    }

    /// What has to be done to a head before it is judged and sent on: fields of which one line stays, and fields that go, as this
    /// peer may not tell them.
    pub fn edits(
        &self,
        rules: &ClientRules,
        peer: Peer,
        headers: &HeaderMap,
    ) -> Vec<(HeaderName, Option<HeaderValue>)> {
        let mut edits: Vec<_> = self.joined(headers).into_iter().map(|(name, line)| (name, Some(line))).collect();
        if !headers.is_empty() {
            let trusted = rules.trust.believes(peer);
            let untold = headers.keys().filter(|name| rules.may_not_tell(trusted, name.as_str()));
            edits.extend(untold.map(|name| (name.clone(), None)));
        }
        edits
    }

    /// The fields in several lines of which one stays, as the policy wants it: that line.
    pub fn joined(&self, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        if self.repeated == RepeatedFields::Refuse {
            return Vec::new();
        }
        let kept = |name: &HeaderName| Some((name.clone(), self.line_to_keep(headers, name)?));
        self.single.iter().filter_map(kept).collect()
    }

    /// The line of a field that stays; `None` if it has no other.
    fn line_to_keep(&self, headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
        let mut lines = headers.get_all(name).iter();
        let (first, second) = (lines.next()?, lines.next()?);
        Some(match self.repeated {
            RepeatedFields::Refuse => return None,
            RepeatedFields::First => first.clone(),
            RepeatedFields::Last => lines.next_back().unwrap_or(second).clone(),
        })
    }

    fn is_nominated(&self, headers: &HeaderMap) -> bool {
        // whatever is no character of a name separates: readers differ on what else they trim off an option
        let options = headers.get_all(header::CONNECTION).into_iter();
        let options = options.flat_map(|line| line.as_bytes().split(|byte| !is_token(*byte)));
        // runs of what separates can be long
        let mut options = options.filter(|option| !option.is_empty());
        options.any(|option| self.nominable.iter().any(|name| name.as_str().as_bytes().eq_ignore_ascii_case(option)))
    }
}

fn is_token(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z' | b'#'..=b'\'' | b'!' | b'*' | b'+' | b'-' | b'.' | b'|' | b'~')
}

/// What routes, tiers of clients, criticality and the choice of an address read.
fn of_routes(policy: &Policy) -> Vec<HeaderName> {
    let matches = policy.routes.iter().flat_map(|route| &route.matches);
    let matched = matches.flat_map(|matched| &matched.headers).map(|(name, _)| name);
    let tiers = policy.tiers.iter().flat_map(|tier| fields_of_condition(&tier.when));
    let criticality = policy.clients.criticality.iter().map(|field| &field.name);
    matched.chain(tiers).chain(criticality).chain(hashed(policy).flat_map(fields_of)).cloned().collect()
}

/// The keys that addresses of origins are chosen by, and those of their queues.
fn hashed(policy: &Policy) -> impl Iterator<Item = &KeySpec> {
    policy.origins.iter().flat_map(|origin| {
        let chosen_by = match &origin.balance {
            Balance::Hash(key) => Some(key),
            Balance::RoundRobin | Balance::LeastInflight => None,
        };
        let nodes = origin.inflight.iter().flat_map(InflightCap::nodes);
        chosen_by.into_iter().chain(nodes.map(|(key, _)| key))
    })
}

/// What a limit reads, as often as it does.
pub fn read_by(rule: &Rule) -> impl Iterator<Item = &HeaderName> {
    let keys = std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes);
    let conditions = rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when));
    keys.flat_map(fields_of).chain(conditions.flat_map(fields_of_condition))
}

fn fields_of(key: &KeySpec) -> impl Iterator<Item = &HeaderName> {
    key.parts().iter().filter_map(|part| if let KeyPart::Header(name) = part { Some(name) } else { None })
}

fn fields_of_condition(condition: &Condition) -> impl Iterator<Item = &HeaderName> {
    condition.headers.iter().map(|(name, _)| name)
}

fn has_cookies(policy: &Policy) -> bool {
    let keys = policy.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
    keys.chain(hashed(policy)).flat_map(|key| key.parts()).any(|part| matches!(part, KeyPart::Cookie(_)))
}

fn sort(names: &mut Vec<HeaderName>) {
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
}
