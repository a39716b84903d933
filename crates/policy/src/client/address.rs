//! From text to an address, and from an address to what it is counted by.
//!
//! Strict where a lenient reader would let one text mean two addresses (leading zeros, hexadecimal and short forms),
//! tolerant where proxies differ and nothing can be confused (ports, brackets). What cannot be read is `None`, never an
//! error: a stranger's text must not be able to fail a request.
//!
//! Sources: RFC 4291 §2.2 (IPv6 text), RFC 4007 §11 (zones), RFC 6052 §2.2 and §3.1 (IPv4 inside NAT64 addresses),
//! RFC 3056 §2 (6to4), RFC 7239 §6 (nodes), IANA's IPv4 special-purpose address registry (what is global).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::units::prefix::fold;
use crate::units::{OutOfRange, Prefix};

/// An element longer than this is not read. The longest address, bracketed, with zone and port, is shorter.
pub const MAX_ELEMENT_BYTES: usize = 64;

/// Reads one trimmed element of `X-Forwarded-For`: an IPv4 address with or without `:port`, an IPv6 address, or one in
/// brackets with or without `:port`. IPv4-mapped IPv6 comes back as IPv4, a link-local zone is dropped.
///
/// `None` is unreadable: everything else, among it the unspecified addresses, a zone on an address that is not
/// link-local, and more than [`MAX_ELEMENT_BYTES`].
pub fn parse_element(text: &[u8]) -> Option<IpAddr> {
    if text.len() > MAX_ELEMENT_BYTES {
        return None;
    }
    let address = if let Some(bracketed) = text.strip_prefix(b"[") {
        let (v6, rest) = split_bracketed(bracketed)?;
        is_port_or_nothing(rest, is_port).then_some(IpAddr::V6(v6))?
    } else if let Some((v4, rest)) = split_ipv4(text) {
        is_port_or_nothing(rest, is_port).then_some(IpAddr::V4(v4))?
    } else {
        IpAddr::V6(parse_ipv6(text)?)
    };
    specified(address)
}

/// Reads the node of a `Forwarded` element, already unquoted: IPv4 or bracketed IPv6, each with or without a port,
/// which may be obfuscated. `unknown`, obfuscated nodes and all else are `None`.
pub fn parse_node(text: &[u8]) -> Option<IpAddr> {
    if text.len() > MAX_ELEMENT_BYTES {
        return None;
    }
    let (address, rest) = if let Some(bracketed) = text.strip_prefix(b"[") {
        let (v6, rest) = split_bracketed(bracketed)?;
        (IpAddr::V6(v6), rest)
    } else {
        let (v4, rest) = split_ipv4(text)?;
        (IpAddr::V4(v4), rest)
    };
    is_port_or_nothing(rest, |port| is_port(port) || is_obfuscated(port)).then_some(())?;
    specified(address)
}

/// The address that stands for `address` in keys; never used for trust.
///
/// An address under the well-known NAT64 prefix with a globally routable IPv4 address inside becomes that address, so
/// that the whole IPv4 Internet does not share one /64; RFC 6052 §3.1 forbids others inside. An address under one of
/// the operator's own `translation` prefixes becomes whatever IPv4 address is inside, because private ones are allowed
/// there.
pub fn keyed_as(address: IpAddr, translation: &[Translation]) -> IpAddr {
    let v6 = match fold(address) {
        IpAddr::V6(v6) => v6,
        v4 => return v4,
    };
    if let Some(v4) = Translation::WELL_KNOWN.inside(v6).filter(|v4| is_global(*v4)) {
        return IpAddr::V4(v4);
    }
    match translation.iter().find_map(|prefix| prefix.inside(v6)) {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(v6),
    }
}

