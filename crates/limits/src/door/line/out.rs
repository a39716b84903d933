//! Who goes without: pushed out of a full line, or waiting no longer.

use std::time::Duration;

use super::{Group, Left, Line, Seen, Standing, Ticket};
use crate::units::{Criticality, Timestamp};

/// For so long nobody who waits comes to claim more than the one who claimed most, but for what is given to them meanwhile.
const SEEN: Duration = Duration::from_millis(1);

impl Line {
    /// Takes out who is pushed out: of the least important class the one with the greatest claim, of equal ones the newest. Says the
    /// greatest score of all that waited, too.
    ///
    /// A flood that meets a full line is mostly such: whoever came last, and claims no less than the one who claimed most a moment ago, is
    /// pushed out without a look at the others. With 4,096 that wait that is 2 µs for 37 (`cargo bench -p tidegate-limits --bench door`).
    pub(in crate::door) fn push_out(&mut self, last: Option<Ticket>, now: Timestamp) -> Option<(Left, f32)> {
        let fresh = self.seen.filter(|seen| now.since(seen.at) < SEEN);
        if let (Some(ticket), Some(seen)) = (last.filter(|ticket| self.waits(*ticket)), fresh) {
            let group = self.groups.get(self.waiters.get(ticket.slot as usize)?.group as usize)?;
            if (group.criticality, self.claim(group)) >= seen.most {
                let top = seen.top.max(self.score(group));
                return self.pushed(ticket, seen.least).map(|left| (left, top));
            }
        }
        let mut worst: Option<(Criticality, f32, u64, u32)> = None;
        let (mut top, mut least): (f32, f32) = (0.0, f32::INFINITY);
        for (_, group) in self.groups() {
            let score = self.score(group);
            (top, least) = (top.max(score), least.min(score));
            let claim = self.claim(group);
            if worst.is_some_and(|(class, most, ..)| (group.criticality, claim) < (class, most)) {
                continue;
            }
            let serial = self.waiters.get(group.last as usize).map_or(0, |waiter| waiter.serial);
            if worst.is_none_or(|(class, most, newest, _)| (group.criticality, claim, serial) > (class, most, newest)) {
                worst = Some((group.criticality, claim, serial, group.last));
            }
        }
        let (class, claim, serial, slot) = worst?;
        self.seen = Some(Seen { at: now, most: (class, claim), least, top });
        self.pushed(Ticket { slot, serial }, least).map(|left| (left, top))
    }

    fn claim(&self, group: &Group) -> f32 {
        self.nodes.claim(&group.nodes, &group.parts, self.held_counts.max(f32::MIN_POSITIVE))
    }

    fn pushed(&mut self, ticket: Ticket, least: f32) -> Option<Left> {
        let left = self.leave(ticket)?;
        let standing = Standing { next: least, ahead: left.standing.line.saturating_sub(1), ..left.standing };
        Some(Left { standing, ..left })
    }

    /// Takes out a request that waits no longer. Says the greatest score of all that waited, too.
    pub(in crate::door) fn give_up(&mut self, ticket: Ticket) -> Option<(Left, f32)> {
        let own = self.waiters.get(ticket.slot as usize)?.group;
        let order = |group: &Group| (group.criticality, self.score(group));
        let own = self.groups.get(own as usize).map(order);
        let (mut top, mut least, mut ahead): (f32, f32, u32) = (0.0, f32::INFINITY, 0);
        for (_, group) in self.groups() {
            let score = self.score(group);
            (top, least) = (top.max(score), least.min(score));
            if Some((group.criticality, score)) < own {
                ahead += group.count;
            }
        }
        let left = self.leave(ticket)?;
        Some((Left { standing: Standing { next: least, ahead, ..left.standing }, ..left }, top))
    }
}
