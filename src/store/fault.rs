//! What an error of the `redis` crate means for a question, and for the connection that it came over; and a store's texts, as
//! they may be shown.

use std::fmt::{self, Display, Write};

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::wire::Address;
use crate::limiter::sharing::StoreError;

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// For the question.
    pub store_error: StoreError,
    /// Whether the connection is of no more use: it has ended, leads to a server that does not take writes, or to one that does
    /// not let us in.
    pub ends_link: bool,
    /// Whether the store is there and does not let us in, or not do what we need.
    pub keeps_out: bool,
    /// For the log, and there its kind.
    pub text: &'static str,
}

const fn means(store_error: StoreError, ends_link: bool, text: &'static str) -> Meaning {
    Meaning { store_error, ends_link, keeps_out: false, text }
}

const fn keeps_out(ends_link: bool, text: &'static str) -> Meaning {
    Meaning { store_error: StoreError::Faulty, ends_link, keeps_out: true, text }
}

/// What `error` means. Everything that is not known to be an outage is [`StoreError::Faulty`]: a mistake must open nothing.
pub fn meaning(error: &RedisError) -> Meaning {
    use StoreError::{Faulty, Unreachable};
    match error.kind() {
        ErrorKind::Io => means(Unreachable, true, "connection lost"),
        ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList => means(Unreachable, true, "no sentinel names a primary"),
        ErrorKind::AuthenticationFailed => keeps_out(true, "wrong user or password"),
        ErrorKind::Parse => means(Faulty, true, "not understood"),
        ErrorKind::Server(kind) => server(kind, error),
        ErrorKind::Extension => by_code(error.code().unwrap_or_default()),
        _ => means(Faulty, false, "error"),
    }
}

/// How long a text of a store may be wherever it is shown or logged, in bytes.
pub const LONGEST_TEXT: usize = 240;

/// A store's text as it may be shown: one line of printable ASCII, and no longer than [`LONGEST_TEXT`]. All that a store says
/// in words comes in by this.
pub fn said(text: impl Display) -> String {
    let mut shown = Shown(String::new());
    // an error says only that there is no room for more
    if write!(shown, "{text}").is_err() {
        shown.0.truncate(LONGEST_TEXT - CUT.len());
        shown.0.push_str(CUT);
    }
    shown.0
}

/// What stands at the end of a text that was longer.
const CUT: &str = "...";

/// Takes printable ASCII as it is and a question mark for all else, as long as there is room.
struct Shown(String);

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        if self.0.len() == LONGEST_TEXT {
            return Err(fmt::Error);
        }
        self.0.push(if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' });
        Ok(())
    }
}

/// Whether a store may name a server so: a host name or an address.
pub fn is_host(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(letter)
}

/// Returns where a server of a cluster says that the key is, and whether the key is only moving there now. `asked` is the server that
/// said so: if it names no host it means its own.
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

fn server(kind: ServerErrorKind, error: &RedisError) -> Meaning {
    use StoreError::{Faulty, Unreachable};
    match kind {
        ServerErrorKind::BusyLoading => means(Unreachable, false, "still loading its data"),
        ServerErrorKind::ReadOnly => means(Unreachable, true, "server is a replica"),
        ServerErrorKind::MasterDown => means(Unreachable, true, "primary is down"),
        ServerErrorKind::ClusterDown => means(Unreachable, false, "cluster is down"),
        ServerErrorKind::TryAgain | ServerErrorKind::Moved | ServerErrorKind::Ask => {
            means(Unreachable, false, "key is moving between servers")
        }
        ServerErrorKind::NoPerm => keeps_out(false, "user is not allowed what the gate needs"),
        ServerErrorKind::ResponseError if error.detail().is_some_and(|detail| detail.starts_with(CROWDED)) => {
            means(Unreachable, true, "takes no more clients")
        }
        ServerErrorKind::ResponseError if error.detail().is_some_and(|detail| detail.contains(NO_RIGHTS_INSIDE)) => {
            keeps_out(false, "user is not allowed what the gate needs")
        }
        // before Redis 7 what a script met was told as ERR, with its own code inside the text
        ServerErrorKind::ResponseError => by_code(inner_code(error.detail().unwrap_or_default())),
        _ => means(Faulty, false, "error"),
    }
}

/// What a server says, instead of an answer to the first command, to a client that is one too many for it.
const CROWDED: &str = "max number of clients";

