//! The few header fields that decide how a request is read: gathered line by line, judged together at the end.

use super::framing::{Body, Framing, Version};
use super::scan::{FOLDED, TOKEN, class, is, trim};
use crate::authority::host_name;
use crate::fault::HeadFault;
use crate::hearsay;

/// Fields that someone behind us trusts, beside those that [`hearsay`] lists: neither may a `Connection` option strip them nor
/// a twin imitate them (CGI and its descendants read `X_Forwarded_For` as `X-Forwarded-For`).
const TRUSTED: [&str; 10] = [
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "transfer-encoding",
    "via",
    "x-forwarded-for",
];

/// The most options that `Connection` may have. Pingora refuses a tenth, after the request was judged.
const MOST_OPTIONS: usize = 9;
/// The same with the empty ones, of which a few are to be passed over (RFC 9110 section 5.6.1.2): each is read by all who read the
/// field, so thousands would cost many times what their bytes do.
const MOST_ELEMENTS: usize = 64;

/// What is done with a field such as `X_Forwarded_For`, which CGI and its descendants cannot tell from `X-Forwarded-For`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnderscoreTwins {
    /// The request is refused.
    Refuse,
    /// It passes as it is.
    Allow,
}

/// What was seen so far.
#[derive(Debug)]
pub struct Fields<'a> {
    twins: UnderscoreTwins,
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    expect: bool,
    upgrade: bool,
    /// To another HTTP.
    upgrades_http: bool,
    /// `Connection` names it.
    upgrade_option: bool,
    close: bool,
    keep_alive: bool,
    hop_by_hop: bool,
    /// How many options `Connection` has.
    options: usize,
    /// The same with empty ones.
    elements: usize,
}

/// Whether the field is about one connection only and must not travel on (RFC 9110 section 7.6.1, with the older names).
fn is_hop_by_hop(name: &[u8]) -> bool {
    let known: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        7 => &[b"upgrade", b"trailer"],
        10 => &[b"connection", b"keep-alive"],
        14 => &[b"http2-settings"],
        16 => &[b"proxy-connection"],
        17 => &[b"transfer-encoding"],
        18 => &[b"proxy-authenticate"],
        19 => &[b"proxy-authorization"],
        _ => return false,
    };
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

