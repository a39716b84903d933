//! Origins with certificates of their own authority, and origins that speak HTTP/2: an asynchronous runtime each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A certificate authority with a folder for what it issues.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Where its files are; goes with it.
    pub folder: PathBuf,
}

impl Authority {
    /// With a certificate of its own in `ca.pem`.
    pub fn new() -> Authority {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-secure-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// The file with its certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Issues a certificate for these names, good until this year; the files of it and its key.
    pub fn issue(&self, file: &str, names: &[&str], until: i32) -> (PathBuf, PathBuf) {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (cert, place) = (self.folder.join(format!("{file}.pem")), self.folder.join(format!("{file}.key")));
        std::fs::write(&cert, certificate.pem()).unwrap();
        std::fs::write(&place, key.serialize_pem()).unwrap();
        (cert, place)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a server shows, and what it asks for.
pub fn acceptor(files: &(PathBuf, PathBuf), clients: Option<&Path>, protocols: &[&str]) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(&files.0).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&files.1).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// What a server has seen.
#[derive(Default)]
pub struct Seen {
    pub connections: AtomicUsize,
    /// The names that were asked for.
    pub names: Mutex<Vec<Option<String>>>,
    pub heads: Mutex<Vec<String>>,
}

/// A server in a runtime of its own, gone when this goes.
pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    _runtime: Runtime,
}

/// For one origin.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

impl Server {
    /// Serves HTTP/1.1, or HTTP/2 if that was agreed, behind TLS if there is an acceptor.
    pub fn start(acceptor: Option<TlsAcceptor>, speaks_h2: bool) -> Server {
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let noted = Arc::clone(&seen);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&noted));
                tokio::spawn(async move {
                    let Some(acceptor) = acceptor else {
                        seen.connections.fetch_add(1, Ordering::Relaxed);
                        return if speaks_h2 { http2(stream, &seen).await } else { http1(stream, &seen).await };
                    };
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    seen.names.lock().unwrap().push(stream.get_ref().1.server_name().map(str::to_owned));
                    if speaks_h2 { http2(stream, &seen).await } else { http1(stream, &seen).await }
                });
            }
        });
        Server { address, seen, _runtime: runtime }
    }

    /// How many connections came to stand.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }
}

/// Answers every request with `secret`.
pub async fn http1(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Seen) {
    let mut unread = Vec::new();
    loop {
        let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") else {
            let mut piece = [0; 4096];
            match stream.read(&mut piece).await {
                Ok(count) if count > 0 => unread.extend_from_slice(&piece[..count]),
                _ => return,
            }
            continue;
        };
        let head: Vec<u8> = unread.drain(..at + 4).collect();
        seen.heads.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
        if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Takes the whole body of every request and tells its length, then sends as many bytes as the path says and trailers; or
/// does what the path says after `/hostile/`.
async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, seen: &Seen) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        seen.heads.lock().unwrap().push(format!("{request:?}"));
        match request.uri().path().strip_prefix("/hostile/") {
            Some("goaway") => connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR),
            Some(deed) => drop(tokio::spawn(misbehave(deed.to_owned(), respond))),
            None => drop(tokio::spawn(serve(request, respond))),
        }
    }
}

async fn serve(request: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let length: usize = request.uri().path().trim_start_matches('/').parse().unwrap_or(5);
    let mut body = request.into_body();
    let mut came = 0;
    while let Some(Ok(piece)) = body.data().await {
        came += piece.len();
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let head = http::Response::builder().header("x-came", came).body(()).unwrap();
    let Ok(mut send) = respond.send_response(head, false) else { return };
    let mut left = length;
    while left > 0 {
        let here = left.min(16 * 1024);
        send.reserve_capacity(here);
        let Some(Ok(room)) = std::future::poll_fn(|cx| send.poll_capacity(cx)).await else { return };
        let here = here.min(room);
        if send.send_data(Bytes::from(vec![b'x'; here]), false).is_err() {
            return;
        }
        left -= here;
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let _ = send.send_trailers(trailers);
}

async fn misbehave(deed: String, mut respond: h2::server::SendResponse<Bytes>) {
    let mut head = http::Response::builder();
    match deed.as_str() {
        "two_lengths" => head = head.header("content-length", 5).header("content-length", 5),
        "odd_length" => head = head.header("content-length", "5, 5"),
        "long_length" => head = head.header("content-length", 50),
        "short_length" => head = head.header("content-length", 2),
        "status" => head = head.status(999),
        "many_fields" => head = (0..201).fold(head, |head, _| head.header("x", "y")),
        "large_head" => head = head.header("x", "y".repeat(70_000)),
        "interim" | "endless_interim" => {
            let most = if deed == "interim" { 2_000 } else { u32::MAX };
            for _ in 0..most {
                let early = http::Response::builder().status(103).header("link", "</a>").body(()).unwrap();
                if respond.send_informational(early).is_err() {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_micros(100)).await;
            }
        }
        "silence" => {
            let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
            return;
        }
        _ => {}
    }
    let Ok(mut send) = respond.send_response(head.body(()).unwrap(), false) else { return };
    let _ = send.send_data(Bytes::from_static(b"hello"), !matches!(deed.as_str(), "reset" | "large_trailers"));
    if deed == "reset" {
        send.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    if deed == "large_trailers" {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x", http::HeaderValue::from_maybe_shared(Bytes::from(vec![b'y'; 70_000])).unwrap());
        let _ = send.send_trailers(trailers);
    }
}
