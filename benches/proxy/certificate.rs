//! A certificate for one name, and the authority that it comes from.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Writes an ECDSA P-256 certificate for `name` to `cert.pem`, `key.pem` and `both.pem`, and its authority to `authority.der`.
///
/// # Errors
/// The files cannot be written, or there is no randomness.
pub fn write(directory: &Path, name: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &issuer)?;
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    fs::write(directory.join("cert.pem"), &certificate)?;
    fs::write(directory.join("key.pem"), &key)?;
    fs::write(directory.join("both.pem"), certificate + &key)?;
    fs::write(directory.join("authority.der"), root.der())?;
    Ok(())
}
