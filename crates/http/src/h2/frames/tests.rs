use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Of a connection that has been open for a while.
fn now() -> Duration {
    Duration::from_secs(5)
}

const LIMITS: FrameLimits = FrameLimits {
    control: Allowance { count: 20, nanos: 10_000_000_000 },
    resets: Allowance { count: 5, nanos: 10_000_000_000 },
    head_bytes: 1_000,
};

fn frame(kind: u8, flags: u8, length: u32, stream: u32) -> Frame {
    let [_, a, b, c] = length.to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    Frame::read([a, b, c, kind, flags, d, e, f, g])
}

/// Everything found in these pieces, with the place in the whole where it was found.
fn scan(preface: usize, pieces: &[&[u8]]) -> Vec<(usize, Found)> {
    let mut scanner = Scanner::new(preface);
    let (mut at, mut all) = (0, Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (passed, found) = scanner.next(rest);
            rest = &rest[passed..];
            at += passed;
            match found {
                Some(found) => all.push((at, found)),
                None => break,
            }
        }
        assert!(rest.is_empty(), "nothing is left behind");
    }
    all
}

fn bytes(frames: &[(u8, u8, u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, flags, stream, payload) in frames {
        bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend([*kind, *flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
    }
    bytes
}

#[test]
fn a_header_is_read_as_the_standard_writes_it() {
    let read = Frame::read([0x01, 0x02, 0x03, 0x01, 0x05, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(read, Frame { kind: Kind::Headers, flags: 5, length: 0x01_02_03, stream: 0x7fff_ffff });
    for (number, kind) in Kind::ALL.iter().enumerate().take(10) {
        assert_eq!(frame(number as u8, 0, 0, 0).kind, *kind);
    }
    assert_eq!(frame(0x10, 0, 0, 0).kind, Kind::Priority);
    assert_eq!(frame(0xbe, 0, 0, 0).kind, Kind::Unknown);
    for (place, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, place);
    }
}

#[test]
fn a_frame_without_payload_ends_where_its_header_ends() {
    let found = scan(0, &[&bytes(&[(4, 1, 0, vec![]), (6, 0, 0, vec![0; 8])])]);
    let places: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!(places, [9, 9, 18, 26]);
    assert!(matches!(found[1].1, Found::Ended(Frame { kind: Kind::Settings, .. })));
}

#[test]
fn the_preface_belongs_to_no_frame() {
    let all = [&PREFACE[..], &bytes(&[(4, 0, 0, vec![])])].concat();
    for cut in 0..all.len() {
        let (front, rear) = all.split_at(cut);
        assert_eq!(scan(PREFACE.len(), &[front, rear]).first().map(|(at, _)| *at), Some(33));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_found_does_not_depend_on_how_the_bytes_were_cut(
        frames in proptest::collection::vec(
            (any::<u8>(), any::<u8>(), 0..0x8000_0000_u32, proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let all = bytes(&frames);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
        places.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for place in places {
            pieces.push(&all[from..place]);
            from = place;
        }
        pieces.push(&all[from..]);
        let found = scan(0, &pieces);
        prop_assert_eq!(&found, &scan(0, &[&all]));
        let ended: Vec<_> = found.iter().filter_map(|(at, found)| match found {
            Found::Ended(frame) => Some((*at, frame.length, frame.stream)),
            Found::Begun(_) => None,
        }).collect();
        let mut at = 0;
        let wanted: Vec<_> = frames.iter().map(|(_, _, stream, payload)| {
            at += HEADER_BYTES + payload.len();
            (at, payload.len() as u32, *stream)
        }).collect();
        prop_assert_eq!(ended, wanted);
    }

    #[test]
    fn any_bytes_are_counted_without_a_panic(all in proptest::collection::vec(any::<u8>(), 0..200)) {
        let start = now();
        let mut account = Account::new(LIMITS, start);
        for (_, found) in scan(0, &[&all]) {
            match found {
                Found::Begun(frame) => drop(account.begun(frame, start)),
                Found::Ended(frame) => drop(account.ended(frame)),
            }
        }
    }

    #[test]
    fn a_credit_never_gives_more_than_it_says(
        count in 1..50_u32,
        period in 1..5_000_u64,
        steps in proptest::collection::vec((0..200_u64, 1..4_u32), 0..200),
    ) {
        let allowance = Allowance { count, nanos: period * 1_000_000 };
        let start = now();
        let mut credit = Credit::new(allowance, start);
        let (mut at, mut taken) = (0_u64, 0_u64);
        for (wait, cost) in steps {
            at += wait;
            if credit.take(cost, start + Duration::from_millis(at)) {
                taken += u64::from(cost);
            }
            let most = u64::from(count) + at * u64::from(count) / period;
            prop_assert!(taken <= most, "{} of {} after {} ms", taken, most, at);
        }
    }
}

#[test]
fn a_credit_comes_back_at_its_rate_and_never_beyond_the_whole() {
    let start = now();
    let mut credit = Credit::new(Allowance { count: 10, nanos: 10_000_000_000 }, start);
    assert!((0..10).all(|_| credit.take(1, start)));
    assert!(!credit.take(1, start));
    assert!(!credit.take(1, start + Duration::from_millis(999)));
    assert!(credit.take(1, start + Duration::from_millis(1_000)));
    assert!(!credit.take(1, start + Duration::from_millis(1_999)));
    let later = start + Duration::from_secs(3_600);
    assert!((0..10).all(|_| credit.take(1, later)));
    assert!(!credit.take(1, later));
    credit.give(100);
    assert!(credit.take(10, later) && !credit.take(1, later));
}

/// How many of these frames in a row are taken.
fn taken(account: &mut Account, frame: Frame, start: Duration) -> (u32, Option<Violation>) {
    for number in 0..10_000 {
        if let Err(abuse) = account.begun(frame, start) {
            return (number, Some(abuse));
        }
        account.ended(frame);
    }
    (10_000, None)
}

#[test]
fn every_frame_that_moves_nothing_along_is_bounded() {
    let start = now();
    for (one, most, abuse) in [
        (frame(0, 0, 0, 1), 20, Some(Violation::EmptyData)),
        (frame(2, 0, 5, 1), 20, Some(Violation::Priority)),
        (frame(16, 0, 5, 0), 20, Some(Violation::Priority)),
        (frame(3, 0, 4, 1), 5, Some(Violation::Resets)),
        (frame(4, 0, 0, 0), 2, Some(Violation::Settings)),
        (frame(4, 1, 0, 0), 20, Some(Violation::Other)),
        (frame(6, 0, 8, 0), 20, Some(Violation::Ping)),
        (frame(6, 1, 8, 0), 20, Some(Violation::Other)),
        (frame(7, 0, 8, 0), 20, Some(Violation::Other)),
        (frame(8, 0, 4, 0), 20, Some(Violation::WindowUpdate)),
        (frame(9, 0, 0, 1), 20, Some(Violation::Continuation)),
        (frame(99, 0, 4, 0), 20, Some(Violation::Other)),
        // what carries something is bounded by what it carries
        (frame(0, 0, 100, 1), 10_000, None),
        (frame(0, 1, 0, 1), 10_000, None),
    ] {
        assert_eq!(taken(&mut Account::new(LIMITS, start), one, start), (most, abuse), "{one:?}");
    }
}

#[test]
fn an_honest_client_earns_what_it_sends() {
    let start = now();
    let mut account = Account::new(LIMITS, start);
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        let head = frame(1, 5, 100, stream);
        assert_eq!(account.begun(head, start), Ok(()));
        assert!(account.ended(head));
        assert_eq!(account.begun(frame(16, 0, 5, 0), start), Ok(()));
        account.sent(frame(1, 4, 50, stream));
        for _ in 0..10 {
            account.sent(frame(0, 0, 16_384, stream));
            assert_eq!(account.begun(frame(8, 0, 4, 0), start), Ok(()));
            assert_eq!(account.begun(frame(8, 0, 4, stream), start), Ok(()));
        }
    }
}

#[test]
fn answers_that_are_broken_off_cost_nothing_more() {
    let start = now();
    let mut account = Account::new(LIMITS, start);
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        account.begun(frame(1, 5, 100, stream), start).unwrap();
        account.sent(frame(1, 4, 50, stream));
        assert_eq!(account.begun(frame(3, 0, 4, stream), start), Ok(()));
    }
}

#[test]
fn trailers_open_no_stream_and_earn_nothing() {
    let start = now();
    let mut account = Account::new(LIMITS, start);
    let head = frame(1, 4, 10, 3);
    account.begun(head, start).unwrap();
    assert!(account.ended(head));
    account.begun(head, start).unwrap();
    assert!(!account.ended(head), "the same stream again");
    let older = frame(1, 4, 10, 1);
    account.begun(older, start).unwrap();
    assert!(!account.ended(older));
}

#[test]
fn a_head_in_pieces_is_one_head_and_has_a_size() {
    let start = now();
    let mut account = Account::new(LIMITS, start);
    let begun = frame(1, 1, 600, 1);
    account.begun(begun, start).unwrap();
    assert!(!account.ended(begun));
    assert_eq!(account.head_since(), Some(start));
    let more = frame(9, 0, 400, 1);
    account.begun(more, start).unwrap();
    assert!(!account.ended(more));
    let last = frame(9, 4, 0, 1);
    account.begun(last, start).unwrap();
    assert!(account.ended(last));
    assert_eq!(account.head_since(), None);
    account.begun(frame(1, 1, 600, 3), start).unwrap();
    assert_eq!(account.begun(frame(9, 0, 401, 3), start), Err(Violation::Continuation));
}
