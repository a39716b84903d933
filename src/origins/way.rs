//! The way to one origin: how a connection to an address of it comes to stand, whatever the address is.
//!
//! Addresses are [`SocketAddr`]s everywhere else, since choosing, counting and logging need nothing more. A UNIX socket has
//! none; it goes by `0.0.0.0` and its place in the policy's list, counted from 1, which no connection could be made to
//! otherwise beside it ([`crate::config`] refuses the mixture).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use pingora::protocols::ALPN;
use pingora::protocols::tls::CustomALPN;
use prometheus::IntCounter;
use tokio::sync::watch;

use super::tls::{Tls, TlsFault};
use super::wire::Wire;
use crate::policy::{Origin, Protocol};
use crate::system::socket::Socket;
use tidegate_http::fault::AnswerFault;

/// The way to one origin.
#[derive(Debug)]
pub struct Way {
    id: u64,
    spec: Arc<Origin>,
    tls: Option<Tls>,
    /// Which of the policy's names each address was found under.
    names: ArcSwap<Vec<(SocketAddr, usize)>>,
    surplus: OnceLock<IntCounter>,
    /// What makes Pingora ask our connector. Kept, since it allocates.
    door: ALPN,
}

/// All ways there are. Pingora hands its connector a number where it would need the way; looked up once per connection.
static WAYS: LazyLock<RwLock<HashMap<u64, Weak<Way>>>> = LazyLock::new(RwLock::default);

impl Way {
    /// Reads what it needs from files.
    ///
    /// # Errors
    /// The origin's TLS files cannot be used.
    pub fn open(spec: &Arc<Origin>) -> Result<Arc<Way>, TlsFault> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let tls = spec.tls.clone().map(|tls| Tls::load(tls, spec.protocol)).transpose()?;
        let way = Arc::new(Way {
            id: COUNT.fetch_add(1, Ordering::Relaxed),
            spec: Arc::clone(spec),
            tls,
            names: ArcSwap::default(),
            surplus: OnceLock::new(),
            door: ALPN::Custom(CustomALPN::new(b"tidegate".to_vec())),
        });
        WAYS.write().insert(way.id, Arc::downgrade(&way));
        Ok(way)
    }

    /// The way with this key, while there is anybody who may send by it.
    pub fn of_key(key: u64) -> Option<Arc<Way>> {
        WAYS.read().get(&(key >> GENERATION_BITS))?.upgrade()
    }

    /// What connections to the same address may be shared by: the origin, and the TLS files that they were made under.
    pub fn key(&self) -> u64 {
        let generation = self.tls.as_ref().map_or(0, Tls::generation);
        self.id << GENERATION_BITS | generation & ((1 << GENERATION_BITS) - 1)
    }

    /// The protocol spoken.
    pub fn protocol(&self) -> Protocol {
        self.spec.protocol
    }

    /// The protocol of [`Origins`](super::connector::Origins), in the framework's form.
    pub fn door(&self) -> ALPN {
        self.door.clone()
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Makes a connection to this address. Bounded by nothing: the caller has the time-out.
    ///
    /// # Errors
    /// The system's, those of the handshake, and [`AnswerFault::Protocol`].
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Wire> {
        let socket = match self.unix_path(address) {
            Some(path) => Socket::unix(path).await?,
            None => Socket::tcp(address).await?,
        };
        let Some(tls) = &self.tls else { return Ok(Wire::Plain(socket)) };
        match tls.handshake(socket, &self.server_name(tls, address)).await {
            Ok(stream) => Ok(Wire::Tls(Box::new(stream))),
            Err(error) => {
                // nobody else knows the reason, and without it the operator has but a 502; repetitions are held back by the log
                let name = self.name_of(address);
                tracing::warn!(origin = self.spec.name, address = name, %error, "no TLS with this origin");
                Err(match error.get_ref() {
                    Some(inner) if inner.is::<AnswerFault>() => error,
                    _ => io::Error::new(io::ErrorKind::InvalidData, NoTls(error)),
                })
            }
        }
    }

    /// The address for people: a UNIX socket as the operator wrote it.
    pub fn name_of(&self, address: SocketAddr) -> String {
        let entry = unix_place(address).and_then(|place| self.spec.addresses.get(place));
        let unix = entry.filter(|entry| entry.unix_path().is_some());
        unix.map_or_else(|| address.to_string(), |entry| entry.host.clone())
    }

    /// Which entry of the policy's list each address was found under.
    pub fn name_addresses(&self, found: Vec<(SocketAddr, usize)>) {
        self.names.store(Arc::new(found));
    }

    /// Keeps what came from files fresh until shutdown.
    pub async fn keep_fresh(&self, shutdown: watch::Receiver<bool>) {
        if let Some(tls) = &self.tls {
            tls.keep_fresh(&self.spec.name, shutdown).await;
        }
    }

    /// Where bytes that belonged to no answer are counted, one for each connection given up for them.
    pub fn count_surplus(&self, counter: IntCounter) {
        // a second counter could only be the same one
        let _ = self.surplus.set(counter);
    }

    /// A connection is given up because bytes came that belong to no answer.
    pub fn note_surplus(&self) {
        if let Some(counter) = self.surplus.get() {
            counter.inc();
        }
    }

    fn unix_path(&self, address: SocketAddr) -> Option<&Path> {
        let place = unix_place(address)?;
        self.spec.addresses.get(place)?.unix_path()
    }

    fn server_name(&self, tls: &Tls, address: SocketAddr) -> String {
        if let Some(name) = &tls.spec().sni {
            return name.clone();
        }
        let names = self.names.load();
        let entry = names.iter().find(|(known, _)| *known == address).map(|(_, entry)| *entry);
        let host = entry.and_then(|entry| self.spec.addresses.get(entry)).map(|entry| entry.host.clone());
        host.unwrap_or_else(|| address.ip().to_string())
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        WAYS.write().remove(&self.id);
    }
}

/// The address that stands for the UNIX socket at this position in the policy's list.
pub fn unix_address(place: usize) -> Option<SocketAddr> {
    let port = u16::try_from(place + 1).ok()?;
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
}

fn unix_place(address: SocketAddr) -> Option<usize> {
    (address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED)).then(|| usize::from(address.port()).checked_sub(1))?
}

/// Files are read again at most once a second, and connections do not live for the eighteen hours until it comes round.
const GENERATION_BITS: u32 = 16;

/// The handshake failed.
#[derive(Debug, thiserror::Error)]
#[error("no TLS: {0}")]
pub struct NoTls(io::Error);
