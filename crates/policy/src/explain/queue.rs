//! How a request stood in the queue of its origin or of its `fair_share` when it went without.

use serde::{Deserialize, Serialize};

use crate::engine::{Heavy, NoPlace, Scarce};
use crate::human::{grouped, rate};
use crate::units::Criticality;

/// A queue, and this request in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuePart {
    /// `full`, `pushed_out` or `queue_timeout` of an origin; `rate_pushed_out` or `rate_timeout` of a `fair_share`.
    pub reason: String,
    /// The origin whose places were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The limit whose units were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How many places were held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u32>,
    /// How many there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
    /// How many of the places or units it had to leave to more important requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<f64>,
    /// How many units come in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// How many units there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    /// How many of those the heaviest leave to lighter ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<f64>,
    /// How many requests waited.
    pub waiting: u32,
    /// How many of them would have gone before it.
    #[serde(default)]
    pub ahead: u32,
    /// What weighed most: the request's key, or a network around it.
    pub by: String,
    /// How many places that held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_held: Option<u32>,
    /// How many requests of it waited.
    pub own_waiting: u32,
    /// How many places it used on average over `memory_seconds`; or how many units, those before it counting less.
    pub own_used: f64,
    /// For how many clients it stands.
    pub share: u32,
    /// The tier that its weight is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What it held and used for each of those.
    pub score: f64,
    /// The same of the request that was next.
    pub next: f64,
    /// The time in which a use counts half.
    pub memory_seconds: f64,
    /// The time in which all that were there have been served once.
    pub round_seconds: f64,
    /// Who had most: a network, if it had more than each client, then clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heaviest: Vec<HeavyPart>,
}

/// Somebody who held places or waited at that moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeavyPart {
    /// `client` or `network`.
    pub what: String,
    /// Its name, as in the access log.
    pub name: String,
    /// How much its latest request mattered: `critical`, `default`, `sheddable`, `background`.
    pub criticality: String,
    /// How many places it held.
    pub held: u32,
    /// How many of its requests waited.
    pub waiting: u32,
}

impl HeavyPart {
    /// Under this name.
    pub fn new(heavy: &Heavy, name: String) -> HeavyPart {
        HeavyPart {
            what: if heavy.level == 0 { "client" } else { "network" }.to_owned(),
            name,
            criticality: heavy.criticality.word().to_owned(),
            held: heavy.held.into(),
            waiting: heavy.waiting.into(),
        }
    }

    fn line(&self) -> String {
        let HeavyPart { what, name, criticality, held, waiting } = self;
        let class =
            if criticality == Criticality::Default.word() { String::new() } else { format!(" ({criticality})") };
        format!("  {what} {name}{class}: {held} held, {waiting} waiting")
    }
}

/// What a request that found no queue stood by.
const ARRIVAL: &str = "arrival";

impl QueuePart {
    /// Of an origin or a limit, by the words for the levels of its queue, and the client's tier.
    pub fn new(
        place: &NoPlace,
        name: &str,
        levels: &[String],
        tier: Option<&String>,
        heaviest: Vec<HeavyPart>,
    ) -> QueuePart {
        let thousandths = |number: u32| f64::from(number) / 1e3;
        let name = Some(name.to_owned());
        let part = QueuePart {
            reason: place.reason.word().to_owned(),
            origin: None,
            limit: None,
            held: None,
            places: None,
            reserved: None,
            capacity: None,
            tokens: None,
            kept: None,
            waiting: place.waiting,
            ahead: place.ahead,
            by: levels.get(usize::from(place.level)).cloned().unwrap_or_else(|| ARRIVAL.to_owned()),
            own_held: None,
            own_waiting: place.own_waiting,
            own_used: thousandths(place.own_used),
            share: place.share,
            tier: tier.cloned(),
            score: thousandths(place.score),
            next: thousandths(place.next),
            memory_seconds: thousandths(place.half_life),
            round_seconds: thousandths(place.round),
            heaviest,
        };
        match place.of {
            Scarce::Places { held, places, own_held, reserved } => {
                let reserved = (reserved > 0).then_some(reserved.into());
                let (held, places, own_held) = (Some(held), Some(places), Some(own_held));
                QueuePart { origin: name, held, places, own_held, reserved, ..part }
            }
            Scarce::Units { capacity, tokens, kept, reserved } => {
                let [capacity, tokens, kept] = [capacity, tokens, kept].map(|number| Some(thousandths(number)));
                let reserved = (reserved > 0).then(|| thousandths(reserved));
                QueuePart { limit: name, capacity, tokens, kept, reserved, ..part }
            }
        }
    }

    /// The lines for people.
    pub fn lines(&self) -> Vec<String> {
        let count = |number: u32| grouped(u64::from(number));
        let outcome = match self.reason.as_str() {
            "full" => "no queue".to_owned(),
            "pushed_out" | "rate_pushed_out" => format!("{} waited; the heaviest went", count(self.waiting)),
            _ => format!("{} waited; its time was over", count(self.waiting)),
        };
        let mut lines = vec![match (&self.origin, self.held, self.places) {
            (Some(origin), Some(held), Some(places)) => {
                format!("{origin}: {} of {} places held, {outcome}", count(held), count(places))
            }
            _ => {
                let [capacity, tokens, kept] = [self.capacity, self.tokens, self.kept].map(Option::unwrap_or_default);
                let name = self.limit.as_deref().unwrap_or_default();
                format!("{name}: {}/s, {tokens:.1} there, {kept:.0} kept for light clients, {outcome}", rate(capacity))
            }
        }];
        if let Some(reserved) = self.reserved {
            lines.push(format!("  kept for more important requests: {}", grouped(reserved.round() as u64)));
        }
        let heaviest = self.heaviest.iter().map(HeavyPart::line);
        if self.reason == "full" || self.by == ARRIVAL {
            lines.extend(heaviest);
            return lines;
        }
        let each = if self.share > 1 {
            let tier = self.tier.as_ref().map_or_else(String::new, |tier| format!(" (tier {tier})"));
            format!(", {:.1} for each of the {} clients it stands for{tier}", self.score, self.share)
        } else {
            String::new()
        };
        let held = self.own_held.map_or_else(String::new, |held| format!(" held {},", count(held)));
        lines.push(format!(
            "  its {}{held} had {} waiting, and used {:.1} lately{each}",
            self.by,
            count(self.own_waiting),
            self.own_used
        ));
        lines.push(format!(
            "  {} would have gone before it; the next to go weighed {:.1}; a use counts half after {:.0} s",
            count(self.ahead),
            self.next,
            self.memory_seconds
        ));
        lines.extend(heaviest);
        lines
    }
}
