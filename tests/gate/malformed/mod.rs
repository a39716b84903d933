//! Requests that are wrong at the level of bytes. Each gets an answer or a close, none a second reading.
//!
//! The tables are in the files beside this one. For every case the same is checked: the connection ends within the
//! deadline; what came back is what the case allows; everything that reached the origin has exactly one reading; the
//! request hidden in many cases (`/hidden`) never reached it; the refused path (`/admin`) was never walked round; the
//! in-flight gauge is 0 afterwards and a good request works.

mod bodies;
mod fields;
mod heads;
mod noise;
mod targets;

use std::net::Ipv4Addr;

use crate::harness::client::is_cut;
use crate::harness::{Arrival, Connection, Gate, Origin, PATIENCE, Reply};

/// What may come of a case.
#[derive(Debug, Clone, Copy)]
pub enum Want {
    /// An answer with one of these statuses, and nothing at the origin.
    Refused(&'static [u16]),
    /// An answer of 400 to 599, or a close without one; nothing complete at the origin.
    Turned,
    /// As `Turned`, or forwarded in a form that has one reading.
    Unambiguous,
    /// Anything that leaves at most one complete request at the origin, in a form that has one reading.
    Survived,
    /// Forwarded with this target, in a form that has one reading.
    Forwarded(&'static str),
}

/// What the client does once its bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Waits for the answer.
    Waits,
    /// Says that no more will come.
    Ends,
}

/// One case.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub then: Then,
    pub want: Want,
}

/// A case whose client waits.
pub fn case(name: &'static str, want: Want, bytes: &[u8]) -> Case {
    Case { name, bytes: bytes.to_vec(), then: Then::Waits, want }
}

/// A case whose client says that it is done: without that, waiting for more would be right.
pub fn cut_off(name: &'static str, want: Want, bytes: &[u8]) -> Case {
    Case { name, bytes: bytes.to_vec(), then: Then::Ends, want }
}

pub const BAD: Want = Want::Refused(&[400]);

/// The cases of all tables.
pub fn all() -> Vec<Case> {
    [heads::cases(), fields::cases(), bodies::cases(), targets::cases(), noise::cases()].into_iter().flatten().collect()
}

#[test]
fn heads_that_are_no_http_are_turned_away() {
    check(heads::cases());
}

#[test]
fn fields_with_two_readings_never_reach_an_origin() {
    check(fields::cases());
}

#[test]
fn bodies_with_two_lengths_never_reach_an_origin() {
    check(bodies::cases());
}

#[test]
fn targets_do_not_walk_round_a_refused_path() {
    check(targets::cases());
}

#[test]
fn noise_is_survived() {
    check(noise::cases());
}

/// What came back to the client of a case.
struct Outcome {
    status: Option<u16>,
    /// What came behind the first answer.
    rest: Vec<u8>,
}

fn check(cases: Vec<Case>) {
    let origin = Origin::that(Reply::Ok);
    let mut gate = Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], timeouts: {{ connect: 2s, read: 5s, write: 5s, request: 10s }} }}
routes:
  - name: admin
    match: {{ path: /admin }}
    respond: {{ status: 403, body: no }}
  - name: rest
    origin: app
",
        origin.address()
    ));
    let mut outcomes = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        outcomes.push(run(&gate, case, source_of(number)));
        gate.comes_to_rest();
        assert_eq!(gate.fetch("/good", "").status, 200, "a good request works after {}", case.name);
    }
    // with the gate gone, nothing more can come to the origin: what came is all there is
    drop(gate);
    origin.wait_until_left();
    let arrivals = origin.arrivals();
    let mut faults = Vec::new();
    for (number, (case, outcome)) in cases.iter().zip(outcomes).enumerate() {
        let source = source_of(number).to_string();
        let arrivals = arrivals.iter().filter(|arrival| arrival.lines("x-forwarded-for") == [source.as_str()]);
        if let Err(fault) = outcome.and_then(|outcome| judge(case.want, &outcome, &arrivals.collect::<Vec<_>>())) {
            faults.push(format!("{}: {fault}", case.name));
        }
    }
    faults.extend(arrivals.iter().filter_map(|arrival| one_reading(arrival).err()));
    println!("{} cases, {} faults", cases.len(), faults.len());
    assert!(faults.is_empty(), "{} cases, faults:\n{}", cases.len(), faults.join("\n"));
}

/// Every case comes from an address of its own, which the gate, trusting nobody, writes into `X-Forwarded-For`: so
/// whatever comes to the origin, and whenever, is known to belong to its case.
pub fn source_of(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32)
}

