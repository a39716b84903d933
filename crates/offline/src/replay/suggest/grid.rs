//! Which rates are tried: the numbers that operators write.

use std::time::Duration;

use crate::units::Rate;

const SECOND: u64 = 1;
const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;

/// Events and seconds, slowest first.
const RATES: [(u32, u64); 23] = [
    (5, HOUR),
    (10, HOUR),
    (20, HOUR),
    (30, HOUR),
    (1, MINUTE),
    (2, MINUTE),
    (5, MINUTE),
    (10, MINUTE),
    (15, MINUTE),
    (20, MINUTE),
    (30, MINUTE),
    (1, SECOND),
    (2, SECOND),
    (3, SECOND),
    (5, SECOND),
    (10, SECOND),
    (20, SECOND),
    (30, SECOND),
    (50, SECOND),
    (100, SECOND),
    (200, SECOND),
    (500, SECOND),
    (1_000, SECOND),
];

/// The rates that are tried, slowest first.
pub fn rates() -> Vec<Rate> {
    // every one is within a rate's range, as the test below asks
    RATES.iter().filter_map(|(events, seconds)| Rate::new(*events, Duration::from_secs(*seconds)).ok()).collect()
}

/// The same with a further one in its place, such as that of a limit that is judged.
pub fn rates_with(rate: Rate) -> Vec<Rate> {
    let mut rates = rates();
    if rates.iter().all(|known| known.interval_nanos() != rate.interval_nanos()) {
        // the slower, the longer its interval
        let at = rates.partition_point(|known| known.interval_nanos() > rate.interval_nanos());
        rates.insert(at, rate);
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_one_and_faster_than_the_one_before() {
        let rates = rates();
        assert_eq!(rates.len(), RATES.len());
        assert!(rates.windows(2).all(|two| two[0].interval_nanos() > two[1].interval_nanos()));
    }

    #[test]
    fn a_further_rate_finds_its_place_once() {
        let seven = Rate::new(7, Duration::from_secs(1)).unwrap();
        let with = rates_with(seven);
        assert_eq!(with.len(), RATES.len() + 1);
        assert!(with.windows(2).all(|two| two[0].interval_nanos() > two[1].interval_nanos()));
        assert_eq!(rates_with(Rate::new(60, Duration::from_secs(60)).unwrap()).len(), RATES.len(), "60/m is 1/s");
    }
}