/// What a script is told that does what its user may not.
const NO_RIGHTS_INSIDE: &str = "user executing the script can't";

/// The code in `Error running script (…): @user_script:10: -OOM command not allowed`.
fn inner_code(detail: &str) -> &str {
    detail.split_once(": -").and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or_default()
}

fn by_code(code: &str) -> Meaning {
    use StoreError::{Faulty, Unreachable};
    match code {
        "OOM" => means(Unreachable, false, "full, and rightly does not evict: give it more memory"),
        "READONLY" => means(Unreachable, true, "server is a replica"),
        "MISCONF" => means(Unreachable, false, "takes no writes because it cannot save them"),
        "NOREPLICAS" => means(Unreachable, false, "takes no writes because it has too few replicas"),
        "BUSY" => means(Unreachable, false, "busy with a script"),
        "LOADING" => means(Unreachable, false, "still loading its data"),
        "NOPERM" => keeps_out(false, "user is not allowed what the gate needs"),
        "NOAUTH" | "WRONGPASS" => keeps_out(true, "wrong user or password"),
        "DENIED" => keeps_out(true, "lets in nobody from elsewhere (protected mode)"),
        "WRONGTYPE" => means(Faulty, false, "key holds something else"),
        _ => means(Faulty, false, "error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence_of(line: &str) -> StoreError {
        let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error().unwrap_err();
        meaning(&error).store_error
    }

    #[test]
    fn a_text_of_a_store_is_one_short_line_of_ascii() {
        assert_eq!(said("ERR a\r\nb \u{1b}[31m \u{202e}\u{e9}"), "ERR a??b ?[31m ??");
        assert_eq!(said("x".repeat(LONGEST_TEXT)), "x".repeat(LONGEST_TEXT));
        let long = said("\u{fffd}".repeat(LONGEST_TEXT + 1));
        assert!(long.len() == LONGEST_TEXT && long.ends_with("??..."), "{long}");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for host in ["store-1.example", "10.0.0.1", "::1", "a_b"] {
            assert!(is_host(host), "{host}");
        }
        let long = "a".repeat(254);
        for host in ["", "a b", "a\n", "a/b", "a@b", "\u{e9}", &long] {
            assert!(!is_host(host), "{host}");
        }
    }

    #[test]
    fn an_outage_is_unreachable() {
        for line in [
            "-LOADING Redis is loading the dataset in memory\r\n",
            "-READONLY You can't write against a read only replica.\r\n",
            "-CLUSTERDOWN The cluster is down\r\n",
            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
            "-MASTERDOWN Link with MASTER is down\r\n",
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
            "-ERR Error running script (call to f_1): @user_script:10: -OOM command not allowed\r\n",
            "-MISCONF Errors writing to the AOF file\r\n",
            "-BUSY Redis is busy running a script.\r\n",
            "-MOVED 1 127.0.0.1:7000\r\n",
            "-ERR max number of clients reached\r\n",
        ] {
            assert_eq!(silence_of(line), StoreError::Unreachable, "{line}");
        }
    }

    #[test]
    fn a_password_that_is_refused_is_a_mistake_and_no_outage() {
        let refused = RedisError::from((ErrorKind::AuthenticationFailed, "Password authentication failed"));
        assert_eq!(meaning(&refused).store_error, StoreError::Faulty);
        assert!(meaning(&refused).ends_link);
    }

    #[test]
    fn who_lacks_a_right_inside_a_script_is_kept_out_as_who_may_not_run_it() {
        let inside = "-ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:76.\r\n";
        for line in [inside, "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"] {
            let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error().unwrap_err();
            assert!(meaning(&error).keeps_out, "{line}");
        }
    }

    #[test]
    fn a_mistake_is_faulty() {
        for line in [
            "-ERR tidegate does not know this format\r\n",
            "-ERR Error compiling script (new function): user_script:1: '=' expected\r\n",
            "-ERR Error running script (call to f_1): @user_script:3: user_script:3: attempt to compare nil\r\n",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
            "-NOAUTH Authentication required.\r\n",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            "-DENIED Redis is running in protected mode\r\n",
            "-NOSCRIPT No matching script.\r\n",
            "-SOMETHING else\r\n",
        ] {
            assert_eq!(silence_of(line), StoreError::Faulty, "{line}");
        }
    }

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
