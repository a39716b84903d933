//! TLS to origins: whom to trust, who we are, and the files behind both, read again when they change.
//!
//! Done here and not by Pingora, whose connector takes an empty server name for leave to verify nothing, and builds a new
//! configuration for every connection, which cannot resume a session then.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, version};

use crate::policy::{OriginTls, Protocol};
use crate::system::socket::Socket;
use tidegate_http::fault::AnswerFault;

/// How often the files are looked at. One `stat` each.
const LOOK: Duration = Duration::from_secs(1);

/// What cannot be used, and why. For the operator, so it names files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsFault(String);

impl TlsFault {
    fn of(path: &Path, cause: impl fmt::Display) -> TlsFault {
        TlsFault(format!("{}: {cause}", path.display()))
    }
}

/// The TLS of one origin.
pub struct Tls {
    spec: OriginTls,
    protocol: Protocol,
    ready: ArcSwap<ClientConfig>,
    generation: AtomicU64,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read, or holds something else than is needed.
    pub fn load(spec: OriginTls, protocol: Protocol) -> Result<Tls, TlsFault> {
        let ready = ArcSwap::from_pointee(configure(&spec, protocol)?);
        Ok(Tls { spec, protocol, ready, generation: AtomicU64::new(0) })
    }

    /// What the policy says of it.
    pub fn spec(&self) -> &OriginTls {
        &self.spec
    }

    /// Changes when the files have been read again: connections made before must not serve those who trust the new ones.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Shakes hands on a connection that stands, as with the server of this name.
    ///
    /// # Errors
    /// The certificate is not to be trusted, the name is none, the origin breaks off, or it does not agree to the protocol.
    pub async fn handshake(&self, socket: Socket, name: &str) -> io::Result<TlsStream<Socket>> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connector = TlsConnector::from(self.ready.load_full());
        let stream = connector.connect(name, socket).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        let agrees = match self.protocol {
            // who says nothing of protocols speaks the one that is older than the asking
            Protocol::Http1 => agreed.is_none_or(|agreed| agreed == alpn(Protocol::Http1)),
            Protocol::Http2 => agreed == Some(alpn(Protocol::Http2)),
        };
        if agrees { Ok(stream) } else { Err(AnswerFault::Protocol.into()) }
    }

    /// Reads the files again whenever one of them changes, until shutdown. What cannot be used is told and the old stays.
    pub async fn keep_fresh(&self, origin: &str, mut shutdown: watch::Receiver<bool>) {
        let mut known = self.stamps();
        if known.is_empty() {
            return;
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() { return },
            }
            let now = self.stamps();
            if now == known {
                continue;
            }
            known = now;
            match configure(&self.spec, self.protocol) {
                Ok(config) => {
                    self.ready.store(Arc::new(config));
                    self.generation.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(origin, "the TLS files of this origin were read again");
                }
                Err(fault) => {
                    tracing::warn!(origin, %fault, "the TLS files of this origin changed and cannot be used; the old ones stay in force");
                }
            }
        }
    }

    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        self.spec.files().map(stamp).collect()
    }
}

/// The name of a protocol in the handshake (RFC 7301 section 6).
const fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::Http2 => b"h2",
    }
}

fn configure(spec: &OriginTls, protocol: Protocol) -> Result<ClientConfig, TlsFault> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: rustls::Error| TlsFault(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(wrong)?;
    let builder = if spec.verify {
        let roots = Arc::new(roots(&spec.ca)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| TlsFault(error.to_string()))?;
        builder.with_webpki_verifier(verifier)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    };
    let mut config = match &spec.client_certificate {
        Some(files) => {
            let chain = certificates(&files.cert)?;
            let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| TlsFault::of(&files.key, error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| TlsFault::of(&files.cert, error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn(protocol).to_vec()];
    Ok(config)
}

fn roots(files: &[PathBuf]) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    if files.is_empty() {
        let found = pingora::tls::load_native_certs()
            .map_err(|error| TlsFault(format!("the system's certificates cannot be read: {error}")))?;
        // a system may carry one that is broken; it is no reason to distrust the others
        roots.add_parsable_certificates(found);
        if roots.is_empty() {
            return Err(TlsFault("the system has no certificates to trust; name some in `ca`".to_owned()));
        }
    }
    for file in files {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| TlsFault::of(file, error))?;
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let wrong = |error| TlsFault::of(file, error);
    let found: Vec<_> = CertificateDer::pem_file_iter(file).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsFault::of(file, "no certificate in it"));
    }
    Ok(found)
}

/// `verify: false`: whoever answers is believed. That it has the key of the certificate it shows is checked all the same.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
