//! `responses`.

use http::StatusCode;

use crate::config::schema;
use crate::policy::Responses;

/// What clients are told.
pub fn responses(own: &schema::Responses) -> Responses {
    let status = |number: u32| u16::try_from(number).ok().and_then(|number| StatusCode::from_u16(number).ok());
    let limited = own.limited.value().cloned().unwrap_or_default();
    let overloaded = own.overloaded.value().cloned().unwrap_or_default();
    Responses {
        fields: own.ratelimit_headers(),
        report: own.report(),
        expose: own.expose(),
        retry_jitter: own.retry_after.value().cloned().unwrap_or_default().jitter(),
        limited_status: status(limited.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        limited_format: limited.format(),
        overloaded_status: status(overloaded.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        decision_id: own.decision_id(),
        proxy_name: own.proxy_name.value().map(|name| name.0.clone()),
    }
}

impl Default for Responses {
    fn default() -> Responses {
        responses(&schema::Responses::default())
    }
}
