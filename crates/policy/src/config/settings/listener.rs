//! All settings together, and those of one listener.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::connections::{AtAccept, ProxyProtocol, RefusedNetworks};
use super::http2::Protocols;
use super::{AdminPage, ClientInLog, Direct, LineFormat, ListenOn, LogTarget, MetricsPage, Redirect, Secret, Tls};
use crate::config::schema::{Connections, Drain, Http2, Log, Overload, RequestBody, RequestHead, Response, Sample};
use crate::policy::ClientList;
use crate::units::Bytes;

/// The part of the file that is not the [`Policy`](crate::policy::Policy).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// At least one, each with its name (a metric label).
    pub listeners: Vec<Listener>,
    /// Worker threads; `None` means one per core.
    pub threads: Option<usize>,
    /// How many bytes of bodies the process holds at most.
    pub max_buffered: Bytes,
    /// From when on the process refuses because it has too much to do; `None`: never.
    pub overload: Option<Overload>,
    /// Whether requests that need nothing of the framework are served without it.
    pub direct: Direct,
    /// How the process stops.
    pub drain: Drain,
    /// Where the state of limits outlives the process; `None`: nowhere.
    pub state: Option<StateFiles>,
    /// The metrics page; `None`: not served.
    pub metrics: Option<MetricsPage>,
    /// Where the admin endpoints can be read over TCP; `None`: nowhere, and the admin socket is all there is.
    pub admin: Option<AdminPage>,
    /// The access log; `None`: not written.
    pub access_log: Option<AccessLog>,
    /// The process's own log.
    pub log: Log,
    /// The key that turns client addresses into pseudonyms; `None`: one made at start, so pseudonyms do not outlive the process.
    pub client_hmac: Option<Secret>,
    /// The key before it, while gates that share limits are given a new one; another than that.
    pub previous_client_hmac: Option<Secret>,
    /// The passwords of the stores, in the order of [`Policy::stores`](crate::policy::Policy::stores); `None` for one without.
    /// They change while the process runs, as the stores do.
    pub store_passwords: Vec<Option<Secret>>,
    /// How often to look whether the files have changed; `None`: never.
    pub watch: Option<Duration>,
}

impl Settings {
    /// What the keys of shared limits are named under, and were while the key is being replaced; `None`: nothing can be shared.
    pub fn naming(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let previous = self.previous_client_hmac.as_ref();
        Some((&self.client_hmac.as_ref()?.0, previous.map(|previous| previous.0.as_slice())))
    }
}

/// Where the state of limits outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFiles {
    /// A directory of this process alone.
    pub directory: PathBuf,
    /// How often a snapshot is written at most.
    pub every: Duration,
    /// Whether a snapshot waits for the disk.
    pub fsync: bool,
}

/// A socket to listen on.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The operator's name, `main` for the short form.
    pub name: String,
    /// Where.
    pub address: ListenOn,
    /// Whether connections begin with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// How many connections it takes, and for how long.
    pub connections: Connections,
    /// Whose connections are closed at once.
    pub refuse: RefusedNetworks,
    /// Whether a limit's long penalties close connections at once.
    pub refuse_at_accept: Option<AtAccept>,
    /// How large a head may be, and how long it may take.
    pub request_head: RequestHead,
    /// How slowly a request's body may come.
    pub request_body: RequestBody,
    /// How slowly an answer may be taken.
    pub response: Response,
    /// How it does TLS; `None`: it speaks without.
    pub tls: Option<Tls>,
    /// Where its requests are sent instead of being served.
    pub redirect: Option<Redirect>,
    /// What is spoken there.
    pub protocols: Protocols,
    /// What a client may ask for that speaks HTTP/2.
    pub h2: Http2,
    /// Whose requests it refuses.
    pub deny: Arc<ClientList>,
}

impl Listener {
    /// One without TLS that serves what it takes, with the default of everything else.
    pub fn new(name: impl Into<String>, address: ListenOn) -> Listener {
        Listener {
            name: name.into(),
            address,
            proxy_protocol: ProxyProtocol::Off,
            connections: Connections::default(),
            refuse: RefusedNetworks::default(),
            refuse_at_accept: None,
            request_head: RequestHead::default(),
            request_body: RequestBody::default(),
            response: Response::default(),
            tls: None,
            redirect: None,
            protocols: Protocols::by_default(false),
            h2: Http2::default(),
            deny: Arc::default(),
        }
    }
}

/// The access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where its lines go.
    pub to: LogTarget,
    /// How a line looks.
    pub format: LineFormat,
    /// How clients appear.
    pub client: ClientInLog,
    /// Which requests are logged.
    pub sample: Sample,
}
