//! Heads made at random, and every way to cut them.

use super::*;

/// The verdict when the bytes come in pieces, as the connection loop reaches it.
fn verdict_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Option<Head>, HeadFault> {
    let mut scan: Option<EndScan> = None;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]).collect();
    cuts.sort_unstable();
    for end in cuts {
        let part = &bytes[..end];
        if scan.as_mut().is_none_or(|scan| scan.is_worth_parsing(part, &LIMITS)) {
            match parse(part, &LIMITS) {
                Ok(None) => {}
                verdict => return verdict,
            }
            scan.get_or_insert_default();
        }
    }
    // the deadline passes
    parse(bytes, &LIMITS)
}

/// Nearly valid heads: lines from a stock that holds the pitfalls, put together at random.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    let lines = prop::sample::select(vec![
        "Host: a",
        "Host: b:80",
        "Content-Length: 5",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "A: b",
        "Connection: close",
        "Connection: upgrade",
        "Upgrade: x",
        "Expect: 100-continue",
        "X-Y:\t z \t",
        "Empty:",
        "_: 1",
        "Host : a",
        " folded",
        "A: \u{e9}",
        "A: \0",
        "A: b\rC: d",
        "A: b\nC: d",
        "nocolon",
        "Content_Length: 1",
    ]);
    let target = prop_oneof![
        8 => "/[a-z/.%0-9A-F?;]{0,12}",
        1 => Just("http://a/x".to_string()),
        1 => Just("*".to_string()),
        1 => "[ -~]{1,8}",
    ];
    let end = prop_oneof![20 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r")];
    let method = prop_oneof![10 => Just("GET"), 2 => Just("POST"), 1 => Just("get"), 1 => Just("")];
    let version =
        prop_oneof![20 => Just("HTTP/1.1"), 4 => Just("HTTP/1.0"), 1 => Just("HTTP/1.1 "), 1 => Just("HTTP/2.0")];
    (
        method,
        target,
        version,
        prop::collection::vec((lines, end), 0..6),
        prop::bool::weighted(0.8),
        prop::collection::vec(any::<u8>(), 0..8),
    )
        .prop_map(|(method, target, version, lines, with_host, body)| {
            let mut bytes = format!("{method} {target} {version}\r\n").into_bytes();
            if with_host {
                bytes.extend_from_slice(b"Host: a\r\n");
            }
            for (line, end) in lines.into_iter().filter(|(line, _)| !(with_host && line.starts_with("Host:"))) {
                bytes.extend_from_slice(line.as_bytes());
                bytes.extend_from_slice(end.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&body);
            bytes
        })
}

#[test]
fn every_field_of_one_connection_is_noticed() {
    for name in [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
    ] {
        let value = if name == "Transfer-Encoding" { "chunked" } else { "x" };
        for name in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
            assert!(head(&format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n\r\n")).hop_by_hop, "{name}");
        }
    }
    let plain = "GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nUser-Agent: c\r\nContent-Length: 0\r\nCookie: d\r\nX-Forwarded-For: e\r\n\r\n";
    assert!(!head(plain).hop_by_hop);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = verdict(&bytes);
    }

    #[test]
    fn cutting_a_head_changes_nothing(bytes in heads(), cuts in prop::collection::vec(any::<usize>(), 0..6)) {
        prop_assert_eq!(verdict_in_pieces(&bytes, &cuts), verdict(&bytes));
    }

    #[test]
    fn bytes_behind_a_head_change_nothing(bytes in heads(), more in prop::collection::vec(any::<u8>(), 0..20)) {
        if let Ok(Some(head)) = verdict(&bytes) {
            let alone = verdict(&bytes[..head.end]);
            let followed = verdict(&[&bytes[..head.end], &more].concat());
            prop_assert_eq!(&alone, &Ok(Some(head)));
            prop_assert_eq!(alone, followed);
        }
    }

    /// Two parsers must not disagree: what passes here, Pingora's parser reads alike.
    #[test]
    fn what_is_accepted_reads_the_same_in_httparse(bytes in heads()) {
        if let Ok(Some(head)) = verdict(&bytes) {
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut fields);
            prop_assert_eq!(request.parse(&bytes), Ok(httparse::Status::Complete(head.end)));
            prop_assert_eq!(request.method.map(str::as_bytes), Some(&bytes[head.method.clone()]));
            prop_assert_eq!(request.path.map(str::as_bytes), Some(&bytes[head.target.clone()]));
            prop_assert_eq!(request.version, Some(u8::from(head.version == Version::Http11)));
            let theirs: Vec<_> = request.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
            let section = &bytes[head.target.end + 11..head.end - 2];
            let ours: Vec<_> = section
                .split_inclusive(|&byte| byte == b'\n')
                .map(|line| {
                    let line = line.strip_suffix(b"\r\n").unwrap();
                    let colon = line.iter().position(|&byte| byte == b':').unwrap();
                    (&line[..colon], trim(&line[colon + 1..]))
                })
                .collect();
            prop_assert_eq!(theirs, ours);
        }
    }

    #[test]
    fn an_accepted_head_says_one_thing_about_its_body(bytes in heads()) {
        if let Ok(Some(head)) = verdict(&bytes) {
            let text = String::from_utf8_lossy(&bytes[..head.end]).to_ascii_lowercase();
            let lengths = text.matches("\r\ncontent-length:").count();
            let codings = text.matches("\r\ntransfer-encoding:").count();
            prop_assert_eq!(lengths, usize::from(matches!(head.body, Body::Length(_))));
            prop_assert_eq!(codings, usize::from(head.body == Body::Chunked));
        }
    }
}
