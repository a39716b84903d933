//! How a request stood in the queue of its origin when it went without a place.

use serde::{Deserialize, Serialize};

use crate::engine::NoPlace;
use crate::human::grouped;

/// The queue before an origin, and this request in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuePart {
    /// `full`, `pushed_out` or `queue_timeout`.
    pub reason: String,
    /// The origin.
    pub origin: String,
    /// How many places were held.
    pub held: u32,
    /// How many there were.
    pub places: u32,
    /// How many requests waited.
    pub waiting: u32,
    /// What weighed most: the request's key, or a network around it.
    pub by: String,
    /// How many places that held.
    pub own_held: u32,
    /// How many requests of it waited.
    pub own_waiting: u32,
    /// How many places it used on average over `memory_seconds`.
    pub own_used: f64,
    /// For how many clients it stands.
    pub share: u32,
    /// What it held and used for each of those.
    pub score: f64,
    /// The same of the request that was next.
    pub next: f64,
    /// The time in which a use counts half.
    pub memory_seconds: f64,
    /// The time in which all that were there have been served once.
    pub round_seconds: f64,
}

impl QueuePart {
    /// Of an origin, by the words for the levels of its queue.
    pub fn new(place: &NoPlace, origin: &str, levels: &[String]) -> QueuePart {
        let thousandths = |number: u32| f64::from(number) / 1e3;
        QueuePart {
            reason: place.reason.word().to_owned(),
            origin: origin.to_owned(),
            held: place.held,
            places: place.places,
            waiting: place.waiting,
            by: levels.get(usize::from(place.level)).cloned().unwrap_or_else(|| "arrival".to_owned()),
            own_held: place.own_held,
            own_waiting: place.own_waiting,
            own_used: thousandths(place.own_used),
            share: place.share,
            score: thousandths(place.score),
            next: thousandths(place.next),
            memory_seconds: thousandths(place.half_life),
            round_seconds: thousandths(place.round),
        }
    }

    /// The lines for people.
    pub fn lines(&self) -> Vec<String> {
        let count = |number: u32| grouped(u64::from(number));
        let outcome = match self.reason.as_str() {
            "full" => "no queue".to_owned(),
            "pushed_out" => format!("{} waited; the heaviest went", count(self.waiting)),
            _ => format!("{} waited; its time was over", count(self.waiting)),
        };
        let mut lines =
            vec![format!("{}: {} of {} places held, {outcome}", self.origin, count(self.held), count(self.places))];
        if self.reason == "full" || self.by == "arrival" {
            return lines;
        }
        let each = if self.share > 1 {
            format!(", {:.1} for each of the {} clients it stands for", self.score, self.share)
        } else {
            String::new()
        };
        lines.push(format!(
            "  its {} held {}, had {} waiting, and used {:.1} lately{each}",
            self.by,
            count(self.own_held),
            count(self.own_waiting),
            self.own_used
        ));
        lines.push(format!(
            "  the next to go weighed {:.1}; a use counts half after {:.0} s",
            self.next, self.memory_seconds
        ));
        lines
    }
}
