//! Values that only tests have: ranges, targets of requests, where requests come from.

use std::net::IpAddr;
use std::time::Duration;

use schemars::{Schema, json_schema};

use super::case::{From, Range, Url, written};
use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::scalar::{Count, duration};
use super::text::is_host;
use crate::units::Prefix;

/// A value, or a range of values with both ends in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between<T>(pub Range<T>);

/// What ranges are made of.
pub trait Bound: Scalar + Copy + PartialOrd {
    /// The example of a range.
    const RANGE: &'static str;
}

impl Bound for Count {
    const RANGE: &'static str = "`5` or `90..110`";
}

impl Bound for Duration {
    const RANGE: &'static str = "`12s` or `10s..15s`";
}

impl<T: Bound> Scalar for Between<T> {
    const NAME: &'static str = T::NAME;
    const EXAMPLE: &'static str = T::RANGE;
    const CODE: Code = T::CODE;

    fn parse(text: &str) -> Result<Between<T>, Wrong> {
        let Some((low, high)) = text.split_once("..") else {
            let one = T::parse(text)?;
            return Ok(Between(Range { low: Some(one), high: Some(one) }));
        };
        let end = |text: &str| if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) };
        let (low, high) = (end(low)?, end(high)?);
        match (low, high) {
            (None, None) => Err(Wrong::new("a range without ends").help("leave the field out if anything will do")),
            (Some(low), Some(high)) if low > high => Err(Wrong::new("the range ends before it begins")),
            _ => Ok(Between(Range { low, high })),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [T::schema(), { "type": "string", "pattern": "^[0-9a-z_]*\\.\\.[0-9a-z_]*$" }] })
    }
}

/// A range of durations as it is written.
pub fn span_range(span: Range<Duration>) -> String {
    written(span, duration)
}

/// `https://shop.example.com/login`, or `/login`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(pub Url);

impl Scalar for Target {
    const NAME: &'static str = "URL";
    const EXAMPLE: &'static str = "`https://shop.example.com/login`";
    const CODE: Code = Code::BAD_PATH;

    fn parse(text: &str) -> Result<Target, Wrong> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Wrong::new("must be visible ASCII, anything else percent-encoded"));
        }
        if text.contains('#') {
            return Err(Wrong::new("no client sends what follows a `#`"));
        }
        if text.starts_with('/') {
            return Ok(Target(Url { secure: false, host: None, target: text.to_owned() }));
        }
        let (secure, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => {
                let wrong = Wrong::new("must begin with `https://`, `http://` or `/`");
                let host = text.split(['/', ':', '?']).next().unwrap_or_default();
                return Err(if is_host(host) && host.contains('.') {
                    wrong.meant(format!("https://{text}"), "")
                } else {
                    wrong
                });
            }
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(at);
        let name = match authority.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => authority,
        };
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        if !is_host(name) && literal.is_none_or(|literal| literal.parse::<std::net::Ipv6Addr>().is_err()) {
            return Err(Wrong::new("the host must be a name or an address, with a port at most").code(Code::BAD_HOST));
        }
        let host = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Target(Url { secure, host: Some(host), target }))
    }

    fn schema() -> Schema {
        super::scalar::pattern("^(https?://[^/?#]+)?([/?][^#]*)?$")
    }
}

/// `203.0.113.7`, `2001:db8::/32`, `unix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender(pub From);

impl Scalar for Sender {
    const NAME: &'static str = "sender";
    const EXAMPLE: &'static str = "`203.0.113.7`, `198.51.100.0/24` or `unix`";
    const CODE: Code = Code::BAD_CIDR;

    fn parse(text: &str) -> Result<Sender, Wrong> {
        if text == "unix" {
            return Ok(Sender(From::Unix));
        }
        let wrong = || Wrong::new("must be an address, a network such as 198.51.100.0/24, or `unix`");
        let (address, length) = match text.split_once('/') {
            None => (text, None),
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| wrong())?)),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        match length {
            None => Ok(Sender(From::Address(address))),
            Some(length) if length == whole => Ok(Sender(From::Address(address))),
            Some(length) => {
                Prefix::new(address, length).map(|network| Sender(From::Network(network))).map_err(|_| wrong())
            }
        }
    }

    fn schema() -> Schema {
        super::scalar::pattern("^(unix|[0-9a-fA-F:.]+(/[0-9]{1,3})?)$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_values_or_have_an_end() {
        let read = |text: &str| Between::<Count>::parse(text).ok().map(|between| written(between.0, |count| count.0));
        for text in ["5", "90..110", "3..", "..3"] {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        for text in ["", "..", "5..4", "a", "1...2", "-1"] {
            assert_eq!(read(text), None, "{text}");
        }
        let span = Between::<Duration>::parse("10s..1m").unwrap().0;
        assert_eq!(span_range(span), "10s..1m");
        assert!(span.holds(Duration::from_secs(60)) && !span.holds(Duration::from_secs(61)));
    }

    #[test]
    fn targets_are_taken_apart() {
        let read = |text: &str| Target::parse(text).ok().map(|Target(url)| (url.secure, url.host, url.target));
        let shop = || Some("shop.example.com".to_owned());
        assert_eq!(read("https://Shop.example.com./a?b"), Some((true, shop(), "/a?b".into())));
        assert_eq!(read("http://shop.example.com:8080"), Some((false, shop(), "/".into())));
        assert_eq!(read("http://[2001:db8::1]:80?x"), Some((false, Some("[2001:db8::1]".into()), "/?x".into())));
        assert_eq!(read("/a/{n}"), Some((false, None, "/a/{n}".into())));
        for text in ["", "shop.example.com/", "ftp://a/", "https://a b/", "https:///", "https://a@b/", "/a#b"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(
            Target::parse("shop.example.com/a").unwrap_err().replacement.as_deref(),
            Some("https://shop.example.com/a")
        );
    }

    #[test]
    fn senders_are_addresses_and_networks() {
        for (text, shown) in [("203.0.113.7", "203.0.113.7"), ("10.0.0.0/8", "10.0.0.0/8"), ("unix", "unix")] {
            assert_eq!(Sender::parse(text).unwrap().0.to_string(), shown);
        }
        assert_eq!(Sender::parse("10.0.0.1/32").unwrap().0.to_string(), "10.0.0.1");
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0", "a", "10.0.0.0/x"] {
            assert!(Sender::parse(text).is_err(), "{text}");
        }
    }
}
