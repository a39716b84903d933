//! One check of one address: a connection of its own, made as those for requests are, and on it one small request.
//!
//! Not Pingora's client: a check must not borrow a connection that requests use, nor leave one behind. What is read is bounded,
//! and so is the time for all of it together.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::way::Way;
use crate::policy::{HealthCheck, Origin, Probe, Protocol};

/// The most of an answer's head that is read, interim ones included. An answer to a check has a few hundred bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// What is read of the body, and for how long, so that the origin does not see its answer refused.
const BODY: u64 = 64 * 1024;
const BODY_TIME: Duration = Duration::from_millis(100);

/// Why a check was not passed.
#[derive(Debug)]
pub enum Failure {
    /// No connection, or it broke.
    Broken(io::Error),
    /// Not all of it in time.
    Late,
    /// Another status.
    Status(StatusCode),
    /// An answer that is no HTTP/1, or too long a head.
    Garbled,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Broken(error) => error.fmt(f),
            Failure::Late => f.write_str("no answer in time"),
            Failure::Status(status) => write!(f, "status {}", status.as_u16()),
            Failure::Garbled => f.write_str("the answer is no HTTP"),
        }
    }
}

/// Checks one address. `entry` is the position among the policy's addresses of the one that it was found by.
///
/// # Errors
/// It is not well, and why.
pub async fn check(
    origin: &Origin,
    way: &Way,
    check: &HealthCheck,
    address: SocketAddr,
    entry: usize,
) -> Result<(), Failure> {
    let asked = async {
        let mut stream = way.connect(address).await.map_err(Failure::Broken)?;
        match &check.probe {
            Probe::Tcp => Ok(()),
            Probe::Http { path, host, statuses } => {
                let own = origin.addresses.get(entry).filter(|address| address.unix_path().is_none());
                let own = own.map(|address| address.authority());
                // a UNIX socket has no name that a host could have
                let host = host.as_deref().or(own.as_deref()).unwrap_or("localhost");
                let status = match origin.protocol {
                    Protocol::Http1 => ask(&mut stream, path, host).await?,
                    Protocol::Http2 => ask_http2(stream, way.is_encrypted(), path, host).await?,
                };
                if statuses.contains(status) { Ok(()) } else { Err(Failure::Status(status)) }
            }
        }
    };
    timeout(check.timeout, asked).await.unwrap_or(Err(Failure::Late))
}

