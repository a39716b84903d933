//! Where a listener may listen: a port, a UNIX socket, or what systemd passes.

use std::path::PathBuf;
use std::str::FromStr;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::scalar::pattern;
use super::settings::ListenOn;
use super::text::ListenAddress;

/// The permissions of a UNIX socket of which the file does not say more: its owner and its group may connect.
pub const PERMISSIONS: u32 = 0o660;

/// `sun_path` of unix(7) has 108 bytes, the last of them NUL.
const LONGEST_PATH: usize = 107;

/// systemd's own bound on `FileDescriptorName=` (systemd.socket(5)).
const LONGEST_NAME: usize = 255;

impl Scalar for ListenOn {
    const NAME: &'static str = "address";
    const EXAMPLE: &'static str = "`:8080`, `127.0.0.1:8080`, `unix:/run/tidegate/http.sock` or `systemd:NAME`";
    const CODE: Code = Code::BAD_ADDRESS;

    fn parse(text: &str) -> Result<ListenOn, Wrong> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        if let Some(name) = text.strip_prefix("systemd:") {
            return systemd(name);
        }
        if text.starts_with('/') {
            return match unix(text) {
                Ok(_) => Err(Wrong::new(ALLOWED).meant(format!("unix:{text}"), "for a UNIX socket")),
                Err(wrong) => Err(wrong),
            };
        }
        match ListenAddress::parse(text) {
            Ok(ListenAddress(address)) => Ok(ListenOn::Ip(address)),
            Err(wrong) if wrong.label == ListenAddress::ALLOWED => Err(Wrong { label: ALLOWED.to_owned(), ..wrong }),
            Err(wrong) => Err(wrong),
        }
    }

    fn schema() -> Schema {
        pattern(
            "^((|[0-9.]+|\\[[0-9a-fA-F:.%]+\\]):[0-9]{1,5}|unix:/[^\\u0000]{0,106}|systemd:[^\\u0000-\\u0020:\\u007f]{1,255})$",
        )
    }
}

const ALLOWED: &str = "must be `:PORT`, or an IP address, `:`, and a port, or `unix:/PATH`, or `systemd:NAME`";

fn unix(path: &str) -> Result<ListenOn, Wrong> {
    if path.starts_with('@') {
        return Err(Wrong::new("must be a path from `/`")
            .help("abstract sockets have no permissions: every local user could connect to one"));
    }
    if !path.starts_with('/') {
        return Err(Wrong::new("must be a path from `/`"));
    }
    if path.ends_with('/') {
        return Err(Wrong::new("must be the path of a socket, not of a folder"));
    }
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return Err(Wrong::new(format!("the system takes paths of at most {LONGEST_PATH} bytes")));
    }
    Ok(ListenOn::Unix { path: PathBuf::from(path), permissions: PERMISSIONS })
}

fn systemd(name: &str) -> Result<ListenOn, Wrong> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(plain) {
        return Err(Wrong::new("after `systemd:` must stand the `FileDescriptorName=` of a socket unit"));
    }
    Ok(ListenOn::Systemd(name.to_owned()))
}

impl FromStr for ListenOn {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenOn, String> {
        <ListenOn as Scalar>::parse(text).map_err(|wrong| wrong.label)
    }
}

/// The permissions of a file, in octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions(pub u32);

impl Scalar for Permissions {
    const NAME: &'static str = "file mode";
    const EXAMPLE: &'static str = "`\"0660\"`";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<Permissions, Wrong> {
        let digits = text.strip_prefix("0o").or(text.strip_prefix('0')).unwrap_or(text);
        let octal = digits.len() == 3 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let mode = octal.then(|| u32::from_str_radix(digits, 8).ok()).flatten();
        mode.map(Permissions).ok_or_else(|| Wrong::new("must be three octal digits, as in `\"0660\"`"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ListenOn, String> {
        text.parse()
    }

    #[test]
    fn every_form_is_shown_as_it_was_written() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/tidegate/http.sock", "systemd:tidegate-https"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read(":8080").unwrap().to_string(), "[::]:8080");
    }

    #[test]
    fn what_the_system_would_not_take_is_refused() {
        for text in ["unix:", "unix:run/a.sock", "unix:@name", "unix:/run/", "systemd:", "systemd:a:b", "systemd:a b"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&format!("unix:/{}", "a".repeat(106))).is_ok());
        assert!(read(&format!("unix:/{}", "a".repeat(107))).is_err());
    }

    #[test]
    fn permissions_are_three_octal_digits() {
        let mode = |text: &str| Permissions::parse(text).ok().map(|mode| mode.0);
        assert_eq!((mode("0660"), mode("660"), mode("0o660")), (Some(0o660), Some(0o660), Some(0o660)));
        assert_eq!((mode("0880"), mode("4755"), mode("60"), mode("rw")), (None, None, None, None));
    }
}
