//! When an exception applies: `when:` of a tier, an entry of `exempt:`.

use http::HeaderName;

use crate::client::{Client, ClientAddress, Mark};
use crate::request::Request;
use crate::units::Prefix;

/// All parts that are given must hold. One without parts never holds, so that an empty entry exempts nobody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// The client's address lies in one of these. Never true for a client whose forwarding header was unreadable or too
    /// short: its address is that of a proxy, and anybody can send such a header.
    pub networks: Vec<Prefix>,
    /// Every one of these header fields has a line with exactly this value.
    pub headers: Vec<(HeaderName, String)>,
}

impl Condition {
    /// Whether it holds for this request of this client.
    pub fn holds(&self, request: &Request<'_>, client: &Client) -> bool {
        let given = !self.networks.is_empty() || !self.headers.is_empty();
        given && (self.networks.is_empty() || self.is_from(client)) && self.has_headers(request)
    }

    fn is_from(&self, client: &Client) -> bool {
        if !matches!(client.mark, Mark::Verified | Mark::AllTrusted) {
            return false;
        }
        match client.address {
            ClientAddress::Ip(address) => self.networks.iter().any(|network| network.contains(address)),
            ClientAddress::Unix => false,
        }
    }

    fn has_headers(&self, request: &Request<'_>) -> bool {
        self.headers
            .iter()
            .all(|(name, value)| request.headers.get_all(name).iter().any(|line| line.as_bytes() == value.as_bytes()))
    }
}
