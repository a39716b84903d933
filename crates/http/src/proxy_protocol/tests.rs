use proptest::prelude::*;

use super::*;

/// A header of version 2 around a block.
fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE.as_slice(), &[command, family], &length, block].concat()
}

fn block(source: IpAddr, destination: IpAddr) -> (u8, Vec<u8>) {
    match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            (0x11, [from.octets().as_slice(), &to.octets(), &[0x30, 0x39, 0x01, 0xbb]].concat())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            (0x21, [from.octets().as_slice(), &to.octets(), &[0x30, 0x39, 0x01, 0xbb]].concat())
        }
        _ => unreachable!("one family"),
    }
}

fn entry(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind], u16::try_from(value.len()).unwrap().to_be_bytes().as_slice(), value].concat()
}

/// The header with its checksum as the last entry.
fn checked(family: u8, addresses: &[u8], entries: &[u8]) -> Vec<u8> {
    let mut header = binary(0x21, family, &[addresses, entries, &entry(3, &[0; 4])].concat());
    let at = header.len() - 4;
    let sum = crc32c(&header, at..at + 4);
    header[at..].copy_from_slice(&sum.to_be_bytes());
    header
}

fn source(text: &str) -> Result<Source, Fault> {
    let header = parse(text.as_bytes())?.expect("a whole line");
    assert_eq!(header.length, text.find('\n').unwrap() + 1);
    Ok(header.source)
}

fn address(text: &str) -> Source {
    Source::Address(text.parse().unwrap())
}

