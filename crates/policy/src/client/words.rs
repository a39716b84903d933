//! A client as three words, for the process that takes this one's place. What it is counted by is found anew, by the rules there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::identity::{Client, ClientAddress, Mark};
use super::trust::ClientRules;
use crate::request::Peer;

const UNIX: u64 = 0;
const V4: u64 = 1;
const V6: u64 = 2;
const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];

impl Client {
    /// Its words.
    pub fn words(&self) -> [u64; 3] {
        let (family, bits) = match self.address {
            ClientAddress::Unix => (UNIX, 0),
            ClientAddress::Ip(IpAddr::V4(v4)) => (V4, u128::from(v4.to_bits())),
            ClientAddress::Ip(IpAddr::V6(v6)) => (V6, v6.to_bits()),
        };
        let mark = MARKS.iter().position(|mark| *mark == self.mark).unwrap_or_default() as u64;
        let flags = u64::from(self.peer_trusted) << 4 | u64::from(self.ignored_header) << 5;
        [(bits >> 64) as u64, bits as u64, family | mark << 2 | flags | u64::from(self.hops) << 8]
    }

    /// The client of these words by these rules; `None`: they are nobody's.
    pub fn of_words([high, low, meta]: [u64; 3], rules: &ClientRules) -> Option<Client> {
        let peer = match meta & 3 {
            UNIX => Peer::Unix,
            V4 => Peer::Ip(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(low).ok()?))),
            V6 => Peer::Ip(IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))),
            _ => return None,
        };
        let (mark, hops) = (*MARKS.get((meta >> 2 & 3) as usize)?, u8::try_from(meta >> 8).ok()?);
        let (peer_trusted, ignored_header) = (meta >> 4 & 1 == 1, meta >> 5 & 1 == 1);
        Some(Client::found(rules, peer, hops, mark).told(peer_trusted, ignored_header))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_client_is_the_same_in_words(
            address in prop_oneof![
                Just(Peer::Unix),
                any::<u32>().prop_map(|bits| Peer::Ip(IpAddr::V4(bits.into()))),
                any::<u128>().prop_map(|bits| Peer::Ip(Ipv6Addr::from_bits(bits).to_canonical())),
            ],
            hops in 0_u8..33,
            mark in prop::sample::select(&MARKS[..]),
            flags in any::<[bool; 2]>(),
        ) {
            let rules = ClientRules::default();
            let [peer_trusted, ignored_header] = flags;
            let client = Client::found(&rules, address, hops, mark).told(peer_trusted, ignored_header);
            prop_assert_eq!(Client::of_words(client.words(), &rules), Some(client));
        }

        #[test]
        fn other_words_are_nobody_or_somebody_and_no_panic(words in any::<[u64; 3]>()) {
            let _ = Client::of_words(words, &ClientRules::default());
        }
    }
}
