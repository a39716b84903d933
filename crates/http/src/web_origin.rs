//! The `Origin` of a page, as browsers write it (RFC 6454 section 6.2).
//!
//! `SCHEME://HOST` or `SCHEME://HOST:PORT` in lower case, without a default port, the name in its `xn--` form; or `null`.

/// The longest `Origin` that is looked at: a scheme, a host name of 253 bytes and a port have room in it.
pub const LONGEST_ORIGIN: usize = 320;

/// Returns whether the text is an origin as browsers send it, `null` included.
pub fn is_origin(text: &[u8]) -> bool {
    text == b"null" || (text.len() <= LONGEST_ORIGIN && is_tuple(text))
}

/// Returns whether the text is `SCHEME://HOST[:PORT]` in lower case.
fn is_tuple(text: &[u8]) -> bool {
    let Some(at) = text.windows(3).position(|three| three == b"://") else { return false };
    let (scheme, rest) = (text.get(..at).unwrap_or_default(), text.get(at + 3..).unwrap_or_default());
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(byte);
    if !scheme.first().is_some_and(u8::is_ascii_lowercase) || !scheme.iter().all(plain) {
        return false;
    }
    let (host, port) = match rest.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !rest.ends_with(b"]") => (rest.get(..colon).unwrap_or_default(), rest.get(colon + 1..)),
        _ => (rest, None),
    };
    let good_port = |port: &[u8]| (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    port.is_none_or(good_port) && is_host(host)
}

fn is_host(host: &[u8]) -> bool {
    match host {
        [b'[', address @ .., b']'] => {
            !address.is_empty()
                && address.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b':' | b'.'))
        }
        _ => host.split(|byte| *byte == b'.').all(is_label),
    }
}

/// Returns whether the text is one label of a host's name, in lower case.
pub fn is_label(label: &[u8]) -> bool {
    (1..=63).contains(&label.len())
        && label.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_perhaps_a_port() {
        for origin in [
            "null",
            "https://a.test",
            "http://localhost:3000",
            "chrome-extension://abcdef",
            "http://[::1]:3000",
            "http://[2001:db8::1]",
            "https://xn--bcher-kva.example",
        ] {
            assert!(is_origin(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "",
            "a.test",
            "https://",
            "https://a.test:",
            "https://a.test:x",
            "https://a.test:123456",
            "https://a.test/",
            "https://a@b.test",
            "https://a..test",
            "https://a.test.",
            "https://[]",
            "https://[::1",
            "https://[g::1]",
            "://a",
            "1http://a",
            "Https://a",
            "https://A",
            "https://b\u{fc}cher.example",
            "https://a b",
            "https://a, https://b",
            "Null",
        ] {
            assert!(!is_origin(origin.as_bytes()), "{origin}");
        }
        assert!(!is_origin(format!("https://{}", "a.".repeat(4096)).as_bytes()));
    }
}
