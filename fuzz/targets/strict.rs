//! The rules of a request head once more, line by line and without a thought for speed.

use std::net::Ipv6Addr;
use std::ops::Range;

use tidegate_http::head::{Body, Head, HeadLimits, Version};
use tidegate_http::hearsay;

use super::path_readers::canonical;

/// What must not be stripped by `Connection`, nor imitated with underscores, beside what names the client.
const TRUSTED: [&str; 9] = [
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "transfer-encoding",
    "via",
];

fn is_trusted(name: &str) -> bool {
    TRUSTED.contains(&name) || name.starts_with("x-forwarded-") || hearsay::listed().any(|listed| listed == name)
}

/// Whether the name is a trusted one once every byte but letters and digits is a hyphen, and is not spelt so.
fn is_twin(name: &str) -> bool {
    let folded: String = name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    folded != name && folded.len() <= 40 && is_trusted(&folded)
}

const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether the bytes hold the end of a head, whatever it is worth.
pub fn has_end(data: &[u8]) -> bool {
    extent(data).is_some()
}

/// From the start of the request line to the end of the last field, without the four bytes that end it.
fn extent(data: &[u8]) -> Option<Range<usize>> {
    let start = if data.starts_with(b"\r\n") { 2 } else { 0 };
    let length = data[start..].windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(start..start + length)
}

/// The lines without their ends.
pub fn lines(mut text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(at) = text.windows(2).position(|two| two == b"\r\n") {
        lines.push(&text[..at]);
        text = &text[at + 2..];
    }
    lines.push(text);
    lines
}

/// The fields of a complete head, if all are well-formed: names as written, values trimmed.
pub fn fields(data: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let extent = extent(data)?;
    lines(&data[extent]).into_iter().skip(1).map(field).collect()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Name and trimmed value of one line, if it is well-formed.
pub fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let text = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(start, |end| end + 1);
    let well_formed = !name.is_empty() && name.iter().all(|byte| is_token(*byte)) && value.iter().all(text);
    well_formed.then_some((name, &value[start..end]))
}

/// The head, if it is one that must be accepted.
pub fn head(data: &[u8], limits: &HeadLimits) -> Option<Head> {
    let data = &data[..data.len().min(limits.bytes)];
    let extent = extent(data)?;
    let (start, end) = (extent.start, extent.end + 4);
    let request_line = lines(&data[extent]).first().copied()?;
    let words: Vec<&[u8]> = request_line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return None };
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return None,
    };
    let known = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(byte);
    if method.is_empty()
        || method.len() > 32
        || !method.iter().all(known)
        || [&b"CONNECT"[..], b"TRACE"].contains(&method)
    {
        return None;
    }
    let method = start..start + method.len();
    let target_place = method.end + 1..method.end + 1 + target.len();
    if target_place.end > limits.request_line || !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return None;
    }
    let fields = fields(data).filter(|fields| fields.len() <= limits.fields)?;
    let fields = Fields::judge(&fields, version)?;
    Some(Head {
        start,
        canonical_target: canonical_target(std::str::from_utf8(target).ok()?, fields.host)?,
        method,
        target: target_place,
        version,
        body: fields.body,
        expect_continue: fields.expect_continue,
        upgrade: fields.upgrade,
        keep_alive: fields.keep_alive,
        hop_by_hop: fields.hop_by_hop,
        empty_port: fields.host.ends_with(':'),
        end,
    })
}

/// The target to be sent, if it is another; outer `None` when it is refused.
fn canonical_target(target: &str, host: &str) -> Option<Option<String>> {
    let (absolute, rest) = match target.split_once("://") {
        _ if target.starts_with('/') => (false, target),
        Some((scheme, rest)) if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            if rest[..end].trim_end_matches(':') != host.trim_end_matches(':') || !is_host(&rest[..end]) {
                return None;
            }
            (true, &rest[end..])
        }
        _ => return None,
    };
    let end = rest.find('?').unwrap_or(rest.len());
    let (path, query) = rest.split_at(end);
    let canonical = canonical(if path.is_empty() { b"/" } else { path.as_bytes() }).ok()?;
    if query.contains("%00") {
        return None;
    }
    let escaped = query.replace('"', "%22").replace('<', "%3C").replace('>', "%3E");
    let other = absolute || canonical != path || escaped != query;
    let canonical = canonical + &escaped;
    (!other || canonical.len() < 65_535).then(|| other.then_some(canonical))
}

