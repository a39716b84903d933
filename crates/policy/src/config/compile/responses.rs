//! `responses`.

use http::StatusCode;

use super::checks::number;
use crate::config::fault::Faults;
use crate::config::read::Field;
use crate::config::scalar::Count;
use crate::config::schema;
use crate::policy::Responses;

/// What clients are told; the defaults are those of [`Responses`].
pub fn responses(field: &Field<schema::Responses>, faults: &mut Faults) -> Responses {
    let default = Responses::default();
    let Some(written) = field.value() else { return default };
    let mut refusal = |field: Option<&Field<Count>>, default: StatusCode| {
        let Some(field) = field else { return default };
        let status = number(field, 400..=599, u64::from(default.as_u16()), faults);
        u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(default)
    };
    let limited = written.limited.value();
    Responses {
        limited_status: refusal(limited.map(|limited| &limited.status), default.limited_status),
        overloaded_status: refusal(
            written.overloaded.value().map(|overloaded| &overloaded.status),
            default.overloaded_status,
        ),
        fields: written.ratelimit_headers.value().copied().unwrap_or(default.fields),
        report: written.report.value().copied().unwrap_or(default.report),
        expose: written.expose.value().copied().unwrap_or(default.expose),
        retry_jitter: written
            .retry_after
            .value()
            .and_then(|retry| retry.jitter.value().copied())
            .unwrap_or(default.retry_jitter),
        limited_format: limited.and_then(|limited| limited.format.value().copied()).unwrap_or(default.limited_format),
        decision_id: written.decision_id.value().copied().unwrap_or(default.decision_id),
        proxy_name: written.proxy_name.value().map(|name| name.0.clone()),
    }
}
