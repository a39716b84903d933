//! One part of a key, as operators write it, and what is wrong with a part or a list of parts.
//!
//! Words for what does not work yet (`asn`, `country`) are faults like any other unknown word: a limit that
//! loads must count by what it says.

use std::fmt;
use std::str::FromStr;

use http::header::{FORWARDED, HeaderName};

use super::trust::X_FORWARDED_FOR;
use super::values::is_blank;

/// The most parts that one key has.
pub const MAX_PARTS: usize = 4;

/// One thing that a limit counts by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The client's network.
    ClientIp {
        /// Bits of an IPv4 address, 1 to 32; `None` for those of the policy.
        ipv4_prefix: Option<u8>,
        /// Bits of an IPv6 address, 1 to 128; `None` for those of the policy.
        ipv6_prefix: Option<u8>,
    },
    /// The lines of a header field; missing when there is none. An empty line is a value.
    Header(HeaderName),
    /// The values of a cookie; missing when no cookie has that name.
    Cookie(String),
    /// The values of a query parameter, empty without `=`; missing when none has that name.
    Query(String),
    /// The host.
    Host,
    /// The path.
    Path,
    /// Its first segments.
    PathSegments(u8),
    /// The method.
    Method,
    /// `read` or `write`.
    MethodClass,
    /// The name of the route.
    Route,
    /// The name asked for in the TLS handshake; missing on plain connections.
    TlsSni,
    /// Nothing: all requests are one.
    Global,
}

impl KeyPart {
    /// The plain `client_ip`, at the prefix lengths of the policy.
    pub const CLIENT_IP: KeyPart = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };

    /// Whether clients are told apart by it, and not only what they ask for.
    pub fn is_of_client(&self) -> bool {
        matches!(self, KeyPart::ClientIp { .. } | KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_))
    }

    /// Whether a request may come without it.
    pub fn can_be_missing(&self) -> bool {
        matches!(self, KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_) | KeyPart::TlsSni)
    }
}

impl FromStr for KeyPart {
    type Err = PartFault;

    /// One of [`FORMS`]. `client_ip` may carry its own prefix lengths:
    /// `client_ip:ipv4_prefix=24,ipv6_prefix=48`, either or both.
    fn from_str(text: &str) -> Result<KeyPart, PartFault> {
        let fault = |allowed| PartFault { found: text.to_owned(), allowed };
        let (word, name) = match text.split_once(':') {
            Some((word, name)) => (word, Some(name)),
            None => (text, None),
        };
        match (word, name) {
            ("client_ip", None) => Ok(KeyPart::CLIENT_IP),
            ("client_ip", Some(lengths)) => client_ip(lengths).ok_or_else(|| fault(LENGTHS)),
            ("header", Some(name)) => match HeaderName::from_str(name) {
                Ok(name) if name == X_FORWARDED_FOR || name == FORWARDED => Err(fault(FORGEABLE)),
                Ok(name) if is_hop_by_hop(&name) => Err(fault(NOT_SENT_ON)),
                Ok(name) => Ok(KeyPart::Header(name)),
                Err(_) => Err(fault("allowed header:NAME, such as header:x-api-key")),
            },
            ("cookie" | "query", Some(name)) if !name.is_empty() && is_blank(name) => Err(fault(BLANK)),
            ("cookie", Some(name)) if is_name(name, b";=,\"\\") => Ok(KeyPart::Cookie(name.to_owned())),
            ("cookie", Some(_)) => Err(fault("allowed cookie:NAME, such as cookie:sid")),
            ("query", Some(name)) if is_name(name, b"&=#") => Ok(KeyPart::Query(name.to_owned())),
            ("query", Some(_)) => Err(fault("allowed query:NAME, such as query:token, as it stands in the URL")),
            ("header" | "cookie" | "query", None) => Err(fault("a name must follow, such as header:x-api-key")),
            ("host", None) => Ok(KeyPart::Host),
            ("path", None) => Ok(KeyPart::Path),
            ("path", Some(count)) => segments(count).map(KeyPart::PathSegments).ok_or_else(|| fault(SEGMENTS)),
            ("method", None) => Ok(KeyPart::Method),
            ("method_class", None) => Ok(KeyPart::MethodClass),
            ("route", None) => Ok(KeyPart::Route),
            ("tls_sni", None) => Ok(KeyPart::TlsSni),
            ("global", None) => Ok(KeyPart::Global),
            _ => Err(fault(FORMS)),
        }
    }
}

