//! Clients by their networks: whom `deny` of a route or listener refuses, and whose requests `client` of a match takes.

use crate::client::{Client, Mark, ProxySet};
use crate::request::Peer;
use crate::units::{Bytes, Prefix};

/// Networks of resolved clients: behind a trusted proxy only those clients are listed, not the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientList {
    all: ProxySet,
    written: Written,
}

/// What stands in the policy file: files by their names, as they may be long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Networks of the policy file itself.
    pub networks: Vec<Prefix>,
    /// Whether it lists `unix`.
    pub unix: bool,
    /// Names of files.
    pub files: Vec<String>,
}

impl ClientList {
    /// What is written, and what the files hold: networks in any order, and whether they list `unix`.
    pub fn new(written: Written, listed: Vec<Prefix>, listed_unix: bool) -> ClientList {
        let unix = written.unix || listed_unix;
        ClientList { all: ProxySet::new(written.networks.iter().copied().chain(listed), unix), written }
    }

    /// Returns whether it lists the client, however sure its address is. Allocates nothing.
    #[inline]
    pub fn lists(&self, client: &Client) -> bool {
        if self.all.is_empty() {
            return false;
        }
        let [address, keyed] = client.addresses();
        match address {
            None => self.all.contains(Peer::Unix),
            Some(address) => {
                let more = keyed.is_some_and(|keyed| self.all.contains(Peer::Ip(keyed)));
                more || self.all.contains(Peer::Ip(address))
            }
        }
    }

    /// Returns whether it lists the client, and the client's address is its own. Never true for a client whose forwarding header was
    /// unreadable or too short: its address is that of a proxy, and anybody can send such a header.
    #[inline]
    pub fn lists_surely(&self, client: &Client) -> bool {
        matches!(client.mark, Mark::Verified | Mark::AllTrusted) && self.lists(client)
    }

    /// Returns whether it lists nobody.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What stands in the policy file.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// The number of networks that all became, and their memory.
    pub fn size(&self) -> (usize, Bytes) {
        (self.all.count(), self.all.memory())
    }
}