/// The network that a keyed address is counted by. A 6to4 site is one IPv4 address, so it is never split below its /48;
/// a length beyond the family is the whole address.
#[inline]
pub fn key_network(keyed: IpAddr, ipv4_prefix: u8, ipv6_prefix: u8) -> Prefix {
    let is_6to4 = matches!(keyed, IpAddr::V6(v6) if v6.octets().starts_with(&[0x20, 0x02]));
    let ipv6_prefix = if is_6to4 { ipv6_prefix.min(SITE_OF_6TO4) } else { ipv6_prefix };
    Prefix::around(keyed, ipv4_prefix, ipv6_prefix)
}

/// A prefix under which a translator (NAT64) writes IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    network: Ipv6Addr,
    /// The bits that must equal those of `network`: its own and, in prefixes shorter than 96, the reserved octet.
    mask: u128,
    /// How many bits come before the IPv4 address.
    length: u8,
}

impl Translation {
    /// `64:ff9b::/96` (RFC 6052 §2.1).
    const WELL_KNOWN: Translation =
        Translation { network: Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), mask: u128::MAX << 32, length: 96 };

    /// # Errors
    /// An IPv4 network, or a length that RFC 6052 §2.2 does not give a place for the IPv4 address in.
    pub fn new(prefix: Prefix) -> Result<Translation, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "an IPv6 network of length 32, 40, 48, 56, 64 or 96" };
        let IpAddr::V6(network) = prefix.address() else { return Err(ALLOWED) };
        let length = prefix.length();
        match length {
            32 | 40 | 48 | 56 | 64 => {
                let mask = u128::MAX << (128 - u32::from(length)) | RESERVED_OCTET;
                Ok(Translation { network, mask, length })
            }
            96 => Ok(Translation { network, mask: u128::MAX << 32, length }),
            _ => Err(ALLOWED),
        }
    }

    /// Returns whether all addresses of the well-known translator, or of one of `own`, are in the network.
    pub fn any_in(network: Prefix, own: &[Translation]) -> bool {
        let is_in = |translation: &Translation| {
            network.length() <= translation.length && network.contains(IpAddr::V6(translation.network))
        };
        is_in(&Translation::WELL_KNOWN) || own.iter().any(is_in)
    }

    /// The IPv4 address that the translator wrote into `address`, if it is one of its own. Bits behind it are ignored.
    fn inside(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let bits = address.to_bits();
        if bits & self.mask != self.network.to_bits() {
            return None;
        }
        // close the gap that the reserved octet (bits 64 to 71) makes in prefixes shorter than 96
        let packed = if self.length == 96 {
            bits << 96
        } else {
            let left = bits & (u128::MAX << 64);
            let right = bits & (u128::MAX >> 72);
            (left | right << 8) << self.length
        };
        Some(Ipv4Addr::from_bits((packed >> 96) as u32))
    }
}

/// Bits 64 to 71, zero in every address made under a prefix shorter than 96 (RFC 6052 §2.2).
const RESERVED_OCTET: u128 = 0xff << 56;

/// `2002:` and 32 bits of IPv4 address (RFC 3056 §2).
const SITE_OF_6TO4: u8 = 48;

/// Whether a packet from `address` may arrive over the public Internet, by IANA's special-purpose registry.
fn is_global(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    let special = match a {
        0 | 10 | 127 | 224..=255 => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        // 192.0.0.9 and 192.0.0.10 are anycast addresses that the registry calls globally reachable
        192 => b == 168 || (b == 0 && (c == 2 || (c == 0 && d != 9 && d != 10))),
        198 => b == 18 || b == 19 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => false,
    };
    !special
}

/// Folded, and not one of the two addresses that name nobody.
fn specified(address: IpAddr) -> Option<IpAddr> {
    Some(fold(address)).filter(|address| !address.is_unspecified())
}

/// Four decimal octets without leading zeros at the start of `text`, and what follows them.
fn split_ipv4(text: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let (a, rest) = split_octet(text)?;
    let (b, rest) = split_octet(rest.strip_prefix(b".")?)?;
    let (c, rest) = split_octet(rest.strip_prefix(b".")?)?;
    let (d, rest) = split_octet(rest.strip_prefix(b".")?)?;
    Some((Ipv4Addr::new(a, b, c, d), rest))
}