fn run(gate: &Gate, case: &Case, source: Ipv4Addr) -> Result<Outcome, String> {
    let mut connection = Connection::open_from(source, gate.address("main"));
    // a gate that has seen enough may close while a client is still sending
    let _ = connection.send(&case.bytes);
    if case.then == Then::Ends {
        connection.finish_sending();
    }
    let first = connection.answer_to("GET");
    connection.finish_sending();
    let rest = connection.rest().map_err(|_| format!("still open after {PATIENCE:?}; first answer {first:?}"))?;
    match first {
        Ok(answer) if (200..600).contains(&answer.status) => Ok(Outcome { status: Some(answer.status), rest }),
        Ok(answer) => Err(format!("answered {}", answer.status)),
        Err(fault) if is_cut(&fault) => Ok(Outcome { status: None, rest }),
        Err(fault) => Err(format!("no answer and no close: {fault}")),
    }
}

fn judge(want: Want, outcome: &Outcome, arrivals: &[&Arrival]) -> Result<(), String> {
    let Outcome { status, rest } = outcome;
    let whole: Vec<&&Arrival> = arrivals.iter().filter(|arrival| arrival.complete).collect();
    let turned = status.is_none_or(|status| status >= 400) && whole.is_empty();
    let forwarded = *status == Some(200) && whole.len() == 1 && rest.is_empty();
    let good = match want {
        Want::Refused(statuses) => status.is_some_and(|status| statuses.contains(&status)) && arrivals.is_empty(),
        Want::Turned => turned,
        Want::Unambiguous => turned || forwarded,
        Want::Survived => whole.len() <= 1,
        Want::Forwarded(target) => forwarded && whole.iter().all(|arrival| arrival.target == target),
    };
    let targets: Vec<String> =
        arrivals.iter().map(|arrival| format!("{} {}", arrival.method, arrival.target)).collect();
    good.then_some(()).ok_or_else(|| {
        let rest = String::from_utf8_lossy(&rest[..rest.len().min(80)]).into_owned();
        format!("wanted {want:?}, got {status:?}, then {rest:?}, at the origin {targets:?}")
    })
}

/// Whether what reached the origin can be understood in one way only.
pub fn one_reading(arrival: &Arrival) -> Result<(), String> {
    let head = String::from_utf8_lossy(&arrival.head).into_owned();
    let fault = |what: &str| Err(format!("{what} reached the origin: {head:?}"));
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return fault("a request line of other than three words") };
    if !method.bytes().all(is_token) || method.is_empty() {
        return fault("a method that is no token");
    }
    if !target.starts_with('/') && *target != "*"
        || !target.bytes().all(|byte| byte.is_ascii_graphic())
        || target.contains('#')
    {
        return fault("an illegal target");
    }
    if *version != "HTTP/1.1" {
        return fault("another version");
    }
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return fault("a line without colon") };
        if name.is_empty() || !name.bytes().all(is_token) {
            return fault("a field name that is no token");
        }
        if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7F) {
            return fault("a control byte");
        }
    }
    if arrival.lines("host").len() != 1 || arrival.lines("host").iter().any(|host| host.contains(',')) {
        return fault("other than one host");
    }
    let (lengths, codings) = (arrival.lines("content-length"), arrival.lines("transfer-encoding"));
    if lengths.len() + codings.len() > 1 {
        return fault("two framings");
    }
    if lengths.iter().any(|length| length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit())) {
        return fault("a length that is no number");
    }
    if codings.iter().any(|coding| *coding != "chunked") {
        return fault("a coding other than chunked");
    }
    if arrival.target.contains("/hidden") {
        return fault("the hidden request");
    }
    let path = plainly(&arrival.target);
    if path == "/admin" || path.starts_with("/admin/") {
        return fault("the refused path");
    }
    Ok(())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The path as an origin would understand it: percent-decoded once, dot segments resolved (RFC 3986, 5.2.4).
fn plainly(target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let mut pieces = path.split('%');
    let mut decoded = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                decoded.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                decoded.push(b'%');
                decoded.extend_from_slice(piece.as_bytes());
            }
        }
    }
    let text = String::from_utf8_lossy(&decoded).into_owned();
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[test]
fn the_plain_path_is_what_an_origin_would_serve() {
    assert_eq!(plainly("/a/../admin/x?y=/b"), "/admin/x");
    assert_eq!(plainly("/a/%2e%2E/%61dmin"), "/admin");
    assert_eq!(plainly("/./admin"), "/admin");
    assert_eq!(plainly("/%zz/%4"), "/%zz/%4");
    assert_eq!(plainly("/..%2fadmin"), "/admin");
}
