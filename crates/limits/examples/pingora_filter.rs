//! A Pingora proxy whose filter holds each client to one limit: `cargo run --example pingora_filter` in the workspace.
//!
//! The proxy listens on a free port of loopback. The example sends it five requests and prints their statuses; admitted
//! ones get 502, as nothing listens at the origin.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora::prelude::{HttpPeer, Result, Server};
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use tidegate_limits::limiter::{Kind, Limiter, Place, Spec, kinds};
use tidegate_limits::sketch::{KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Cost, Rate, Timestamp};

struct Gate {
    limiter: Arc<Limiter>,
    seed: Seed,
    started: Instant,
}

#[async_trait]
impl ProxyHttp for Gate {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _: &mut ()) -> Result<bool> {
        let client = session.client_addr().and_then(|address| address.as_inet()).map(|address| address.ip());
        let mut hasher = KeyHasher::new(&self.seed);
        match client {
            Some(IpAddr::V4(address)) => hasher.part(4, &address.octets()),
            // one host has a whole /64
            Some(IpAddr::V6(address)) => hasher.part(6, &address.octets()[..8]),
            None => {}
        }
        let place = Place { key: self.limiter.own_hash().of(hasher.finish()), ..Place::default() };
        let now = Timestamp::ZERO.after(self.started.elapsed());
        if self.limiter.commit(&self.limiter.probe(&place, now, Cost::ONE), now).is_ok() {
            return Ok(false);
        }
        session.respond_error(429).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new("127.0.0.1:9", false, String::new())))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    // a server draws the 16 bytes at random
    let seed = Seed::from_bytes([7; 16]);
    let kind =
        Kind::Rate(kinds::Rate { rate: Rate::new(1, Duration::from_secs(60))?, burst: 3, memory: Bytes(4 << 20) });
    let limiter = Arc::new(Limiter::new(&Spec::new("per client", &[kind]), &seed)?);
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    std::thread::spawn(move || {
        let mut server = Server::new(None).expect("a server without options is valid");
        server.bootstrap();
        let gate = Gate { limiter, seed, started: Instant::now() };
        let mut service = http_proxy_service(&server.configuration, gate);
        service.add_tcp(&address.to_string());
        server.add_service(service);
        server.run_forever();
    });
    let statuses = (0..5).map(|_| status(address)).collect::<std::io::Result<Vec<String>>>()?;
    println!("{}", statuses.join(" "));
    assert_eq!(statuses, ["502", "502", "502", "429", "429"]);
    Ok(())
}

/// The status of one request, as soon as the proxy listens.
fn status(address: std::net::SocketAddr) -> std::io::Result<String> {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Err(_) if begun.elapsed() < Duration::from_secs(10) => std::thread::sleep(Duration::from_millis(10)),
            outcome => break outcome?,
        }
    };
    stream.write_all(b"GET / HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
}