impl fmt::Display for KeyPart {
    /// The text that reads back as this part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => {
                f.write_str("client_ip")?;
                let lengths = [("ipv4_prefix", ipv4_prefix), ("ipv6_prefix", ipv6_prefix)];
                let mut separator = ':';
                for (word, length) in lengths.iter().filter_map(|(word, length)| Some((word, (**length)?))) {
                    write!(f, "{separator}{word}={length}")?;
                    separator = ',';
                }
                Ok(())
            }
            KeyPart::Header(name) => write!(f, "header:{name}"),
            KeyPart::Cookie(name) => write!(f, "cookie:{name}"),
            KeyPart::Query(name) => write!(f, "query:{name}"),
            KeyPart::Host => f.write_str("host"),
            KeyPart::Path => f.write_str("path"),
            KeyPart::PathSegments(count) => write!(f, "path:segments={count}"),
            KeyPart::Method => f.write_str("method"),
            KeyPart::MethodClass => f.write_str("method_class"),
            KeyPart::Route => f.write_str("route"),
            KeyPart::TlsSni => f.write_str("tls_sni"),
            KeyPart::Global => f.write_str("global"),
        }
    }
}

/// The forms of a part, for errors, completion and the nearest-word search.
pub const FORMS: &str = "allowed client_ip, header:NAME, cookie:NAME, query:NAME, host, path, path:segments=N, method, method_class, route, tls_sni, global";

const LENGTHS: &str = "allowed client_ip:ipv4_prefix=N,ipv6_prefix=N, either or both, with 1 to 32 and 1 to 128";

const SEGMENTS: &str = "allowed path:segments=N with 1 to 16";

const FORGEABLE: &str = "anyone can write this header; allowed client_ip, which reads it from trusted_proxies only";

const BLANK: &str = "blanks are no part of a name, and this one has nothing else; allowed query:NAME, such as query:token, or cookie:NAME";

const NOT_SENT_ON: &str = "this field concerns one connection and never reaches an origin; allowed are fields that do";

/// Whether the field concerns one connection, so that no origin gets it as it was sent (RFC 9110 section 7.6.1, with the older
/// names).
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// What is wrong with a part, worded for the operator; the caller adds the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}; {allowed}")]
pub struct PartFault {
    /// The part as written.
    pub found: String,
    /// What is allowed instead, as a phrase.
    pub allowed: &'static str,
}

/// What is wrong with a list of parts, worded for the operator; the caller adds the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// There is no part.
    #[error("found no key part; {FORMS}")]
    Empty,
    /// There are more than [`MAX_PARTS`].
    #[error("found more than {MAX_PARTS} key parts; allowed 1 to {MAX_PARTS}")]
    TooMany,
    /// This part is there twice.
    #[error("found {0} twice; write it once")]
    Repeated(KeyPart),
    /// This part can be missing, and nothing says what then.
    #[error("found {0}, which a request may lack; say what then with missing: allow or missing: deny")]
    NoMissing(KeyPart),
}

fn client_ip(lengths: &str) -> Option<KeyPart> {
    let (mut ipv4_prefix, mut ipv6_prefix) = (None, None);
    for length in lengths.split(',') {
        let (word, number) = length.split_once('=')?;
        let (slot, longest) = match word {
            "ipv4_prefix" => (&mut ipv4_prefix, 32),
            "ipv6_prefix" => (&mut ipv6_prefix, 128),
            _ => return None,
        };
        let number: u8 = number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        if slot.replace(number).is_some() || !(1..=longest).contains(&number) {
            return None;
        }
    }
    Some(KeyPart::ClientIp { ipv4_prefix, ipv6_prefix })
}

fn segments(text: &str) -> Option<u8> {
    let number = text.strip_prefix("segments=")?;
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|count| digits && (1..=16).contains(count))
}

/// Visible ASCII without the characters that end a name where it is looked for.
fn is_name(text: &str, ends: &[u8]) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !ends.contains(&byte))
}
