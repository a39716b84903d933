//! What the rows of the vectors do not show: refusals, headers with one address, flags, and keys of other lengths.

use http::{HeaderMap, HeaderName};
use tidegate_policy::client::address::Translation;
use tidegate_policy::client::trust::parse_cidr;
use tidegate_policy::client::{
    Client, ClientAddress, ClientNetwork, ClientRules, ForwardHeader, Mark, OnDegraded, OnShort, Source, resolve,
};

use crate::support::{client, headers, peer, rules, shown};

const XFF: HeaderName = HeaderName::from_static("x-forwarded-for");

fn cf() -> ForwardHeader {
    "CF-Connecting-IP".parse().unwrap()
}

#[test]
fn short_and_degraded_are_refused_only_when_the_policy_says_so() {
    let refusing = |trust| ClientRules { short: OnShort::Reject, degraded: OnDegraded::Reject, ..rules(trust) };
    let cases: [(&str, &[&str], Option<Mark>); 6] = [
        ("hops 2 from 10.0.0.0/8", &["1.2.3.4"], Some(Mark::Short)),
        ("hops 1 from 10.0.0.0/8", &["garbage"], Some(Mark::Degraded)),
        ("proxies 10.0.0.0/8", &["garbage"], Some(Mark::Degraded)),
        ("proxies 10.0.0.0/8", &["10.0.0.2"], None),
        ("proxies 10.0.0.0/8", &[], None),
        ("proxies 192.0.2.0/24", &["garbage"], None),
    ];
    for (trust, lines, refused) in cases {
        let result = resolve(&refusing(trust), peer("10.0.0.1"), &headers(&XFF, lines));
        assert_eq!(result.map_err(|unresolved| unresolved.client.mark).err(), refused, "{trust} {lines:?}");
    }
    let only_short = ClientRules { short: OnShort::Reject, ..rules("hops 1 from 10.0.0.0/8") };
    assert!(resolve(&only_short, peer("10.0.0.1"), &headers(&XFF, &["garbage"])).is_ok());
    let refused = resolve(&only_short, peer("10.0.0.1"), &HeaderMap::new()).unwrap_err();
    assert_eq!(refused.to_string(), "the forwarding header has fewer addresses than promised");
    assert_eq!(shown(&refused.client), "10.0.0.1 (short)");
}

#[test]
fn a_header_with_one_address_is_believed_from_trusted_peers_only() {
    let cases: [(&str, &[&str], &str); 11] = [
        ("proxies 10.0.0.0/8", &["1.2.3.4"], "1.2.3.4"),
        ("proxies 10.0.0.0/8", &[" 2001:db8::7\t"], "2001:db8::/64"),
        ("proxies 10.0.0.0/8", &[], "10.0.0.1"),
        ("proxies 10.0.0.0/8", &[""], "10.0.0.1 (degraded)"),
        ("proxies 10.0.0.0/8", &["1.2.3.4, 5.6.7.8"], "10.0.0.1 (degraded)"),
        ("proxies 10.0.0.0/8", &["1.2.3.4", "1.2.3.4"], "10.0.0.1 (degraded)"),
        ("proxies 10.0.0.0/8", &["10.0.0.9"], "10.0.0.9 (all-trusted)"),
        ("proxies 192.0.2.0/24", &["1.2.3.4"], "10.0.0.1"),
        ("hops 1", &["1.2.3.4"], "1.2.3.4"),
        ("hops 1", &[], "10.0.0.1 (short)"),
        ("off", &["1.2.3.4"], "10.0.0.1"),
    ];
    for (trust, lines, key) in cases {
        assert_eq!(shown(&client(trust, "10.0.0.1", lines, cf())), key, "{trust} {lines:?}");
    }
}

#[test]
fn tells_whose_word_the_address_is_and_what_was_ignored() {
    let seen = |trust, lines: &[&str]| {
        let Client { source, peer_trusted, ignored_header, hops, .. } =
            client(trust, "10.0.0.1", lines, ForwardHeader::XForwardedFor);
        (source, peer_trusted, ignored_header, hops)
    };
    assert_eq!(seen("off", &[]), (Source::Peer, false, false, 0));
    assert_eq!(seen("off", &["1.2.3.4"]), (Source::Peer, false, true, 0));
    assert_eq!(seen("hops 0", &["1.2.3.4"]), (Source::Peer, false, true, 0));
    assert_eq!(seen("proxies 192.0.2.1", &["1.2.3.4"]), (Source::Peer, false, true, 0));
    assert_eq!(seen("proxies 10.0.0.1", &[]), (Source::Peer, true, false, 0));
    assert_eq!(seen("proxies 10.0.0.1", &["1.2.3.4"]), (Source::Forwarded, true, false, 1));
    assert_eq!(seen("proxies 10.0.0.0/8", &["1.2.3.4, x, 10.0.0.2"]), (Source::Forwarded, true, false, 1));
    assert_eq!(seen("proxies 10.0.0.0/8", &["1.2.3.4, x"]), (Source::Peer, true, false, 0));
    assert_eq!(seen("hops 3", &["1.2.3.4, x, 10.0.0.2"]), (Source::Forwarded, true, false, 3));
    assert_eq!(seen("hops 2", &["1.2.3.4, x, 10.0.0.2"]), (Source::Forwarded, true, false, 1));
}

