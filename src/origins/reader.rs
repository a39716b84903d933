//! Follows one connection to an HTTP/1 origin, request by request: which bytes are the answer, and whether any are not.
//!
//! Pingora decodes heads and bodies; this decides beforehand what it may see: whole heads with one reading, bodies up to
//! their end and not a byte further. What comes behind an answer, or before a request, can therefore never become the
//! answer to the next one. To know where an answer ends it must know the request (`HEAD` has no body, a switch of protocols
//! must have been asked for), so it reads what is sent as well; that is our own writing and is not judged. Pure: no I/O.

use tidegate_http::answer_head::{ANSWER_LIMITS, Framing, parse_noting};
use tidegate_http::chunk::ChunkScanner;
use tidegate_http::fault::AnswerFault;
use tidegate_http::head::fields::plain_number;
use tidegate_http::head::scan::line_feed;
use tidegate_http::head::{Body, EndScan, Parser};
use tidegate_http::ranges::LineRanges;

/// Interim answers to one request. `100 Continue`, some `103 Early Hints` and `102 Processing` are of use; who sends more
/// wants to keep somebody busy.
const MOST_INTERIM: u8 = 8;

/// How every answer begins.
const OPENING: &[u8] = b"HTTP/1.";

/// What the bytes at hand are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// So many from the front belong to the answer.
    pub pass: usize,
    /// The others are the beginning of a head, or of chunks, and must be presented again with what follows them; or a `101`
    /// that comes too early. If false, they belong to no answer.
    pub hold: bool,
}

/// The exchange under way on one connection.
#[derive(Debug)]
pub struct Reader {
    answer: Answer,
    request: Request,
    /// The method is `HEAD`.
    no_body: bool,
    may_switch: bool,
    interim: u8,
    /// How often Pingora has flushed since it began to write the request.
    flushes: u8,
    spoilt: bool,
    /// Heads that were passed since the request began.
    heads: Heads,
    /// Where the lines of the last head stand.
    lines: LineRanges,
}

/// Heads that a [`Reader`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heads {
    None,
    /// One of this length, which nobody has asked about.
    One(usize),
    /// Others.
    Several,
}

/// Where in the answer the next byte belongs.
#[derive(Debug)]
enum Answer {
    /// Nowhere: it has ended, or none was asked for.
    None,
    /// In a head. Most come in one piece, which is parsed at once; of the others the end is looked for first.
    Head(Option<EndScan>),
    Length(u64),
    Chunked(ChunkScanner),
    UntilClose,
    /// The protocol was switched: there are no answers any more.
    Switched,
}

/// Where in the request the next byte belongs.
#[derive(Debug)]
enum Request {
    /// At the beginning of the next one.
    Next,
    Head {
        left: usize,
        body: RequestBody,
    },
    Body(RequestBody),
}

#[derive(Debug, Clone, Copy)]
enum RequestBody {
    Length(u64),
    Chunked(ChunkScanner),
}

impl Reader {
    /// A fresh connection: nothing was asked.
    pub fn new() -> Reader {
        Reader {
            answer: Answer::None,
            request: Request::Next,
            no_body: false,
            may_switch: false,
            interim: 0,
            flushes: 0,
            spoilt: false,
            heads: Heads::None,
            lines: LineRanges::default(),
        }
    }

    /// Whether the next byte sent begins a request.
    pub fn is_between_requests(&self) -> bool {
        matches!((&self.request, &self.answer), (Request::Next, Answer::None))
    }

    /// Whether no byte of an answer is awaited.
    pub fn has_answered(&self) -> bool {
        matches!(self.answer, Answer::None)
    }

    /// Whether the connection must not serve another request: bytes came that belong to none, or a request was answered
    /// before it was sent to its end.
    pub fn is_spoilt(&self) -> bool {
        self.spoilt || (self.has_answered() && !matches!(self.request, Request::Next))
    }

