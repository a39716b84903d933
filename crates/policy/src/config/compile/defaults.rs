//! `defaults`: what routes, origins and limits fall back on.

use std::time::Duration;

use super::checks::span;
use crate::config::fault::Faults;
use crate::config::read::Field;
use crate::config::schema::{self, File};
use crate::limiter::sharing::OnStoreError;
use crate::policy::{Mode, Timeouts};
use crate::units::Bytes;

/// What routes, origins and limits fall back on.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub timeouts: Timeouts,
    pub body_limit: Option<Bytes>,
    pub mode: Mode,
    pub on_store_error: OnStoreError,
}

/// Those of the file.
pub fn defaults(file: &File, faults: &mut Faults) -> Defaults {
    // enough for forms and photographs; uploads say so themselves
    const BODY_LIMIT: Bytes = Bytes(10 << 20);
    let Some(defaults) = file.defaults.value() else {
        return Defaults {
            timeouts: Timeouts::default(),
            body_limit: Some(BODY_LIMIT),
            mode: Mode::Enforce,
            on_store_error: OnStoreError::Local,
        };
    };
    Defaults {
        timeouts: timeouts(&defaults.timeouts, Timeouts::default(), faults),
        body_limit: defaults.body_limit.value().map_or(Some(BODY_LIMIT), |limit| limit.0),
        mode: defaults.mode.value().copied().unwrap_or(Mode::Enforce),
        on_store_error: defaults.on_store_error.value().copied().unwrap_or(OnStoreError::Local),
    }
}

/// Timeouts over those of the level above.
pub fn timeouts(field: &Field<schema::Timeouts>, above: Timeouts, faults: &mut Faults) -> Timeouts {
    let Some(own) = field.value() else { return above };
    const LONGEST: Duration = Duration::from_secs(86_400);
    let range = Duration::from_millis(1)..=LONGEST;
    let mut over = |field: &Field<Duration>, above| span(field, range.clone(), above, faults);
    Timeouts {
        connect: over(&own.connect, above.connect),
        read: over(&own.read, above.read),
        write: over(&own.write, above.write),
        idle: over(&own.idle, above.idle),
        request: over(&own.request, above.request),
        attempt: own
            .r#try
            .is_present()
            .then(|| over(&own.r#try, above.attempt.unwrap_or(above.request)))
            .or(above.attempt),
        body: match above.body {
            None if own.body.get().is_none() => None,
            above => Some(over(&own.body, above.unwrap_or(LONGEST))),
        },
    }
}
