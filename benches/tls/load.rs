//! The clients of both proxies.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};

/// Connections that ask once and close.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Else 1.2.
    pub tls13: bool,
    /// With what an earlier connection was given.
    pub resumed: bool,
}

/// The name in the certificate.
pub const NAME: &str = "tidegate.test";

/// How many connections, one after the other, make one reading.
const CONNECTIONS: usize = 300;

impl Load {
    /// Loads the proxy, and says how many handshakes it was.
    pub fn run(self, proxy: SocketAddr, authority: &CertificateDer<'static>) -> io::Result<usize> {
        let Load { tls13, resumed } = self;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).map_err(io::Error::other)?;
        let versions: &[_] = if tls13 { &[&version::TLS13] } else { &[&version::TLS12] };
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let mut config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        config.resumption = if resumed { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
        let config = Arc::new(config);
        let mut full = 0;
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(proxy)?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
            let connection = ClientConnection::new(Arc::clone(&config), name).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(connection, stream);
            write!(stream, "GET / HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                // nginx ends TLS 1.2 without saying goodbye
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
                _ => {}
            }
            if !answer.starts_with(b"HTTP/1.1 200") {
                return Err(io::Error::other("an answer other than 200"));
            }
            full += usize::from(stream.conn.handshake_kind() != Some(tokio_rustls::rustls::HandshakeKind::Resumed));
        }
        let wanted = if resumed { full <= 1 } else { full == CONNECTIONS };
        if wanted {
            Ok(CONNECTIONS)
        } else {
            Err(io::Error::other(format!("{full} of {CONNECTIONS} handshakes were full")))
        }
    }
}
