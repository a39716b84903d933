//! The baselines: pingora 0.9.1 as its user guide sets it up, doing nothing of its own.
//!
//! Both run in pingora's ordinary `Server` with one worker thread, as tidegate is told to use one. The allocator is the
//! including target's: `main.rs` takes mimalloc as tidegate's binary does, `default_allocator.rs` the system's.

use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

/// Serves one of the baselines until the process ends, if `arguments` name one.
///
/// `pass LISTEN ORIGIN` passes everything through; `refuse LISTEN BYTES` answers 429 with a body of so many bytes.
pub fn serve(arguments: &[String]) -> Option<()> {
    let [role, listen, what] = arguments else { return None };
    crate::parent::end_with_parent();
    match role.as_str() {
        "pass" => run(PassThrough { origin: what.parse().ok()? }, listen),
        "refuse" => run(RefuseAll::new(what.parse().ok()?)?, listen),
        _ => return None,
    }
    Some(())
}

fn run<P>(proxy: P, listen: &str)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let mut server = Server::new_with_opt_and_conf(None, ServerConf { threads: 1, ..ServerConf::default() });
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, proxy);
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}

/// Every request to the one origin.
struct PassThrough {
    origin: SocketAddr,
}

#[async_trait]
impl ProxyHttp for PassThrough {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }
}

/// Every request refused where pingora's users refuse: in `request_filter`, with a head prepared once.
struct RefuseAll {
    head: ResponseHeader,
    body: Bytes,
}

impl RefuseAll {
    fn new(bytes: usize) -> Option<RefuseAll> {
        let mut head = ResponseHeader::build(StatusCode::TOO_MANY_REQUESTS, Some(3)).ok()?;
        head.insert_header("Retry-After", "60").ok()?;
        head.insert_header("Content-Length", bytes.to_string()).ok()?;
        if bytes > 0 {
            head.insert_header("Content-Type", "application/problem+json").ok()?;
        }
        Some(RefuseAll { head, body: Bytes::from(vec![b' '; bytes]) })
    }
}

#[async_trait]
impl ProxyHttp for RefuseAll {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        let bodiless = self.body.is_empty();
        session.write_response_header(Box::new(self.head.clone()), bodiless).await?;
        if !bodiless {
            session.write_response_body(Some(self.body.clone()), true).await?;
        }
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Err(pingora::Error::new_str("every request has been refused"))
    }
}
