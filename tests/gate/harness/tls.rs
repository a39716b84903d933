//! TLS from the client's side: an authority, the certificates that it signs, and clients that believe it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::Connection;

/// Who signs certificates.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub struct Signed {
    pub cert: String,
    pub key: String,
}

impl Signed {
    /// The certificate in DER.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()
    }
}

impl Authority {
    /// A new one of this name.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Its own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs a certificate for these names, for long.
    pub fn sign(&self, names: &[&str]) -> Signed {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign_params(CertificateParams::new(names).unwrap())
    }

    /// Signs what these parameters say.
    pub fn sign_params(&self, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { cert, key: key.serialize_pem() }
    }

    /// A client that believes it.
    pub fn client(&self) -> Client {
        Client { config: self.config(&[&TLS13, &TLS12], None) }
    }

    /// The same, speaking one version of TLS only.
    pub fn client_of(&self, version: &'static SupportedProtocolVersion) -> Client {
        Client { config: self.config(&[version], None) }
    }

    /// The same, showing a certificate when it is asked for one.
    pub fn client_with(&self, shown: &Signed) -> Client {
        Client { config: self.config(&[&TLS13, &TLS12], Some(shown)) }
    }

    fn config(&self, versions: &[&'static SupportedProtocolVersion], shown: Option<&Signed>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match shown {
            Some(shown) => {
                let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![shown.der()], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        }
    }
}

/// A client that checks what it is shown.
#[derive(Clone)]
pub struct Client {
    pub config: ClientConfig,
}

impl Client {
    /// A secure connection to the host of this name at this address.
    ///
    /// # Panics
    /// When there is none.
    pub fn connect(&self, address: SocketAddr, name: &str) -> Connection {
        self.try_connect(address, name).unwrap_or_else(|fault| panic!("no secure connection for {name}: {fault}"))
    }

    /// The same where a failure is an answer too. Every call is a client that was never here before.
    pub fn try_connect(&self, address: SocketAddr, name: &str) -> io::Result<Connection> {
        let mut config = self.config.clone();
        config.resumption = tokio_rustls::rustls::client::Resumption::disabled();
        connect(Arc::new(config), address, name)
    }
}

/// A connection of a client that may remember earlier ones.
pub fn connect(config: Arc<ClientConfig>, address: SocketAddr, name: &str) -> io::Result<Connection> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Connection::try_open(address)?.secured(client)
}

/// A folder for the files of certificates; it goes with its owner.
pub struct Files(PathBuf);

impl Files {
    pub fn new() -> Files {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    /// Puts a file there all at once; nobody else may read it.
    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(name));
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }

    /// Puts `NAME.pem` and `NAME.key` there; says so as a policy does.
    pub fn put_pair(&self, name: &str, signed: &Signed) -> String {
        let cert = self.put(&format!("{name}.pem"), &signed.cert);
        let key = self.put(&format!("{name}.key"), &signed.key);
        format!("{{ cert: {}, key: {} }}", cert.display(), key.display())
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
