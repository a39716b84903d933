use proptest::prelude::*;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &[u8] = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

fn after(request: &[u8]) -> Reader {
    let mut reader = Reader::new();
    send(&mut reader, request);
    reader
}

/// As Pingora sends a request: it flushes behind the head and at the end.
fn send(reader: &mut Reader, request: &[u8]) {
    assert!(reader.is_between_requests());
    reader.sending(request);
    reader.sent(request);
    reader.flushed();
    reader.flushed();
}

/// Presents the answer in pieces of this size, as a stream does; what passed, and the verdict.
fn feed(reader: &mut Reader, answer: &[u8], piece: usize) -> (Vec<u8>, Result<(), AnswerFault>) {
    let (mut passed, mut held) = (Vec::new(), Vec::new());
    for piece in answer.chunks(piece.max(1)) {
        held.extend_from_slice(piece);
        loop {
            match reader.received(&held) {
                Ok(taken) => {
                    passed.extend(held.drain(..taken.pass));
                    if !taken.hold {
                        held.clear();
                    }
                    // what stands behind the head of a chunked answer is presented once more
                    if taken.pass == 0 || held.is_empty() {
                        break;
                    }
                }
                Err(fault) => return (passed, Err(fault)),
            }
        }
        if reader.is_spoilt() {
            break;
        }
    }
    (passed, Ok(()))
}

