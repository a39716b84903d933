//! Where origins are, the names that their certificates carry, and files.

use std::net::IpAddr;
use std::path::PathBuf;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::text::{HostPort, is_host};

/// Where an origin is: [`HostPort`], or a UNIX socket such as `unix:/run/app.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginPlace {
    /// As [`HostPort::host`], or `unix:` and the path.
    pub host: String,
    /// As [`HostPort::port`]; 0 for a UNIX socket.
    pub port: u16,
}

impl OriginPlace {
    /// Whether it is a UNIX socket.
    pub fn is_unix(&self) -> bool {
        self.host.starts_with("unix:")
    }
}

/// What the kernel has room for (`sun_path`), without the byte that ends it.
const LONGEST_SOCKET: usize = 107;

impl Scalar for OriginPlace {
    const NAME: &'static str = "address";
    const EXAMPLE: &'static str = "`127.0.0.1:3000`, `app.internal:8080` or `unix:/run/app.sock`";
    const CODE: Code = Code::BAD_ADDRESS;

    fn parse(text: &str) -> Result<OriginPlace, Wrong> {
        let Some(path) = text.strip_prefix("unix:") else {
            return HostPort::parse(text).map(|HostPort { host, port }| OriginPlace { host, port });
        };
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            return Err(Wrong::new("after `unix:` must stand the full path of a socket"));
        }
        if path.len() > LONGEST_SOCKET {
            return Err(Wrong::new(format!("the path of a socket has at most {LONGEST_SOCKET} bytes")));
        }
        Ok(OriginPlace { host: text.to_owned(), port: 0 })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            <HostPort as Scalar>::schema(),
            { "type": "string", "pattern": "^unix:/.*[^/]$" }
        ] })
    }
}

/// The name in a certificate: a host, or an IP address without brackets. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName(pub String);

impl Scalar for ServerName {
    const NAME: &'static str = "server name";
    const EXAMPLE: &'static str = "`api.internal`";
    const CODE: Code = Code::BAD_HOST;

    fn parse(text: &str) -> Result<ServerName, Wrong> {
        if text.is_empty() {
            let wrong = Wrong::new("an empty name would be verified against nothing");
            return Err(wrong.help("leave `sni` out to expect the host of the address"));
        }
        // rustls reads names without their last dot
        let name = text.strip_suffix('.').unwrap_or(text);
        if text.parse::<IpAddr>().is_err() && !is_host(name) {
            return Err(Wrong::new("must be a host name or an IP address, without a port"));
        }
        Ok(ServerName(name.to_ascii_lowercase()))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^." })
    }
}

/// A file, read when the gate starts and whenever it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(pub PathBuf);

impl Scalar for FilePath {
    const NAME: &'static str = "file";
    const EXAMPLE: &'static str = "`/etc/tidegate/tls/internal-ca.pem`";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<FilePath, Wrong> {
        if text.is_empty() || text.ends_with('/') || text.contains('\0') {
            return Err(Wrong::new("must be the path of a file"));
        }
        Ok(FilePath(PathBuf::from(text)))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_tcp_or_unix() {
        let place = |text: &str| OriginPlace::parse(text).map(|place| (place.host, place.port));
        assert_eq!(place("App.internal:80"), Ok(("app.internal".into(), 80)));
        assert_eq!(place("unix:/run/App.sock"), Ok(("unix:/run/App.sock".into(), 0)));
        for wrong in ["unix:", "unix:run/x", "unix:/run/", "unix:/a\0b", "app", "https://app"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        assert!(place(&format!("unix:/{}", "x".repeat(106))).is_ok());
        assert!(place(&format!("unix:/{}", "x".repeat(107))).is_err());
    }

    #[test]
    fn a_server_name_is_never_empty() {
        assert_eq!(ServerName::parse("API.internal.").unwrap().0, "api.internal");
        assert_eq!(ServerName::parse("2001:db8::1").unwrap().0, "2001:db8::1");
        for wrong in ["", "a b", "app:443", "https://app", "[::1]", "127.1"] {
            assert!(ServerName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
