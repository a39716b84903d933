//! The frames of a client that speaks HTTP/2, found and counted (`tidegate_http::h2::frames`). The input is three bytes of limits and
//! preface, and then what the client sends.
//!
//! - The same frames are found as by a slow reading, however the bytes are cut.
//! - The credit of the client runs out at the frame, and for the reason, that sums over all frames say.

use tidegate_http::h2::frames::{
    Account, Allowance, Found, Frame, FrameLimits, HEADER_BYTES, Kind, Scanner, Violation,
};

use super::cost::{self, USUAL, Work};

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let [_, _, preface, bytes @ ..] = data else { return None };
    const LIMITS: FrameLimits = FrameLimits {
        control: Allowance { count: 100_000, nanos: 1_000_000_000 },
        resets: Allowance { count: 100_000, nanos: 1_000_000_000 },
        head_bytes: 1 << 20,
    };
    Some(Box::new(move || {
        let _ = account(&in_pieces(bytes, usize::from(preface % 30), 64), LIMITS);
    }))
}

/// The target.
pub fn h2_frames(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let [numbers, size, preface, bytes @ ..] = data else { return };
    let preface = usize::from(preface % 30);
    let found = slowly(bytes.get(preface..).unwrap_or_default());
    // the step is made from the input, so that no two inputs are cut alike and each always the same
    let step = 1 + data.iter().fold(data.len(), |sum, byte| sum.wrapping_mul(31) ^ usize::from(*byte)) % 61;
    for step in [bytes.len().max(1), 1, step] {
        assert_eq!(in_pieces(bytes, preface, step), found, "cut every {step} bytes");
    }
    let limits = FrameLimits {
        control: Allowance { count: 1 + u32::from(numbers & 0x3f), nanos: 1_000_000_000 },
        resets: Allowance { count: 1 + u32::from(numbers >> 6), nanos: 1_000_000_000 },
        head_bytes: 8 * usize::from(*size),
    };
    assert_eq!(account(&found, limits), sums(&found, limits));
}

fn in_pieces(bytes: &[u8], preface: usize, step: usize) -> Vec<Found> {
    let (mut scanner, mut found) = (Scanner::new(preface), Vec::new());
    for mut piece in bytes.chunks(step) {
        loop {
            let (passed, next) = scanner.next(piece);
            assert!(next.is_some() || passed == piece.len(), "what holds no find is passed over");
            piece = &piece[passed..];
            match next {
                Some(next) => found.push(next),
                None => break,
            }
        }
    }
    found
}

/// Headers and payloads one after the other, as RFC 9113 section 4.1 draws them.
fn slowly(mut bytes: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        let kind = match bytes[3] {
            0 => Kind::Data,
            1 => Kind::Headers,
            2 | 16 => Kind::Priority,
            3 => Kind::Reset,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            _ => Kind::Unknown,
        };
        let stream = bytes[5..9].iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) & 0x7fff_ffff;
        let frame = Frame { kind, flags: bytes[4], length: length as u32, stream };
        found.push(Found::Begun(frame));
        let Some(rest) = bytes.get(HEADER_BYTES + length..) else { break };
        found.push(Found::Ended(frame));
        bytes = rest;
    }
    found
}

/// What became of a client: how many requests it had opened, and the frame and reason at which it was too much.
type Outcome = (usize, Option<(usize, Violation)>);

/// An answer of a head and some data is sent to every second request.
fn is_answered(frame: &Frame) -> bool {
    frame.stream & 2 != 0
}

fn account(found: &[Found], limits: FrameLimits) -> Outcome {
    // nothing here takes time
    let now = std::time::Duration::ZERO;
    let (mut account, mut opened) = (Account::new(limits, now), 0);
    for (place, event) in found.iter().enumerate() {
        match event {
            Found::Begun(frame) => {
                if let Err(abuse) = account.begun(*frame, now) {
                    return (opened, Some((place, abuse)));
                }
            }
            Found::Ended(frame) => {
                if account.ended(*frame) {
                    opened += 1;
                    if is_answered(frame) {
                        for kind in [Kind::Headers, Kind::Data] {
                            account.sent(Frame { kind, flags: 0, length: 9, stream: frame.stream });
                        }
                    }
                }
            }
        }
    }
    (opened, None)
}

/// The same by what the operator's page says (`docs/http2.md`).
fn sums(found: &[Found], limits: FrameLimits) -> Outcome {
    let most = i64::from(limits.control.count);
    let (mut credit, mut resets) = (most, i64::from(limits.resets.count));
    let (mut highest, mut opened) = (0, 0);
    // of the head that is passing: its bytes, and whether it opens a request
    let mut head: Option<(u64, bool)> = None;
    for (place, event) in found.iter().enumerate() {
        let over = |abuse| (opened, Some((place, abuse)));
        match event {
            Found::Begun(frame) => {
                let is_ack = frame.flags & 1 != 0;
                let is_head = matches!(frame.kind, Kind::Headers | Kind::Continuation);
                if frame.kind == Kind::Headers {
                    let opens = frame.stream > highest;
                    if opens {
                        highest = frame.stream;
                        credit = most.min(credit + 5);
                    }
                    head = Some((0, opens));
                }
                if let Some((bytes, _)) = head.as_mut().filter(|_| is_head) {
                    *bytes += u64::from(frame.length);
                    if *bytes > limits.head_bytes as u64 {
                        return over(Violation::Continuation);
                    }
                }
                let (cost, abuse) = match frame.kind {
                    Kind::Data if frame.length == 0 && !is_ack => (1, Violation::EmptyData),
                    Kind::Data | Kind::Headers => (0, Violation::Other),
                    Kind::Reset => {
                        resets -= 1;
                        if resets < 0 {
                            return over(Violation::Resets);
                        }
                        (0, Violation::Resets)
                    }
                    Kind::Settings if !is_ack => (10, Violation::Settings),
                    Kind::Ping if !is_ack => (1, Violation::Ping),
                    Kind::Priority => (1, Violation::Priority),
                    Kind::WindowUpdate => (1, Violation::WindowUpdate),
                    Kind::Continuation => (1, Violation::Continuation),
                    _ => (1, Violation::Other),
                };
                credit -= cost;
                if credit < 0 {
                    return over(abuse);
                }
            }
            Found::Ended(frame) => {
                let ends = matches!(frame.kind, Kind::Headers | Kind::Continuation) && frame.flags & 4 != 0;
                if ends && head.take().is_some_and(|(_, opens)| opens) {
                    opened += 1;
                    if is_answered(frame) {
                        credit = most.min(credit + 4);
                        resets = i64::from(limits.resets.count).min(resets + 1);
                    }
                }
            }
        }
    }
    (opened, None)
}
