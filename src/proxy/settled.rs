//! The fields of a request as they are judged, which is as the origin gets them.
//!
//! It is done to the head itself, once, before the decision: what a stranger may not tell decides nothing and goes no further, and
//! what the gate knows of the connection counts as the origin reads it. `X-Forwarded-For` and `Forwarded` are written for the origin
//! later, of the client that was found ([`edits`](super::edits)).

use http::{HeaderMap, HeaderName, HeaderValue};
use pingora::http::RequestHeader;
use pingora::proxy::Session;

use super::downstream::connection_info;
use crate::client::Client;
use crate::client::trust::X_FORWARDED_PROTO;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::tls::secure::ClientIdentity;
use crate::engine::Snapshot;
use crate::request::Peer;

/// A head before it is judged: the framework's, or only those fields of it that a decision may read.
pub trait Head {
    /// Its fields.
    fn fields(&self) -> &HeaderMap;

    /// Puts one line in the place of all lines of this field, which is written so.
    ///
    /// # Errors
    /// A line that no head can hold.
    fn put(&mut self, name: HeaderName, written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()>;

    /// Takes all lines of a field out.
    fn take_out(&mut self, name: &HeaderName);
}

impl Head for RequestHeader {
    fn fields(&self) -> &HeaderMap {
        &self.headers
    }

    fn put(&mut self, name: HeaderName, written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()> {
        match written {
            Some(written) => self.insert_header(written, line),
            None => self.insert_header(name, line),
        }
    }

    fn take_out(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }
}

impl Head for HeaderMap {
    fn fields(&self) -> &HeaderMap {
        self
    }

    fn put(&mut self, name: HeaderName, _written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()> {
        self.insert(name, line);
        Ok(())
    }

    fn take_out(&mut self, name: &HeaderName) {
        self.remove(name);
    }
}

/// Makes of a session's head what is judged; says whose request it is, where that is still asked.
///
/// # Errors
/// As for [`before_judging`].
pub fn session(session: &mut Session, snapshot: &Snapshot, asked: bool) -> pingora::Result<Option<Client>> {
    let info = connection_info(session);
    let peer = info.map_or(Peer::Unix, |info| info.peer);
    let identity = info.and_then(ConnectionInfo::identity).cloned();
    let client = if asked { snapshot.client(peer, &session.req_header().headers) } else { None };
    before_judging(session.req_header_mut(), snapshot, peer, identity.as_ref())?;
    Ok(client)
}

/// Takes out what the peer may not tell and all lines but one of fields of which one is read, and puts in what the origin cannot see
/// itself: that the client came by TLS (`client`: what it showed of itself there), and with which certificate (RFC 9440). What a
/// trusted peer says of the client's own connection stays; whose certificate was seen here, nobody else can say.
///
/// # Errors
/// None that lines which came in a head can cause.
pub fn before_judging(
    head: &mut impl Head,
    snapshot: &Snapshot,
    peer: Peer,
    client: Option<&ClientIdentity>,
) -> pingora::Result<()> {
    for (name, line) in snapshot.fields().edits(&snapshot.policy().clients, peer, head.fields()) {
        match line {
            Some(line) => head.put(name, None, line)?,
            None => head.take_out(&name),
        }
    }
    let Some(client) = client else { return Ok(()) };
    if !head.fields().contains_key(&X_FORWARDED_PROTO) {
        head.put(X_FORWARDED_PROTO, Some("X-Forwarded-Proto"), HeaderValue::from_static("https"))?;
    }
    const CERTIFICATE: HeaderName = HeaderName::from_static("client-cert");
    if *client != ClientIdentity::NotAsked {
        head.take_out(&CERTIFICATE);
        head.take_out(&HeaderName::from_static("client-cert-chain"));
    }
    if let ClientIdentity::Verified(certificate) = client {
        head.put(CERTIFICATE, Some("Client-Cert"), certificate.clone())?;
    }
    Ok(())
}
