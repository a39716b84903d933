//! What an origin sends over HTTP/1 (`origins::reader`, `tidegate_http::answer_head`).
//!
//! The input's first line says what was asked, in any order: `HEAD`, `POST` (with a body), `unsent` (which was not sent to
//! its end), `upgrade`. The rest is what came back before the origin closed.
//!
//! - Exactly the bytes of the answer are passed on, as a second, slow reading finds them; the rest spoils the connection.
//! - How the bytes came in pieces does not matter, and an answer that breaks off is never taken for a whole one.
//! - Pingora, which reads heads afterwards, takes them and finds the same status and fields; readers with every leniency
//!   known from the field find the same body.

use tidegate::origins::reader::Reader;
use tidegate_http::fault::AnswerFault;

use super::behind;
use super::cost::{self, USUAL, Work};
use super::lenient::Leniency;
use super::strict::{self, field, lines, number};

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (asked, data) = (Asked::read(&data[..end]), data.get(end + 1..).unwrap_or_default());
    Some(Box::new(move || drop(drive(&asked, data, 1_024))))
}

/// The target.
pub fn origin_answer(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let asked = Asked::read(&data[..end]);
    let data = data.get(end + 1..).unwrap_or_default();
    let found = drive(&asked, data, data.len().max(1));
    for step in [1, 3, 17, 100] {
        let other = drive(&asked, data, step);
        // a head in pieces is held back to its end before it is judged, and if that never comes it breaks off
        let late = other.is_err() && found.is_err() && [&other, &found].contains(&&Err(AnswerFault::Cut));
        assert!(other == found || late, "in pieces of {step} {other:?}, whole {found:?}");
    }
    match (slow(&asked, data), found) {
        (Some(Whole::Until(end)), Ok(found)) => {
            let spoilt = asked.unsent || end < data.len();
            assert_eq!((found.passed, found.answered, found.spoilt), (end, true, spoilt));
        }
        (Some(Whole::All), Ok(found)) => assert_eq!((found.passed, found.spoilt), (data.len(), true)),
        // closed without a word: nothing was passed on, and the request may go elsewhere
        (None, Ok(found)) => assert!(data.is_empty() && found.passed == 0 && !found.answered, "{found:?}"),
        (None, Err(_)) => {}
        (Some(whole), Err(fault)) => panic!("{whole:?} is refused: {fault}"),
    }
}

/// What was asked of the origin.
struct Asked {
    request: Vec<u8>,
    head_only: bool,
    unsent: bool,
    upgrade: bool,
}

impl Asked {
    fn read(line: &[u8]) -> Asked {
        let line = String::from_utf8_lossy(line);
        let said = |word: &str| line.split(' ').any(|other| other == word);
        let (head_only, post, upgrade) = (said("HEAD"), said("POST"), said("upgrade"));
        let method = if head_only { "HEAD" } else { "GET" };
        let request = match (post && !head_only, upgrade) {
            (true, _) => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
            (false, true) => format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
            (false, false) => format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"),
        };
        let unsent = post && !head_only && said("unsent");
        Asked { request: request.into_bytes(), head_only, unsent, upgrade: upgrade && (head_only || !post) }
    }
}

/// What became of the exchange.
#[derive(Debug, PartialEq)]
struct Found {
    passed: usize,
    answered: bool,
    spoilt: bool,
}

/// The exchange as the connection drives it.
fn drive(asked: &Asked, data: &[u8], step: usize) -> Result<Found, AnswerFault> {
    let mut reader = Reader::new();
    assert!(reader.is_between_requests() && reader.has_answered() && !reader.is_spoilt());
    let sent = asked.request.len() - if asked.unsent { 2 } else { 0 };
    reader.sending(&asked.request);
    reader.sent(&asked.request[..sent]);
    // behind the head, and at the end of the request
    reader.flushed();
    reader.flushed();
    assert!(!reader.has_answered() && !reader.is_between_requests());
    let (mut passed, mut inbox) = (0, Vec::new());
    for piece in data.chunks(step) {
        inbox.extend(piece);
        let mut taken = reader.received(&inbox)?;
        passed += taken.pass;
        inbox.drain(..taken.pass);
        if taken.hold && taken.pass > 0 && reader.chunks().is_some() {
            // behind the head of a chunked answer the rest is presented once more
            taken = reader.received(&inbox)?;
            passed += taken.pass;
            inbox.drain(..taken.pass);
        }
        if !taken.hold && !inbox.is_empty() {
            assert!(reader.has_answered() && reader.is_spoilt());
            return Ok(Found { passed, answered: true, spoilt: true });
        }
    }
    let (answered, spoilt) = (reader.has_answered(), reader.is_spoilt());
    reader.ended(inbox.len())?;
    assert!(reader.is_spoilt(), "a closed connection serves nobody");
    Ok(Found { passed, answered, spoilt: spoilt || !answered })
}

