//! What became of the requests that were forwarded: by class of the answer's status, and how long answers took to begin.

use serde::{Deserialize, Serialize};

/// From this share of failed requests on, 0 to 1, an origin or a route is said to fail: on the page, in `top` and in `status`.
pub const FAILS: f64 = 0.05;

/// Requests that were forwarded and have ended, by what came of them. A request whose client left before the answer is in none: it says
/// nothing of the origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answers {
    /// The connection was switched to another protocol.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// Answered 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// Answered 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// Answered 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// Answered 500 or above.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// No attempt brought a usable answer.
    pub failed: u64,
    /// The answer broke off after its head was passed on.
    pub cut: u64,
}

/// What came of one forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The origin answered with this status.
    Status(u16),
    /// No attempt brought a usable answer.
    Failed,
    /// The answer broke off after its head was passed on.
    Cut,
}

impl Ending {
    /// Returns the position among [`Answers::WORDS`].
    pub fn index(self) -> usize {
        match self {
            Ending::Status(0..=199) => 0,
            Ending::Status(200..=299) => 1,
            Ending::Status(300..=399) => 2,
            Ending::Status(400..=499) => 3,
            Ending::Status(500..) => 4,
            Ending::Failed => 5,
            Ending::Cut => 6,
        }
    }
}

impl Answers {
    /// The words of the counts, in the order of [`Answers::counts`].
    pub const WORDS: [&'static str; 7] = ["1xx", "2xx", "3xx", "4xx", "5xx", "failed", "cut"];

    /// Returns the answers with these counts.
    pub fn of(counts: [u64; 7]) -> Answers {
        let [informational, success, redirection, client_error, server_error, failed, cut] = counts;
        Answers { informational, success, redirection, client_error, server_error, failed, cut }
    }

    /// Returns the counts in the order of [`Answers::WORDS`].
    pub fn counts(&self) -> [u64; 7] {
        let Answers { informational, success, redirection, client_error, server_error, failed, cut } = *self;
        [informational, success, redirection, client_error, server_error, failed, cut]
    }

    /// Returns how many there are.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Returns how many requests got no whole answer.
    pub fn unanswered(&self) -> u64 {
        self.failed + self.cut
    }

    /// Returns how many requests the origin failed: answered 5xx, or not as a whole.
    pub fn errors(&self) -> u64 {
        self.server_error + self.unanswered()
    }

    /// Returns the share that the origin failed, 0 to 1; `None` without answers.
    pub fn error_share(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.errors() as f64 / total as f64)
    }
}

impl std::ops::AddAssign for Answers {
    fn add_assign(&mut self, more: Answers) {
        let mut counts = self.counts();
        counts.iter_mut().zip(more.counts()).for_each(|(count, more)| *count += more);
        *self = Answers::of(counts);
    }
}

/// The last seconds of what was forwarded to an origin, or by a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// Length of the window; 10 once the process is as old.
    pub seconds: u64,
    /// Requests that ended in it.
    pub answers: Answers,
    /// The time that half of them did not exceed until the answer's head, or the failure; `None` without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<f64>,
    /// The same of 99 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

impl Recent {
    /// Returns a count of the window per second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_one_word_and_errors_are_what_the_origin_failed() {
        let endings = [101, 204, 304, 404, 503].map(Ending::Status);
        let mut counts = [0; 7];
        for ending in endings.into_iter().chain([Ending::Failed, Ending::Cut, Ending::Status(999)]) {
            counts[ending.index()] += 1;
        }
        let answers = Answers::of(counts);
        assert_eq!(counts, [1, 1, 1, 1, 2, 1, 1]);
        assert_eq!((answers.total(), answers.errors(), answers.unanswered()), (8, 4, 2));
        assert_eq!((answers.error_share(), Answers::default().error_share()), (Some(0.5), None));
        let json = serde_json::to_value(answers).unwrap();
        for (word, count) in Answers::WORDS.iter().zip(counts) {
            assert_eq!(json[word], count, "{word}");
        }
    }
}
