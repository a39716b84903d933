//! A whole request head (`tidegate_http::head`). The input is what a client sent, and perhaps more.
//!
//! - It is accepted exactly when a second, slow reading accepts it (`strict`), and means the same there.
//! - Pingora, which reads it afterwards, takes it and finds the same method, target, version, fields and body.
//! - Readers with every leniency known from the field (`lenient`) find one and the same request in it.
//! - The verdict does not depend on how the bytes were cut, nor on what follows the head.

use tidegate::answer::Fault;
use tidegate_http::authority::{canonical_host, host_name};
use tidegate_http::fault::HeadFault;
use tidegate_http::head::{Body, EndScan, Head, HeadLimits, parse};

use super::behind;
use super::cost::{self, Work};
use super::lenient::{Leniency, Reading};
use super::limits::{TIGHT, limits};
use super::strict;

/// Like a gate's, but small enough to be reached.
const USUAL: HeadLimits = limits(2_048, 1_024, 20);

/// As a gate's at its most generous.
const WIDE: HeadLimits = limits(64 << 10, 64 << 10, 200);

/// What is measured: a head as the connection reads it, whole and in small pieces.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| {
        drop(parse(data, &WIDE));
        let mut scan = EndScan::default();
        for end in (0..data.len()).step_by(64).chain([data.len()]) {
            if scan.is_worth_parsing(&data[..end], &WIDE) && parse(&data[..end], &WIDE) != Ok(None) {
                break;
            }
        }
    }))
}

/// The target.
pub fn head(data: &[u8]) {
    cost::is_bounded(data, cost::USUAL, work);
    for limits in [USUAL, TIGHT] {
        let verdict = parse(data, &limits);
        assert_eq!(verdict.as_ref().ok().and_then(Option::as_ref), strict::head(data, &limits).as_ref());
        comes_in_pieces(data, &limits, &verdict);
        match &verdict {
            Ok(Some(head)) => {
                let bytes = data.get(..head.end).expect("a head ends within its bytes");
                assert_eq!(parse(bytes, &limits).as_ref(), Ok(&Some(head.clone())), "what follows matters");
                behind::takes(bytes, head);
                has_one_reading(bytes, head);
            }
            Ok(None) => assert!(data.len() < limits.bytes && !strict::has_end(data), "waits for what is there"),
            Err(fault) => assert!(matches!(Fault::from(*fault).meaning().status.as_u16(), 400..=431 | 505)),
        }
    }
}

/// As the connection loop reaches its verdict: parsed again only when [`EndScan`] says so.
fn comes_in_pieces(data: &[u8], limits: &HeadLimits, whole: &Result<Option<Head>, HeadFault>) {
    // the step is made from the input, so that no two inputs are cut alike and each always the same
    let step = 1 + data.iter().fold(data.len(), |sum, byte| sum.wrapping_mul(31) ^ usize::from(*byte)) % 61;
    let mut scan = EndScan::default();
    let mut first = None;
    for end in (0..data.len()).step_by(step).chain([data.len()]) {
        let part = &data[..end];
        let verdict = parse(part, limits);
        if scan.is_worth_parsing(part, limits) {
            if verdict != Ok(None) {
                first = Some(verdict);
                break;
            }
        } else {
            // a fault may be told late, but a good head and a full buffer must not wait for more
            assert!(!matches!(verdict, Ok(Some(_)) | Err(HeadFault::TooLarge | HeadFault::TargetTooLong)), "{end}");
        }
    }
    // once the deadline passes, what came is judged as it is
    assert_eq!(&first.unwrap_or_else(|| parse(data, limits)), whole, "cut every {step} bytes");
}

fn has_one_reading(bytes: &[u8], head: &Head) {
    let host = strict::fields(bytes).into_iter().flatten().find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let (_, host) = host.expect("an accepted head has a host");
    let target = head.canonical_target.as_deref().map_or(&bytes[head.target.clone()], str::as_bytes);
    assert!(target.starts_with(b"/"), "the origin gets the origin form");
    let name = host_name(host).expect("a host that was accepted");
    let canonical = canonical_host(std::str::from_utf8(host).expect("a host is ASCII"));
    assert_eq!(canonical_host(&canonical), canonical);
    assert!(canonical.eq_ignore_ascii_case(std::str::from_utf8(name).unwrap_or_default().trim_end_matches('.')));
    // what an origin is sent: the canonical target in place of the one written
    let sent = [&bytes[head.method.clone()], b" ", target, &bytes[head.target.end..]].concat();
    let expected = Reading {
        method: bytes[head.method.clone()].to_vec(),
        target: target.to_vec(),
        host: Some(host.to_vec()),
        length: if let Body::Length(length) = head.body { Some(length) } else { None },
        chunked: head.body == Body::Chunked,
        end: sent.len(),
    };
    for leniency in Leniency::all() {
        assert_eq!(leniency.read(&sent).as_ref(), Some(&expected), "{leniency:?}");
    }
}
