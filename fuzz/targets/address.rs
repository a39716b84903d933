//! Addresses and networks as text (`client::address`, `client::cidr`, `client::trust`). The input is a list of lines.
//!
//! - A line is an element of `X-Forwarded-For`, a node of `Forwarded` and a trust entry exactly when a slow reading by the
//!   standard library says so, and then the same one; what is read prints and reads back.
//! - A network holds what its bits say, alone and in a [`ProxySet`] of all lines.
//! - An IPv4 address inside IPv6 is found where RFC 6052 section 2.2 puts it, octet by octet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate::client::ProxySet;
use tidegate::client::address::{MAX_ELEMENT_BYTES, Translation, key_network, keyed_as, parse_element, parse_node};
use tidegate::client::trust::{HostBits, parse_cidr, parse_cidr_or_everyone};
use tidegate::request::Peer;
use tidegate::units::Prefix;

use super::cost::{self, USUAL, Work};

/// More lines say nothing new.
const MOST_LINES: usize = 24;

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| {
        for line in data.split(|byte| *byte == b'\n') {
            drop((parse_element(line), parse_node(line), std::str::from_utf8(line).ok().map(parse_cidr)));
        }
    }))
}

/// The target.
pub fn address(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(MOST_LINES).collect();
    let mut addresses = Vec::new();
    let mut networks = Vec::new();
    for line in &lines {
        addresses.extend(element(line));
        addresses.extend(node(line));
        networks.extend(std::str::from_utf8(line).ok().and_then(network));
    }
    for network in &networks {
        // the ends, where a shift by one too many shows
        addresses.extend([network.address(), last_of(network)]);
    }
    let set = ProxySet::new(networks.iter().copied(), false);
    let translations: Vec<Translation> =
        networks.iter().filter_map(|network| Translation::new(*network).ok()).collect();
    for address in addresses {
        let inside = |network: &&Prefix| holds(network, address);
        for network in &networks {
            assert_eq!(network.contains(address), holds(network, address), "{network} and {address}");
        }
        assert_eq!(set.contains(Peer::Ip(address)), networks.iter().any(|network| inside(&network)), "{address}");
        keyed(address, &networks, &translations);
    }
}

fn element(text: &[u8]) -> Option<IpAddr> {
    let found = parse_element(text);
    assert_eq!(found, slow_element(text), "element {}", text.escape_ascii());
    round_trip(found);
    found
}

fn node(text: &[u8]) -> Option<IpAddr> {
    let found = parse_node(text);
    assert_eq!(found, slow_node(text), "node {}", text.escape_ascii());
    round_trip(found);
    found
}

fn round_trip(found: Option<IpAddr>) {
    let Some(address) = found else { return };
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    assert!(!mapped && !address.is_unspecified(), "{address}");
    assert_eq!(parse_element(address.to_string().as_bytes()), found);
    let node = if address.is_ipv4() { address.to_string() } else { format!("[{address}]") };
    assert_eq!(parse_node(node.as_bytes()), found);
}

/// An element of `X-Forwarded-For`, read by the standard library.
pub fn slow_element(text: &[u8]) -> Option<IpAddr> {
    let text = short_text(text)?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, behind) = bracketed.split_once(']')?;
        return named(slow_ipv6(inside)?)
            .filter(|_| behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port));
    }
    match (text.parse::<Ipv4Addr>(), text.split_once(':')) {
        (Ok(v4), _) => named(v4.into()),
        (Err(_), Some((v4, port))) if v4.contains('.') => {
            v4.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).and_then(|v4| named(v4.into()))
        }
        _ => named(slow_ipv6(text)?),
    }
}

/// A node of `Forwarded`, read by the standard library.
pub fn slow_node(text: &[u8]) -> Option<IpAddr> {
    let text = short_text(text)?;
    let (address, behind): (IpAddr, &str) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (inside, behind) = bracketed.split_once(']')?;
            (slow_ipv6(inside)?, behind)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (text[..end].parse::<Ipv4Addr>().ok()?.into(), &text[end..])
        }
    };
    let obfuscated = |port: &str| {
        let name = port.strip_prefix('_').unwrap_or_default();
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
    };
    let port = behind.is_empty() || behind.strip_prefix(':').is_some_and(|port| is_port(port) || obfuscated(port));
    named(address).filter(|_| port)
}

fn short_text(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_ELEMENT_BYTES)
}

/// With a zone only where one makes sense.
fn slow_ipv6(text: &str) -> Option<IpAddr> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let is_zone = |zone: &str| {
        let known = |char: char| char.is_ascii_alphanumeric() || "-._~".contains(char);
        !zone.is_empty() && zone.chars().all(known) && address.segments()[0] & 0xffc0 == 0xfe80
    };
    zone.is_none_or(is_zone).then_some(address.into())
}

fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// IPv4-mapped addresses are IPv4, and those that name nobody are none.
fn named(address: IpAddr) -> Option<IpAddr> {
    Some(address.to_canonical()).filter(|address| !address.is_unspecified())
}

fn network(text: &str) -> Option<Prefix> {
    let found = parse_cidr_or_everyone(text);
    let slow = slow_network(text);
    assert_eq!(found.as_ref().ok().map(|(prefix, bits)| (prefix.address(), prefix.length(), *bits)), slow, "{text:?}");
    match (&found, parse_cidr(text)) {
        (Ok((prefix, _)), Ok(same)) => assert_eq!((*prefix, prefix.length() > 0), (same.0, true)),
        (Ok((prefix, _)), Err(_)) => assert_eq!(prefix.length(), 0, "{text:?}"),
        (Err(fault), Err(same)) => {
            assert_eq!(*fault, same);
            assert!(fault.to_string().starts_with("found "));
        }
        (Err(_), Ok(_)) => panic!("{text:?} names nobody and somebody"),
    }
    let (prefix, _) = found.ok()?;
    // a way out that is offered must be one
    let shown = if prefix.length() == 0 { format!("{}/0", prefix.address()) } else { prefix.to_string() };
    assert_eq!(parse_cidr_or_everyone(&shown).ok(), Some((prefix, HostBits::Clear)), "{shown}");
    Some(prefix)
}

/// Address, length and whether bits were dropped, all by arithmetic on octets.
fn slow_network(text: &str) -> Option<(IpAddr, u8, HostBits)> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length: u8 = match length {
        None => bits,
        Some(length) => (0..=bits).find(|number| number.to_string() == length)?,
    };
    let folded = address.to_canonical();
    let length = if folded.is_ipv4() { length.checked_sub(bits - 32)? } else { length };
    let mut octets = octets(folded);
    let mut dropped = false;
    for bit in usize::from(length)..8 * octets.len() {
        let mask = 0x80 >> (bit % 8);
        dropped |= octets[bit / 8] & mask != 0;
        octets[bit / 8] &= !mask;
    }
    Some((from_octets(&octets), length, if dropped { HostBits::Masked } else { HostBits::Clear }))
}

/// Whether the first bits are equal, one by one.
fn holds(network: &Prefix, address: IpAddr) -> bool {
    let (inside, address) = (octets(network.address()), octets(address.to_canonical()));
    let bit = |octets: &[u8], at: usize| octets[at / 8] >> (7 - at % 8) & 1;
    inside.len() == address.len() && (0..usize::from(network.length())).all(|at| bit(&inside, at) == bit(&address, at))
}

fn last_of(network: &Prefix) -> IpAddr {
    let mut octets = octets(network.address());
    for bit in usize::from(network.length())..8 * octets.len() {
        octets[bit / 8] |= 0x80 >> (bit % 8);
    }
    from_octets(&octets)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn from_octets(octets: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(octets) {
        Ok(v4) => v4.into(),
        Err(_) => <[u8; 16]>::try_from(octets).expect("four octets or sixteen").into(),
    }
}

/// What an address is counted by.
fn keyed(address: IpAddr, networks: &[Prefix], translations: &[Translation]) {
    let keyed = keyed_as(address, translations);
    let inside = networks.iter().find_map(|network| translated(network, address));
    let well_known = Prefix::new("64:ff9b::".parse().expect("an address"), 96).expect("a length");
    match (address.to_canonical(), keyed) {
        (folded, same) if folded == same => assert_eq!(inside, None, "{address} is left as it is"),
        (IpAddr::V6(v6), IpAddr::V4(v4)) => {
            let global = well_known.contains(v6.into()) && octets(v6.into())[12..] == v4.octets();
            assert!(global || inside == Some(v4), "{address} became {v4}");
        }
        other => panic!("{address} became {other:?}"),
    }
    let network = key_network(keyed, 24, 64);
    assert!(network.contains(keyed) && network.length() <= if keyed.is_ipv4() { 24 } else { 64 });
    assert_eq!(key_network(keyed, 200, 200).address(), keyed);
}

/// The IPv4 address in a translated one, by the table of RFC 6052 section 2.2.
fn translated(network: &Prefix, address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address.to_canonical() else { return None };
    let octets = v6.octets();
    let places: [usize; 4] = match (network.address(), network.length()) {
        (IpAddr::V6(_), 32) => [4, 5, 6, 7],
        (IpAddr::V6(_), 40) => [5, 6, 7, 9],
        (IpAddr::V6(_), 48) => [6, 7, 9, 10],
        (IpAddr::V6(_), 56) => [7, 9, 10, 11],
        (IpAddr::V6(_), 64) => [9, 10, 11, 12],
        (IpAddr::V6(_), 96) => [12, 13, 14, 15],
        _ => return None,
    };
    let reserved_is_zero = network.length() == 96 || octets[8] == 0;
    (holds(network, address) && reserved_is_zero).then(|| places.map(|place| octets[place]).into())
}
