//! Certificates and their keys, read from PEM files and held against one another; and the authorities of client certificates.
//!
//! Loading a policy file, starting, and taking over a renewed file all read through here, so that what one of them accepts
//! no other refuses. Whether a certificate is in its time is left to whoever has a clock. Not here: who may be asked for
//! which name, and when a file is read again.
//!
//! Sources: RFC 7468 (PEM), RFC 5280 (X.509), RFC 9525 section 6 (names, wildcards of one label).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::text::is_host;

/// No chain and no list of authorities is longer; a device without end must not fill the memory.
const MAX_BYTES: u64 = 1 << 20;

/// A certificate that can be served: its chain, the key that fits it, and what it says of itself.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The chain, leaf first, with its key.
    pub certified: Arc<CertifiedKey>,
    /// The DNS names that it stands for, in lower case, in its own order: `a.example.com`, `*.example.com`.
    pub names: Vec<String>,
    /// When it begins to be valid, in seconds since 1970.
    pub not_before: i64,
    /// When it ends, in seconds since 1970.
    pub not_after: i64,
    /// Whether its key's file can be read by everybody on this machine.
    pub open_key: bool,
}

/// Which of the files a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The certificate and those that follow it in its file.
    Certificate,
    /// The private key.
    Key,
    /// The authorities that client certificates come from.
    Authorities,
}

/// Why files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}; {help}")]
pub struct CertificateFault {
    /// Which file.
    pub part: Part,
    /// What is wrong with it; lower case, no full stop. Holds nothing of a key.
    pub cause: String,
    /// A way out.
    pub help: String,
}

impl CertificateFault {
    fn new(part: Part, cause: impl Into<String>, help: impl Into<String>) -> CertificateFault {
        CertificateFault { part, cause: cause.into(), help: help.into() }
    }
}

impl Certificate {
    /// Reads both files; they may be one and the same.
    ///
    /// # Errors
    /// A file cannot be read or holds something else, or the key is not that of the first certificate.
    pub fn read(cert: &Path, key: &Path) -> Result<Certificate, CertificateFault> {
        let (chain_text, _) = text(cert, Part::Certificate)?;
        let (key_text, open_key) = text(key, Part::Key)?;
        let chain = chain(&chain_text)?;
        let key = private_key(&key_text)?;
        Certificate::of(chain, key, open_key)
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        open_key: bool,
    ) -> Result<Certificate, CertificateFault> {
        let mut leaf = None;
        for (place, der) in chain.iter().enumerate() {
            let parsed = X509Certificate::from_der(der).map_err(|_| {
                CertificateFault::new(
                    Part::Certificate,
                    format!("certificate {} of the file is not X.509", place + 1),
                    "`openssl x509 -in FILE -noout -text` shows what it holds",
                )
            })?;
            leaf.get_or_insert((names(&parsed.1), parsed.1.validity().clone()));
        }
        let Some((names, validity)) = leaf else {
            return Err(CertificateFault::new(Part::Certificate, "it holds no certificate", NO_CERTIFICATE));
        };
        let others = chain.get(1..).unwrap_or_default().to_vec();
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &ring::default_provider())
            .map_err(|error| unusable(&error, others, key))?;
        Ok(Certificate {
            certified: Arc::new(certified),
            names,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            open_key,
        })
    }

    /// Whether it is in its time at this moment, in seconds since 1970.
    pub fn is_valid_at(&self, seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&seconds)
    }
}

/// Whether one of these names of a certificate stands for `name`: the same, or a wildcard in the place of its first label.
pub fn covers(names: &[String], name: &str) -> bool {
    names.iter().any(|known| {
        known == name
            || known.strip_prefix('*').is_some_and(|suffix| {
                let first_dot = name.find('.').unwrap_or(name.len());
                first_dot > 0 && name.get(first_dot..) == Some(suffix)
            })
    })
}

/// Reads the certificates of authorities.
///
/// # Errors
/// The file cannot be read, holds no certificate, or one that cannot be an authority's.
pub fn authorities(path: &Path) -> Result<RootCertStore, CertificateFault> {
    let (bytes, _) = text(path, Part::Authorities)?;
    let mut store = RootCertStore::empty();
    for (place, der) in CertificateDer::pem_slice_iter(&bytes).enumerate() {
        let added = der.map_err(|error| error.to_string()).and_then(|der| {
            let added = store.add(der);
            added.map_err(|error| error.to_string())
        });
        added.map_err(|error| {
            CertificateFault::new(
                Part::Authorities,
                format!("certificate {} of the file cannot be an authority's: {error}", place + 1),
                "put the certificates of your authorities there, in PEM",
            )
        })?;
    }
    if store.is_empty() {
        return Err(CertificateFault::new(
            Part::Authorities,
            "it holds no certificate",
            "put the certificates of your authorities there, in PEM",
        ));
    }
    Ok(store)
}

