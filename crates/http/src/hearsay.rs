//! Fields that say who the client is, or which request it made: what an origin may believe, and from whom.
//!
//! One list for everything: [`standing`] says what becomes of a field on its way to the origin, and the head of a request is
//! refused if it spells one of these names otherwise ([`is_twin`]). `X-Forwarded-For` and `Forwarded` are not in it, as they
//! are always written anew. Who decides what by it is not known here. `docs/connections.md` has the same list for people.

use arrayvec::ArrayVec;

/// From whom an origin gets a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// From trusted peers.
    Trusted,
    /// From trusted peers, and only if the policy reads the field or keeps it by name: a trusted proxy writes the one that it
    /// is known for, and passes the others on as strangers wrote them.
    Named,
    /// From no peer.
    Nobody,
}

/// How all forwarding fields of the second kind begin.
const FORWARDED: &str = "x-forwarded-";
/// The only one of them that is always written anew.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// In order, for the search.
const FIELDS: [(&str, Standing); 56] = [
    ("ali-cdn-real-ip", Standing::Named),
    ("cdn-real-ip", Standing::Named),
    ("cdn-src-ip", Standing::Named),
    ("cf-connecting-ip", Standing::Named),
    ("cf-connecting-ipv6", Standing::Named),
    ("cf-pseudo-ipv4", Standing::Named),
    ("client-cert", Standing::Trusted),
    ("client-cert-chain", Standing::Trusted),
    ("client-ip", Standing::Named),
    ("cloudfront-viewer-address", Standing::Named),
    ("do-connecting-ip", Standing::Named),
    ("fastly-client-ip", Standing::Named),
    ("fly-client-ip", Standing::Named),
    ("forwarded-for", Standing::Named),
    ("front-end-https", Standing::Trusted),
    ("incap-client-ip", Standing::Named),
    ("proxy", Standing::Nobody),
    ("proxy-client-ip", Standing::Named),
    ("remote-addr", Standing::Named),
    ("remote-user", Standing::Trusted),
    ("ssl-client-cert", Standing::Trusted),
    ("ssl-client-verify", Standing::Trusted),
    ("true-client-ip", Standing::Named),
    ("wl-proxy-client-ip", Standing::Named),
    ("x-appengine-remote-addr", Standing::Named),
    ("x-appengine-user-ip", Standing::Named),
    ("x-azure-clientip", Standing::Named),
    ("x-azure-socketip", Standing::Named),
    ("x-client-cert", Standing::Trusted),
    ("x-client-ip", Standing::Named),
    ("x-cluster-client-ip", Standing::Named),
    ("x-coming-from", Standing::Named),
    ("x-envoy-external-address", Standing::Named),
    ("x-forwarded", Standing::Named),
    ("x-host", Standing::Named),
    ("x-http-host-override", Standing::Named),
    ("x-nf-client-connection-ip", Standing::Named),
    ("x-original-forwarded-for", Standing::Named),
    ("x-original-host", Standing::Named),
    ("x-original-remote-addr", Standing::Named),
    ("x-original-uri", Standing::Named),
    ("x-original-url", Standing::Named),
    ("x-originating-ip", Standing::Named),
    ("x-proxyuser-ip", Standing::Named),
    ("x-real-ip", Standing::Named),
    ("x-remote-addr", Standing::Named),
    ("x-remote-ip", Standing::Named),
    ("x-remote-user", Standing::Trusted),
    ("x-rewrite-url", Standing::Named),
    ("x-scheme", Standing::Trusted),
    ("x-ssl-client-cert", Standing::Trusted),
    ("x-ssl-client-verify", Standing::Trusted),
    ("x-sucuri-clientip", Standing::Named),
    ("x-tidegate-criticality", Standing::Nobody),
    ("x-url-scheme", Standing::Trusted),
    ("z-forwarded-for", Standing::Named),
];

/// The longest name that is looked for in another spelling.
const LONGEST: usize = 40;

/// The names that are listed one by one.
pub fn listed() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, _)| *name)
}

