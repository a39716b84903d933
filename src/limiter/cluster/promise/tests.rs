use std::time::Duration;

use super::*;

fn rate(events: u32, period: Duration, burst: u32) -> Promise {
    Promise::Rate { rate: Rate::new(events, period).unwrap(), burst }
}
