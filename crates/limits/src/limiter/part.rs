//! A gate's own part of a limit whose store says nothing: one of as many as there are gates.
//!
//! A request of cost c is charged N·c to the whole limit, so N gates together admit what one would. Where N·c is more than the
//! whole limit, the request is let in by an untouched budget, and what is beyond it is owed. So a gate always has a part of one
//! request at least, and a refusal always ends.
//!
//! **Promise.** N gates together admit of one key, whose requests cost c at most:
//!
//! * of a rate, max(burst, N·c) + rate·τ in every interval of length τ;
//! * of a quota, max(`max`, N·c) per window;
//! * of places, max(`max`, N) at once.
//!
//! *Proof* for the rate. One gate's bucket holds `burst`, and drains at `rate`. An admission leaves at most max(burst, N·c) in it:
//! beyond the burst only the one that found it empty. What was charged in an interval of length τ is at most what is in it at the end, and
//! what drained: max(burst, N·c) + rate·τ, of which the requests cost an N-th. Of a quota likewise, without the drain. *Its end:* a debt is
//! at most sixteen bursts, or an hour's worth if that is more ([`Limiter::charge`]). Where N·c is beyond both, the rate that comes on top
//! is greater by as much.

use std::sync::Arc;

use super::{Hold, Judgement, Limiter, Lost, Place, Probe};
use crate::units::{Cost, Timestamp};

impl Limiter {
    /// Charges a request, of at most the whole limit, to one of so many equal parts of it; `most` is the whole limit. A request whose
    /// answer decides what is charged is held back like any other, N times; so is a place. Gives what it holds then.
    ///
    /// # Errors
    /// It does not fit the part now; the judgement says when it will.
    pub fn admit_part(
        self: &Arc<Self>,
        place: &Place,
        now: Timestamp,
        cost: Cost,
        (parts, most): (u32, u32),
    ) -> Result<(Judgement, Option<Hold>), Lost> {
        let charged = cost.get().saturating_mul(parts.max(1));
        let fits = charged.min(most).max(cost.get());
        let whole = Cost::new(fits).unwrap_or(cost);
        let (judgement, mut hold) = self.commit(&Probe::unasked(place, whole), now)?;
        if let Some(hold) = &mut hold {
            hold.of_part(cost, parts);
        }
        match Cost::new(charged.saturating_sub(fits)) {
            // no request comes in between: the first step has left nothing
            Ok(beyond) if hold.is_none() => {
                self.charge(place, now, beyond);
                Ok((Judgement { next_unit: self.probe(place, now, whole).judgement.next_unit, ..judgement }, hold))
            }
            _ => Ok((judgement, hold)),
        }
    }
}
