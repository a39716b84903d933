//! `tls` of an origin.

use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::Field;
use crate::config::schema::{ClientCertificate, OriginTls as Tls};
use crate::policy::{CertificateFiles, OriginAddress, OriginTls};

/// What the origin's `tls` says: `Some(None)` without it, `None` when it cannot be used, which has been told.
pub fn tls(
    field: &Field<Tls>,
    origin: &str,
    addresses: Option<&[OriginAddress]>,
    faults: &mut Faults,
) -> Option<Option<OriginTls>> {
    let Some(at) = field.get() else { return (!field.is_present()).then_some(None) };
    let tls = &at.value;
    let sni = tls.sni.value().map(|name| name.0.clone());
    let ca = tls.ca.value().map(|files| files.0.items.iter().map(|file| file.value.0.clone()).collect());
    let ca: Vec<_> = ca.unwrap_or_default();
    let verify = tls.verify();
    if let Some(files) = tls.ca.get().filter(|files| files.value.0.items.is_empty() && !files.value.0.bad) {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, files.span, "`ca` names no file")
                .label("needs one or more")
                .help("leave it out to trust the system's certificates"),
        );
    }
    if let Some(at) = tls.verify.get().filter(|_| !verify) {
        match tls.ca.get() {
            Some(files) => faults.push(
                Diagnostic::error(Code::CONFLICT, at.span, "`verify: false` beside `ca`")
                    .label("nothing is verified")
                    .related(files.span, "by these certificates")
                    .help("remove one of them"),
            ),
            None => faults.push(
                Diagnostic::new(
                    Code::UNVERIFIED_ORIGIN,
                    at.span,
                    format!("the certificate of the origin `{origin}` is not verified"),
                )
                .label("whoever answers at its address is believed")
                .help("name the certificate that it shows, or that of its issuer, in `ca`"),
            ),
        }
    }
    let unix = addresses.unwrap_or_default().iter().any(|address| address.unix_path().is_some());
    if unix && !tls.sni.is_present() {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "TLS over a UNIX socket without a name")
                .label("needs `sni`: a UNIX socket has no host that the certificate could carry"),
        );
    }
    let client_certificate = client_certificate(&tls.client_certificate)?;
    Some(Some(OriginTls { sni, ca, verify, client_certificate }))
}

fn client_certificate(field: &Field<ClientCertificate>) -> Option<Option<CertificateFiles>> {
    let Some(files) = field.value() else { return (!field.is_present()).then_some(None) };
    let (cert, key) = (files.cert.value()?, files.key.value()?);
    Some(Some(CertificateFiles { cert: cert.0.clone(), key: key.0.clone() }))
}