/// Asks for the path; gives the status of the final answer.
async fn ask<S>(stream: &mut S, path: &str, host: &str) -> Result<StatusCode, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidegate\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(Failure::Broken)?;
    let mut read = Vec::with_capacity(1024);
    loop {
        if let Some(status) = final_status(&read)? {
            // whatever comes of it, the answer has been given
            let _ = timeout(BODY_TIME, tokio::io::copy(&mut stream.take(BODY), &mut tokio::io::sink())).await;
            return Ok(status);
        }
        if read.len() >= LONGEST_HEAD {
            return Err(Failure::Garbled);
        }
        if stream.read_buf(&mut read).await.map_err(Failure::Broken)? == 0 {
            return Err(Failure::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// The same in HTTP/2, as the only stream of its connection.
async fn ask_http2<S>(stream: S, encrypted: bool, path: &str, host: &str) -> Result<StatusCode, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let scheme = if encrypted { "https" } else { "http" };
    let request =
        Request::get(format!("{scheme}://{host}{path}")).version(Version::HTTP_2).header("user-agent", "tidegate");
    let request = request.body(()).map_err(|_| Failure::Garbled)?;
    let mut options = h2::client::Builder::new();
    options.enable_push(false).max_header_list_size(LONGEST_HEAD as u32);
    let (mut sender, connection) = options.handshake::<_, bytes::Bytes>(stream).await.map_err(spoilt)?;
    let asked = async {
        let (answer, _) = sender.send_request(request, true).map_err(spoilt)?;
        answer.await.map(|answer| answer.status()).map_err(spoilt)
    };
    tokio::select! {
        status = asked => status,
        // without it nothing moves; its end is the end of the answer too
        ended = connection => Err(ended.err().map_or(Failure::Garbled, spoilt)),
    }
}

fn spoilt(error: h2::Error) -> Failure {
    if error.is_io() { Failure::Broken(io::Error::other(error)) } else { Failure::Garbled }
}

/// The status of the first complete head that is no interim one; `None` while there is none yet.
fn final_status(read: &[u8]) -> Result<Option<StatusCode>, Failure> {
    let mut rest = read;
    loop {
        let start = b"HTTP/1.";
        let known = rest.len().min(start.len());
        if rest.get(..known) != start.get(..known) {
            return Err(Failure::Garbled);
        }
        let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        // HTTP/1.1 200 OK
        let status = rest.get(9..12).filter(|_| rest.get(8) == Some(&b' ')).ok_or(Failure::Garbled)?;
        let status = StatusCode::from_bytes(status).map_err(|_| Failure::Garbled)?;
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Some(status));
        }
        rest = rest.get(end + 4..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::TcpListener;

    use super::*;
    use crate::policy::{OriginAddress, StatusSet};

    fn status(read: &str) -> Result<Option<u16>, String> {
        final_status(read.as_bytes()).map(|status| status.map(|status| status.as_u16())).map_err(|f| f.to_string())
    }

    #[test]
    fn the_final_status_is_found_and_nothing_else_is_one() {
        assert_eq!(status(""), Ok(None));
        assert_eq!(status("HTT"), Ok(None));
        assert_eq!(status("HTTP/1.1 200 OK\r\nA: b\r\n"), Ok(None));
        assert_eq!(status("HTTP/1.1 204 No Content\r\n\r\nbody"), Ok(Some(204)));
        assert_eq!(status("HTTP/1.0 503\r\n\r\n"), Ok(Some(503)));
        assert_eq!(status("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), Ok(Some(200)));
        assert_eq!(status("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1."), Ok(None));
        for garbled in ["SSH-2.0", "HTTP/2.0 200\r\n\r\n", "HTTP/1.1200 OK\r\n\r\n", "HTTP/1.1 2\r\n\r\n", "\r\n\r\n"] {
            assert!(status(garbled).is_err(), "{garbled:?}");
        }
    }

    fn origin(port: u16) -> Origin {
        let address = OriginAddress { host: "127.0.0.1".into(), port, weight: 1, resolve: Duration::ZERO };
        Origin::of("shop".into(), vec![address])
    }

    async fn checked(origin: &Origin, asked: &HealthCheck, address: SocketAddr) -> Result<(), Failure> {
        let way = Way::open(&Arc::new(origin.clone())).unwrap();
        check(origin, &way, asked, address, 0).await
    }

    fn http() -> HealthCheck {
        let statuses = StatusSet::NONE.with(200, 399);
        let probe = Probe::Http { path: "/healthz".into(), host: None, statuses };
        HealthCheck { probe, timeout: Duration::from_secs(20), ..HealthCheck::default() }
    }

    /// Answers one connection with this and gives what came on it.
    async fn answering(answer: &'static [u8]) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut came = Vec::new();
            while !came.ends_with(b"\r\n\r\n") && stream.read_buf(&mut came).await.unwrap() > 0 {}
            stream.write_all(answer).await.unwrap();
            String::from_utf8(came).unwrap()
        });
        (address, served)
    }

    #[tokio::test]
    async fn a_good_answer_passes_and_the_request_is_a_plain_one() {
        let (address, served) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        checked(&origin(address.port()), &http(), address).await.unwrap();
        let came = served.await.unwrap();
        assert!(came.starts_with("GET /healthz HTTP/1.1\r\n"), "{came}");
        assert!(came.contains(&format!("Host: {address}\r\n")) && came.contains("Connection: close\r\n"), "{came}");
    }

    #[tokio::test]
    async fn an_origin_that_speaks_http2_is_asked_in_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut asked = Vec::new();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                asked.push(request.uri().to_string());
                let answer = http::Response::builder().status(if asked.len() == 1 { 204 } else { 500 });
                respond.send_response(answer.body(()).unwrap(), true).unwrap();
            }
            asked
        });
        let origin = Origin { protocol: Protocol::Http2, ..origin(address.port()) };
        checked(&origin, &http(), address).await.unwrap();
        assert_eq!(served.await.unwrap(), [format!("http://{address}/healthz")]);
    }

    #[tokio::test]
    async fn every_other_answer_fails() {
        let cases: [(&[u8], &str); 4] = [
            (b"HTTP/1.1 503 Down\r\n\r\n", "status 503"),
            (b"SSH-2.0-OpenSSH\r\n", "no HTTP"),
            (b"HTTP/1.1 200 OK\r\n", "unexpected end of file"),
            (b"", "unexpected end of file"),
        ];
        for (answer, why) in cases {
            let (address, _) = answering(answer).await;
            let failure = checked(&origin(address.port()), &http(), address).await.unwrap_err().to_string();
            assert!(failure.contains(why), "{failure}");
        }
        let endless: &[u8] = Box::leak([b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'x'; 20_000]].concat().into());
        let (address, _) = answering(endless).await;
        assert!(matches!(checked(&origin(address.port()), &http(), address).await, Err(Failure::Garbled)));
    }

    #[tokio::test]
    async fn an_address_that_stays_silent_is_late_and_one_that_refuses_is_broken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hasty = HealthCheck { timeout: Duration::from_millis(30), ..http() };
        assert!(matches!(checked(&origin(address.port()), &hasty, address).await, Err(Failure::Late)));
        let tcp = HealthCheck { probe: Probe::Tcp, ..http() };
        checked(&origin(address.port()), &tcp, address).await.unwrap();
        drop(listener);
        assert!(matches!(checked(&origin(address.port()), &tcp, address).await, Err(Failure::Broken(_))));
    }
}
