//! Counts what becomes of requests against what is expected, and remembers the first that differs.

use super::failures;
use super::outcome::Difference;
use super::seen::Seen;
use crate::config::case::{By, Expected, Range};
use crate::policy::Policy;
use crate::policy::route::TextMatch;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Allowed,
    Limited,
    Shadowed,
    Delayed,
    Tagged,
}

impl Counted {
    /// Whether this request is one of those.
    fn holds(self, seen: &Seen<'_>) -> bool {
        match self {
            Counted::Allowed => seen.is_allowed(),
            Counted::Limited => seen.is_limited(),
            Counted::Shadowed => !seen.shadowed_by().is_empty(),
            Counted::Delayed => seen.delay().is_some(),
            Counted::Tagged => seen.is_tagged(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Counted::Allowed => "allowed",
            Counted::Limited => "limited",
            Counted::Shadowed => "shadowed",
            Counted::Delayed => "delayed",
            Counted::Tagged => "tagged",
        }
    }
}

/// The counts so far, of the requests that one `expect` is about.
#[derive(Debug)]
pub struct Counts<'a> {
    expected: &'a Expected,
    counts: Vec<Count>,
    /// Requests that are not as each has to be, by word.
    misses: Vec<Miss>,
    last: Option<(u64, usize, u32)>,
}

#[derive(Debug)]
struct Count {
    what: Counted,
    range: Range<u64>,
    found: u64,
    /// The request that was one too many.
    over: Option<Noted>,
    /// The first that was not one of those.
    other: Option<Noted>,
}

#[derive(Debug)]
struct Miss {
    word: String,
    expected: String,
    found: String,
    requests: u64,
    noted: Noted,
}

/// A request and the account of it.
#[derive(Debug, Clone)]
struct Noted {
    order: (u64, usize, u32),
    account: String,
}

impl Noted {
    fn of(seen: &Seen<'_>) -> Noted {
        Noted { order: seen.order, account: failures::of(seen) }
    }
}