    /// The connection must not serve another request.
    pub fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// These bytes are about to be sent; looked at only if they begin a request. Pingora writes a head in one piece.
    pub fn sending(&mut self, bytes: &[u8]) {
        if !self.is_between_requests() {
            return;
        }
        let no_body = bytes.starts_with(b"HEAD ");
        let mut may_switch = false;
        let mut body = RequestBody::Length(0);
        let mut at = 0;
        // our own lines, so an LF is the end of one
        while let Some(line_feed) = line_feed(bytes, at) {
            let line = bytes.get(at..line_feed).unwrap_or_default();
            // the first letter tells nearly all fields apart that are of no interest
            let field = match line {
                [b'c' | b'C' | b't' | b'T' | b'u' | b'U', ..] => Parser::new(bytes, at).field(false).ok().flatten(),
                _ => None,
            };
            at = line_feed + 1;
            match field {
                Some((name, _)) if name.eq_ignore_ascii_case(b"upgrade") => may_switch = true,
                Some((name, value)) if name.eq_ignore_ascii_case(b"content-length") => {
                    body = RequestBody::Length(plain_number(value).unwrap_or(0));
                }
                Some((name, _)) if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    body = RequestBody::Chunked(ChunkScanner::new());
                }
                _ if line == b"\r" => break,
                _ => {}
            }
        }
        self.begin(at, body, no_body, may_switch);
    }

    /// The same for who knows what the head says that is about to be sent: its length, how much body follows, and whether the method
    /// is `HEAD`. It asks for no switch of protocols.
    pub fn asking(&mut self, head: usize, body: Body, no_body: bool) {
        let body = match body {
            Body::None => RequestBody::Length(0),
            Body::Length(length) => RequestBody::Length(length),
            Body::Chunked => RequestBody::Chunked(ChunkScanner::new()),
        };
        self.begin(head, body, no_body, false);
    }

    fn begin(&mut self, head: usize, body: RequestBody, no_body: bool, may_switch: bool) {
        self.no_body = no_body;
        self.may_switch = may_switch;
        self.interim = 0;
        self.flushes = 0;
        self.heads = Heads::None;
        self.request = Request::Head { left: head, body };
        self.answer = Answer::Head(None);
    }

    /// The length of the next head among what was passed, and where its lines stand, if that is known: not where two came at once.
    pub fn next_head(&self) -> Option<(usize, &LineRanges)> {
        match self.heads {
            Heads::One(length) => Some((length, &self.lines)),
            Heads::None | Heads::Several => None,
        }
    }

    /// The next head was taken out of what was passed.
    pub fn took_head(&mut self) {
        if let Heads::One(_) = self.heads {
            self.heads = Heads::None;
        }
    }

    /// These bytes were sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if let Request::Head { left, body } = &mut self.request {
            let here = bytes.len().min(*left);
            *left -= here;
            bytes = bytes.get(here..).unwrap_or_default();
            if *left > 0 {
                return;
            }
            self.request = Request::Body(*body);
        }
        if let Request::Body(body) = &mut self.request {
            let done = match body {
                RequestBody::Length(left) => {
                    *left = left.saturating_sub(bytes.len() as u64);
                    *left == 0
                }
                // our own chunks: a fault would be ours, and such a connection must not be used again
                RequestBody::Chunked(scanner) => scanner.scan(bytes).is_ok() && scanner.is_done(),
            };
            if done && !matches!(self.answer, Answer::Switched) {
                self.request = Request::Next;
            }
        }
    }

    /// What was sent was flushed.
    pub fn flushed(&mut self) {
        self.flushes = self.flushes.saturating_add(1);
    }

    /// Whether the protocol was switched.
    pub fn has_switched(&self) -> bool {
        matches!(self.answer, Answer::Switched)
    }

    /// Whether a `101` is held back until Pingora's writing task knows that the request is over.
    ///
    /// That task learns of it by a message, and to Pingora 0.9.1 a message that it takes behind the `101` is the end of the
    /// protocol that was switched to: it closes both connections. Such a request has no body, but the message is still
    /// under way when an origin answers at once. Pingora flushes behind the head, and again when it has the message.
    pub fn holds_switch(&self) -> bool {
        self.has_switched() && self.flushes < 2
    }

    /// These bytes have come, those held back before at the front.
    ///
    /// # Errors
    /// The answer, or what was to be one, is refused. The connection must not be read any further.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Taken, AnswerFault> {
        let mut pass = 0;
        let early = self.holds_switch();
        while let Some(rest) = bytes.get(pass..).filter(|rest| !rest.is_empty()) {
            match &mut self.answer {
                Answer::None => {
                    self.spoilt = true;
                    break;
                }
                Answer::Head(scan) => {
                    // another protocol is known by its first bytes, and may wait for us to speak
                    let strange = || rest.iter().zip(OPENING).any(|(byte, wanted)| byte != wanted);
                    if scan.as_mut().is_some_and(|scan| !scan.is_worth_parsing(rest, &ANSWER_LIMITS) && !strange()) {
                        return Ok(Taken { pass, hold: true });
                    }
                    if let Heads::One(_) = self.heads {
                        // its lines are forgotten now
                        self.heads = Heads::Several;
                    }
                    let Some(head) = parse_noting(rest, &ANSWER_LIMITS, &mut self.lines)? else {
                        scan.get_or_insert_default().is_worth_parsing(rest, &ANSWER_LIMITS);
                        return Ok(Taken { pass, hold: true });
                    };
                    self.answer = self.after(head.status, head.framing, head.upgrade)?;
                    if self.holds_switch() {
                        return Ok(Taken { pass, hold: true });
                    }
                    pass += head.end;
                    self.heads = match self.heads {
                        Heads::None => Heads::One(head.end),
                        Heads::One(_) | Heads::Several => Heads::Several,
                    };
                    if let (Answer::Chunked(scanner), Some(rest)) = (&self.answer, bytes.get(pass..))
                        && !rest.is_empty()
                    {
                        // what is wrong with chunks that came with their head is found before the head goes on
                        let mut ahead = *scanner;
                        ahead.scan(rest)?;
                        return Ok(Taken { pass, hold: true });
                    }
                }
                Answer::Length(left) => {
                    let here = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    pass += here;
                    *left -= here as u64;
                    if *left == 0 {
                        self.answer = Answer::None;
                    }
                }
                Answer::Chunked(scanner) => {
                    pass += scanner.scan(rest)?;
                    if scanner.is_done() {
                        self.answer = Answer::None;
                    }
                }
                Answer::Switched if early => return Ok(Taken { pass, hold: true }),
                Answer::UntilClose | Answer::Switched => pass = bytes.len(),
            }
        }
        Ok(Taken { pass, hold: false })
    }

    /// The scanner of the body's chunks, if the next byte is of one.
    pub fn chunks(&mut self) -> Option<&mut ChunkScanner> {
        match &mut self.answer {
            Answer::Chunked(scanner) => Some(scanner),
            _ => None,
        }
    }

    /// The scanner was used; `surplus` says whether bytes stood behind the body.
    pub fn scanned(&mut self, surplus: bool) {
        if self.chunks().is_some_and(|scanner| scanner.is_done()) {
            self.answer = Answer::None;
            self.spoilt |= surplus;
        }
    }

    /// The connection has ended; `held` bytes of a head were held back.
    ///
    /// # Errors
    /// The answer had begun and had not ended.
    pub fn ended(&mut self, held: usize) -> Result<(), AnswerFault> {
        let whole = match &self.answer {
            Answer::None | Answer::UntilClose | Answer::Switched => true,
            // closed without a word: the request may be tried elsewhere
            Answer::Head(_) => held == 0 && self.interim == 0,
            Answer::Length(_) | Answer::Chunked(_) => false,
        };
        self.spoilt = true;
        if matches!(self.answer, Answer::UntilClose) {
            self.answer = Answer::None;
        }
        if whole { Ok(()) } else { Err(AnswerFault::Cut) }
    }

    fn after(&mut self, status: u16, framing: Framing, upgrade: bool) -> Result<Answer, AnswerFault> {
        Ok(match status {
            101 if self.may_switch && upgrade => Answer::Switched,
            101 => return Err(AnswerFault::Switch),
            100..=199 => {
                self.interim += 1;
                if self.interim > MOST_INTERIM {
                    return Err(AnswerFault::TooManyInterim);
                }
                Answer::Head(None)
            }
            204 | 304 => Answer::None,
            _ if self.no_body => Answer::None,
            _ => match framing {
                Framing::Length(0) => Answer::None,
                Framing::Length(length) => Answer::Length(length),
                Framing::Chunked => Answer::Chunked(ChunkScanner::new()),
                Framing::UntilClose => Answer::UntilClose,
            },
        })
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

#[cfg(test)]
mod tests;
