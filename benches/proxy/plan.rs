//! What a load does, as words of its command line.

use std::io;
use std::path::PathBuf;

/// How requests reach a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// HTTP/1.1 on connections that stay.
    Kept,
    /// HTTP/1.1 on a connection each, which the request asks to close.
    Each,
    /// HTTP/1.1 over TLS 1.3 on connections that stay.
    Tls,
    /// HTTP/2 over TLS 1.3, so many streams at once on each connection.
    Http2 {
        /// Streams.
        streams: usize,
    },
}

/// What a load does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How.
    pub shape: Shape,
    /// Connections at once.
    pub connections: usize,
    /// Of how many clients the requests are, by their address in `X-Forwarded-For`.
    pub clients: usize,
    /// The path of every request.
    pub path: String,
    /// The authority that the proxy's certificate comes from, in DER; needed with TLS.
    pub authority: Option<PathBuf>,
}

impl Plan {
    /// Keep-alive requests of so many clients on 64 connections.
    pub fn kept(clients: usize) -> Plan {
        Plan { shape: Shape::Kept, connections: 64, clients, path: "/bench".to_owned(), authority: None }
    }

    /// As words.
    pub fn words(&self) -> Vec<String> {
        let shape = match self.shape {
            Shape::Kept => "kept".to_owned(),
            Shape::Each => "each".to_owned(),
            Shape::Tls => "tls".to_owned(),
            Shape::Http2 { streams } => streams.to_string(),
        };
        let authority = self.authority.iter().map(|path| path.display().to_string());
        let numbers = [self.connections.to_string(), self.clients.to_string()];
        [shape].into_iter().chain(numbers).chain([self.path.clone()]).chain(authority).collect()
    }

    /// Reads [`Plan::words`].
    ///
    /// # Errors
    /// They are others.
    pub fn read(words: &[&str]) -> io::Result<Plan> {
        let wrong = || io::Error::other(format!("no plan: {words:?}"));
        let [shape, connections, clients, path, authority @ ..] = words else { return Err(wrong()) };
        let number = |word: &str| word.parse::<usize>().map_err(|_| wrong());
        let shape = match *shape {
            "kept" => Shape::Kept,
            "each" => Shape::Each,
            "tls" => Shape::Tls,
            streams => Shape::Http2 { streams: number(streams)? },
        };
        Ok(Plan {
            shape,
            connections: number(connections)?,
            clients: number(clients)?,
            path: (*path).to_owned(),
            authority: authority.first().map(PathBuf::from),
        })
    }
}