const NO_CERTIFICATE: &str = "it should begin with `-----BEGIN CERTIFICATE-----`; `cert` is the chain, `key` the key";

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let chain = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| CertificateFault::new(Part::Certificate, format!("it is not PEM: {error}"), NO_CERTIFICATE))?;
    if chain.is_empty() {
        return Err(CertificateFault::new(Part::Certificate, "it holds no certificate", NO_CERTIFICATE));
    }
    Ok(chain)
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateFault> {
    PrivateKeyDer::from_pem_slice(text).map_err(|_| {
        // the library's own words are left out: nothing of a key may get into a log
        let holds = |words: &[u8]| text.windows(words.len()).any(|window| window == words);
        if holds(b"BEGIN ENCRYPTED PRIVATE KEY") || holds(b"Proc-Type: 4,ENCRYPTED") {
            CertificateFault::new(
                Part::Key,
                "the key is locked with a passphrase",
                "unlock it once: `openssl pkey -in LOCKED -out KEY && chmod 640 KEY`",
            )
        } else if holds(b"BEGIN CERTIFICATE") {
            CertificateFault::new(Part::Key, "it holds no private key but a certificate", "`key` is the key's file")
        } else {
            CertificateFault::new(
                Part::Key,
                "it holds no private key",
                "it should begin with `-----BEGIN PRIVATE KEY-----` or the same with RSA or EC",
            )
        }
    })
}

fn unusable(error: &Error, others: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> CertificateFault {
    if let Error::InconsistentKeys(InconsistentKeys::KeyMismatch) = error {
        let of_another = others
            .into_iter()
            .any(|other| CertifiedKey::from_der(vec![other], key.clone_key(), &ring::default_provider()).is_ok());
        return if of_another {
            CertificateFault::new(
                Part::Certificate,
                "the key belongs to a later certificate of the file",
                "put the certificate of the site first, then those that signed it",
            )
        } else {
            CertificateFault::new(
                Part::Key,
                "the key does not match the certificate",
                "they must come from the same request; compare what `openssl x509 -in CERT -noout -pubkey` and \
                 `openssl pkey -in KEY -pubout` print",
            )
        };
    }
    if let Error::InvalidCertificate(fault) = error {
        return CertificateFault::new(
            Part::Certificate,
            format!("the certificate cannot be served: {fault}"),
            "ask for one of X.509 version 3 in its stead",
        );
    }
    CertificateFault::new(
        Part::Key,
        "the key is of a kind that cannot be used",
        "use an EC key of the curve P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits",
    )
}

/// The DNS names that can be asked for: RFC 6066 section 3 has no others.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for name in &extension.value.general_names {
        let GeneralName::DNSName(name) = name else { continue };
        let name = name.to_ascii_lowercase();
        if is_host(name.strip_prefix("*.").unwrap_or(&name)) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A file's bytes, and whether everybody can read it.
fn text(path: &Path, part: Part) -> Result<(Vec<u8>, bool), CertificateFault> {
    let told = |error: std::io::Error| {
        let help = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "give the group that tidegate runs as the right to read it and to enter its directories"
            }
            _ => "name a file that exists; paths are relative to the policy file's directory",
        };
        CertificateFault::new(part, error.to_string(), help)
    };
    let mut file = File::open(path).map_err(told)?;
    // asked of the open file, so that nobody can swap it in between
    let metadata = file.metadata().map_err(told)?;
    let fault = |cause: &str| CertificateFault::new(part, cause, "name a PEM file");
    if !metadata.is_file() {
        return Err(fault("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(fault("it is larger than 1MiB"));
    }
    Ok((bytes, metadata.permissions().mode() & 0o004 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label_and_not_for_none() {
        let names = ["example.com".to_owned(), "*.example.com".to_owned()];
        assert!(covers(&names, "example.com") && covers(&names, "a.example.com"));
        assert!(!covers(&names, "a.b.example.com") && !covers(&names, ".example.com"));
        assert!(!covers(&names[1..], "example.com") && !covers(&names, "badexample.com"));
    }
}
