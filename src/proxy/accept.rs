//! Which connections are let in: caps, unwanted networks and long penalties of one listener.
//!
//! Decides at accept, before a byte is read and before TLS, in about a microsecond. A refused connection is closed without an
//! answer and counted. Where a PROXY header names the client, the rules for clients are applied again to that client. Peers in
//! `trusted_proxies` carry many clients, so caps, rates and penalties of clients do not apply to them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;

use crate::client::{ClientNetwork, ProxySet, resolve};
use crate::config::settings::{AtAccept, Connections, ListenOn, Listener, ProxyProtocol};
use crate::edge::common::{AdmissionFilter, Entry, Header};
use crate::limiter::{CapReached, CapsSpec, ConnectionCaps};
use crate::observe::client_errors::About;
use crate::request::Peer;
use crate::running::process::Process;
use crate::sketch::Seed;
use crate::units::time::saturating_nanos;
use crate::units::{OutOfRange, Timestamp};
use tidegate_http::proxy_protocol::Source;

/// The admission filter of one listener.
pub struct ListenerFilter {
    process: Arc<Process>,
    listener: usize,
    proxy_protocol: ProxyProtocol,
    rules: ArcSwap<Rules>,
}

/// The part that a reload may change.
struct Rules {
    unwanted: ProxySet,
    at_accept: Option<AtAccept>,
    caps: Arc<ConnectionCaps>,
}

impl Rules {
    fn new(listener: &Listener, caps: Arc<ConnectionCaps>) -> Rules {
        let unwanted = ProxySet::new(listener.refuse.networks.iter().copied(), listener.refuse.unix);
        Rules { unwanted, at_accept: listener.refuse_at_accept.clone(), caps }
    }
}

impl ListenerFilter {
    /// Returns the filter of the listener at this position in the settings; each needs a seed of its own.
    ///
    /// # Errors
    /// A rate that no policy file can hold.
    pub fn new(process: Arc<Process>, listener: usize, seed: &Seed) -> Result<ListenerFilter, OutOfRange> {
        let default = Listener::new("", ListenOn::Systemd(String::new()));
        let settings = process.settings.listeners.get(listener).unwrap_or(&default);
        let caps = ConnectionCaps::new(&caps_of(&settings.connections), seed)?;
        let proxy_protocol = settings.proxy_protocol;
        let rules = ArcSwap::from_pointee(Rules::new(settings, caps));
        Ok(ListenerFilter { proxy_protocol, rules, listener, process })
    }

    /// Takes lists, penalties and caps from a reloaded policy file. Open connections stay counted.
    ///
    /// # Errors
    /// As [`ListenerFilter::new`].
    pub fn follow(&self, listener: &Listener, now: Timestamp) -> Result<(), OutOfRange> {
        let caps = self.rules.load().caps.followed_by(&caps_of(&listener.connections), now)?;
        self.rules.store(Arc::new(Rules::new(listener, caps)));
        Ok(())
    }

    /// Forgets clients that have left; call it about once a second.
    pub fn maintain(&self, now: Timestamp) {
        self.rules.load().caps.maintain(now);
    }

    fn enter(&self, peer: Peer) -> Result<Entry, &'static str> {
        let rules = self.rules.load();
        if rules.unwanted.contains(peer) {
            return Err("listed");
        }
        if self.proxy_protocol == ProxyProtocol::Required && !self.trusts(peer) {
            return Err("proxy_untrusted");
        }
        rules.caps.enter().map(|place| Entry(Some(place))).map_err(word)
    }

    /// Counts the connection for its client, if `peer` is one; returns whether it may stay.
    fn belongs_to(&self, entry: &mut Entry, peer: Peer) -> bool {
        let generation = self.process.generation();
        let clients = &generation.engine().policy().clients;
        if clients.trust.believes(peer) {
            return true;
        }
        let now = self.process.clock.now();
        let rules = self.rules.load();
        if let Some(AtAccept { limit, above }) = &rules.at_accept
            && generation.engine().penalty_nanos(limit, peer, now) > saturating_nanos(*above)
        {
            self.refused("penalty", peer);
            return false;
        }
        // peers on UNIX sockets are no network, so there is nothing to tell one from another
        let (Ok(client), Some(place)) = (resolve(clients, peer, &HeaderMap::new()), &mut entry.0) else { return true };
        let ClientNetwork::Prefix(network) = client.network else { return true };
        if let Some(overload) = self.process.overload.get()
            && !overload.admits_connection(network)
        {
            self.refused("overload", peer);
            return false;
        }
        let counted = place.belongs_to(network, now);
        if let Err(cap) = counted {
            self.refused(word(cap), peer);
        }
        counted.is_ok()
    }

    fn trusts(&self, peer: Peer) -> bool {
        self.process.generation().engine().policy().clients.trust.believes(peer)
    }
}

impl AdmissionFilter for ListenerFilter {
    fn admit(&self, peer: Peer) -> Option<Entry> {
        let mut entry = self.enter(peer).map_err(|reason| self.refused(reason, peer)).ok()?;
        self.belongs_to(&mut entry, peer).then_some(entry)
    }

    fn header(&self, peer: Peer) -> Header {
        match self.proxy_protocol {
            // a peer that may not send it was not admitted
            ProxyProtocol::Required => Header::Required,
            ProxyProtocol::Optional if self.trusts(peer) => Header::Optional,
            ProxyProtocol::Optional | ProxyProtocol::Off => Header::Unread,
        }
    }

    fn admit_named(&self, entry: &mut Entry, source: Source) -> bool {
        let peer = match source {
            Source::Peer => return true,
            Source::Address(address) => Peer::Ip(crate::units::prefix::fold(address)),
            Source::Unix => Peer::Unix,
        };
        if self.rules.load().unwanted.contains(peer) {
            self.refused("listed", peer);
            return false;
        }
        self.belongs_to(entry, peer)
    }

    fn begin(&self, peer: Peer, waited: Duration) -> bool {
        let Some(overload) = self.process.overload.get() else { return true };
        overload.begun();
        // a proxy's connection carries many clients
        let stays = !overload.is_stale(waited) || matches!(peer, Peer::Unix) || self.trusts(peer);
        if !stays {
            self.refused("overload", peer);
        }
        stays
    }

    fn note_backlog(&self, share: f64) {
        if let Some(overload) = self.process.overload.get() {
            overload.note_backlog(share);
        }
    }

    fn refused(&self, reason: &'static str, peer: Peer) {
        self.process.generation().metrics().connection_refused(self.listener, reason);
        self.process.noise(self.listener).note(About::Request, reason, peer);
    }
}

fn caps_of(settings: &Connections) -> CapsSpec {
    CapsSpec { max: settings.max, per_client: settings.per_client, new: settings.handshakes }
}

fn word(cap: CapReached) -> &'static str {
    match cap {
        CapReached::Full => "full",
        CapReached::PerClient => "per_client",
        CapReached::New => "handshakes",
    }
}
