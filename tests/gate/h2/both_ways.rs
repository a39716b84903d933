//! By which way a request in HTTP/2 goes, nobody can tell: as in [`crate::direct`], each of many requests is sent through a gate with
//! `server.direct: on` and through one with `off`. What the origin got, what the client got, the access log's line and the metrics are the
//! same, but for the spelling of the gate's own fields in the origin's head, which means nothing (RFC 9110 section 5.1).

use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::{HeaderMap, Request};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::talker::{Talker, read, request};
use crate::direct::{Draw, METHODS, PATHS, counters_of, in_order, lines_of, policy, reply, undecided, without_rest};
use crate::harness::{Gate, Origin, Reply, wait_for};

/// How many requests go both ways.
const CASES: usize = 600;

const FIELDS: [(&str, &str); 20] = [
    ("x-forwarded-for", "203.0.113.7"),
    ("x-forwarded-for", "203.0.113.8, 198.51.100.2"),
    ("forwarded", "for=192.0.2.60;proto=http"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "elsewhere.example"),
    ("x-real-ip", "192.0.2.1"),
    ("te", "trailers"),
    ("trailer", "x-trailer"),
    ("proxy-authorization", "Basic x"),
    ("accept", "text/html"),
    ("accept-encoding", "gzip"),
    ("cookie", "a=b; c=d"),
    ("cookie", "e=f"),
    ("origin", "https://shop.example"),
    ("access-control-request-method", "PUT"),
    ("x-empty", ""),
    ("x-same", "1"),
    ("x-same", "3"),
    ("x-tier", "gold"),
    ("x-over", "forged"),
];

/// What comes behind a request's head.
enum Upload {
    None,
    /// These pieces, and whether trailers follow them.
    Whole(Vec<Vec<u8>>, bool),
    /// These bytes, and then the client resets the stream.
    Cut(Vec<u8>),
}

struct Case {
    request: Request<()>,
    upload: Upload,
    reply: Reply,
}

fn case(draw: &mut Draw, number: usize) -> Case {
    let (method, path) = (draw.of(&METHODS), draw.of(&PATHS[..12]));
    let number = number.to_string();
    let mut fields = vec![("x-case", number.as_str())];
    fields.extend(FIELDS.iter().filter(|_| draw.next() % 100 < 12));
    let mut reply = reply(draw, method);
    if draw.next() % 100 >= 40 {
        return Case { request: request(method, path, &fields), upload: Upload::None, reply };
    }
    let size = *draw.of(&[0_usize, 1, 5, 300, 3_000, 20_000, 64 * 1024, 64 * 1024 + 1, 200_000]);
    let whole: Vec<u8> = b"fedcba9876543210".iter().copied().cycle().take(size).collect();
    let length = (size + usize::from(draw.next() % 100 < 12)).to_string();
    let cut = length != size.to_string();
    if cut || draw.next().is_multiple_of(2) {
        fields.push(("content-length", &length));
    }
    if draw.next().is_multiple_of(6) {
        fields.push(("expect", "100-continue"));
    }
    // an origin that closes without reading the body may reset before its answer is read
    if !matches!(reply, Reply::Bytes(_)) {
        reply = draw.of(&[Reply::Echo, Reply::Continue]).clone();
    }
    let pieces = whole.chunks(*draw.of(&[1, 700, 30_000]).max(&(size / 40).max(1))).map(<[u8]>::to_vec).collect();
    let upload = if cut { Upload::Cut(whole) } else { Upload::Whole(pieces, draw.next().is_multiple_of(5)) };
    Case { request: request(method, path, &fields), upload, reply }
}

/// Sends what comes behind the head, as far as the other side takes it.
fn upload(sending: &mut SendStream<Bytes>, upload: &Upload) -> Result<(), h2::Error> {
    match upload {
        Upload::None => {}
        Upload::Whole(pieces, trailers) => {
            for (number, piece) in pieces.iter().enumerate() {
                let ends = !trailers && number + 1 == pieces.len();
                sending.send_data(Bytes::copy_from_slice(piece), ends)?;
            }
            if *trailers {
                sending.send_trailers(HeaderMap::from_iter([("x-trailer".parse().unwrap(), "t".parse().unwrap())]))?;
            } else if pieces.is_empty() {
                sending.send_data(Bytes::new(), true)?;
            }
        }
        Upload::Cut(bytes) => sending.send_data(Bytes::copy_from_slice(bytes), false)?,
    }
    Ok(())
}

/// What was seen of one request on one way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The heads that the origin got, one for each attempt, and the sizes of the bodies behind them.
    origin: Vec<(String, usize)>,
    bodies: Vec<Vec<u8>>,
    /// The heads of the answer, interim ones too.
    heads: Vec<String>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    /// Why the answer is not whole.
    failed: Option<Reason>,
}

struct Way {
    gate: Gate,
    talker: Talker,
}

impl Way {
    async fn new(origin: &Origin, direct: &str) -> Way {
        let gate = Gate::start(&policy(origin, direct));
        let (talker, _) = Talker::open(gate.address("main")).await;
        Way { gate, talker }
    }

    async fn ask(&mut self, case: &Case, origin: &Origin) -> Seen {
        let before = origin.count();
        let mut seen = Seen::default();
        if let Err(error) = self.answer(case, origin, before, &mut seen).await {
            // of an answer that was cut nobody knows how much comes before the reset
            seen = Seen { failed: Some(error.reason().expect("a stream is reset")), ..Seen::default() };
        }
        let arrivals = origin.arrivals().split_off(before);
        seen.bodies = arrivals.iter().map(|arrival| arrival.body.clone()).collect();
        seen.origin = arrivals.iter().map(|arrival| (in_order(&arrival.head, lower), arrival.body.len())).collect();
        if matches!(case.upload, Upload::Cut(_)) {
            // how much of it was sent when it was reset, nobody knows
            seen.bodies.clear();
            seen.origin.iter_mut().for_each(|(_, size)| *size = 0);
            // nor when the gate has heard of it: until then it has its place
            let held = || self.gate.metrics().sum("tidegate_limit_inflight_requests", &[]);
            wait_for("the place of a request that was cut", || (held() == 0.0).then_some(()));
        }
        seen
    }