impl<'a> Fields<'a> {
    /// None yet.
    pub fn new(twins: UnderscoreTwins) -> Fields<'a> {
        Fields {
            twins,
            host: None,
            length: None,
            chunked: false,
            expect: false,
            upgrade: false,
            upgrades_http: false,
            upgrade_option: false,
            close: false,
            keep_alive: false,
            hop_by_hop: false,
            options: 0,
            elements: 0,
        }
    }

    /// Takes note of one field; the value is trimmed.
    #[inline]
    pub fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), HeadFault> {
        self.hop_by_hop |= is_hop_by_hop(name);
        // the length tells nearly all other fields apart before a letter is compared
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.take_host(value),
            6 if name.eq_ignore_ascii_case(b"expect") => self.take_expect(value),
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.take_upgrade(value);
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => self.take_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.take_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.take_encoding(value),
            _ if is_twin(name) && (self.twins == UnderscoreTwins::Refuse || is_framing_twin(name)) => {
                Err(HeadFault::UnderscoreTwin)
            }
            _ => Ok(()),
        }
    }

    /// The host as it was written; empty if there was none.
    pub fn host(&self) -> &'a [u8] {
        self.host.unwrap_or_default()
    }

    /// Judges the fields together.
    pub fn conclude(&self, version: Version) -> Result<Framing, HeadFault> {
        let body = match (self.length, self.chunked) {
            (Some(_), true) => return Err(HeadFault::LengthAndEncoding),
            // a coding in HTTP/1.0 is faulty framing (RFC 9112 section 6.1)
            (None, true) if version == Version::Http10 => return Err(HeadFault::TransferEncoding),
            (None, true) => Body::Chunked,
            (Some(length), false) => Body::Length(length),
            (None, false) => Body::None,
        };
        // RFC 9112 lets HTTP/1.0 go without, but then nobody can say which host was meant
        if self.host.is_none() {
            return Err(HeadFault::Host);
        }
        let has_body = !matches!(body, Body::None | Body::Length(0));
        // without the option it was meant for somebody before us (RFC 9110 section 7.8)
        let upgrade = self.upgrade && !self.upgrades_http && self.upgrade_option && version == Version::Http11;
        if upgrade && has_body {
            return Err(HeadFault::Upgrade);
        }
        Ok(Framing {
            body,
            // HTTP/1.0 clients cannot wait for it (RFC 9110 section 10.1.1)
            expect_continue: self.expect && version == Version::Http11 && has_body,
            upgrade,
            hop_by_hop: self.hop_by_hop,
            keep_alive: !self.close && (version == Version::Http11 || self.keep_alive),
        })
    }

    fn take_host(&mut self, value: &'a [u8]) -> Result<(), HeadFault> {
        if host_name(value).is_none() || self.host.replace(value).is_some() {
            return Err(HeadFault::Host);
        }
        Ok(())
    }

    fn take_expect(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadFault::Expectation);
        }
        self.expect = true;
        Ok(())
    }

    /// Requests in the protocol that was switched to would pass unjudged, so a switch to another HTTP, or to one within TLS, is not made.
    fn take_upgrade(&mut self, value: &[u8]) {
        let is_http = |protocol: &[u8]| {
            let begins = |word: &[u8]| protocol.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
            begins(b"h2") || begins(b"http") || begins(b"tls")
        };
        self.upgrade = true;
        self.upgrades_http |= value.split(|&byte| byte == b',').map(trim).any(is_http);
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        let length = plain_number(value).ok_or(HeadFault::ContentLength)?;
        // even an equal repetition is refused: it takes two parsers to make one
        if self.length.replace(length).is_some() {
            return Err(HeadFault::ContentLength);
        }
        Ok(())
    }

    fn take_encoding(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !value.eq_ignore_ascii_case(b"chunked") || self.chunked {
            return Err(HeadFault::TransferEncoding);
        }
        self.chunked = true;
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        for option in value.split(|&byte| byte == b',').map(trim) {
            self.elements += 1;
            if self.elements > MOST_ELEMENTS {
                return Err(HeadFault::Connection);
            }
            if option.is_empty() {
                continue;
            }
            self.options += 1;
            let is_fine = match option.len() {
                5 if option.eq_ignore_ascii_case(b"close") => {
                    self.close = true;
                    true
                }
                7 if option.eq_ignore_ascii_case(b"upgrade") => {
                    self.upgrade_option = true;
                    true
                }
                10 if option.eq_ignore_ascii_case(b"keep-alive") => {
                    self.keep_alive = true;
                    true
                }
                // an option is a token, and readers differ on what else they trim off one: 0xA0 is a blank in Latin-1
                _ => option.iter().all(|&byte| is(byte, TOKEN)) && !is_trusted(option),
            };
            if !is_fine || self.options > MOST_OPTIONS {
                return Err(HeadFault::Connection);
            }
        }
        Ok(())
    }
}

/// Digits only; no sign, no blank, no leading zero, no overflow. The ceiling leaves room for arithmetic in signed 64 bits everywhere.
pub fn plain_number(value: &[u8]) -> Option<u64> {
    const MOST_DIGITS: usize = 18;
    if value.is_empty() || value.len() > MOST_DIGITS || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // some read what begins with a zero as octal
    if matches!(value, [b'0', _, ..]) {
        return None;
    }
    Some(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Of a field that says where the body ends: whatever the operator allows, nobody shall have two readings of that.
fn is_framing_twin(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    ["content-length", "transfer-encoding"].iter().any(|framing| hearsay::is_twin_of(&name, framing))
}

fn is_twin(name: &[u8]) -> bool {
    name.iter().fold(0, |classes, &byte| classes | class(byte)) & FOLDED != 0 && hearsay::is_twin(name, &TRUSTED)
}

fn is_trusted(option: &[u8]) -> bool {
    let Ok(option) = std::str::from_utf8(option) else { return false };
    let option = option.to_ascii_lowercase();
    TRUSTED.contains(&option.as_str()) || hearsay::standing(&option).is_some()
}
