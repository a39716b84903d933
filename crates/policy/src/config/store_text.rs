//! Values that only stores have: where they are, what their keys begin with, names in them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::scalar::{digits, pattern};
use super::text::{HostPort, is_host};

/// The port of Redis and Valkey, for those who left it out.
const USUAL_PORT: u16 = 6379;

const SERVERS: &str = "servers are HOST:PORT, with commas between and no spaces";

/// Where a store is: `redis://HOST:PORT`, `rediss://HOST:PORT,HOST:PORT/DB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// Whether connections are encrypted: `rediss`.
    pub tls: bool,
    /// The servers, one or more, in their order.
    pub servers: Vec<HostPort>,
    /// The database; 0 when nothing is said.
    pub database: u8,
    /// Whether it holds a user or a password, which nobody may read here. `compile` refuses it, with words that do not show it.
    pub credentials: bool,
}

impl Scalar for StoreUrl {
    const NAME: &'static str = "store URL";
    const EXAMPLE: &'static str = "`rediss://valkey-1:6379,valkey-2:6379`";
    const CODE: Code = Code::BAD_STORE_URL;

    fn parse(text: &str) -> Result<StoreUrl, Wrong> {
        let scheme = Wrong::new("must begin with `redis://`, or with `rediss://` for TLS");
        // nothing that may hold a password comes into a hint
        let secretive = text.contains('@');
        let Some((name, rest)) = text.split_once("://") else {
            return Err(if text.starts_with("unix:") || text.starts_with('/') {
                scheme.help("a store is reached over TCP: let it listen on 127.0.0.1")
            } else if !secretive && StoreUrl::parse(&format!("redis://{text}")).is_ok() {
                scheme.meant(format!("redis://{text}"), "")
            } else {
                scheme
            });
        };
        let tls = match name {
            "redis" => false,
            "rediss" => true,
            "valkey" | "tcp" if !secretive => return Err(scheme.meant(format!("redis://{rest}"), "")),
            "valkeys" | "tls" if !secretive => return Err(scheme.meant(format!("rediss://{rest}"), "")),
            "unix" | "redis+unix" | "valkey+unix" => {
                return Err(scheme.help("a store is reached over TCP: let it listen on 127.0.0.1"));
            }
            "redis-sentinel" | "redis+sentinel" => {
                return Err(scheme.help("sentinels are named by `redis://` too, beside `mode: sentinel`"));
            }
            _ => return Err(scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(Wrong::new("has no `?` and no `#`").help("what else there is to say has words beside `url`"));
        }
        let (servers, credentials) = match rest.rsplit_once('@') {
            Some((_, servers)) => (servers, true),
            None => (rest, false),
        };
        let (servers, path) = servers.split_once('/').unwrap_or((servers, ""));
        let database = match path {
            "" => 0,
            path => digits(path)
                .filter(|_| !path.contains('_'))
                .and_then(|number| u8::try_from(number).ok())
                .ok_or_else(|| Wrong::new("after the servers may stand `/` and the number of a database, 0 to 255"))?,
        };
        if servers.is_empty() {
            return Err(Wrong::new("names no server").help(SERVERS));
        }
        let portless = |server: &str| !server.contains(':') && is_host(server);
        if !credentials && servers.split(',').any(portless) {
            let with_ports: Vec<String> = servers
                .split(',')
                .map(|server| if portless(server) { format!("{server}:{USUAL_PORT}") } else { server.to_owned() })
                .collect();
            let wrong = Wrong::new("the port is missing");
            let mended = format!("{name}://{}{}", with_ports.join(","), slashed(database));
            return Err(if StoreUrl::parse(&mended).is_ok() { wrong.meant(mended, "") } else { wrong });
        }
        let servers = servers
            .split(',')
            .map(HostPort::parse)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|wrong| Wrong { help: Some(SERVERS.into()), replacement: None, code: None, label: wrong.label })?;
        Ok(StoreUrl { tls, servers, database, credentials })
    }

    fn schema() -> Schema {
        pattern("^rediss?://[^/@?#]+(/[0-9]{1,3})?$")
    }
}

/// As the policy file writes it, without a user or a password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "rediss://" } else { "redis://" })?;
        for (nth, server) in self.servers.iter().enumerate() {
            f.write_str(if nth == 0 { "" } else { "," })?;
            server.fmt(f)?;
        }
        f.write_str(&slashed(self.database))
    }
}

