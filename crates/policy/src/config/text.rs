//! Names, addresses, header fields: texts with a form. `pattern` has those that requests are matched with.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::{HeaderName, HeaderValue};
use schemars::{Schema, json_schema};

use super::fault::Code;
use super::nearest::nearest;
use super::quoted::quoted;
use super::read::{Scalar, Wrong};
use super::scalar::{digits, pattern};
use super::settings::Redirect;
use crate::policy::Template;
use crate::policy::edit::{Placeholder, TemplateFault};

impl Scalar for String {
    const NAME: &'static str = "text";
    const EXAMPLE: &'static str = "";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<String, Wrong> {
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// What operators call limits, origins, listeners and routes: a metric label, so it is short and plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

impl Name {
    /// The longest name, in bytes.
    pub const MAX: usize = 40;
}

impl Scalar for Name {
    const NAME: &'static str = "name";
    const EXAMPLE: &'static str = "`per_client`";
    const CODE: Code = Code::BAD_NAME;
    const KEYS_EXCEPT_EXTENSIONS: bool = true;

    fn parse(text: &str) -> Result<Name, Wrong> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let good = text.len() <= Name::MAX
            && text.bytes().all(plain)
            && text.starts_with(|first: char| first.is_ascii_lowercase());
        if good {
            return Ok(Name(text.to_owned()));
        }
        let wrong = Wrong::new("must be a-z, 0-9 and _, begin with a letter, and have at most 40 characters");
        let mended = text.to_ascii_lowercase().replace(['-', '.', ' '], "_");
        Err(if mended != text && Name::parse(&mended).is_ok() { wrong.meant(mended, "") } else { wrong })
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^[a-z][a-z0-9_]{0,39}$" })
    }
}

/// A TCP port at an address or name: `app.internal:8080`, `127.0.0.1:3000`, `[::1]:3000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A name in lower case or an IP address literal, IPv6 without brackets.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Scalar for HostPort {
    const NAME: &'static str = "address";
    const EXAMPLE: &'static str = "`127.0.0.1:3000` or `app.internal:8080`";
    const CODE: Code = Code::BAD_ADDRESS;

    fn parse(text: &str) -> Result<HostPort, Wrong> {
        if text.starts_with("unix:") {
            return Err(
                Wrong::new("must be HOST:PORT").help("a UNIX socket needs an origin of its own under `origins:`")
            );
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let wrong = Wrong::new("must be HOST:PORT, without a scheme");
            let rest = rest.trim_end_matches('/');
            return Err(match (scheme, HostPort::parse(rest)) {
                ("http", Ok(address)) => wrong.meant(address.to_string(), ""),
                ("http", Err(_)) if !rest.contains([':', '/']) => wrong.meant(format!("{rest}:80"), ""),
                ("https", _) => wrong.help("an origin with `tls: {}` under `origins:` is spoken to over TLS"),
                _ => wrong,
            });
        }
        let Some((host, port)) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
            let wrong = Wrong::new("the port is missing");
            return Err(if is_host(text) {
                wrong.meant(format!("{text}:80"), "or the origin's own port")
            } else {
                wrong
            });
        };
        let port = port_number(port).filter(|port| *port > 0).ok_or_else(|| Wrong::new("port must be 1 to 65535"))?;
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            let address = inner.ok_or_else(|| Wrong::new("between `[` and `]` must stand an IPv6 address"))?;
            return Ok(HostPort { host: address.to_string(), port });
        }
        if text.parse::<Ipv6Addr>().is_ok() || host.contains(':') {
            return Err(Wrong::new("an IPv6 address needs brackets, as in [::1]:3000"));
        }
        if !is_host(host) {
            return Err(Wrong::new("must be a name or an IP address, `:`, and a port"));
        }
        Ok(HostPort { host: host.to_ascii_lowercase(), port })
    }

    fn schema() -> Schema {
        pattern("^(\\[[0-9a-fA-F:.]+\\]|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?):[0-9]{1,5}$")
    }
}

/// The key of `origins:`: a [`Name`], or an address, which is the long form of an origin that a route names by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginName(pub String);

impl Scalar for OriginName {
    const NAME: &'static str = "origin name";
    const EXAMPLE: &'static str = "`shop`";
    const CODE: Code = Code::BAD_NAME;
    const KEYS_EXCEPT_EXTENSIONS: bool = true;

    fn parse(text: &str) -> Result<OriginName, Wrong> {
        match HostPort::parse(text) {
            Ok(address) => Ok(OriginName(address.to_string())),
            Err(_) => Name::parse(text).map(|name| OriginName(name.0)),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [<Name as Scalar>::schema(), <HostPort as Scalar>::schema()] })
    }
}

/// A port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl ListenAddress {
    /// What it may be.
    pub const ALLOWED: &str = "must be `:PORT`, or an IP address, `:`, and a port";
}

impl Scalar for ListenAddress {
    const NAME: &'static str = "address";
    const EXAMPLE: &'static str = "`:8080` or `127.0.0.1:8080`";
    const CODE: Code = Code::BAD_ADDRESS;

