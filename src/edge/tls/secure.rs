//! What is known of a connection once its handshake is over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use tokio_rustls::rustls::ServerConnection;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion};

/// A connection by TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secure {
    /// The name that the client asked for, in lower case without a last dot; `None` where it asked for none.
    pub sni: Option<Box<str>>,
    /// The version.
    pub version: TlsVersion,
    /// Whether the client came back with a ticket.
    pub resumed: bool,
    /// The protocol that was agreed upon (RFC 7301), such as `h2`.
    pub alpn: Option<Box<[u8]>>,
    /// Who the client is.
    pub client: ClientIdentity,
}

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246, with the extended master secret where the client knows it.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl TlsVersion {
    /// As a metric's label: `1.2`, `1.3`.
    pub fn word(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }
}

/// What a client showed of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientIdentity {
    /// Nothing, as nothing was asked for.
    NotAsked,
    /// Nothing, though it was asked.
    Absent,
    /// A certificate from one of the listener's authorities: the value of `Client-Cert` (RFC 9440 section 2.2).
    Verified(HeaderValue),
}

impl Secure {
    /// Reads a connection whose handshake is over. `asked`: for a client certificate.
    pub fn of(connection: &ServerConnection, asked: bool) -> Secure {
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            // nothing else is offered, and the handshake is over
            _ => TlsVersion::Tls13,
        };
        let leaf = connection.peer_certificates().and_then(<[_]>::first);
        Secure {
            sni: connection.server_name().map(canonical),
            version,
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            alpn: connection.alpn_protocol().map(Box::from),
            client: match leaf {
                _ if !asked => ClientIdentity::NotAsked,
                Some(leaf) => client_cert(leaf).map_or(ClientIdentity::Absent, ClientIdentity::Verified),
                None => ClientIdentity::Absent,
            },
        }
    }
}

fn canonical(name: &str) -> Box<str> {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()
}

/// A byte sequence (RFC 9651 section 3.3.5) of the DER certificate.
fn client_cert(certificate: &CertificateDer<'_>) -> Option<HeaderValue> {
    HeaderValue::try_from(format!(":{}:", STANDARD.encode(certificate))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_written_as_a_byte_sequence() {
        for (bytes, text) in [
            ("", "::"),
            ("f", ":Zg==:"),
            ("fo", ":Zm8=:"),
            ("foo", ":Zm9v:"),
            ("foob", ":Zm9vYg==:"),
            ("foobar", ":Zm9vYmFy:"),
        ] {
            assert_eq!(client_cert(&CertificateDer::from(bytes.as_bytes())).unwrap(), text);
        }
        let all: Vec<u8> = (0..=255).collect();
        let written = client_cert(&CertificateDer::from(all.clone())).unwrap();
        let item = sfv::Parser::parse_item(written.as_bytes()).unwrap();
        assert_eq!(item.bare_item.as_byte_seq(), Some(&all));
    }

    #[test]
    fn a_name_is_canonical() {
        assert_eq!(&*canonical("Shop.Example.COM."), "shop.example.com");
    }
}
