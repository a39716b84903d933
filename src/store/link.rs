//! How a script is run on a server, and what a server says when the key is another's.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::fault::is_host;
use super::script::Script;
use super::wire::{Address, Wire};

/// A script, the key that it is run on, and what it is given.
pub struct Errand<'a> {
    /// Which script.
    pub script: &'a Script,
    /// The key.
    pub key: &'a str,
    /// Numbers.
    pub numbers: &'a [i64],
    /// Given after the numbers.
    pub rest: &'a [&'a [u8]],
}

/// Runs a script. Sent again only where the server says that it does not have the script, and so did not execute it. `ahead` is
/// for a server that only takes the key's slot over.
///
/// # Errors
/// What the server has against it, or that it is gone.
pub async fn run(wire: &mut Wire, errand: &Errand<'_>, ahead: bool) -> RedisResult<Value> {
    let mut whole = false;
    loop {
        let command = errand.script.command(whole, errand.key, errand.numbers, errand.rest);
        let said = if ahead { wire.ask_ahead(command).await } else { wire.ask(&command).await };
        match said {
            Err(error) if !whole && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => whole = true,
            said => return said,
        }
    }
}

/// Where a server of a cluster says that the key is, and whether it only goes there now. `asked` is the server that said so: one that
/// names no host means its own.
pub fn elsewhere(error: &RedisError, asked: &Address) -> Option<(Address, bool)> {
    let ahead = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => false,
        ErrorKind::Server(ServerErrorKind::Ask) => true,
        _ => return None,
    };
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    let host = if host.is_empty() { asked.0.as_str() } else { host };
    is_host(host).then_some(((host.to_owned(), port.parse().ok()?), ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_elsewhere_is_told_with_its_server() {
        let told = |line: &str| {
            let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error().unwrap_err();
            elsewhere(&error, &("10.0.0.9".to_owned(), 1))
        };
        let at = |host: &str, ahead| Some(((host.to_owned(), 6_381), ahead));
        assert_eq!(told("-MOVED 3999 10.0.0.1:6381\r\n"), at("10.0.0.1", false));
        assert_eq!(told("-ASK 3999 ::1:6381\r\n"), at("::1", true));
        assert_eq!(told("-MOVED 3999 :6381\r\n"), at("10.0.0.9", false));
        for line in ["-MOVED 3999\r\n", "-MOVED 3999 a/b:1\r\n", "-MOVED 1 a:99999\r\n", "-ERR MOVED 1 a:1\r\n"] {
            assert_eq!(told(line), None, "{line}");
        }
    }
}
