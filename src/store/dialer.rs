//! How a store's servers are found, connected to and let us in.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use std::{io, mem};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value, cmd};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::fault::{is_host, meaning};
use super::slots::{Slots, most_said};
use super::wire::{Address, Wire};
use crate::limiter::sharing::StoreError;
use crate::policy::{Store, StoreMode};

/// How long making a connection may take, and asking who is where; no request waits for it.
const CONNECTING: Duration = Duration::from_secs(1);

/// What is needed to be let in, beside the policy's part.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The password of the store's user; UTF-8.
    pub password: Option<Vec<u8>>,
    /// Certificates, in PEM, of the authorities that alone may vouch for the servers; `None` for the system's. Only with TLS.
    pub authorities: Option<Vec<u8>>,
}

/// How a store's servers are reached. Connecting leaves it as it is.
pub struct Dialer {
    store: Store,
    password: Option<String>,
    tls: Option<TlsConnector>,
    /// What unfinished answers of all connections take, in bytes.
    held: Arc<AtomicUsize>,
}

impl Dialer {
    /// # Errors
    /// A password that is not UTF-8, authorities that are no certificates, no server.
    pub fn new(store: &Store, access: &Access) -> RedisResult<Dialer> {
        let wrong = |text| RedisError::from((ErrorKind::InvalidClientConfig, text));
        let password = access.password.clone().map(String::from_utf8).transpose();
        let password = password.map_err(|_| wrong("password is not UTF-8"))?;
        if store.servers.is_empty() {
            return Err(wrong("no server"));
        }
        let tls = store.tls.then(|| connector(access.authorities.as_deref())).transpose()?;
        Ok(Dialer { store: store.clone(), password, tls, held: Arc::default() })
    }

    /// Connects to the one server that there is, or that the sentinels name.
    ///
    /// # Errors
    /// There is none, or it does not let us in.
    pub async fn one(&self) -> RedisResult<Wire> {
        match (&self.store.mode, self.store.servers.first()) {
            (StoreMode::Sentinel { primary }, _) => self.server(&self.primary(primary).await?).await,
            (_, Some(server)) => self.server(server).await,
            (_, None) => Err((ErrorKind::InvalidClientConfig, "no server").into()),
        }
    }

    /// Connects to this server.
    ///
    /// # Errors
    /// It is not there, or does not let us in.
    pub async fn server(&self, address: &Address) -> RedisResult<Wire> {
        in_time(async {
            let mut wire = Wire::open(address, self.tls.as_ref(), &self.held).await?;
            let mut other = wire.clone();
            // in one go; what is said to the first is what counts
            let (login, select) = tokio::join!(maybe(&mut wire, self.login()), maybe(&mut other, self.select()));
            login.and(select).map(|()| wire)
        })
        .await
    }

    /// What is said to be let in; `None` without a password.
    fn login(&self) -> Option<Cmd> {
        let password = self.password.as_ref()?;
        let mut login = cmd("AUTH");
        if let Some(username) = &self.store.username {
            login.arg(username);
        }
        login.arg(password);
        Some(login)
    }

    fn select(&self) -> Option<Cmd> {
        let mut select = cmd("SELECT");
        select.arg(self.store.database);
        (self.store.database != 0).then_some(select)
    }

    /// The primary that most sentinels name. They are asked without a password.
    async fn primary(&self, name: &str) -> RedisResult<Address> {
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(name);
        let named = self.ask_all(|dialer, sentinel| {
            let question = question.clone();
            async move {
                let mut wire = Wire::open(&sentinel, dialer.tls.as_ref(), &dialer.held).await?;
                read_primary(wire.ask(&question).await?)
            }
        });
        let (named, faults) = named.await;
        let nobody = || (ErrorKind::MasterNameNotFoundBySentinel, "no sentinel knows this primary").into();
        let address = most_said(named.into_iter().flatten().collect());
        address.ok_or_else(|| most_telling(faults).unwrap_or_else(nobody))
    }

    /// The slots of a cluster by the word of the servers that the policy names, and let us in.
    ///
    /// # Errors
    /// None does. If one refuses the user or the password, that is what is told, even where others are not there.
    pub async fn slots(&self) -> RedisResult<Slots> {
        let read = self.ask_all(|dialer, server| async move {
            let mut wire = dialer.server(&server).await?;
            slots_of(&mut wire, &server).await
        });
        let (said, faults) = read.await;
        let nobody = || (ErrorKind::InvalidClientConfig, "no server").into();
        most_said(said).ok_or_else(|| most_telling(faults).unwrap_or_else(nobody))
    }

    /// Asks all servers of the policy at once.
    async fn ask_all<T, F>(&self, ask: impl Fn(Dialer, Address) -> F) -> (Vec<T>, Vec<RedisError>)
    where
        T: Send + 'static,
        F: Future<Output = RedisResult<T>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for server in &self.store.servers {
            asked.spawn(in_time(ask(self.clone(), server.clone())));
        }
        let (mut said, mut faults) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(answer)) => said.push(answer),
                Ok(Err(fault)) => faults.push(fault),
                Err(_) => {}
            }
        }
        (said, faults)
    }
}

impl Clone for Dialer {
    fn clone(&self) -> Dialer {
        Dialer {
            store: self.store.clone(),
            password: self.password.clone(),
            tls: self.tls.clone(),
            held: Arc::clone(&self.held),
        }
    }
}

/// Asks a server of a cluster for the slots.
///
/// # Errors
/// What it has against it; it names no servers.
pub async fn slots_of(wire: &mut Wire, server: &Address) -> RedisResult<Slots> {
    let mut question = cmd("CLUSTER");
    question.arg("SLOTS");
    let slots = Slots::read(wire.ask(&question).await?, server);
    slots.ok_or_else(|| (ErrorKind::Parse, "these are no slots of a cluster").into())
}

/// The address in what a sentinel says; `None` if it knows no such primary.
fn read_primary(said: Value) -> RedisResult<Option<Address>> {
    if said == Value::Nil {
        return Ok(None);
    }
    let (host, port): (String, u16) = redis::from_redis_value(said)?;
    match is_host(&host) {
        true => Ok(Some((host, port))),
        false => Err((ErrorKind::Parse, "a sentinel names no host").into()),
    }
}

async fn maybe(wire: &mut Wire, command: Option<Cmd>) -> RedisResult<()> {
    match command {
        Some(command) => wire.ask(&command).await.map(drop),
        None => Ok(()),
    }
}

async fn in_time<T>(work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
    timeout(CONNECTING, work).await.map_err(late)?
}

/// That somebody refuses us says more than that others are not there.
fn most_telling(mut faults: Vec<RedisError>) -> Option<RedisError> {
    let refusal = faults.iter().position(|fault| meaning(fault).store_error == StoreError::Faulty);
    let place = refusal.or(faults.len().checked_sub(1))?;
    Some(mem::take(&mut faults).swap_remove(place))
}

/// Believes servers whose certificates these authorities vouch for, or those of the system.
fn connector(authorities: Option<&[u8]>) -> RedisResult<TlsConnector> {
    let wrong = |text: &'static str, why: String| RedisError::from((ErrorKind::InvalidClientConfig, text, why));
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| wrong("authorities", error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong("authorities", error.to_string()))?;
            }
        }
        None => {
            let found = pingora::tls::load_native_certs();
            let found = found.map_err(|error| wrong("the system's certificates cannot be read", error.to_string()))?;
            // a system may carry one that is broken; it is no reason to distrust the others
            roots.add_parsable_certificates(found);
        }
    }
    if roots.is_empty() {
        return Err(wrong("no certificate to trust", "name a file with some in `ca`".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS", error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
