//! The process that takes this one's place, as requests of this one see it: it has the state of limits, so it is asked about what they cost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::engine::{Admitted, Asked, Engine, Evaluation, Holds};
use crate::limiter::HoldElsewhere;
use crate::units::{Cost, Timestamp};

/// How long a request waits for the other process. After that this one goes by its own state, which is that of the hand-over.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the other process is told.
#[derive(Debug)]
pub enum Told {
    /// From here on it is asked.
    Moved,
    /// Nothing follows.
    Over,
    /// A question: what a request is to be charged.
    Ask {
        /// Which one.
        number: u32,
        /// What it asks.
        asked: Vec<Asked>,
        /// As of when.
        at: Timestamp,
        /// Where the answers go.
        answer: oneshot::Sender<Vec<Admitted<Box<dyn HoldElsewhere>>>>,
    },
    /// Something about what a request holds there.
    Held {
        /// The question that it holds it by.
        number: u32,
        /// Which of its answers.
        position: u8,
        /// What.
        what: HeldTold,
    },
}

/// What becomes of something that a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldTold {
    /// It was passed on to the origin.
    Sent,
    /// It was not served after all.
    Failed,
    /// Its answer has come, and costs so much.
    Settled(Timestamp, Option<Cost>),
    /// It has ended.
    Dropped,
}

/// The other process.
#[derive(Debug)]
pub struct Successor {
    tell: mpsc::UnboundedSender<Told>,
    next: AtomicU32,
}

impl Successor {
    /// Makes it of what carries words there. As many wait there as requests are under way.
    pub fn new(tell: mpsc::UnboundedSender<Told>) -> Successor {
        Successor { tell, next: AtomicU32::new(0) }
    }

    /// Asks about a request that was admitted here; what it holds here is given back for what it holds there. If the other process does not
    /// answer, all stays as it is.
    pub async fn admit(&self, engine: &Engine, evaluation: &mut Evaluation, holds: &mut Holds, at: Timestamp) {
        let asked = engine.to_ask(evaluation);
        if asked.is_empty() {
            return;
        }
        // Relaxed: any number will do that no other has
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, heard) = oneshot::channel();
        let ask = Told::Ask { number, asked: asked.clone(), at, answer };
        // one that has gone is silent
        let _ = self.tell.send(ask);
        if let Ok(Ok(answers)) = timeout(PATIENCE, heard).await {
            engine.admitted_elsewhere(evaluation, &asked, answers, holds, at);
        }
    }
}

/// Something that a request holds in the other process.
#[derive(Debug)]
pub struct HeldThere {
    /// Whether it is a place.
    pub is_place: bool,
    /// What is held back for it.
    pub cost: Cost,
    /// The question that it is held by, and which of its answers.
    pub of: (u32, u8),
    /// What carries words there.
    pub tell: mpsc::UnboundedSender<Told>,
}

impl HeldThere {
    fn tell(&self, what: HeldTold) {
        let (number, position) = self.of;
        // a process that has gone holds nothing
        let _ = self.tell.send(Told::Held { number, position, what });
    }
}

impl HoldElsewhere for HeldThere {
    fn is_place(&self) -> bool {
        self.is_place
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn sent(&mut self) {
        self.tell(HeldTold::Sent);
    }

    fn failed(&mut self) {
        self.tell(HeldTold::Failed);
    }

    fn settle(self: Box<Self>, now: Timestamp, charge: Option<Cost>) {
        self.tell(HeldTold::Settled(now, charge));
    }
}

impl Drop for HeldThere {
    fn drop(&mut self) {
        self.tell(HeldTold::Dropped);
    }
}
