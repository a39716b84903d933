//! `deny` of routes and listeners.

use std::sync::Arc;

use super::clients::{DENY, peers};
use super::context::Context;
use crate::config::read::Field;
use crate::config::schema::TrustSource;
use crate::config::shape::{Either, List};
use crate::policy::Deny;
use crate::policy::deny::Written;

/// Whose requests are refused.
pub fn deny(field: &Field<List<Either<String, TrustSource>>>, context: &mut Context<'_>) -> Arc<Deny> {
    let Some(at) = field.get() else { return Arc::default() };
    let found = peers(DENY, &at.value, at.span, false, context);
    let written = Written { networks: found.networks, unix: found.unix, files: found.files };
    Arc::new(Deny::new(written, found.listed, found.listed_unix))
}
