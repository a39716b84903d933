//! A client as three words, which a door keeps beside its numbers and gives back for people.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::identity::{Client, ClientNetwork, Mark};
use crate::door::{LEVELS, Label};
use crate::units::Prefix;

const UNIX: u64 = 1;
const V4: u64 = 2;
const V6: u64 = 3;
const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];

/// How many bits of the last word are used.
pub const META_BITS: u32 = 28;

impl Client {
    /// The client as a label. `networks`: what it is counted by at each level of a door, the narrowest first.
    pub fn label(&self, networks: [Option<ClientNetwork>; LEVELS]) -> Label {
        let length = |network: &Option<ClientNetwork>| match network {
            Some(ClientNetwork::Prefix(prefix)) => u64::from(prefix.length()),
            Some(ClientNetwork::Unix) | None => 0,
        };
        let lengths = networks.iter().rev().fold(0, |word, network| word << 8 | length(network));
        let mark = MARKS.iter().position(|mark| *mark == self.mark).unwrap_or_default() as u64;
        let (family, bits) = match networks.first().copied().flatten().unwrap_or(self.network) {
            ClientNetwork::Unix => (UNIX, 0),
            ClientNetwork::Prefix(prefix) => match prefix.address() {
                IpAddr::V4(v4) => (V4, u128::from(v4.to_bits())),
                IpAddr::V6(v6) => (V6, v6.to_bits()),
            },
        };
        Label([(bits >> 64) as u64, bits as u64, lengths << 4 | mark << 2 | family])
    }

    /// The mark and the network of a label at this level; `None` if it is nobody's, or has no network there.
    pub fn of_label(label: &Label, level: u8) -> Option<(Mark, ClientNetwork)> {
        let [high, low, meta] = label.0;
        let mark = *MARKS.get((meta >> 2 & 3) as usize)?;
        let length = (meta >> (4 + 8 * u32::from(level)) & 0xff) as u8;
        let address = match meta & 3 {
            UNIX if level == 0 => return Some((mark, ClientNetwork::Unix)),
            V4 => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
            V6 => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
            _ => return None,
        };
        (length > 0).then(|| (mark, ClientNetwork::Prefix(Prefix::around(address, length, length))))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::client::{ClientRules, resolve};
    use crate::request::Peer;

    fn named(peer: Peer, lengths: [Option<u8>; 2]) -> [Option<String>; LEVELS] {
        let client = resolve(&ClientRules::default(), peer, &HeaderMap::new()).unwrap();
        let [network, around] = lengths.map(|bits| bits.map(|bits| client.network_for(Some(bits), Some(2 * bits))));
        let label = client.label([Some(client.network), network, around]);
        assert!(label.0[2] >> META_BITS == 0);
        [0, 1, 2].map(|level| Client::of_label(&label, level).map(|(_, network)| network.to_string()))
    }

    #[test]
    fn a_label_names_the_client_and_its_networks() {
        let some = |names: [&str; 3]| names.map(|name| Some(name.to_owned()));
        let of = |text: &str, lengths| named(Peer::Ip(text.parse().unwrap()), lengths);
        assert_eq!(of("192.0.2.1", [Some(24), Some(16)]), some(["192.0.2.1", "192.0.2.0/24", "192.0.0.0/16"]));
        let v6 = ["2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8::/32"];
        assert_eq!(of("2001:db8:1:2::7", [Some(24), Some(16)]), some(v6));
        assert_eq!(of("192.0.2.1", [None, None]), [Some("192.0.2.1".to_owned()), None, None]);
        assert_eq!(named(Peer::Unix, [Some(24), Some(16)]), [Some("unix".to_owned()), None, None]);
        assert_eq!(Client::of_label(&Label::NOBODY, 0), None);
    }
}