impl<'a> Counts<'a> {
    /// Nothing yet.
    pub fn new(expected: &'a Expected) -> Counts<'a> {
        let ranges = [
            (Counted::Allowed, expected.allowed),
            (Counted::Limited, expected.limited),
            (Counted::Shadowed, expected.shadowed),
            (Counted::Delayed, expected.delayed),
            (Counted::Tagged, expected.tagged),
        ];
        let count = |(what, range): (Counted, Option<Range<u64>>)| {
            Some(Count { what, range: range?, found: 0, over: None, other: None })
        };
        Counts { expected, counts: ranges.into_iter().filter_map(count).collect(), misses: Vec::new(), last: None }
    }

    /// Counts a request. `last_step`: it may be the last that is spoken of.
    pub fn see(&mut self, seen: &Seen<'_>, last_step: bool) {
        for count in &mut self.counts {
            if !count.what.holds(seen) {
                count.other.get_or_insert_with(|| Noted::of(seen));
                continue;
            }
            count.found += 1;
            if count.range.high.is_some_and(|most| count.found == most + 1) {
                count.over = Some(Noted::of(seen));
            }
        }
        self.see_alone(seen);
        if last_step && seen.nth + 1 == seen.of && self.last.is_none_or(|last| last < seen.order) {
            self.last = Some(seen.order);
            self.see_headers(seen);
        }
    }

    /// What each request has to be by itself.
    fn see_alone(&mut self, seen: &Seen<'_>) {
        let expected = self.expected;
        if !expected.status.is_empty() && !expected.status.contains(&seen.status) {
            let wanted: Vec<String> = expected.status.iter().map(u16::to_string).collect();
            self.miss(seen, "status", wanted.join(" or "), seen.status.to_string());
        }
        if !expected.by.is_empty() && seen.is_limited() {
            let by = seen.limited_by();
            if !by.iter().any(|by| expected.by.contains(by)) {
                self.miss(seen, "by", names(&expected.by, seen.policy()), names(&by, seen.policy()));
            }
        }
        let shadowed = if expected.shadowed_by.is_empty() { Vec::new() } else { seen.shadowed_by() };
        if !shadowed.is_empty() && !shadowed.iter().any(|by| expected.shadowed_by.contains(by)) {
            let wanted = names(&expected.shadowed_by, seen.policy());
            self.miss(seen, "shadowed_by", wanted, names(&shadowed, seen.policy()));
        }
        if let (Some(range), Some(delay)) = (expected.delay, seen.delay())
            && !range.holds(delay)
        {
            self.miss(seen, "delay", failures::spans(range), failures::span(delay));
        }
        if let Some(range) = expected.retry_after
            && (seen.is_limited() || seen.fault.is_some())
            && !seen.retry_after.is_some_and(|wait| range.holds(wait))
        {
            let found = seen.retry_after.map_or_else(|| "none".to_owned(), failures::span);
            self.miss(seen, "retry_after", failures::spans(range), found);
        }
        if let Some(name) = &expected.route {
            let route = seen.decision().and_then(|decision| seen.policy().routes.route(decision.route?));
            let found = route.map(|route| route.name.as_str());
            if found != Some(name) {
                self.miss(seen, "route", name.clone(), found.unwrap_or("none").to_owned());
            }
        }
        if let Some(wanted) = &expected.client {
            let client = seen.decision().and_then(|decision| decision.client);
            let names = client.map(|client| (client.address.to_string(), client.network.to_string()));
            if !names.as_ref().is_some_and(|(address, network)| address == wanted || network == wanted) {
                let found = names.map_or_else(|| "none".to_owned(), |(address, network)| either(&address, &network));
                self.miss(seen, "client", wanted.clone(), found);
            }
        }
    }

    fn see_headers(&mut self, seen: &Seen<'_>) {
        for (name, wanted) in &self.expected.headers {
            let lines: Vec<&str> = seen.headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
            let met = |line: &&str| match wanted {
                TextMatch::Exact(text) => line == text,
                TextMatch::Regex(regex) => regex.is_match(line),
            };
            if lines.iter().any(met) {
                continue;
            }
            let text = match wanted {
                TextMatch::Exact(text) => text.clone(),
                TextMatch::Regex(regex) => format!("a text like {}", regex.as_str()),
            };
            let found = if lines.is_empty() { "none".to_owned() } else { lines.join(", ") };
            self.miss(seen, &format!("headers.{name}"), text, found);
        }
    }

    fn miss(&mut self, seen: &Seen<'_>, word: &str, expected: String, found: String) {
        match self.misses.iter_mut().find(|miss| miss.word == word) {
            Some(miss) => {
                miss.requests += 1;
                if seen.order < miss.noted.order {
                    (miss.found, miss.noted) = (found, Noted::of(seen));
                }
            }
            None => {
                let noted = Noted::of(seen);
                self.misses.push(Miss { word: word.to_owned(), expected, found, requests: 1, noted });
            }
        }
    }

    /// All that is not as expected.
    pub fn differences(&self, step: Option<usize>) -> Vec<Difference> {
        let counts = self.counts.iter().filter(|count| !count.range.holds(count.found)).map(|count| Difference {
            step,
            word: count.what.word().to_owned(),
            expected: failures::numbers(count.range),
            found: count.found.to_string(),
            requests: None,
        });
        let misses = self.misses.iter().map(|miss| Difference {
            step,
            word: miss.word.clone(),
            expected: miss.expected.clone(),
            found: miss.found.clone(),
            requests: Some(miss.requests),
        });
        counts.chain(misses).collect()
    }

    /// The account of the first request that differs.
    pub fn first(&self) -> Option<((u64, usize, u32), &str)> {
        let of_counts = self.counts.iter().filter(|count| !count.range.holds(count.found)).filter_map(|count| {
            // too many: the one that was too much; too few: the first that could have been one more
            if count.over.is_some() { count.over.as_ref() } else { count.other.as_ref() }
        });
        let noted = of_counts.chain(self.misses.iter().map(|miss| &miss.noted));
        noted.min_by_key(|noted| noted.order).map(|noted| (noted.order, noted.account.as_str()))
    }
}

fn either(address: &str, network: &str) -> String {
    if address == network { address.to_owned() } else { format!("{address} ({network})") }
}

/// The names of limits and origins, as tests write them.
pub fn names(by: &[By], policy: &Policy) -> String {
    let name = |by: &By| match by {
        By::Limit(rule) => policy.rules.get(*rule).map(|rule| rule.name.clone()),
        By::Origin(origin) => policy.origins.get(*origin).map(|origin| format!("origin:{}", origin.name)),
    };
    let names: Vec<String> = by.iter().filter_map(name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
