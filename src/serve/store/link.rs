//! The only file that knows the `redis` crate's kinds of client and connection.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, RedisError, RedisResult, ServerErrorKind, TlsCertificates, TlsMode, Value, cmd,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Access, MOST_ON_THEIR_WAY};
use super::fault::meaning;
use super::script::Script;
use crate::limiter::cluster::Silence;
use crate::policy::{Store, StoreMode};

/// How long making a connection may take; no request waits for it.
const CONNECTING: Duration = Duration::from_secs(1);

/// How long the `redis` crate waits for what it asks a cluster by itself. What we ask has the store's own time.
const MANAGING: Duration = Duration::from_secs(1);

/// How often a question is sent at most: a key may have moved, be on its way, and its new home may lack the script.
const MOST_SENDINGS: usize = 4;

/// How a store's servers are reached. Connecting leaves it as it is.
pub struct Dialer {
    store: Store,
    password: Option<String>,
    authorities: Option<Vec<u8>>,
}

/// A connection, shared by its clones.
#[derive(Clone)]
pub enum Link {
    /// To one server.
    One(MultiplexedConnection),
    /// To all servers of a cluster.
    Cluster(ClusterConnection),
}

impl Dialer {
    /// # Errors
    /// What the `redis` crate has against these settings: a password that is not UTF-8, authorities that cannot be read.
    pub fn new(store: &Store, access: &Access) -> RedisResult<Dialer> {
        let password = access.password.clone().map(String::from_utf8).transpose();
        let password =
            password.map_err(|_| redis::RedisError::from((ErrorKind::InvalidClientConfig, "password is not UTF-8")))?;
        let dialer = Dialer { store: store.clone(), password, authorities: access.authorities.clone() };
        // what can be known to be wrong is said now
        match &dialer.store.mode {
            StoreMode::Single => drop(dialer.single()?),
            StoreMode::Sentinel { primary } => drop(dialer.sentinel(primary)?.build()?),
            StoreMode::Cluster => drop(dialer.cluster()?),
        }
        Ok(dialer)
    }

    /// Makes a connection, within [`CONNECTING`] per server. Beside it stands what a server has against us, if it is to a cluster of
    /// which one lets us in and another does not.
    ///
    /// # Errors
    /// There is none. If a server refuses the user or the password, that is what is told, even where others are not there.
    pub async fn connect(&self) -> RedisResult<(Link, Option<RedisError>)> {
        if self.store.mode == StoreMode::Cluster {
            return match tokio::join!(self.try_connect(), self.refusal()) {
                (Ok(link), refusal) => Ok((link, refusal)),
                (Err(error), refusal) => Err(refusal.unwrap_or(error)),
            };
        }
        match self.try_connect().await {
            // the crate calls so whatever a server says to a password, that it takes no more clients too
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed && self.store.mode == StoreMode::Single => {
                Err(self.complaints().await.pop().unwrap_or(error))
            }
            other => Ok((other?, None)),
        }
    }

    /// What a server has against the user, the password or the rights, if any has. A cluster's connection does not tell: to it a
    /// server that refuses is one that is not there.
    pub async fn refusal(&self) -> Option<RedisError> {
        self.complaints().await.into_iter().find(|error| meaning(error).silence == Silence::Faulty)
    }

