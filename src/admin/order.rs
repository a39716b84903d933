//! Orders to the running process: what a verb of the admin socket asks of the process's life, and the answer.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the caller may take to read the answer before the process goes on.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order by its verb.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// Replace this process by a new one.
    Upgrade {
        /// As that of [`Verb::Reload`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
    /// Reload the policy file.
    Reload {
        /// Report what would change, and change nothing.
        #[serde(default)]
        dry_run: bool,
        /// The policy file that the caller means; `None`: the one that the process was started with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
}

impl Verb {
    /// Name of the JSON member that holds the verb.
    pub const TAG: &str = "verb";
}

/// The outcome of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// The outcome in words, or the reason why it was not done.
    pub text: String,
    /// The outcome for programs, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
}

/// An order that waits for its answer.
#[derive(Debug)]
pub struct Order {
    /// The verb.
    pub verb: Verb,
    answer: oneshot::Sender<(Answer, oneshot::Sender<()>)>,
}

/// The caller's side of an order.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<(Answer, oneshot::Sender<()>)>);

impl Order {
    /// Makes an order and the receiver of its answer.
    pub fn new(verb: Verb) -> (Order, Pending) {
        let (answer, pending) = oneshot::channel();
        (Order { verb, answer }, Pending(pending))
    }

    /// Answers the order; returns when the answer has been written, so that the process may end.
    pub async fn answer(self, done: bool, text: &str) {
        self.answer_with(Answer { done, text: text.to_owned(), report: None }).await;
    }

    /// Answers the order with a report for programs.
    pub async fn answer_with(self, answer: Answer) {
        let (witness, written) = oneshot::channel();
        if self.answer.send((answer, witness)).is_ok() {
            let _ = timeout(PATIENCE, written).await;
        }
    }
}

impl Pending {
    /// Returns the answer and a guard to drop when it has been written; `None` if the order was dropped.
    pub async fn answer(self) -> Option<(Answer, oneshot::Sender<()>)> {
        self.0.await.ok()
    }
}
