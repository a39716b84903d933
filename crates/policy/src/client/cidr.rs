//! Entries of a list of trusted networks: text to [`Prefix`], or what is wrong with it.
//!
//! Other proxies skip what they cannot read, clamp a length, or take a netmask's first number for a length; each of
//! those trusts a network that the operator did not name, or none where one was named. Here it is a fault.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::units::Prefix;
use crate::units::prefix::fold;

/// Whether a network was written with bits set behind its length, such as `10.0.0.1/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostBits {
    /// It was not.
    Clear,
    /// It was, and they were dropped: warn, because the operator may have meant the one address.
    Masked,
}

/// Reads one entry: a network (`10.0.0.0/8`), or an address, which is the network of that address alone. An IPv4-mapped
/// network is its IPv4 network: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
///
/// # Errors
/// All that cannot be read, and networks of length 0, which would believe everyone.
pub fn parse_cidr(text: &str) -> Result<(Prefix, HostBits), CidrFault> {
    let (prefix, host_bits) = parse_cidr_or_everyone(text)?;
    if prefix.length() == 0 {
        return Err(fault(text, CidrFaultKind::Everyone));
    }
    Ok((prefix, host_bits))
}

/// As [`parse_cidr`], but a length of 0 is allowed: for the `from` of `hops`, where believing everyone can be meant
/// and has to be written out. Warn when it was.
///
/// # Errors
/// All that cannot be read.
pub fn parse_cidr_or_everyone(text: &str) -> Result<(Prefix, HostBits), CidrFault> {
    let fault = |kind| fault(text, kind);
    if text.contains('%') {
        return Err(fault(CidrFaultKind::Zone));
    }
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| fault(CidrFaultKind::Unreadable))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => longest,
        Some(length) => parse_length(length).filter(|length| *length <= longest).ok_or_else(|| {
            fault(match length.parse::<Ipv4Addr>() {
                Ok(mask) => CidrFaultKind::Netmask { length: length_of(mask) },
                Err(_) => CidrFaultKind::Length { longest },
            })
        })?,
    };
    let folded = fold(address);
    let length = if folded.is_ipv4() && address.is_ipv6() {
        length.checked_sub(MAPPED).ok_or_else(|| fault(CidrFaultKind::Mapped))?
    } else {
        length
    };
    let prefix = Prefix::around(folded, length, length);
    let host_bits = if prefix.address() == folded { HostBits::Clear } else { HostBits::Masked };
    Ok((prefix, host_bits))
}

/// What is wrong with an entry, worded for the operator; the caller adds the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrFault {
    /// The entry as written.
    pub found: String,
    /// The cause.
    pub kind: CidrFaultKind,
}

/// Why an entry is not a network to trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CidrFaultKind {
    /// The part before `/` is no IPv4 or IPv6 address.
    Unreadable,
    /// The part behind `/` is no number in the range of its family.
    Length {
        /// 32 or 128.
        longest: u8,
    },
    /// The part behind `/` is an IPv4 address.
    Netmask {
        /// The length that it stands for, if its bits are contiguous.
        length: Option<u8>,
    },
    /// The address has a zone.
    Zone,
    /// An IPv4-mapped address with a length that reaches beyond the mapped addresses.
    Mapped,
    /// Length 0.
    Everyone,
}

impl CidrFault {
    /// What is allowed instead, as a phrase.
    pub fn allowed(&self) -> String {
        match self.kind {
            CidrFaultKind::Unreadable => "allowed an address or a network, such as 10.0.0.0/8 or 2001:db8::/32".into(),
            CidrFaultKind::Length { longest } => {
                let family = if longest == 32 { "IPv4" } else { "IPv6" };
                format!("allowed an {family} length of 1 to {longest}")
            }
            CidrFaultKind::Netmask { .. } => "a netmask is not allowed, a length from 1 to 32 is".into(),
            CidrFaultKind::Zone => "a zone is not allowed, because it names an interface and no network".into(),
            CidrFaultKind::Mapped => "an IPv4-mapped network needs a length of 97 to 128".into(),
            CidrFaultKind::Everyone => "a length of 0 is not allowed, because anyone could then name any client".into(),
        }
    }

    /// What to write, where that can be told.
    pub fn way_out(&self) -> Option<String> {
        let address = self.found.split(['/', '%']).next().unwrap_or_default();
        match self.kind {
            CidrFaultKind::Netmask { length: Some(length) } => Some(format!("write {address}/{length}")),
            CidrFaultKind::Zone => {
                let length = self.found.split('%').find_map(|part| part.split_once('/'));
                Some(length.map_or(format!("write {address}"), |(_, length)| format!("write {address}/{length}")))
            }
            CidrFaultKind::Mapped => Some("write the IPv4 network itself".into()),
            CidrFaultKind::Everyone => Some("list the networks of your own proxies".into()),
            _ => None,
        }
    }
}

impl fmt::Display for CidrFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:?}; {}", self.found, self.allowed())?;
        self.way_out().map_or(Ok(()), |way_out| write!(f, "; {way_out}"))
    }
}

impl std::error::Error for CidrFault {}

/// The length of `::ffff:0:0/96`, which all mapped networks lie in.
const MAPPED: u8 = 96;

fn fault(text: &str, kind: CidrFaultKind) -> CidrFault {
    CidrFault { found: text.to_owned(), kind }
}

/// Digits only: the standard library would take a sign, and a leading zero may be meant as octal.
fn parse_length(text: &str) -> Option<u8> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if canonical { text.parse().ok() } else { None }
}

fn length_of(mask: Ipv4Addr) -> Option<u8> {
    let (ones, zeros) = (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros());
    (ones > 0 && ones + zeros == 32).then_some(ones as u8)
}
