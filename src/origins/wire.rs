//! A connection to an origin as bytes: in clear or inside TLS.

use std::os::fd::{AsRawFd, RawFd};

use tokio_rustls::client::TlsStream;

use crate::system::socket::{Socket, handed_on};

/// What an origin is spoken to over.
#[derive(Debug)]
pub enum Wire {
    /// In clear.
    Plain(Socket),
    /// Inside TLS. Boxed: its state is a kilobyte, and most origins do without.
    Tls(Box<TlsStream<Socket>>),
}

impl Wire {
    /// The socket beneath.
    pub fn socket(&self) -> &Socket {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

handed_on!(Wire: Plain, Tls);
