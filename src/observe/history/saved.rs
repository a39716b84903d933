//! The history for the process that takes this one's place: the points of every name. What the counters stood at is not in it, as those
//! of the other process begin at zero, and neither are the last seconds in detail.

use std::io;

use super::heat::{COLUMNS, Column, Heat};
use super::ring::{Ring, SECONDS};
use super::{History, Kept, Limit, Origin, Route, second};
use crate::saved::{Fault, Reader, Writer};
use crate::units::Timestamp;

/// No policy has more names of a sort.
const MOST_NAMES: u64 = 65_536;

/// The longest name.
const LONGEST_NAME: usize = 1_024;

impl History {
    /// Writes everything that is kept.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>) -> io::Result<()> {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        to.number(kept.first.unwrap_or(Timestamp::ZERO).nanos())?;
        to.number(last)?;
        to.number(kept.routes.len() as u64)?;
        for (name, route) in &kept.routes {
            to.text(name)?;
            save_rings(&route.rings, last, to)?;
        }
        to.number(kept.limits.len() as u64)?;
        for (name, limit) in &kept.limits {
            to.text(name)?;
            save_rings(&limit.rings, last, to)?;
        }
        to.number(kept.origins.len() as u64)?;
        for (name, origin) in &kept.origins {
            to.text(name)?;
            save_rings(&origin.rings, last, to)?;
            for count in origin.heat.until(last).iter().flatten() {
                to.bytes(&count.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Puts what was [saved](History::save) before what has been noted here, by stamps of the same axis.
    ///
    /// # Errors
    /// A damaged stream; some names may have their past then, and others not.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        let mut kept = self.kept.lock();
        let Kept { first, last: here, routes, limits, origins } = &mut *kept;
        let (begun, last) = (Timestamp::from_nanos(from.number()?), from.number()?);
        let here = here.map_or(last, second);
        for _ in 0..from.number_up_to(MOST_NAMES)? {
            let route = routes.entry(from.text(LONGEST_NAME)?).or_insert_with(Route::new);
            restore_rings(&mut route.rings, (last, here), from)?;
        }
        for _ in 0..from.number_up_to(MOST_NAMES)? {
            let limit = limits.entry(from.text(LONGEST_NAME)?).or_insert_with(Limit::new);
            restore_rings(&mut limit.rings, (last, here), from)?;
        }
        for _ in 0..from.number_up_to(MOST_NAMES)? {
            let origin = origins.entry(from.text(LONGEST_NAME)?).or_insert_with(Origin::new);
            restore_rings(&mut origin.rings, (last, here), from)?;
            let mut columns = [Column::default(); COLUMNS];
            for count in columns.iter_mut().flatten() {
                let mut bytes = [0; 4];
                from.bytes(&mut bytes)?;
                *count = u32::from_le_bytes(bytes);
            }
            origin.heat = Heat::of(last, &columns);
        }
        *first = Some(first.map_or(begun, |first| first.min(begun)));
        Ok(())
    }
}

fn save_rings(rings: &[Ring], last: u64, to: &mut Writer<'_>) -> io::Result<()> {
    rings.iter().flat_map(|ring| ring.until(last, SECONDS)).try_for_each(|point| to.bytes(&point.to_le_bytes()))
}

/// Reads the points up to the second `last`, and leaves those out that are older than ten minutes `here`.
fn restore_rings(rings: &mut [Ring], (last, here): (u64, u64), from: &mut Reader<'_>) -> Result<(), Fault> {
    let seconds = SECONDS as u64;
    for ring in rings {
        for back in (0..seconds).rev() {
            let mut bytes = [0; 4];
            from.bytes(&mut bytes)?;
            let second = last.checked_sub(back).filter(|second| second + seconds > here && *second <= here);
            if let Some(second) = second {
                ring.set(second, f32::from_le_bytes(bytes));
            }
        }
    }
    Ok(())
}
