//! The last ten minutes of one number, a point for each second.

/// How many seconds are kept.
pub const SECONDS: usize = 600;

/// Ten minutes of a number in 2,400 bytes, from its first second to its last.
#[derive(Debug, Clone)]
pub struct Ring(Box<[f32]>);

impl Ring {
    /// One that has been zero for ten minutes.
    pub fn new() -> Ring {
        Ring(vec![0.0; SECONDS].into_boxed_slice())
    }

    /// What a second was like. Seconds may be numbered from anywhere; each takes the place of the one ten minutes before.
    pub fn set(&mut self, second: u64, value: f32) {
        if let Some(point) = self.0.get_mut(place(second)) {
            *point = value;
        }
    }

    /// Returns the last so many points up to and including `last`, the oldest first.
    pub fn until(&self, last: u64, seconds: usize) -> Vec<f32> {
        let (newer, older) = self.0.split_at_checked(place(last) + 1).unwrap_or((&self.0, &[]));
        older.iter().chain(newer).skip(SECONDS.saturating_sub(seconds)).copied().collect()
    }
}

fn place(second: u64) -> usize {
    // the remainder is below 600
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_last_ten_minutes_in_their_order() {
        let mut ring = Ring::new();
        for second in 0..1_000 {
            ring.set(second, second as f32);
            let points = ring.until(second, SECONDS);
            assert_eq!(points.len(), SECONDS);
            assert_eq!(points.last(), Some(&(second as f32)));
        }
        let points = ring.until(999, SECONDS);
        assert!(points.iter().zip(400..).all(|(point, second): (&f32, u16)| *point == f32::from(second)));
    }

    #[test]
    fn before_the_first_second_there_was_nothing() {
        let mut ring = Ring::new();
        ring.set(7, 3.0);
        let points = ring.until(7, SECONDS);
        assert_eq!((points[598], points[599]), (0.0, 3.0));
        assert_eq!(points.iter().filter(|point| **point != 0.0).count(), 1);
    }
}