    /// What the servers say that do not let us in, or are not there: each that is named, and the primaries of a cluster that
    /// these know of.
    async fn complaints(&self) -> Vec<RedisError> {
        let mut known: BTreeSet<(String, u16)> = self.store.servers.iter().cloned().collect();
        let mut next: Vec<_> = known.iter().cloned().collect();
        let mut complaints = Vec::new();
        while !next.is_empty() {
            let mut asked = JoinSet::new();
            for (host, port) in next.drain(..) {
                match self.client(self.address(host, port), RedisConnectionInfo::default()) {
                    Ok(client) => {
                        _ = asked.spawn(timeout(CONNECTING, enter(client, self.login(), self.store.mode.clone())))
                    }
                    Err(error) => complaints.push(error),
                }
            }
            // who is silent complains of nothing
            while let Some(said) = asked.join_next().await {
                match said {
                    Ok(Ok(Ok(others))) => next.extend(others.into_iter().filter(|other| known.insert(other.clone()))),
                    Ok(Ok(Err(error))) => complaints.push(error),
                    Ok(Err(_)) | Err(_) => {}
                }
            }
        }
        complaints
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

    async fn try_connect(&self) -> RedisResult<Link> {
        match &self.store.mode {
            StoreMode::Single => {
                let connection = self.single()?.get_multiplexed_async_connection_with_config(&config()).await?;
                Ok(Link::One(connection))
            }
            StoreMode::Sentinel { primary } => {
                let mut sentinels = self.sentinel(primary)?.build()?;
                Ok(Link::One(sentinels.get_async_connection_with_config(&config()).await?))
            }
            StoreMode::Cluster => Ok(Link::Cluster(self.cluster()?.get_async_connection().await?)),
        }
    }

    fn single(&self) -> RedisResult<Client> {
        let address = self.addresses().next();
        let address = address.ok_or((ErrorKind::InvalidClientConfig, "no server"))?;
        let mut settings = RedisConnectionInfo::default().set_db(i64::from(self.store.database));
        if let Some(username) = &self.store.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        self.client(address, settings)
    }

    fn client(&self, address: ConnectionAddr, settings: RedisConnectionInfo) -> RedisResult<Client> {
        let info = address.into_connection_info()?.set_redis_settings(settings.set_skip_set_lib_name());
        match self.certificates() {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        }
    }

    /// The sentinels themselves are asked without a password.
    fn sentinel(&self, primary: &str) -> RedisResult<SentinelClientBuilder> {
        let mut builder = SentinelClientBuilder::new(self.addresses(), primary, SentinelServerType::Master)?
            .set_client_to_redis_db(i64::from(self.store.database));
        if let Some(username) = &self.store.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = &self.password {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(certificates) = self.certificates() {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_certificates(certificates);
        }
        Ok(builder)
    }

    fn cluster(&self) -> RedisResult<ClusterClient> {
        let mut builder = ClusterClientBuilder::new(self.addresses())
            // a retry could charge twice; redirects are followed by `Link::run`
            .retries(0)
            .connection_timeout(CONNECTING)
            .response_timeout(MANAGING)
            // says when a connection has ended, so that it is made again before it is needed
            .use_protocol(ProtocolVersion::RESP3);
        if let Some(username) = &self.store.username {
            builder = builder.username(username);
        }
        if let Some(password) = &self.password {
            builder = builder.password(password);
        }
        if let Some(certificates) = self.certificates() {
            builder = builder.tls(TlsMode::Secure).certs(certificates);
        }
        builder.build()
    }

    fn addresses(&self) -> impl Iterator<Item = ConnectionAddr> {
        self.store.servers.iter().map(|(host, port)| self.address(host.clone(), *port))
    }

    fn address(&self, host: String, port: u16) -> ConnectionAddr {
        match self.store.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        }
    }

    /// `None` without TLS.
    fn certificates(&self) -> Option<TlsCertificates> {
        self.store.tls.then(|| TlsCertificates { client_tls: None, root_cert: self.authorities.clone() })
    }
}

/// Logs in to one server, and asks one of a cluster for its primaries.
async fn enter(client: Client, login: Option<Cmd>, mode: StoreMode) -> RedisResult<Vec<(String, u16)>> {
    let mut connection = client.get_multiplexed_async_connection_with_config(&config()).await?;
    if let Some(login) = login {
        connection.req_packed_command(&login).await?.extract_error()?;
    }
    if mode != StoreMode::Cluster {
        return Ok(Vec::new());
    }
    let mut slots = cmd("CLUSTER");
    Ok(primaries(connection.req_packed_command(slots.arg("SLOTS")).await?.extract_error()?))
}

/// In what `CLUSTER SLOTS` says: ranges, each with its ends, its primary and its replicas; a server with its address first.
fn primaries(slots: Value) -> Vec<(String, u16)> {
    let items = |value| match value {
        Value::Array(items) => items.into_iter(),
        _ => Vec::new().into_iter(),
    };
    let primary = |range| {
        let mut primary = items(items(range).nth(2)?);
        let (host, port) = (primary.next()?, primary.next()?);
        let host: String = redis::from_redis_value(host).ok()?;
        // one that does not know its own address is the one that was asked
        (!host.is_empty() && host != "?").then_some((host, redis::from_redis_value(port).ok()?))
    };
    items(slots).filter_map(primary).collect()
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        // the caller has the time
        .set_response_timeout(None)
        .set_pipeline_buffer_size(MOST_ON_THEIR_WAY as usize)
}

impl Link {
    /// Runs `script` on `key`. Sent again only where the store says that it did not execute it.
    pub async fn run(&mut self, script: &Script, key: &str, arguments: &[i64], rest: &[&[u8]]) -> RedisResult<Value> {
        let mut whole = false;
        let mut ask: Option<(String, u16)> = None;
        let mut sendings = 0;
        loop {
            let command = script.command(whole, key, arguments, rest);
            let result = match (&mut *self, ask.take()) {
                (Link::One(connection), _) => connection.req_packed_command(&command).await,
                (Link::Cluster(cluster), None) => by_key(cluster, command, key).await,
                (Link::Cluster(cluster), Some((host, port))) => asking(cluster, command, host, port).await,
            };
            let error = match result.and_then(Value::extract_error) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            sendings += 1;
            match (error.kind(), &*self) {
                _ if sendings == MOST_SENDINGS => return Err(error),
                (ErrorKind::Server(ServerErrorKind::NoScript), _) => whole = true,
                // the crate has begun to read the new slots; what is sent now goes out by them
                (ErrorKind::Server(ServerErrorKind::Moved), Link::Cluster(_)) => {}
                (ErrorKind::Server(ServerErrorKind::Ask), Link::Cluster(_)) => {
                    ask = error.redirect_node().and_then(|(node, _)| host_and_port(node));
                    if ask.is_none() {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            }
        }
    }

    /// Whether it is to one server, which another may have replaced; a cluster's is told by the cluster.
    pub fn is_to_one(&self) -> bool {
        matches!(self, Link::One(_))
    }
}

async fn by_key(cluster: &mut ClusterConnection, command: Cmd, key: &str) -> RedisResult<Value> {
    let route = Route::with_key(key.as_bytes(), SlotAddr::Master);
    cluster.route_command(command, RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route))).await
}

/// To a server that takes over the key's slot, and does so only for who says `ASKING` in the same breath.
async fn asking(cluster: &mut ClusterConnection, command: Cmd, host: String, port: u16) -> RedisResult<Value> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command);
    let values = cluster.route_pipeline(pipeline, 0, 2, SingleNodeRoutingInfo::ByAddress { host, port }).await?;
    values.into_iter().nth(1).ok_or_else(|| (ErrorKind::UnexpectedReturnType, "one answer to two commands").into())
}

fn host_and_port(node: &str) -> Option<(String, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}
