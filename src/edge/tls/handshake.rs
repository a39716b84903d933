//! The handshake of a connection: in its time, or not at all.
//!
//! What goes wrong is counted by its reason, and told in the line a minute that the log has for such: it is the client who decides
//! how often it happens.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{Error, InvalidMessage, PeerIncompatible};
use tokio_rustls::server::TlsStream;

use super::acceptor::Acceptor;
use super::secure::Secure;

/// Why a connection did not become a secure one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum HandshakeFault {
    /// The bytes were no TLS.
    NotTls,
    /// The client left, or the network broke.
    Closed,
    /// Not finished in its time.
    Late,
    /// The client refused, mostly because of our certificate.
    RefusedByClient,
    /// TLS 1.1 or older.
    Version,
    /// Nothing in common: ciphers, groups, signature schemes.
    NothingInCommon,
    /// None of the protocols that the client wants to speak (ALPN) is spoken here.
    Protocol,
    /// The client showed no certificate where it must.
    NoClientCertificate,
    /// The client's certificate is not from one of the authorities, or not good now.
    ClientCertificate,
    /// Anything else: a client that does not keep to the protocol.
    Other,
}

impl HandshakeFault {
    /// All of them.
    pub const ALL: &'static [HandshakeFault] = <HandshakeFault as strum::VariantArray>::VARIANTS;

    /// As a metric's label.
    pub const fn reason(self) -> &'static str {
        self.into_str()
    }

    fn of(error: &io::Error) -> HandshakeFault {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
            return HandshakeFault::Closed;
        };
        match error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
                | InvalidMessage::InvalidEmptyPayload,
            )
            | Error::InappropriateMessage { .. } => HandshakeFault::NotTls,
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::SupportedVersionsExtensionRequired
                // every client of TLS 1.2 sends this one, and no older one does
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
            ) => HandshakeFault::Version,
            Error::PeerIncompatible(_) => HandshakeFault::NothingInCommon,
            Error::NoApplicationProtocol => HandshakeFault::Protocol,
            Error::NoCertificatesPresented => HandshakeFault::NoClientCertificate,
            Error::InvalidCertificate(_) => HandshakeFault::ClientCertificate,
            Error::AlertReceived(_) => HandshakeFault::RefusedByClient,
            _ => HandshakeFault::Other,
        }
    }
}

/// Makes a connection a secure one. The client hears why not, as far as TLS has a word for it.
///
/// # Errors
/// It does not come about within `deadline`. The stream, where it is still there, is the caller's to close.
pub async fn handshake<S>(
    acceptor: &Acceptor,
    stream: S,
    deadline: Duration,
) -> Result<(TlsStream<S>, Secure), (HandshakeFault, Option<S>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let accepting = TlsAcceptor::from(acceptor.config()).accept(stream).into_fallible();
    match timeout(deadline, accepting).await {
        Ok(Ok(stream)) => {
            let secure = Secure::of(stream.get_ref().1, acceptor.asks_for_certificates());
            Ok((stream, secure))
        }
        Ok(Err((error, stream))) => Err((HandshakeFault::of(&error), Some(stream))),
        Err(_) => Err((HandshakeFault::Late, None)),
    }
}