#[test]
fn an_answer_passes_and_nothing_behind_it() {
    for (request, answer) in [
        (GET, &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..]),
        (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"),
        (GET, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        (HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (HEAD, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (GET, b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
    ] {
        for piece in [1, 2, 7, 1000] {
            let mut reader = after(request);
            assert_eq!(feed(&mut reader, answer, piece), (answer.to_vec(), Ok(())));
            assert!(reader.is_between_requests() && !reader.is_spoilt());
            let more = [answer, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"].concat();
            let mut reader = after(request);
            assert_eq!(feed(&mut reader, &more, piece), (answer.to_vec(), Ok(())));
            assert!(reader.is_spoilt(), "{}", answer.escape_ascii());
        }
    }
}

#[test]
fn one_connection_serves_many_requests() {
    let mut reader = Reader::new();
    for length in [0_usize, 5, 70_000] {
        for request in [GET, HEAD] {
            send(&mut reader, request);
            let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            if request == GET {
                answer.resize(answer.len() + length, b'x');
            }
            assert_eq!(feed(&mut reader, &answer, 4096), (answer, Ok(())));
        }
    }
    assert!(!reader.is_spoilt());
}

#[test]
fn the_end_of_the_connection_ends_what_has_no_other_end() {
    let ended = |answer: &[u8]| {
        let mut reader = after(GET);
        let (passed, verdict) = feed(&mut reader, answer, 1000);
        assert_eq!(verdict, Ok(()));
        reader.ended(answer.len() - passed.len())
    };
    assert_eq!(ended(b"HTTP/1.1 200 OK\r\n\r\nwhatever"), Ok(()));
    assert_eq!(ended(b""), Ok(()), "closed without a word");
    assert_eq!(ended(b"HTTP/1.1 200 OK\r\nConte"), Err(AnswerFault::Cut));
    assert_eq!(ended(b"HTTP/1.1 100 Continue\r\n\r\n"), Err(AnswerFault::Cut));
    assert_eq!(ended(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), Err(AnswerFault::Cut));
    assert_eq!(ended(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), Err(AnswerFault::Cut));
    assert_eq!(ended(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), Err(AnswerFault::Cut));
}

#[test]
fn a_switch_needs_to_be_asked_for() {
    assert_eq!(feed(&mut after(GET), SWITCHED, 1000).1, Err(AnswerFault::Switch));
    assert_eq!(feed(&mut after(SWITCH), b"HTTP/1.1 101 x\r\n\r\n", 1000).1, Err(AnswerFault::Switch));
    let mut reader = after(SWITCH);
    let all = [SWITCHED, b"\x81\x05hello HTTP/1.1 200 OK"].concat();
    assert_eq!(feed(&mut reader, &all, 3), (all, Ok(())));
    reader.sent(b"\x81\x05hello");
    assert!(!reader.is_between_requests(), "there are no requests any more");
    assert_eq!(reader.ended(0), Ok(()));
}

#[test]
fn a_switch_before_the_end_of_the_request_is_held_back_and_nothing_else_is() {
    let mut reader = Reader::new();
    // each request anew
    send(&mut reader, GET);
    assert_eq!(feed(&mut reader, b"HTTP/1.1 204 x\r\n\r\n", 1000).1, Ok(()));
    reader.sending(SWITCH);
    reader.sent(SWITCH);
    let interim = b"HTTP/1.1 103 Early\r\n\r\n";
    let all = [interim, SWITCHED, b"\x81\x05hello"].concat();
    assert_eq!(reader.received(&all), Ok(Taken { pass: interim.len(), hold: true }));
    let held = &all[interim.len()..];
    for _ in 0..2 {
        assert!(reader.holds_switch());
        assert_eq!(reader.received(held), Ok(Taken { pass: 0, hold: true }));
        // behind the head, then at the end
        reader.flushed();
    }
    assert!(reader.has_switched() && !reader.holds_switch());
    assert_eq!(reader.received(held), Ok(Taken { pass: held.len(), hold: false }));
    reader.sent(b"\x81\x05hello");
    assert!(!reader.is_between_requests() && !reader.holds_switch());
}

#[test]
fn interim_answers_are_counted() {
    let mut reader = after(GET);
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    assert_eq!(feed(&mut reader, &interim.repeat(8), 11).1, Ok(()));
    assert_eq!(feed(&mut reader, interim, 11).1, Err(AnswerFault::TooManyInterim));
    // and anew for each request
    let mut reader = after(GET);
    for _ in 0..3 {
        let answer = [&interim.repeat(8)[..], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"].concat();
        assert_eq!(feed(&mut reader, &answer, 1000).1, Ok(()));
        send(&mut reader, GET);
    }
}

#[test]
fn another_protocol_is_seen_before_its_first_line_ends() {
    for hello in [&b"SSH-2.0-Op"[..], b"\x15\x03\x03", b"220 smtp", b"\0"] {
        assert_eq!(feed(&mut after(GET), hello, 1000).1, Err(AnswerFault::StatusLine), "{}", hello.escape_ascii());
    }
    assert_eq!(feed(&mut after(GET), b"HTTP/1.", 1), (Vec::new(), Ok(())));
}

#[test]
fn an_answer_before_the_end_of_the_request_leaves_the_connection_to_this_request() {
    for (head, body) in [
        (&b"POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n"[..], &b"GET / "[..]),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"6\r\nHEAD /\r\n0\r\n\r\n"),
    ] {
        let mut reader = after(head);
        reader.sent(&body[..2]);
        assert_eq!(feed(&mut reader, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1000).1, Ok(()));
        assert!(reader.has_answered() && reader.is_spoilt() && !reader.is_between_requests());
        // what follows is its body and no request, whatever it looks like
        reader.sending(&body[2..]);
        reader.sent(&body[2..]);
        assert!(reader.is_between_requests() && !reader.is_spoilt());
    }
}

#[test]
fn bad_chunks_are_refused() {
    for (body, fault) in [
        ("x\r\n", AnswerFault::ChunkSize),
        (" 5\r\nhello\r\n", AnswerFault::ChunkSize),
        ("5\nhello\r\n", AnswerFault::ChunkSize),
        ("5;a\nb\r\nhello\r\n", AnswerFault::ChunkExtension),
        ("5\r\nhelloX\r\n", AnswerFault::ChunkEnding),
        ("0\r\nHTTP/1.1 200 OK\r\n\r\n", AnswerFault::Trailer),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        assert_eq!(feed(&mut after(GET), answer.as_bytes(), 1000).1, Err(fault), "{body:?}");
        assert_eq!(feed(&mut after(GET), answer.as_bytes(), 1).1, Err(fault), "{body:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn cutting_the_answer_changes_nothing(
        kind in 0..4usize,
        length in 0..300usize,
        behind in proptest::collection::vec(any::<u8>(), 0..30),
        damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
        piece in 1usize..80,
    ) {
        let body = "x".repeat(length);
        let mut answer = match kind {
            0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
            1 => format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}x\r\n0\r\n\r\n", length + 1),
            2 => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
        }
        .into_bytes();
        let sound = answer.len();
        answer.extend_from_slice(&behind);
        if let Some((place, byte)) = damage {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        let mut whole = after(GET);
        let at_once = feed(&mut whole, &answer, answer.len());
        let mut parts = after(GET);
        let in_pieces = feed(&mut parts, &answer, piece);
        if at_once.1.is_err() && in_pieces.1.is_ok() {
            // a head that comes in pieces is looked at when a line ends; until then nothing of it passes
            prop_assert!(!parts.has_answered() && answer.starts_with(&in_pieces.0));
            return Ok(());
        }
        prop_assert_eq!(&in_pieces.1, &at_once.1);
        if at_once.1.is_ok() {
            prop_assert_eq!(&in_pieces.0, &at_once.0);
            prop_assert_eq!(parts.has_answered(), whole.has_answered());
            prop_assert_eq!(parts.is_spoilt(), whole.is_spoilt());
        } else {
            // what had passed before the fault was seen is of the answer
            prop_assert!(answer.starts_with(&in_pieces.0));
        }
        if damage.is_none() && kind < 3 {
            prop_assert_eq!(&at_once, &(answer[..sound].to_vec(), Ok(())));
            prop_assert_eq!(whole.is_spoilt(), !behind.is_empty());
        }
    }
}
