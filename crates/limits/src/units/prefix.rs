//! An IP network in its one canonical form.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::OutOfRange;

/// An IPv4 or IPv6 network: host bits are zero and IPv4-mapped IPv6 is folded to IPv4, so equal networks are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The network of `length` bits around `address`. The length counts in the family of the folded address.
    ///
    /// # Errors
    /// A length over 32 for IPv4 or over 128 for IPv6.
    pub fn new(address: IpAddr, length: u8) -> Result<Prefix, OutOfRange> {
        match fold(address) {
            IpAddr::V4(_) if length > 32 => Err(OutOfRange { allowed: "0 to 32" }),
            IpAddr::V6(_) if length > 128 => Err(OutOfRange { allowed: "0 to 128" }),
            folded => Ok(Prefix::around(folded, length, length)),
        }
    }

    /// The network around `address`, as wide as the length for its family says. A length beyond the family is the whole
    /// address, so this cannot fail.
    #[inline]
    pub fn around(address: IpAddr, ipv4_length: u8, ipv6_length: u8) -> Prefix {
        match fold(address) {
            IpAddr::V4(v4) => {
                let length = ipv4_length.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Prefix { address: IpAddr::V4((v4.to_bits() & mask).into()), length }
            }
            IpAddr::V6(v6) => {
                let length = ipv6_length.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Prefix { address: IpAddr::V6((v6.to_bits() & mask).into()), length }
            }
        }
    }

    /// The first address of the network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The number of fixed bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether `address`, folded, lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        Prefix::new(address, self.length)
            .is_ok_and(|other| other == *self && other.address.is_ipv4() == self.address.is_ipv4())
    }

    /// The canonical bytes that keys are made of: family (4 or 6), length, then the address in network order.
    /// Returns the buffer and how much of it is used.
    pub fn key_bytes(&self) -> ([u8; 18], usize) {
        let mut bytes = [0; 18];
        bytes[1] = self.length;
        match self.address {
            IpAddr::V4(v4) => {
                bytes[0] = 4;
                bytes[2..6].copy_from_slice(&v4.octets());
                (bytes, 6)
            }
            IpAddr::V6(v6) => {
                bytes[0] = 6;
                bytes[2..18].copy_from_slice(&v6.octets());
                (bytes, 18)
            }
        }
    }
}

impl fmt::Display for Prefix {
    /// A whole address without its length (`192.0.2.1`), anything wider with it (`2001:db8::/64`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.length == whole { write!(f, "{}", self.address) } else { write!(f, "{}/{}", self.address, self.length) }
    }
}

/// IPv4-mapped IPv6 (`::ffff:0:0/96`) becomes the IPv4 address inside; all else stays.
#[inline]
pub fn fold(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => fold_v6(v6),
        v4 => v4,
    }
}

fn fold_v6(v6: Ipv6Addr) -> IpAddr {
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn equal_networks_are_equal_values() {
        assert_eq!(prefix("192.0.2.77", 24), prefix("192.0.2.1", 24));
        assert_eq!(prefix("2001:db8::1", 64), prefix("2001:db8::ffff", 64));
        assert_eq!(prefix("::ffff:192.0.2.1", 32), prefix("192.0.2.1", 32));
    }

    #[test]
    fn the_whole_internet_is_a_prefix_and_families_do_not_mix() {
        assert!(prefix("0.0.0.0", 0).contains("8.8.8.8".parse().unwrap()));
        assert!(!prefix("0.0.0.0", 0).contains("2001:db8::1".parse().unwrap()));
        assert!(prefix("::", 0).contains("2001:db8::1".parse().unwrap()));
        assert!(!prefix("::", 0).contains("8.8.8.8".parse().unwrap()));
        assert!(prefix("10.0.0.0", 8).contains("::ffff:10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn lengths_beyond_the_family_are_refused() {
        assert!(Prefix::new("192.0.2.1".parse().unwrap(), 33).is_err());
        assert!(Prefix::new("2001:db8::1".parse().unwrap(), 129).is_err());
        assert!(Prefix::new("::ffff:192.0.2.1".parse().unwrap(), 96).is_err());
    }

    #[test]
    fn around_takes_the_length_of_the_family_and_never_fails() {
        let around = |text: &str, v4, v6| Prefix::around(text.parse().unwrap(), v4, v6).to_string();
        assert_eq!(around("192.0.2.77", 24, 64), "192.0.2.0/24");
        assert_eq!(around("::ffff:192.0.2.77", 24, 64), "192.0.2.0/24");
        assert_eq!(around("2001:db8::1", 24, 64), "2001:db8::/64");
        assert_eq!(around("192.0.2.77", 255, 255), "192.0.2.77");
        assert_eq!(around("2001:db8::1", 0, 0), "::/0");
    }

    #[test]
    fn key_bytes_tell_family_and_length_apart() {
        let (a, n) = prefix("192.0.2.1", 32).key_bytes();
        assert_eq!(a[..n], [4, 32, 192, 0, 2, 1]);
        let (b, n) = prefix("2001:db8::1", 64).key_bytes();
        assert_eq!(b[..4], [6, 64, 0x20, 0x01]);
        assert_eq!(n, 18);
    }

    #[test]
    fn prints_like_the_vectors() {
        assert_eq!(prefix("192.0.2.1", 32).to_string(), "192.0.2.1");
        assert_eq!(prefix("2001:db8::1", 64).to_string(), "2001:db8::/64");
    }
}
