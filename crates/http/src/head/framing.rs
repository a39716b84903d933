//! Where a message ends, and what its head asks of the connection.

/// How the end of the body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body {
    /// There is none.
    #[default]
    None,
    /// By its length, which may be zero.
    Length(u64),
    /// By chunks.
    Chunked,
}

/// The two versions served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// What the fields of a head mean together.
pub struct Framing {
    /// How the body ends.
    pub body: Body,
    /// The client waits for `100 Continue`.
    pub expect_continue: bool,
    /// The client asks to switch protocols.
    pub upgrade: bool,
    /// The client wants to send another request after this one.
    pub keep_alive: bool,
    /// A field concerns this connection only.
    pub hop_by_hop: bool,
}