#[test]
fn any_forwarding_header_from_a_stranger_is_noticed() {
    let rules = ClientRules { header: cf(), ..rules("proxies 10.0.0.0/8") };
    for (name, noticed) in
        [("x-forwarded-for", true), ("forwarded", true), ("cf-connecting-ip", true), ("true-client-ip", false)]
    {
        let headers = headers(&HeaderName::from_static(name), &["1.2.3.4"]);
        assert_eq!(resolve(&rules, peer("203.0.113.9"), &headers).unwrap().ignored_header, noticed, "{name}");
        assert!(!resolve(&rules, peer("10.0.0.1"), &headers).unwrap().ignored_header, "{name} from a proxy");
    }
}

#[test]
fn prefix_lengths_come_from_the_rules_and_a_limit_may_use_others() {
    let rules = ClientRules { ipv4_prefix: 24, ipv6_prefix: 56, ..ClientRules::default() };
    let client = |text| resolve(&rules, peer(text), &HeaderMap::new()).unwrap();
    let v4 = client("203.0.113.9");
    assert_eq!(v4.network.to_string(), "203.0.113.0/24");
    assert_eq!(v4.address.to_string(), "203.0.113.9");
    assert_eq!(v4.network_for(None, Some(1)).to_string(), "203.0.113.0/24");
    assert_eq!(v4.network_for(Some(16), None).to_string(), "203.0.0.0/16");
    assert_eq!(v4.network_for(Some(255), None).to_string(), "203.0.113.9");
    let v6 = client("2001:db8:1:2345::7");
    assert_eq!(v6.network.to_string(), "2001:db8:1:2300::/56");
    assert_eq!(v6.network_for(Some(8), None), v6.network);
    assert_eq!(v6.network_for(None, Some(128)).to_string(), "2001:db8:1:2345::7");
    let six_to_four = client("2002:c000:204:ffff::5");
    assert_eq!(six_to_four.network.to_string(), "2002:c000:204::/48", "a site is never split");
    assert_eq!(six_to_four.network_for(None, Some(128)), six_to_four.network);
    assert_eq!(six_to_four.network_for(None, Some(32)).to_string(), "2002:c000::/32", "but may be widened");
    let unix = client("unix");
    assert_eq!((unix.address, unix.network), (ClientAddress::Unix, ClientNetwork::Unix));
    assert_eq!(unix.network_for(Some(8), Some(8)).to_string(), "unix");
}

#[test]
fn nat64_is_unwrapped_for_keys_and_never_for_trust_or_display() {
    let translation = Translation::new(parse_cidr("64:ff9b:1::/48").unwrap().0).unwrap();
    let rules = ClientRules { translation: vec![translation], ..rules("proxies 10.0.0.0/8") };
    let resolved = |line: &str| resolve(&rules, peer("10.0.0.1"), &headers(&XFF, &[line])).unwrap();
    let client = resolved("64:ff9b::8.8.8.8");
    assert_eq!((client.address.to_string(), client.network.to_string()), ("64:ff9b::808:808".into(), "8.8.8.8".into()));
    assert_eq!(client.network_for(Some(24), Some(64)).to_string(), "8.8.8.0/24", "keyed as IPv4 in every respect");
    // a prefix of the operator's own may carry private addresses, which earn no trust by it
    let private = resolved("1.2.3.4, 64:ff9b:1:a00:0:900::");
    assert_eq!((private.network.to_string().as_str(), private.mark), ("10.0.0.9", Mark::Verified));
    // every IPv4 address that the registry calls special stays IPv6 under the well-known prefix
    for line in ["64:ff9b::192.0.2.1", "64:ff9b::100.64.0.1", "64:ff9b::127.0.0.1", "64:ff9b::224.0.0.1"] {
        assert_eq!(resolved(line).network.to_string(), "64:ff9b::/64", "{line}");
    }
    assert_eq!(resolved("64:ff9b:0:0:0:1:808:808").network.to_string(), "64:ff9b::/64", "not under the /96");
}