    fn parse(text: &str) -> Result<ListenAddress, Wrong> {
        if let Some(port) = text.strip_prefix(':').and_then(port_number) {
            return Ok(ListenAddress(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(ListenAddress(address));
        }
        let wrong = Wrong::new(ListenAddress::ALLOWED);
        Err(if text.starts_with("unix:") || text.starts_with("systemd:") {
            wrong.help("only `listen` and `listeners` take unix: and systemd: addresses")
        } else if let Some(port) = digits(text).filter(|port| *port <= 65_535) {
            wrong.meant(format!(":{port}"), "for all addresses")
        } else if let Some(port) = text.strip_prefix("localhost:").or(text.strip_prefix("*:")).and_then(port_number) {
            let any = text.starts_with('*');
            wrong.meant(if any { format!(":{port}") } else { format!("127.0.0.1:{port}") }, "")
        } else if text.rsplit_once(':').is_some_and(|(_, port)| digits(port).is_some_and(|port| port > 65_535)) {
            Wrong::new("port must be 0 to 65535")
        } else if text.parse::<IpAddr>().is_ok() {
            Wrong::new("the port is missing")
        } else {
            wrong
        })
    }

    fn schema() -> Schema {
        pattern("^(|[0-9.]+|\\[[0-9a-fA-F:.%]+\\]):[0-9]{1,5}$")
    }
}

impl Scalar for Redirect {
    const NAME: &'static str = "redirect";
    const EXAMPLE: &'static str = "`https` or `https:8443`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<Redirect, Wrong> {
        let port = match text.split_once(':') {
            None if text == "https" => Some(443),
            Some(("https", port)) => port_number(port).filter(|port| *port > 0),
            _ => None,
        };
        port.map(|port| Redirect { port }).ok_or_else(|| {
            let near = text.to_ascii_lowercase().starts_with("https:/").then_some("https");
            Wrong::new("must be `https`, or `https:` and a port from 1 to 65535")
                .nearest(near.or_else(|| nearest(text, ["https"])))
        })
    }

    fn schema() -> Schema {
        pattern("^https(:[0-9]{1,5})?$")
    }
}

impl std::fmt::Display for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.port == 443 { f.write_str("https") } else { write!(f, "https:{}", self.port) }
    }
}

impl Scalar for HeaderName {
    const NAME: &'static str = "header name";
    const EXAMPLE: &'static str = "`x-api-key`";
    const CODE: Code = Code::BAD_HEADER;

    fn parse(text: &str) -> Result<HeaderName, Wrong> {
        HeaderName::from_str(text).map_err(|_| Wrong::new("must be letters, digits and - . _ ~ and the like"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" })
    }
}

/// A header value without placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldValue(pub HeaderValue);

impl Scalar for FieldValue {
    const NAME: &'static str = "header value";
    const EXAMPLE: &'static str = "`no-store`";
    const CODE: Code = Code::BAD_HEADER;

    fn parse(text: &str) -> Result<FieldValue, Wrong> {
        match HeaderValue::from_str(text) {
            Ok(value) if text.is_ascii() => Ok(FieldValue(value)),
            _ => Err(Wrong::new("must be visible ASCII in one line")),
        }
    }

    fn schema() -> Schema {
        <String as Scalar>::schema()
    }
}

/// A header value with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateText {
    /// As written.
    pub text: String,
    /// Parsed.
    pub template: Template,
}

impl Scalar for TemplateText {
    const NAME: &'static str = "header value";
    const EXAMPLE: &'static str = "`\"{client.ip}\"`";
    const CODE: Code = Code::BAD_TEMPLATE;

    fn parse(text: &str) -> Result<TemplateText, Wrong> {
        let known = || Placeholder::ALL.iter().map(|(name, _)| *name);
        match Template::parse(text) {
            Ok(template) => Ok(TemplateText { text: text.to_owned(), template }),
            Err(TemplateFault::Unprintable) => {
                Err(Wrong::new("must be visible ASCII in one line").code(Code::BAD_HEADER))
            }
            Err(TemplateFault::Unclosed) => Err(Wrong::new("a `{` without its `}`").help("`{{` stands for a brace")),
            Err(TemplateFault::Unknown(name)) => {
                let all: Vec<String> = known().map(|name| format!("{{{name}}}")).collect();
                let wrong = Wrong::new(format!("placeholders are {}", all.join(", ")));
                Err(match nearest(&name, known()) {
                    Some(near) => wrong.help(format!("did you mean `{{{near}}}`?")),
                    None => wrong.help(format!("{} is no placeholder; `{{{{` stands for a brace", quoted(&name))),
                })
            }
        }
    }

    fn schema() -> Schema {
        <String as Scalar>::schema()
    }
}

/// One line of a DNS name or an IPv4 address. Numbers alone must be a full IPv4 address: `127.1` is not `127.0.0.1` here.
pub fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.len() <= 253 && name.split('.').all(label) && (!numeric || name.parse::<std::net::Ipv4Addr>().is_ok())
}

/// 0 to 65535, digits only.
fn port_number(text: &str) -> Option<u16> {
    if text.len() > 5 || text.contains('_') {
        return None;
    }
    digits(text).and_then(|port| u16::try_from(port).ok())
}
