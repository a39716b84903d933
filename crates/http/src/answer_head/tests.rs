use proptest::prelude::*;

use super::*;

fn judged(head: &str) -> Result<AnswerHead, AnswerFault> {
    parse(head.as_bytes(), &ANSWER_LIMITS).map(|head| head.expect("the head is complete"))
}

fn framing(lines: &str) -> Result<Framing, AnswerFault> {
    judged(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).map(|head| head.framing)
}

#[test]
fn ordinary_heads_are_read() {
    assert_eq!(framing(""), Ok(Framing::UntilClose));
    assert_eq!(framing("Content-Length: 0\r\n"), Ok(Framing::Length(0)));
    assert_eq!(framing("content-length:\t 17 \r\nX: y\r\n"), Ok(Framing::Length(17)));
    assert_eq!(framing("TRANSFER-ENCODING: Chunked\r\n"), Ok(Framing::Chunked));
    for line in ["HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.1 200 na\u{ef}ve\tword"]
    {
        let head = format!("{line}\r\nA: b\r\n\r\n");
        assert_eq!(judged(&head).map(|head| (head.status, head.end)), Ok((200, head.len())), "{line}");
    }
    let switch =
        judged("HTTP/1.1 101 Switching Protocols\r\nConnection: a, Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    assert!(switch.upgrade);
    assert!(!judged("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n").unwrap().upgrade);
    assert!(!judged("HTTP/1.1 101 x\r\nConnection: upgrade\r\n\r\n").unwrap().upgrade);
}

#[test]
fn status_lines_with_two_readings_are_refused() {
    for line in [
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 600 OK",
        "HTTP/1.1 999 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 200 O\u{7f}K",
        "HTTP/11 200 OK",
        "HTTP/1.1",
        "HTTP /1.1 200 OK",
        "http/1.1 200 OK",
        " HTTP/1.1 200 OK",
        "HTTPS/1.1 200 OK",
        "ICY 200 OK",
        "",
        "200 OK",
        "<html>",
    ] {
        let found = judged(&format!("{line}\r\nContent-Length: 0\r\n\r\n"));
        assert!(matches!(found, Err(AnswerFault::StatusLine)), "{line:?}: {found:?}");
    }
    for version in ["0.9", "1.2", "2.0", "3.0", "9.9"] {
        assert_eq!(judged(&format!("HTTP/{version} 200 OK\r\n\r\n")), Err(AnswerFault::Version), "{version}");
    }
    assert_eq!(judged("HTTP/1.1 200 O\rK\r\n\r\n"), Err(AnswerFault::LineEnding));
    assert_eq!(judged("HTTP/1.1 200 OK\nA: b\n\n"), Err(AnswerFault::LineEnding));
    assert_eq!(judged("HTTP/1.1 200 O\0K\r\n\r\n"), Err(AnswerFault::StatusLine));
}

#[test]
fn lines_with_two_readings_are_refused() {
    for (lines, fault) in [
        ("A : b\r\n", AnswerFault::FieldName),
        ("A\t: b\r\n", AnswerFault::FieldName),
        (": b\r\n", AnswerFault::FieldName),
        ("A\r\n", AnswerFault::FieldName),
        ("A(b): c\r\n", AnswerFault::FieldName),
        ("\u{e9}: c\r\n", AnswerFault::FieldName),
        (" A: b\r\n", AnswerFault::Folding),
        ("A: b\r\n c\r\n", AnswerFault::Folding),
        ("A: b\r\n\tc\r\n", AnswerFault::Folding),
        ("A: b\n", AnswerFault::LineEnding),
        ("A: b\rC: d\r\n", AnswerFault::LineEnding),
        ("A: b\r\r\n", AnswerFault::LineEnding),
        ("A: b\n\r\n", AnswerFault::LineEnding),
        ("A: b\0c\r\n", AnswerFault::FieldValue),
        ("A: b\u{1b}c\r\n", AnswerFault::FieldValue),
        ("A: b\u{7f}c\r\n", AnswerFault::FieldValue),
    ] {
        assert_eq!(framing(lines), Err(fault), "{lines:?}");
    }
}

#[test]
fn framings_with_two_readings_are_refused() {
    use AnswerFault as Is;
    for (lines, fault) in [
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Is::ContentLength),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", Is::ContentLength),
        ("Content-Length: 5, 5\r\n", Is::ContentLength),
        ("Content-Length: +5\r\n", Is::ContentLength),
        ("Content-Length: -5\r\n", Is::ContentLength),
        ("Content-Length: 0x5\r\n", Is::ContentLength),
        ("Content-Length: 5 5\r\n", Is::ContentLength),
        ("Content-Length:\r\n", Is::ContentLength),
        ("Content-Length: 18446744073709551616\r\n", Is::ContentLength),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Is::LengthAndEncoding),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Is::LengthAndEncoding),
        ("Transfer-Encoding: identity\r\n", Is::TransferEncoding),
        ("Transfer-Encoding: gzip, chunked\r\n", Is::TransferEncoding),
        ("Transfer-Encoding: chunked, chunked\r\n", Is::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Is::TransferEncoding),
        ("Transfer-Encoding: xchunked\r\n", Is::TransferEncoding),
        ("Transfer-Encoding:\r\n", Is::TransferEncoding),
        ("Transfer-Encoding: \"chunked\"\r\n", Is::TransferEncoding),
    ] {
        assert_eq!(framing(lines), Err(fault), "{lines:?}");
    }
    assert_eq!(judged("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Is::TransferEncoding));
    for status in [100, 101, 103, 204] {
        for line in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            assert_eq!(judged(&format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n")), Err(Is::BodyWhereNone));
        }
        assert!(judged(&format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n")).is_ok());
    }
    assert!(judged("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n").is_ok(), "the length that there would be");
}

#[test]
fn heads_are_bounded() {
    let fields = |count| (0..count).map(|n| format!("A{n}: b\r\n")).collect::<String>();
    assert!(framing(&fields(ANSWER_LIMITS.fields)).is_ok());
    assert_eq!(framing(&fields(ANSWER_LIMITS.fields + 1)), Err(AnswerFault::TooManyFields));
    let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(ANSWER_LIMITS.bytes));
    assert_eq!(parse(endless.as_bytes(), &ANSWER_LIMITS), Err(AnswerFault::HeadTooLarge));
    let endless = format!("HTTP/1.1 200 {}", "b".repeat(ANSWER_LIMITS.bytes));
    assert_eq!(parse(endless.as_bytes(), &ANSWER_LIMITS), Err(AnswerFault::HeadTooLarge));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_verdict_does_not_depend_on_where_the_bytes_are_cut(
        damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
        cut in any::<proptest::sample::Index>(),
        fields in proptest::collection::vec("[A-Za-z-]{1,12}: ?[ -~]{0,20}", 0..6),
    ) {
        let mut head = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields.iter().map(|line| format!("{line}\r\n")).collect::<String>())
            .into_bytes();
        if let Some((place, byte)) = damage {
            let place = place.index(head.len());
            head[place] = byte;
        }
        let whole = parse(&head, &ANSWER_LIMITS);
        match parse(&head[..cut.index(head.len())], &ANSWER_LIMITS) {
            Ok(None) => {}
            part => prop_assert_eq!(part, whole),
        }
    }

    #[test]
    fn what_passes_is_read_the_same_by_the_parser_behind_it(
        bytes in proptest::collection::vec(
            prop_oneof![8 => Just(b'a'), 2 => Just(b':'), 2 => Just(b' '), 2 => Just(b'\r'), 2 => Just(b'\n'), 1 => any::<u8>()],
            0..40,
        ),
    ) {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        head.extend_from_slice(&bytes);
        head.extend_from_slice(b"\r\n\r\n");
        if let Ok(Some(found)) = parse(&head, &ANSWER_LIMITS) {
            let mut fields = [httparse::EMPTY_HEADER; 256];
            let mut answer = httparse::Response::new(&mut fields);
            prop_assert_eq!(answer.parse(&head), Ok(httparse::Status::Complete(found.end)));
            prop_assert_eq!(answer.code, Some(found.status));
        }
    }
}
