//! Lists of clients: `deny` of routes and listeners, `client` of matches.

use std::sync::Arc;

use super::clients::peers;
use super::context::Context;
use crate::config::read::Field;
use crate::config::schema::TrustSource;
use crate::config::shape::{Either, List};
use crate::config::span::Span;
use crate::policy::ClientList;
use crate::policy::client_list::Written;

/// Whose requests are refused.
pub fn deny(field: &Field<List<Either<String, TrustSource>>>, context: &mut Context<'_>) -> Arc<ClientList> {
    let Some(at) = field.get() else { return Arc::default() };
    client_list("`deny`", &at.value, at.span, context)
}

/// The clients of a list; `what` lists them.
pub fn client_list(
    what: &str,
    from: &List<Either<String, TrustSource>>,
    at: Span,
    context: &mut Context<'_>,
) -> Arc<ClientList> {
    let found = peers(what, from, at, false, context);
    let written = Written { networks: found.networks, unix: found.unix, files: found.files };
    Arc::new(ClientList::new(written, found.listed, found.listed_unix))
}