/// How much of what came is the answer.
#[derive(Debug)]
enum Whole {
    Until(usize),
    /// To the end of the connection, or in another protocol.
    All,
}

/// The answer by RFC 9112 section 6.3; none if it is faulty or not whole.
fn slow(asked: &Asked, data: &[u8]) -> Option<Whole> {
    let mut at = 0;
    for _ in 0..=8 {
        let head = Head::read(&data[at..])?;
        head.reads_alike(&data[at..]);
        at += head.end;
        match head.status {
            101 if asked.upgrade && head.upgrade => return Some(Whole::All),
            101 => return None,
            100..=199 => continue,
            204 | 304 => return Some(Whole::Until(at)),
            _ if asked.head_only => return Some(Whole::Until(at)),
            _ if head.chunked => return super::chunks::end(&data[at..]).map(|length| Whole::Until(at + length)),
            _ => {}
        }
        let Some(length) = head.length else { return Some(Whole::All) };
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        return (end <= data.len()).then_some(Whole::Until(end));
    }
    None
}

struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    end: usize,
}

impl Head {
    fn read(data: &[u8]) -> Option<Head> {
        let end = data.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (status_line, rest) = lines(&data[..end]).split_first().map(|(first, rest)| (*first, rest.to_vec()))?;
        let recent = status_line.starts_with(b"HTTP/1.1 ");
        if !recent && !status_line.starts_with(b"HTTP/1.0 ") {
            return None;
        }
        let code = std::str::from_utf8(status_line.get(9..12)?).ok()?;
        let status = (100..600).find(|status: &u16| status.to_string() == code)?;
        let text = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
        if !(status_line.len() == 12 || status_line[12] == b' ') || !status_line.iter().all(text) {
            return None;
        }
        let fields: Vec<(&[u8], &[u8])> = rest.into_iter().map(field).collect::<Option<_>>()?;
        let values = |name: &str| -> Vec<&[u8]> {
            let same = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
            same.map(|(_, value)| *value).collect()
        };
        let length = match values("content-length")[..] {
            [] => None,
            [length] => Some(number(length)?),
            _ => return None,
        };
        let chunked = match values("transfer-encoding")[..] {
            [] => false,
            [coding] if coding.eq_ignore_ascii_case(b"chunked") && recent && length.is_none() => true,
            _ => return None,
        };
        let bodiless = status < 200 || status == 204;
        if fields.len() > 200 || (bodiless && (chunked || length.is_some_and(|length| length > 0))) {
            return None;
        }
        let connection = values("connection").join(&b','.to_owned()).to_ascii_lowercase();
        let mut options = connection.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let upgrade = options.any(|option| option == b"upgrade") && values("upgrade").iter().any(|it| !it.is_empty());
        Some(Head { status, length, chunked, upgrade, end: end + 4 })
    }

    fn reads_alike(&self, data: &[u8]) {
        let fields = strict::fields(&data[..self.end]).expect("an accepted head has fields");
        behind::takes_answer(&data[..self.end], self.status, &fields);
        for leniency in Leniency::all().filter(|leniency| leniency.concerns_answers()) {
            let reading = leniency.read(&data[..self.end]).expect("an end");
            assert_eq!(reading.target, self.status.to_string().as_bytes(), "{leniency:?}");
            let framing = (reading.length, reading.chunked, reading.end);
            assert_eq!(framing, (self.length, self.chunked, self.end), "{leniency:?}");
        }
    }
}