/// What the fields say together.
struct Fields<'a> {
    host: &'a str,
    body: Body,
    expect_continue: bool,
    upgrade: bool,
    keep_alive: bool,
    hop_by_hop: bool,
}

impl<'a> Fields<'a> {
    fn judge(fields: &[(&'a [u8], &'a [u8])], version: Version) -> Option<Fields<'a>> {
        let names: Vec<String> =
            fields.iter().map(|(name, _)| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        let values = |wanted: &str| -> Vec<&'a [u8]> {
            let same = names.iter().zip(fields).filter(|(name, _)| *name == wanted);
            same.map(|(_, (_, value))| *value).collect()
        };
        if names.iter().any(|name| is_twin(name)) {
            return None;
        }
        let options: Vec<String> = values("connection")
            .iter()
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|option| String::from_utf8_lossy(option).trim_matches([' ', '\t']).to_ascii_lowercase())
            .collect();
        let named: Vec<&String> = options.iter().filter(|option| !option.is_empty()).collect();
        let odd =
            |option: &String| is_trusted(option) || !option.chars().all(|char| u8::try_from(char).is_ok_and(is_token));
        // Pingora refuses a tenth
        if named.len() > 9 || named.iter().any(|option| odd(option)) {
            return None;
        }
        let [host] = values("host")[..] else { return None };
        let host = std::str::from_utf8(host).ok().filter(|host| is_host(host))?;
        let length = match values("content-length")[..] {
            [] => None,
            [length] => Some(number(length)?),
            _ => return None,
        };
        let chunked = match values("transfer-encoding")[..] {
            [] => false,
            [coding] if coding.eq_ignore_ascii_case(b"chunked") && version == Version::Http11 => true,
            _ => return None,
        };
        let body = match (length, chunked) {
            (None, false) => Body::None,
            (Some(length), false) => Body::Length(length),
            (None, true) => Body::Chunked,
            (Some(_), true) => return None,
        };
        let has_body = chunked || length.is_some_and(|length| length > 0);
        let expectations = values("expect");
        if !expectations.iter().all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue")) {
            return None;
        }
        let recent = version == Version::Http11;
        let option = |wanted: &str| options.iter().any(|option| option == wanted);
        let protocols = values("upgrade").into_iter().flat_map(|value| value.split(|byte| *byte == b','));
        let protocols: Vec<String> = protocols
            .map(|name| String::from_utf8_lossy(name).trim_matches([' ', '\t']).to_ascii_lowercase())
            .collect();
        let carries_http = |name: &String| ["h2", "http", "tls"].iter().any(|start| name.starts_with(start));
        let upgrade = recent && option("upgrade") && !protocols.is_empty() && !protocols.iter().any(carries_http);
        if upgrade && has_body {
            return None;
        }
        Some(Fields {
            host,
            body,
            expect_continue: !expectations.is_empty() && recent && has_body,
            upgrade,
            keep_alive: !option("close") && (recent || option("keep-alive")),
            hop_by_hop: names.iter().any(|name| HOP_BY_HOP.contains(&name.as_str())),
        })
    }
}

/// Up to 18 digits and nothing else, no zero before others.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 18 && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => (None, port),
        Some(_) => return false,
        None => {
            let end = host.find(':').unwrap_or(host.len());
            (Some(&host[..end]), &host[end..])
        }
    };
    let is_name = name.is_none_or(|name| {
        let labels = name.strip_suffix('.').unwrap_or(name);
        let known = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
        name.len() <= 254 && labels.split('.').all(|label| !label.is_empty() && label.chars().all(known))
    });
    let is_port = port.is_empty()
        || port == ":"
        || port.strip_prefix(':').is_some_and(|port| {
            let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
            digits && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
    is_name && is_port
}
