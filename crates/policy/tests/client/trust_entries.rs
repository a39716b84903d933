//! Entries of a list of trusted networks, good and bad: rows 82 and 83, with their messages.

use tidegate_policy::client::trust::{HostBits, parse_cidr, parse_cidr_or_everyone};

#[test]
fn good_entries_have_one_canonical_form() {
    for (text, network, host_bits) in [
        ("10.0.0.0/8", "10.0.0.0/8", HostBits::Clear),
        ("10.0.0.1/8", "10.0.0.0/8", HostBits::Masked),
        ("192.168.1.1", "192.168.1.1", HostBits::Clear),
        ("192.168.1.1/32", "192.168.1.1", HostBits::Clear),
        ("2001:db8::/32", "2001:db8::/32", HostBits::Clear),
        ("2001:DB8::1/32", "2001:db8::/32", HostBits::Masked),
        ("::1", "::1", HostBits::Clear),
        ("fe80::/10", "fe80::/10", HostBits::Clear),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8", HostBits::Clear),
        ("::ffff:10.0.0.1/104", "10.0.0.0/8", HostBits::Masked),
        ("::ffff:10.0.0.1", "10.0.0.1", HostBits::Clear),
        ("0.0.0.0/1", "0.0.0.0/1", HostBits::Clear),
    ] {
        let (prefix, found) = parse_cidr(text).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((prefix.to_string().as_str(), found), (network, host_bits), "{text}");
    }
}

#[test]
fn rows_82_and_83_bad_entries_are_faults_that_say_what_to_write() {
    let address = "allowed an address or a network, such as 10.0.0.0/8 or 2001:db8::/32";
    let ipv4 = "allowed an IPv4 length of 1 to 32";
    let ipv6 = "allowed an IPv6 length of 1 to 128";
    let zone = "a zone is not allowed, because it names an interface and no network";
    let netmask = "a netmask is not allowed, a length from 1 to 32 is";
    let everyone = "a length of 0 is not allowed, because anyone could then name any client; list the networks of your own proxies";
    let mapped = "an IPv4-mapped network needs a length of 97 to 128; write the IPv4 network itself";
    for (text, message) in [
        // row 82
        ("10.0.0.0/33", ipv4.to_owned()),
        ("10.0.0.1/internet", ipv4.to_owned()),
        ("::1/129", ipv6.to_owned()),
        ("blargh", address.to_owned()),
        ("10.0.300.1", address.to_owned()),
        ("fe80::1%eth0/64", format!("{zone}; write fe80::1/64")),
        // row 83
        ("0.0.0.0/0", everyone.to_owned()),
        // beyond
        ("::/0", everyone.to_owned()),
        ("1.2.3.4/0", everyone.to_owned()),
        ("::ffff:0:0/96", everyone.to_owned()),
        ("::ffff:0:0/95", mapped.to_owned()),
        ("::ffff:10.0.0.0/8", mapped.to_owned()),
        ("10.0.0.0/255.0.0.0", format!("{netmask}; write 10.0.0.0/8")),
        ("10.0.0.1/255.255.255.255", format!("{netmask}; write 10.0.0.1/32")),
        ("10.0.0.0/255.0.255.0", netmask.to_owned()),
        ("10.0.0.0/0.255.255.255", netmask.to_owned()),
        ("fe80::1%eth0", format!("{zone}; write fe80::1")),
        ("fe80::/64%eth0", format!("{zone}; write fe80::/64")),
        ("10.0.0.0/", ipv4.to_owned()),
        ("10.0.0.0/+8", ipv4.to_owned()),
        ("10.0.0.0/08", ipv4.to_owned()),
        ("10.0.0.0/-1", ipv4.to_owned()),
        ("10.0.0.0/8/8", ipv4.to_owned()),
        ("10.0.0.0/300", ipv4.to_owned()),
        ("10/8", address.to_owned()),
        ("10.0.0.0 /8", address.to_owned()),
        ("010.0.0.0/8", address.to_owned()),
        ("10.0.0.1:80", address.to_owned()),
        ("[::1]", address.to_owned()),
        ("", address.to_owned()),
        ("/8", address.to_owned()),
    ] {
        let fault = parse_cidr(text).expect_err(text);
        assert_eq!(fault.to_string(), format!("found {text:?}; {message}"));
    }
}

#[test]
fn everyone_may_be_written_out_where_it_can_be_meant() {
    for (text, network) in [("0.0.0.0/0", "0.0.0.0/0"), ("::/0", "::/0"), ("::ffff:0:0/96", "0.0.0.0/0")] {
        assert_eq!(parse_cidr_or_everyone(text).unwrap().0.to_string(), network);
    }
    assert!(parse_cidr_or_everyone("0.0.0.0/33").is_err());
}
