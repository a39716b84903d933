//! Who is let in: the caps of one listener, its list of unwanted networks, long penalties, and who may speak for others.
//!
//! All of it is decided at accept, before a byte is read and before TLS, and costs a microsecond; what is refused is closed
//! without a word and counted. Where a PROXY header names the client, what is said of clients is decided anew for whom
//! it names. Peers in `trusted_proxies` speak for many clients, so neither caps nor rates per client apply to them, nor penalties.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;

use crate::client::{ClientNetwork, ProxySet, resolve};
use crate::config::settings::{AtAccept, Connections, ProxyProtocol};
use crate::limiter::{CapReached, CapsSpec, ConnectionCaps, ConnectionPlace};
use crate::observe::client_errors::About;
use crate::request::Peer;
use crate::running::process::Shared;
use crate::sketch::Seed;
use crate::units::time::saturating_nanos;
use crate::units::{OutOfRange, Timestamp};
use tidegate_http::proxy_protocol::Source;

/// Decides for one listener.
pub struct Door {
    shared: Arc<Shared>,
    listener: usize,
    proxy_protocol: ProxyProtocol,
    words: ArcSwap<Words>,
}

/// What a reload may change.
struct Words {
    unwanted: ProxySet,
    at_accept: Option<AtAccept>,
    caps: Arc<ConnectionCaps>,
}

impl Words {
    fn new(words: &Connections, caps: Arc<ConnectionCaps>) -> Words {
        let unwanted = ProxySet::new(words.refuse.networks.iter().copied(), words.refuse.unix);
        Words { unwanted, at_accept: words.refuse_at_accept.clone(), caps }
    }
}

/// A connection that was let in; its places come back when this is dropped.
#[derive(Debug, Default)]
pub struct Entry(Option<ConnectionPlace>);

/// Whether a connection has to name its client first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// It cannot: its bytes are its own.
    Unread,
    /// It may.
    Optional,
    /// It must.
    Required,
}

impl Door {
    /// That of the listener at this position in the settings; `seed` is its own.
    ///
    /// # Errors
    /// A rate that no policy file can say.
    pub fn new(shared: Arc<Shared>, listener: usize, seed: &Seed) -> Result<Door, OutOfRange> {
        let default = Connections::default();
        let words = shared.settings.listeners.get(listener).map_or(&default, |listener| &listener.connections);
        let caps = ConnectionCaps::new(&caps_of(words), seed)?;
        let proxy_protocol = words.proxy_protocol;
        let words = ArcSwap::from_pointee(Words::new(words, caps));
        Ok(Door { proxy_protocol, words, listener, shared })
    }

    /// What may come of a reload: lists, penalties and caps. Connections that are open count on.
    ///
    /// # Errors
    /// As [`Door::new`].
    pub fn follow(&self, words: &Connections, now: Timestamp) -> Result<(), OutOfRange> {
        let caps = self.words.load().caps.followed_by(&caps_of(words), now)?;
        self.words.store(Arc::new(Words::new(words, caps)));
        Ok(())
    }

    /// Whether a connection from `peer`, folded, may stay; `None`: it is to be closed at once, and was counted.
    pub fn admit(&self, peer: Peer) -> Option<Entry> {
        let mut entry = self.enter(peer).map_err(|reason| self.refused(reason, peer)).ok()?;
        self.belongs_to(&mut entry, peer).then_some(entry)
    }

    /// Whether this connection names its client first.
    pub fn header(&self, peer: Peer) -> Header {
        match self.proxy_protocol {
            // whoever may not send it was not admitted
            ProxyProtocol::Required => Header::Required,
            ProxyProtocol::Optional if self.trusts(peer) => Header::Optional,
            ProxyProtocol::Optional | ProxyProtocol::Off => Header::Unread,
        }
    }

    /// Whether the connection may stay now that a header has said whose it is.
    pub fn admit_named(&self, entry: &mut Entry, source: Source) -> bool {
        let peer = match source {
            Source::Peer => return true,
            Source::Address(address) => Peer::Ip(crate::units::prefix::fold(address)),
            Source::Unix => Peer::Unix,
        };
        if self.words.load().unwanted.contains(peer) {
            self.refused("listed", peer);
            return false;
        }
        self.belongs_to(entry, peer)
    }

    /// A connection of `peer` is closed for this reason, one of
    /// [`CONNECTION_REASONS`](crate::observe::metrics::CONNECTION_REASONS).
    pub fn refused(&self, reason: &'static str, peer: Peer) {
        self.shared.installed().metrics().connection_refused(self.listener, reason);
        self.shared.noise(self.listener).note(About::Request, reason, peer);
    }

    /// Housekeeping, about once a second.
    pub fn maintain(&self, now: Timestamp) {
        self.words.load().caps.maintain(now);
    }

    fn enter(&self, peer: Peer) -> Result<Entry, &'static str> {
        let words = self.words.load();
        if words.unwanted.contains(peer) {
            return Err("listed");
        }
        if self.proxy_protocol == ProxyProtocol::Required && !self.trusts(peer) {
            return Err("proxy_untrusted");
        }
        words.caps.enter().map(|place| Entry(Some(place))).map_err(word)
    }

    /// Counts the connection for the client, if `peer` is one.
    fn belongs_to(&self, entry: &mut Entry, peer: Peer) -> bool {
        let installed = self.shared.installed();
        let clients = &installed.snapshot().policy().clients;
        if clients.trust.believes(peer) {
            return true;
        }
        let now = self.shared.clock.now();
        let words = self.words.load();
        if let Some(AtAccept { limit, above }) = &words.at_accept
            && installed.snapshot().penalty_nanos(limit, peer, now) > saturating_nanos(*above)
        {
            self.refused("penalty", peer);
            return false;
        }
        // peers on UNIX sockets are no network, so there is nothing to tell one from another
        let (Ok(client), Some(place)) = (resolve(clients, peer, &HeaderMap::new()), &mut entry.0) else { return true };
        let ClientNetwork::Prefix(network) = client.network else { return true };
        let counted = place.belongs_to(network, now);
        if let Err(cap) = counted {
            self.refused(word(cap), peer);
        }
        counted.is_ok()
    }

    fn trusts(&self, peer: Peer) -> bool {
        self.shared.installed().snapshot().policy().clients.trust.believes(peer)
    }
}

fn caps_of(words: &Connections) -> CapsSpec {
    CapsSpec { max: words.max, per_client: words.per_client, new: words.handshakes }
}

fn word(cap: CapReached) -> &'static str {
    match cap {
        CapReached::Full => "full",
        CapReached::PerClient => "per_client",
        CapReached::New => "handshakes",
    }
}
