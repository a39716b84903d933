//! The least speed of a body.
//!
//! A credit of time: waiting spends it, every byte moved earns some of it back at the least rate, and it never exceeds
//! the grace. So a peer that stalls is given up after the grace, one that creeps below the rate a little later, and one
//! that keeps the rate never. Time that passes while the other side of the proxy is the slow one is not counted, as long
//! as no bytes are asked for meanwhile. The figures are those of Apache's `mod_reqtimeout`, which has shipped them as its
//! default since 2.4 (`body=20,MinRate=500`).

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::system::timer::Alarm;

/// The least speed of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRate {
    /// The longest wait, and the most credit.
    pub grace: Duration,
    /// Bytes per second, above zero.
    pub bytes_per_second: u32,
}

/// The credit of one direction of one connection.
#[derive(Debug)]
pub struct TransferCredit {
    rate: MinRate,
    credit: Duration,
    waiting_since: Option<Instant>,
    /// How long the whole transfer may take.
    whole: Option<Duration>,
    /// When that is over; set by the first bytes or the first wait.
    ends: Option<Instant>,
    alarm: Alarm,
}

impl TransferCredit {
    /// Returns a full credit. `whole`: how long the whole transfer may take, however fast it goes.
    pub fn new(rate: MinRate, whole: Option<Duration>) -> TransferCredit {
        TransferCredit { rate, credit: rate.grace, waiting_since: None, whole, ends: None, alarm: Alarm::default() }
    }

    /// Restores the full credit for another transfer.
    pub fn restart(&mut self) {
        self.credit = self.rate.grace;
        self.waiting_since = None;
        self.ends = None;
    }

    /// Returns whether the time for the whole transfer is over. It begins with the first call of this or of
    /// [`TransferCredit::poll_wait`]; without such a time the clock is not read.
    pub fn is_over(&mut self) -> bool {
        self.whole.is_some_and(|whole| {
            let now = Instant::now();
            now >= *self.ends.get_or_insert_with(|| now + whole)
        })
    }

    /// Earns credit for bytes that moved.
    pub fn progressed(&mut self, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.credit = self.credit.saturating_sub(since.elapsed());
        } else if self.credit == self.rate.grace {
            return;
        }
        let earned_nanos = (bytes as u64).saturating_mul(1_000_000_000) / u64::from(self.rate.bytes_per_second.max(1));
        self.credit = self.credit.saturating_add(Duration::from_nanos(earned_nanos)).min(self.rate.grace);
    }

    /// Spends credit while no bytes move. Ready means that the credit is used up, or that the transfer
    /// [is over](TransferCredit::is_over).
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let mut deadline = since + self.credit;
        if let Some(whole) = self.whole {
            deadline = deadline.min(*self.ends.get_or_insert(since + whole));
        }
        self.alarm.poll(deadline, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::time::{advance, timeout};

    const RATE: MinRate = MinRate { grace: Duration::from_secs(20), bytes_per_second: 500 };

    /// Waits up to `longest`; whether the credit ran out, and after how long.
    async fn waited(pace: &mut TransferCredit, longest: Duration) -> Option<Duration> {
        let begun = Instant::now();
        timeout(longest, poll_fn(|cx| pace.poll_wait(cx))).await.ok().map(|()| begun.elapsed())
    }

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
    }

    #[test]
    fn a_stall_ends_with_the_grace() {
        paused().block_on(async {
            let ended = waited(&mut TransferCredit::new(RATE, None), Duration::from_secs(60)).await.unwrap();
            assert!(ended >= RATE.grace && ended < RATE.grace + Duration::from_millis(5), "{ended:?}");
        });
    }

    #[test]
    fn creeping_below_the_rate_ends_and_keeping_it_does_not() {
        paused().block_on(async {
            // 100 bytes a second earn 0.2 s of credit for each second spent
            let mut slow = TransferCredit::new(RATE, None);
            let mut seconds = 0;
            while waited(&mut slow, Duration::from_secs(1)).await.is_none() {
                slow.progressed(100);
                seconds += 1;
                assert!(seconds < 60);
            }
            assert!((23..=26).contains(&seconds), "{seconds}");

            let mut steady = TransferCredit::new(RATE, None);
            for _ in 0..1000 {
                assert_eq!(waited(&mut steady, Duration::from_secs(1)).await, None);
                steady.progressed(500);
            }
        });
    }

    #[test]
    fn a_transfer_that_keeps_the_rate_still_ends_with_its_time() {
        paused().block_on(async {
            let mut steady = TransferCredit::new(RATE, Some(Duration::from_secs(100)));
            let mut seconds = 0;
            while waited(&mut steady, Duration::from_secs(1)).await.is_none() {
                assert!(!steady.is_over());
                steady.progressed(5_000);
                seconds += 1;
                assert!(seconds <= 100);
            }
            assert!(seconds >= 99 && steady.is_over(), "{seconds}");

            // and without a wait it is found by asking
            steady.restart();
            assert!(!steady.is_over());
            advance(Duration::from_secs(101)).await;
            assert!(steady.is_over());
        });
    }

    #[test]
    fn time_in_which_nobody_waits_is_free() {
        paused().block_on(async {
            let mut pace = TransferCredit::new(RATE, None);
            pace.progressed(1);
            advance(Duration::from_secs(3600)).await;
            assert_eq!(waited(&mut pace, Duration::from_secs(19)).await, None);
        });
    }

    #[test]
    fn the_next_transfer_has_full_credit() {
        paused().block_on(async {
            let mut pace = TransferCredit::new(RATE, None);
            assert_eq!(waited(&mut pace, Duration::from_secs(19)).await, None);
            pace.restart();
            assert_eq!(waited(&mut pace, Duration::from_secs(19)).await, None);
        });
    }
}