    async fn answer(&mut self, case: &Case, origin: &Origin, before: usize, seen: &mut Seen) -> Result<(), h2::Error> {
        let mut head = Request::new(());
        *head.method_mut() = case.request.method().clone();
        *head.uri_mut() = case.request.uri().clone();
        *head.headers_mut() = case.request.headers().clone();
        let (mut answer, mut sending) = self.talker.begin(head, matches!(case.upload, Upload::None)).await;
        // it may be answered, and reset, before all was sent
        let _ = upload(&mut sending, &case.upload);
        if matches!(case.upload, Upload::Cut(_)) {
            // in the middle of the request, if it goes to the origin at all
            for _ in 0..200 {
                if origin.count() > before {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            sending.send_reset(Reason::CANCEL);
        }
        while let Some(interim) = poll_fn(|cx| answer.poll_informational(cx)).await {
            let interim = interim?;
            seen.heads.push(format!("{} {:?}", interim.status(), sorted(interim.headers())));
        }
        let answered = read(answer.await?).await?;
        let id = answered.fields.get("x-tidegate-decision").and_then(|id| id.to_str().ok()).map(str::to_owned);
        seen.heads.push(format!("{} {:?}", answered.status, sorted(&answered.fields)));
        seen.body = id.map_or_else(|| answered.body.clone(), |id| undecided(&answered.body, &id));
        seen.trailers = answered.trailers;
        Ok(())
    }
}

/// A line of the origin's head with the name of its field in lower case.
fn lower(line: &str) -> String {
    line.split_once(':').map_or_else(|| line.to_owned(), |(name, value)| format!("{}:{value}", name.to_lowercase()))
}

/// Fields by name, without the time of day, the decision's number and the seconds that are left.
fn sorted(fields: &HeaderMap) -> Vec<String> {
    let changing = ["date", "x-tidegate-decision", "retry-after"];
    let mut names: Vec<&str> = fields.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    let lines = names.into_iter().flat_map(|name| fields.get_all(name).iter().map(move |value| (name, value)));
    lines
        .map(|(name, value)| match changing.contains(&name) {
            true => name.to_owned(),
            false => without_rest(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))),
        })
        .collect()
}

#[test]
fn both_ways_are_the_same_for_origin_client_log_and_metrics() {
    let replies: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let script = Arc::clone(&replies);
    let origin = Origin::start(move |arrival| {
        let number: usize = arrival.lines("x-case")[0].parse().expect("each request has a number");
        script.lock().unwrap()[number].clone()
    });
    let runtime = Runtime::new().expect("a runtime");
    let (direct, framework) = runtime.block_on(async {
        let (mut direct, mut framework) = (Way::new(&origin, "on").await, Way::new(&origin, "off").await);
        let mut draw = Draw(2);
        let (mut answered, mut failed, mut apart) = (0, 0, Vec::new());
        for number in 0..CASES {
            let case = case(&mut draw, number);
            replies.lock().unwrap().push(case.reply.clone());
            let (one, other) = (direct.ask(&case, &origin).await, framework.ask(&case, &origin).await);
            if one != other {
                let head = &case.request;
                let (one, other) = (told(&one), told(&other));
                apart.push(format!(
                    "case {number}: {} {}\ndirect: {one}\nframework: {other}",
                    head.method(),
                    head.uri()
                ));
            }
            answered += usize::from(one.failed.is_none());
            failed += usize::from(one.failed.is_some());
        }
        assert!(apart.is_empty(), "{} cases: {}", apart.len(), apart.join("\n"));
        // the cases are worth something only if they differ
        assert!(answered > CASES / 2 && failed > CASES / 20, "{answered} {failed}");
        (direct.gate, framework.gate)
    });
    replies.lock().unwrap()[0] = Reply::Ok;
    let [one, other] = [&direct, &framework].map(|gate| {
        let mut lines = lines_of(gate);
        for line in &mut lines {
            if line.get("error").is_some_and(|error| error == "client_gone") {
                // how much had come when the client left, nobody knows
                line.remove("bytes_in");
            }
            // the place of a stream that was reset just before may be taken still
            let limits = line.get_mut("limits").and_then(Value::as_array_mut).into_iter().flatten();
            for busy in limits.filter(|limit| limit["name"] == "busy") {
                busy.as_object_mut().expect("a limit is an object").remove("remaining");
            }
        }
        lines
    });
    let apart: Vec<_> = one.iter().zip(&other).filter(|(one, other)| one != other).collect();
    assert!(apart.is_empty(), "{} lines: {:#?}", apart.len(), &apart[..apart.len().min(5)]);
    assert_eq!(one.len(), other.len());
    assert_eq!(counters_of(&direct), counters_of(&framework));
    let (mut direct, mut framework) = (direct, framework);
    direct.comes_to_rest();
    framework.comes_to_rest();
}

/// Short enough to be read.
fn told(seen: &Seen) -> String {
    let Seen { origin, heads, body, trailers, failed, .. } = seen;
    format!("origin {origin:#?}\nheads {heads:#?}\n{} bytes, trailers {trailers:?}, failed {failed:?}", body.len())
}