/// Four decimal octets without leading zeros at the end of `text`, and what precedes them; the address is `None` when
/// it is the unspecified one. What cannot be read this way may still be an address in another form.
#[inline]
pub(super) fn split_ipv4_from_right(text: &[u8]) -> Option<(&[u8], Option<IpAddr>)> {
    let (text, d) = split_octet_from_right(text)?;
    let (text, c) = split_octet_from_right(text.strip_suffix(b".")?)?;
    let (text, b) = split_octet_from_right(text.strip_suffix(b".")?)?;
    let (text, a) = split_octet_from_right(text.strip_suffix(b".")?)?;
    Some((text, specified(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))))
}

#[inline]
fn split_octet_from_right(text: &[u8]) -> Option<(&[u8], u8)> {
    let (first, rest) = text.split_last().and_then(|(byte, rest)| Some((digit(*byte)?, rest)))?;
    let Some((second, rest)) = rest.split_last().and_then(|(byte, rest)| Some((digit(*byte)?, rest))) else {
        return Some((rest, first));
    };
    let Some((third, rest)) = rest.split_last().and_then(|(byte, rest)| Some((digit(*byte)?, rest))) else {
        // a leading zero is decimal to some readers and octal to others
        return (second != 0).then_some((rest, second * 10 + first));
    };
    let octet = u16::from(third) * 100 + u16::from(second * 10 + first);
    (third != 0).then_some((rest, u8::try_from(octet).ok()?))
}

/// One decimal octet; a further digit behind it makes it unreadable rather than two numbers.
fn split_octet(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, mut rest) = text.split_first()?;
    let mut octet = u16::from(digit(*first)?);
    while let [next, behind @ ..] = rest
        && let Some(next) = digit(*next)
    {
        // a leading zero is decimal to some readers and octal to others
        if octet == 0 {
            return None;
        }
        octet = octet * 10 + u16::from(next);
        if octet > 255 {
            return None;
        }
        rest = behind;
    }
    Some((octet as u8, rest))
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then_some(byte & 0x0f)
}

/// What follows `[`: an IPv6 address up to the first `]`, and what follows that.
fn split_bracketed(text: &[u8]) -> Option<(Ipv6Addr, &[u8])> {
    let end = text.iter().position(|byte| *byte == b']')?;
    let (inside, rest) = text.split_at_checked(end)?;
    Some((parse_ipv6(inside)?, rest.strip_prefix(b"]")?))
}

/// RFC 4291 text with an optional zone, which only a link-local address may carry and which means nothing beyond the
/// machine that wrote it.
fn parse_ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let (address, rest) = split_ipv6(text)?;
    match rest.strip_prefix(b"%") {
        None => rest.is_empty().then_some(address),
        Some(zone) => (is_zone(zone) && address.is_unicast_link_local()).then_some(address),
    }
}

/// Eight groups of one to four hexadecimal digits, the last two of which may be an IPv4 address, at the start of
/// `text`, with one `::` for one group of zeros or more; and what follows them. Agrees with the standard library on
/// every text, which a test holds it to, and takes a fifth of its time.
fn split_ipv6(text: &[u8]) -> Option<(Ipv6Addr, &[u8])> {
    let (mut bits, mut groups) = (0u128, 0);
    let mut groups_before_gap = None;
    let mut rest = text;
    if let Some(behind) = text.strip_prefix(b"::") {
        (groups_before_gap, rest) = (Some(0), behind);
    }
    loop {
        let (group, behind) = match split_group(rest) {
            Some(split) => split,
            // the gap may end the address
            None if groups_before_gap == Some(groups) => break,
            None => return None,
        };
        if behind.starts_with(b".") {
            let (v4, behind) = split_ipv4(rest)?;
            (bits, groups, rest) = (bits << 32 | u128::from(v4.to_bits()), groups + 2, behind);
            break;
        }
        (bits, groups, rest) = (bits << 16 | group, groups + 1, behind);
        match behind.strip_prefix(b":") {
            None => break,
            Some(behind) => match behind.strip_prefix(b":") {
                None => rest = behind,
                Some(_) if groups_before_gap.is_some() => return None,
                Some(behind) => (groups_before_gap, rest) = (Some(groups), behind),
            },
        }
    }
    let bits = match groups_before_gap {
        None if groups == 8 => bits,
        Some(before) if groups < 8 => {
            let behind = 16 * (groups - before);
            let left = bits >> behind;
            let right = bits & !(u128::MAX << behind);
            left.checked_shl(16 * (8 - before)).unwrap_or(0) | right
        }
        _ => return None,
    };
    Some((Ipv6Addr::from_bits(bits), rest))
}

