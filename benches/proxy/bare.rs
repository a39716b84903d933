//! The floor: Pingora 0.9.1 as its user guide sets it up, on mimalloc as tidegate's binary, with the edits that every proxy makes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{StatusCode, header};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::listeners::tls::TlsSettings;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

/// Serves until the process ends, if `arguments` say so: `pass LISTEN ORIGIN WORKERS [FOLDER h1|h2]` forwards everything, over TLS with the
/// certificate of that folder; `refuse LISTEN BYTES` answers 429 with a body of so many bytes.
pub fn serve(arguments: &[&str]) -> Option<()> {
    match arguments {
        ["pass", listen, origin, workers, tls @ ..] => {
            let proxy =
                PassThrough { origin: origin.parse().ok()?, proto: if tls.is_empty() { "http" } else { "https" } };
            run(proxy, listen, workers.parse().ok()?, tls)
        }
        ["refuse", listen, bytes] => run(RefuseAll::new(bytes.parse().ok()?)?, listen, 1, &[]),
        _ => None,
    }
}

fn run<P>(proxy: P, listen: &str, threads: usize, tls: &[&str]) -> Option<()>
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    crate::parent::end_with_parent();
    let conf = ServerConf { threads, upstream_keepalive_pool_size: 512, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, proxy);
    match tls {
        [folder, protocol] => {
            let mut settings =
                TlsSettings::intermediate(&format!("{folder}/cert.pem"), &format!("{folder}/key.pem")).ok()?;
            if *protocol == "h2" {
                settings.enable_h2();
            }
            service.add_tls_with_settings(listen, None, settings);
        }
        _ => service.add_tcp(listen),
    }
    server.add_service(service);
    server.run_forever();
}

/// Every request to the one origin.
struct PassThrough {
    origin: SocketAddr,
    proto: &'static str,
}

#[async_trait]
impl ProxyHttp for PassThrough {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        upstream: &mut RequestHeader,
        _ctx: &mut (),
    ) -> Result<()> {
        let head = session.req_header();
        let mut client = String::with_capacity(64);
        if let Some(before) = head.headers.get("x-forwarded-for").and_then(|value| value.to_str().ok()) {
            let _ = write!(client, "{before}, ");
        }
        if let Some(peer) = session.client_addr().and_then(|address| address.as_inet()) {
            let _ = write!(client, "{}", peer.ip());
        }
        let host = head.headers.get(header::HOST).map(|host| host.as_bytes());
        let host = host.or_else(|| head.uri.authority().map(|authority| authority.as_str().as_bytes()));
        let host =
            http::HeaderValue::from_bytes(host.unwrap_or_default()).unwrap_or(http::HeaderValue::from_static(""));
        upstream.insert_header("X-Forwarded-For", client)?;
        upstream.insert_header("X-Forwarded-Proto", self.proto)?;
        upstream.insert_header("X-Forwarded-Host", host.clone())?;
        upstream.insert_header("Host", host)
    }
}

/// Every request refused where Pingora's users refuse: in `request_filter`, with a head prepared once.
struct RefuseAll {
    head: Arc<ResponseHeader>,
    body: Bytes,
}

impl RefuseAll {
    fn new(bytes: usize) -> Option<RefuseAll> {
        let mut head = ResponseHeader::build(StatusCode::TOO_MANY_REQUESTS, Some(3)).ok()?;
        head.insert_header("Retry-After", "60").ok()?;
        head.insert_header("Content-Length", bytes.to_string()).ok()?;
        head.insert_header("Content-Type", "application/problem+json").ok()?;
        Some(RefuseAll { head: Arc::new(head), body: Bytes::from(vec![b' '; bytes]) })
    }
}

#[async_trait]
impl ProxyHttp for RefuseAll {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        session.write_response_header(Box::new((*self.head).clone()), false).await?;
        session.write_response_body(Some(self.body.clone()), true).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Err(pingora::Error::new_str("every request has been refused"))
    }
}
