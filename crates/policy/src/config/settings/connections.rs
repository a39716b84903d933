//! Who may connect to a listener, beyond plain numbers.

use std::time::Duration;

use crate::units::Prefix;

/// Whether connections begin with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Never: such bytes are a malformed request.
    Off,
    /// Those of trusted peers may; those of others never do.
    Optional,
    /// All do, and all come from trusted peers.
    Required,
}

/// Networks whose connections are closed at once: sorted, none inside another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedNetworks {
    /// The networks.
    pub networks: Vec<Prefix>,
    /// And peers on UNIX sockets.
    pub unix: bool,
}

/// Long penalties of a limit close connections before they cost anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtAccept {
    /// The limit's name.
    pub limit: String,
    /// How much longer a penalty must last for that.
    pub above: Duration,
}
