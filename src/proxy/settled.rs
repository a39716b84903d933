//! The fields of a request as its origin gets them: they are judged so, too.
//!
//! Edits the head before the decision. A field that a stranger may not tell decides nothing and goes no further, and what the gate
//! knows of the connection counts as the origin reads it. `X-Forwarded-For` and `Forwarded` are written for the origin later
//! ([`edits`](super::edits)), of the client that was found.

use http::{HeaderName, HeaderValue};

use super::request_view::{RequestHead, peer_of};
use crate::client::trust::X_FORWARDED_PROTO;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::tls::secure::ClientIdentity;
use crate::engine::Engine;

/// Edits a head before it is judged.
///
/// Removes what the peer may not tell, and all lines but one of fields of which one is read. Adds what the origin cannot see itself:
/// that the client came by TLS, and with which certificate (RFC 9440). What a trusted peer says of the client's own connection
/// stays, but only the gate says which certificate it saw.
///
/// # Errors
/// None that lines which came in a head can cause.
pub fn settle(head: &mut impl RequestHead, engine: &Engine, info: Option<&ConnectionInfo>) -> pingora::Result<()> {
    for (name, line) in engine.fields().joined(head.fields()) {
        head.put(name, None, line)?;
    }
    let clients = &engine.policy().clients;
    let trusted = clients.trust.believes(peer_of(info));
    head.remove_where(|name| clients.may_be_untold(trusted, name), |name| clients.may_not_tell(trusted, name));
    let Some(client) = info.and_then(ConnectionInfo::identity) else { return Ok(()) };
    if !head.fields().contains_key(&X_FORWARDED_PROTO) {
        head.put(X_FORWARDED_PROTO, Some("X-Forwarded-Proto"), HeaderValue::from_static("https"))?;
    }
    const CERTIFICATE: HeaderName = HeaderName::from_static("client-cert");
    if *client != ClientIdentity::NotAsked {
        head.remove(&CERTIFICATE);
        head.remove(&HeaderName::from_static("client-cert-chain"));
    }
    if let ClientIdentity::Verified(certificate) = client {
        head.put(CERTIFICATE, Some("Client-Cert"), certificate.clone())?;
    }
    Ok(())
}
