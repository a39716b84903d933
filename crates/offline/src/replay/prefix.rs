//! What collectors put before a line: syslog's own head, a container runtime's. The request begins behind it.

use memchr::memmem;

use super::stamp;

/// How many bytes of the line a collector put there; 0 for a line that begins by itself.
#[inline]
pub fn length(line: &[u8]) -> usize {
    match line.first() {
        // no host name and no month begins like these, and an address does not with a dot after four digits
        Some(b'<' | b'J' | b'F' | b'M' | b'A' | b'S' | b'O' | b'N' | b'D') => syslog(line).unwrap_or(0),
        Some(b'1' | b'2') if line.get(4) == Some(&b'-') => container(line).unwrap_or(0),
        _ => 0,
    }
}

/// `Sep 15 16:13:46 host nginx[2869]: ` (RFC 3164), with `<190>` before it or not.
fn syslog(line: &[u8]) -> Option<usize> {
    let priority = if line.first() == Some(&b'<') { memchr::memchr(b'>', line.get(..6)?)? + 1 } else { 0 };
    let rest = line.get(priority..)?;
    let [m0, m1, m2, b' ', _, _, b' ', _, _, b':', _, _, b':', _, _, b' ', ..] = *rest else { return None };
    stamp::month([m0, m1, m2])?;
    Some(priority + memmem::find(rest, b": ")? + 2)
}

/// `2025-12-31T17:40:00.000000100+01:00 stdout F ` (the Container Runtime Interface's log).
fn container(line: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b' ', line.get(..40.min(line.len()))?)?;
    stamp::rfc3339(line.get(..end)?)?;
    let rest = line.get(end..)?;
    let stream = [b" stdout ".as_slice(), b" stderr "].into_iter().find(|stream| rest.starts_with(stream))?;
    match rest.get(stream.len()..)? {
        [b'F' | b'P', b' ', ..] => Some(end + stream.len() + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_collectors_add_is_passed_over_and_nothing_else() {
        for (prefix, line) in [
            ("Sep 15 16:13:46 ip-1.internal nginx[2869]: ", "81.150.104.130 - - [x"),
            ("<190>Sep  5 16:13:46 host nginx: ", "81.150.104.130"),
            ("2025-12-31T17:40:00.000000100+01:00 stdout F ", "{\"a\":1}"),
            ("", "2024-03-12\t15:22:28\tCDG50"),
            ("", "Some.host - - [x"),
            ("", "1.2.3.4 - - ["),
            ("", ""),
        ] {
            assert_eq!(length(format!("{prefix}{line}").as_bytes()), prefix.len(), "{prefix}{line}");
        }
    }
}