/// One to four hexadecimal digits.
fn split_group(text: &[u8]) -> Option<(u128, &[u8])> {
    let (mut group, mut rest) = (0, text);
    while let [digit, behind @ ..] = rest
        && let Some(digit) = (*digit as char).to_digit(16)
    {
        group = group << 4 | digit;
        rest = behind;
        if text.len() - rest.len() > 4 {
            return None;
        }
    }
    (rest.len() < text.len()).then_some((u128::from(group), rest))
}

/// The characters of RFC 6874's `ZoneID`, without percent-encoding.
fn is_zone(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte))
}

fn is_port_or_nothing(rest: &[u8], port: impl Fn(&[u8]) -> bool) -> bool {
    rest.is_empty() || rest.strip_prefix(b":").is_some_and(port)
}

/// One to five digits, 0 to 65535.
fn is_port(text: &[u8]) -> bool {
    let value = |sum: u32, byte: &u8| Some(sum * 10 + u32::from(digit(*byte)?));
    (1..=5).contains(&text.len()) && text.iter().try_fold(0, value).is_some_and(|port| port <= 65_535)
}

/// RFC 7239 §6.3: an underscore, then letters, digits and `.`, `_`, `-`.
fn is_obfuscated(text: &[u8]) -> bool {
    text.strip_prefix(b"_").is_some_and(|name| {
        !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(prefix: &str, length: u8, address: &str) -> Option<String> {
        let prefix = Prefix::new(prefix.parse().unwrap(), length).unwrap();
        let translation = Translation::new(prefix).unwrap();
        translation.inside(address.parse().unwrap()).map(|v4| v4.to_string())
    }

    #[test]
    fn finds_the_ipv4_address_where_rfc_6052_puts_it() {
        // the table of RFC 6052 §2.4
        for (prefix, length, address) in [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
        ] {
            assert_eq!(inside(prefix, length, address).as_deref(), Some("192.0.2.33"), "/{length}");
        }
        assert_eq!(inside("2001:db8:122::", 48, "2001:db8:122:c000:102:2100::"), None, "reserved octet not zero");
        assert_eq!(inside("2001:db8:122::", 48, "2001:db8:123:c000:2:2100::"), None, "another network");
    }

    #[test]
    fn only_lengths_with_a_place_for_ipv4_are_translation_prefixes() {
        for length in 0..=128 {
            let prefix = Prefix::new("2001:db8::".parse().unwrap(), length).unwrap();
            assert_eq!(Translation::new(prefix).is_ok(), [32, 40, 48, 56, 64, 96].contains(&length), "/{length}");
        }
        assert!(Translation::new(Prefix::new("10.0.0.0".parse().unwrap(), 32).unwrap()).is_err());
    }

    #[test]
    fn special_purpose_networks_are_not_global_at_either_end() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.8"),
            ("192.0.0.11", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().unwrap(), last.parse().unwrap());
            assert!(!is_global(first) && !is_global(last), "{first} to {last}");
            let before = first.to_bits().checked_sub(1).map(Ipv4Addr::from_bits);
            let behind = last.to_bits().checked_add(1).map(Ipv4Addr::from_bits);
            assert!([before, behind].into_iter().flatten().all(is_global), "beside {first} to {last}");
        }
    }
}