fn slashed(database: u8) -> String {
    if database == 0 { String::new() } else { format!("/{database}") }
}

/// Whether what goes to this host stays on the machine or in a network of one's own: an address of such a network, or a name that
/// the public DNS does not have. What a name leads to is not looked up.
pub fn is_near(host: &str) -> bool {
    const PRIVATE: [&str; 7] =
        [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc.cluster.local", ".svc"];
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => is_near_v4(address),
        Ok(IpAddr::V6(address)) => is_near_v6(address),
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            !name.contains('.') || PRIVATE.iter().any(|suffix| name.ends_with(suffix))
        }
    }
}

fn is_near_v4(address: Ipv4Addr) -> bool {
    // RFC 6598, between a provider and its customers; the overlays of several vendors use it
    let shared = matches!(address.octets(), [100, 64..=127, ..]);
    address.is_loopback() || address.is_private() || address.is_link_local() || shared
}

fn is_near_v6(address: Ipv6Addr) -> bool {
    let mapped = address.to_ipv4_mapped().is_some_and(is_near_v4);
    address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local() || mapped
}

/// What the names of all keys in a store begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(pub String);

impl KeyPrefix {
    /// The longest, in bytes: it is part of every key.
    pub const MAX: usize = 64;
}

impl Scalar for KeyPrefix {
    const NAME: &'static str = "key prefix";
    const EXAMPLE: &'static str = "`tidegate:`";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<KeyPrefix, Wrong> {
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if (1..=KeyPrefix::MAX).contains(&text.len()) && printable {
            return Ok(KeyPrefix(text.to_owned()));
        }
        Err(Wrong::new("must be 1 to 64 visible ASCII characters without spaces"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^[!-~]{1,64}$" })
    }
}

/// What a store calls a user or a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameInStore(pub String);

impl Scalar for NameInStore {
    const NAME: &'static str = "name in a store";
    const EXAMPLE: &'static str = "`tidegate`";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<NameInStore, Wrong> {
        if (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(NameInStore(text.to_owned()));
        }
        Err(Wrong::new("must be 1 to 128 visible ASCII characters without spaces"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_print_as_they_read() {
        for text in [
            "redis://127.0.0.1:6379",
            "rediss://valkey-1:6379,valkey-2:6379,[2001:db8::1]:7000",
            "redis://store.internal:6379/15",
        ] {
            assert_eq!(StoreUrl::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(StoreUrl::parse("redis://A:1/0").unwrap().to_string(), "redis://a:1");
    }

    #[test]
    fn what_is_no_url_is_answered_with_one() {
        let meant = |text: &str| StoreUrl::parse(text).unwrap_err().replacement.unwrap_or_default();
        assert_eq!(meant("127.0.0.1:6379"), "redis://127.0.0.1:6379");
        assert_eq!(meant("redis://valkey"), "redis://valkey:6379");
        assert_eq!(meant("rediss://a,b:7000/3"), "rediss://a:6379,b:7000/3");
        assert_eq!(meant("valkeys://a:1"), "rediss://a:1");
        for text in [
            "",
            "redis://",
            "redis:///1",
            "redis://a:1/256",
            "redis://a:1/x",
            "redis://a:1?db=1",
            "http://a:1",
            "redis://a:1,",
            "redis://a:1, b:1",
            "redis://a:0",
            "redis://::1:1",
            "unix:/run/redis.sock",
        ] {
            assert!(StoreUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_noticed_and_never_repeated() {
        let url = StoreUrl::parse("redis://user:hunter2@valkey:6379/1").unwrap();
        assert!(url.credentials);
        assert_eq!(url.to_string(), "redis://valkey:6379/1");
        for text in ["user:hunter2@valkey:6379", "valkey://:hunter2@a:1", "redis://:hunter2@a:0", "redis://:hunter2@a"]
        {
            let wrong = StoreUrl::parse(text).unwrap_err();
            assert!(!format!("{wrong:?}").contains("hunter2"), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_near_is_of_ones_own() {
        for near in ["127.0.0.1", "10.9.8.7", "192.168.1.1", "::1", "fd00::1", "valkey", "db.internal", "r.ns.svc"] {
            assert!(is_near(near), "{near}");
        }
        for far in ["203.0.113.7", "2001:db8::1", "redis.example.com", "8.8.8.8", "internal.example"] {
            assert!(!is_near(far), "{far}");
        }
    }
}