#[test]
fn the_lines_of_the_specification_are_read() {
    assert_eq!(source("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET /"), Ok(address("192.168.0.1")));
    assert_eq!(source("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), Ok(address("255.255.255.255")));
    assert_eq!(source("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n\r\n"), Ok(address("2001:db8::1")));
    assert_eq!(source("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"), Ok(address("::ffff:192.0.2.1")));
    let longest = format!("PROXY UNKNOWN {0} {0} 65535 65535\r\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    assert_eq!(longest.len(), LONGEST_LINE);
    assert_eq!(source(&longest), Ok(Source::Peer));
    assert_eq!(source("PROXY UNKNOWN\r\n"), Ok(Source::Peer));
    assert_eq!(source("PROXY UNKNOWN whatever  it is\r\n"), Ok(Source::Peer));
}

#[test]
fn lines_that_do_not_match_exactly_are_refused() {
    for text in [
        "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2\r\n",
        "PROXY TCP4 192.0.2.1\r\n",
        "PROXY TCP4 \r\n",
        "PROXY TCP4\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY unknown\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 0xc0000201 192.0.2.2 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY TCP6 [2001:db8::1] ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r \n",
        "PROXY TCP4 192.0.2.1\t192.0.2.2 1 2\r\n",
        "PROXY UNKNOWN \0\r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWN caf\u{e9}\r\n",
    ] {
        assert_eq!(parse(text.as_bytes()), Err(Fault::Malformed), "{text:?}");
    }
    let long = format!("PROXY UNKNOWN {}\r\n", "a".repeat(LONGEST_LINE - 15));
    assert_eq!((long.len(), parse(long.as_bytes())), (LONGEST_LINE + 1, Err(Fault::TooLong)));
    assert_eq!(parse(&[b"PROXY ".as_slice(), &[b'a'; 200]].concat()), Err(Fault::TooLong));
    // no byte that may follow makes it a header
    assert_eq!(parse(&long.as_bytes()[..LONGEST_LINE]), Err(Fault::TooLong));
    assert_eq!(parse(&long.as_bytes()[..LONGEST_LINE - 1]), Ok(None));
}

#[test]
fn whatever_else_comes_first_is_no_header() {
    for bytes in [
        b"GET / HTTP/1.1\r\n".as_slice(),
        b"POST / HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"PROXYTCP4 ",
        b"PROXX",
        b"proxy ",
        b"\x16\x03\x01",
        b"\n",
        b"\r\nGET",
        b"\r\n\r\n\0\r\nQUIT\r",
        b" PROXY ",
    ] {
        assert_eq!(parse(bytes), Err(Fault::Absent), "{}", bytes.escape_ascii());
    }
    assert_eq!(parse(b""), Ok(None));
}

#[test]
fn every_assigned_family_is_read() {
    let four: (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let six: (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "::1".parse().unwrap());
    for (families, (from, to)) in [([0x11, 0x12], four), ([0x21, 0x22], six)] {
        for family in families {
            let header = binary(0x21, family, &block(from, to).1);
            let followed = [header.as_slice(), b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse(&followed), Ok(Some(Header { length: header.len(), source: Source::Address(from) })));
        }
    }
    for family in [0x31, 0x32] {
        let header = binary(0x21, family, &[b'/'; 216]);
        assert_eq!(parse(&header), Ok(Some(Header { length: 232, source: Source::Unix })));
    }
    for header in [binary(0x21, 0x00, b""), binary(0x21, 0x00, b"whatever"), binary(0x20, 0x00, b"")] {
        assert_eq!(parse(&header), Ok(Some(Header { length: header.len(), source: Source::Peer })));
    }
    // of LOCAL everything is ignored but the length
    for family in [0x11, 0x21, 0xff] {
        assert_eq!(parse(&binary(0x20, family, b"abc")), Ok(Some(Header { length: 19, source: Source::Peer })));
    }
}

#[test]
fn commands_versions_and_families_that_nobody_may_send_are_refused() {
    let addresses = block("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()).1;
    for command in (0..=255u8).filter(|command| !matches!(command, 0x20 | 0x21)) {
        assert_eq!(parse(&binary(command, 0x11, &addresses)), Err(Fault::Malformed), "{command:#x}");
    }
    let known = [0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32];
    for family in (0..=255u8).filter(|family| !known.contains(family)) {
        assert_eq!(parse(&binary(0x21, family, &[0; 300])), Err(Fault::Malformed), "{family:#x}");
    }
    for (family, needed) in [(0x11, 12), (0x22, 36), (0x31, 216)] {
        assert_eq!(parse(&binary(0x21, family, &vec![0; needed - 1])), Err(Fault::Malformed));
    }
    assert_eq!(parse(&binary(0x21, 0x11, &[0; LONGEST_BINARY])), Err(Fault::TooLong));
    assert_eq!(parse(&binary(0x20, 0x00, &[0; LONGEST_BINARY])), Err(Fault::TooLong));
}

#[test]
fn entries_must_be_whole_and_their_checksum_right() {
    let (family, addresses) = block("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let sni = entry(2, b"shop.example");
    let sound = checked(family, &addresses, &sni);
    assert_eq!(parse(&sound).unwrap().unwrap().length, sound.len());
    // without the kind of its entry the checksum is no longer one
    let kind = sound.len() - 7;
    for at in (FIXED..sound.len()).filter(|at| *at != kind) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x40;
        assert!(parse(&damaged).is_err() || parse(&damaged) == Ok(None), "the bit at {at}");
    }
    for entries in [&b"\x02"[..], b"\x02\x00", b"\x02\x00\x01", b"\x04\x00\x00\x02\x00\x05abcd", b"\x03\x00\x03abc"] {
        let header = binary(0x21, family, &[&addresses, entries].concat());
        assert_eq!(parse(&header), Err(Fault::Malformed), "{}", entries.escape_ascii());
    }
    let twice = checked(family, &addresses, &entry(3, &[0; 4]));
    assert_eq!(parse(&twice), Err(Fault::Malformed));
}

#[test]
fn the_checksum_is_that_of_the_standard() {
    assert_eq!(crc32c(b"123456789", 0..0), 0xE306_9283);
    assert_eq!(crc32c(&[0; 32], 0..0), 0x8A91_36AA);
    assert_eq!(crc32c(&[0xff; 32], 0..0), 0x62A8_AB43);
    assert_eq!(crc32c(&[7; 32], 0..32), 0x8A91_36AA);
}

/// Any header that a sender may make, and what it says.
fn headers() -> impl Strategy<Value = (Vec<u8>, Source)> {
    let four = (any::<u32>(), any::<u32>()).prop_map(|(a, b)| (IpAddr::V4(a.into()), IpAddr::V4(b.into())));
    let six = (any::<u128>(), any::<u128>()).prop_map(|(a, b)| (IpAddr::V6(a.into()), IpAddr::V6(b.into())));
    let pair = prop_oneof![four, six];
    let entries = proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..5);
    prop_oneof![
        (pair.clone(), any::<u16>(), any::<u16>()).prop_map(|((from, to), one, other)| {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            (format!("PROXY {family} {from} {to} {one} {other}\r\n").into_bytes(), Source::Address(from))
        }),
        "[ -~]{0,90}".prop_map(|text| (format!("PROXY UNKNOWN {text}\r\n").into_bytes(), Source::Peer)),
        (pair, entries, any::<bool>()).prop_map(|((from, to), entries, sum)| {
            let (family, addresses) = block(from, to);
            let entries: Vec<u8> =
                entries.iter().filter(|(kind, _)| *kind != 3).flat_map(|(kind, value)| entry(*kind, value)).collect();
            let header = match sum {
                true => checked(family, &addresses, &entries),
                false => binary(0x21, family, &[addresses, entries].concat()),
            };
            (header, Source::Address(from))
        }),
        (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(family, block)| (binary(0x20, family, &block), Source::Peer)),
    ]
}

proptest! {
    #[test]
    fn what_is_sent_is_what_is_read_and_no_part_of_it_is_judged_early(
        (header, said) in headers(),
        after in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        for cut in 0..header.len() {
            prop_assert_eq!(parse(&header[..cut]), Ok(None), "cut at {}", cut);
        }
        let whole = Header { length: header.len(), source: said };
        prop_assert_eq!(parse(&header), Ok(Some(whole)));
        prop_assert_eq!(parse(&[header, after].concat()), Ok(Some(whole)), "what follows does not matter");
    }

    #[test]
    fn any_bytes_are_judged_the_same_however_they_are_cut(
        start in prop_oneof![Just(b"".to_vec()), Just(b"PROXY ".to_vec()), Just(SIGNATURE.to_vec()), Just([SIGNATURE.as_slice(), &[0x21, 0x11]].concat())],
        rest in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(b' '), Just(b'\r'), Just(b'\n')], 0..300),
    ) {
        let bytes = [start, rest].concat();
        let verdict = parse(&bytes);
        if let Ok(Some(header)) = verdict {
            prop_assert!(header.length <= bytes.len() && header.length <= LONGEST_BINARY);
        }
        let early = (0..=bytes.len()).map(|cut| parse(&bytes[..cut])).find(|part| *part != Ok(None));
        // a fault is found at the earliest byte that proves it; which one may depend on nothing behind it
        match (verdict, early) {
            (Ok(None), found) => prop_assert_eq!(found, None),
            (Ok(header), found) => prop_assert_eq!(found, Some(Ok(header))),
            (Err(_), found) => prop_assert!(matches!(found, Some(Err(_)))),
        }
    }
}