/// Whether a field of this name, in any spelling, can have a [`standing`], or be `X-Forwarded-For` or `Forwarded`. Most are ordinary, and
/// the first two letters and the length say so.
pub fn may_stand(name: &[u8]) -> bool {
    let [first, second, _, _, _, ..] = name else { return false };
    matches!(
        (first | 0x20, second | 0x20),
        (b'a' | b'w', b'l')
            | (b'c', b'd' | b'f' | b'l')
            | (b'd', b'o')
            | (b'f', b'a' | b'l' | b'o' | b'r')
            | (b'i', b'n')
            | (b'p' | b't', b'r')
            | (b'r', b'e')
            | (b's', b's')
            | (b'x' | b'y' | b'z', _)
    )
}

/// From whom the origin gets the field of this name in lower case; `None`: from everybody.
pub fn standing(name: &str) -> Option<Standing> {
    if !may_stand(name.as_bytes()) {
        return None;
    }
    if name.starts_with(FORWARDED) {
        return (name != FORWARDED_FOR).then_some(Standing::Trusted);
    }
    let found = FIELDS.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    FIELDS.get(found).map(|(_, standing)| *standing)
}

/// Whether the byte is one of those that CGI and its descendants turn into the same underscore as a hyphen. All turn `_`,
/// some every byte but letters and digits.
pub fn is_folded(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte != b'-'
}

/// Whether the name is one of the list, or one of `others` in lower case, but for bytes that stand where a hyphen does.
pub fn is_twin(name: &[u8], others: &[&str]) -> bool {
    if !name.iter().any(|byte| is_folded(*byte)) {
        return false;
    }
    let Some(folded) = folded(name) else { return false };
    let Ok(name) = std::str::from_utf8(&folded) else { return false };
    standing(name).is_some() || others.contains(&name)
}

/// Whether `field` is read as `name`, in lower case, by those who take other bytes for hyphens, and is not spelt so.
pub fn is_twin_of(field: &str, name: &str) -> bool {
    let fold = |byte: u8| if is_folded(byte) { b'-' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field != name && field.bytes().map(fold).eq(name.bytes().map(fold))
}

fn folded(name: &[u8]) -> Option<ArrayVec<u8, LONGEST>> {
    let mut folded = ArrayVec::new();
    for byte in name {
        let byte = if is_folded(*byte) { b'-' } else { byte.to_ascii_lowercase() };
        folded.try_push(byte).ok()?;
    }
    Some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_every_name_of_it_is_found() {
        assert!(FIELDS.is_sorted_by(|one, next| one.0 < next.0));
        for (name, standing) in FIELDS {
            assert_eq!(super::standing(name), Some(standing), "{name}");
            assert!(name.len() <= LONGEST);
        }
        assert!(may_stand(b"X-Forwarded-For") && may_stand(b"FORWARDED"));
        for name in ["accept", "Host", "user-agent", "cookie", "content-type", "if-match", "X-y"] {
            assert!(!may_stand(name.as_bytes()), "{name}");
        }
        assert_eq!(standing("x-forwarded-user"), Some(Standing::Trusted));
        for name in ["x-forwarded-for", "forwarded", "accept", "host", "x-request-id", "proxy-authorization", "via"] {
            assert_eq!(standing(name), None, "{name}");
        }
    }

    #[test]
    fn another_spelling_is_a_twin_and_the_right_one_is_none() {
        for name in
            ["X_Real_IP", "x-real_ip", "CF_Connecting_IP", "Fastly-Client_Ip", "X.Client.IP", "x_forwarded_user"]
        {
            assert!(is_twin(name.as_bytes(), &[]), "{name}");
        }
        for name in ["X-Real-IP", "x_request_id", "a_b", "proxy", "_"] {
            assert!(!is_twin(name.as_bytes(), &[]), "{name}");
        }
        assert!(is_twin(b"Content_Length", &["content-length"]));
        assert!(is_twin_of("x_tenant", "x-tenant") && is_twin_of("x.tenant", "x_tenant"));
        assert!(!is_twin_of("x-tenant", "x-tenant") && !is_twin_of("x_tenants", "x-tenant"));
    }
}
