//! The frames of a connection (RFC 9113 section 4.1), found by their nine-byte headers and nothing else.
//!
//! The library that speaks HTTP/2 handles PING, SETTINGS, PRIORITY and WINDOW_UPDATE by itself and reports none of them; a peer that
//! sends nothing else would keep a core busy for ever. [`Scanner`] sees them pass, [`Account`] counts them. Pure: bytes and
//! times in, verdicts out; payloads are skipped, never looked at or copied. A time is what has passed since the connection began.
//!
//! The counts are credits (a token bucket each). Every frame that costs us work and moves no request along takes from its
//! credit; time gives back, and so does what we do for the client: an honest client's WINDOW_UPDATE and PING frames come in
//! proportion to what it is sent, and priorities in proportion to its requests, so it never runs out, however fast it is.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// Length of what a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
pub enum Kind {
    /// DATA
    Data,
    /// HEADERS
    Headers,
    /// PRIORITY, and PRIORITY_UPDATE of RFC 9218.
    Priority,
    /// RST_STREAM
    Reset,
    /// SETTINGS
    Settings,
    /// PUSH_PROMISE
    PushPromise,
    /// PING
    Ping,
    /// GOAWAY
    GoAway,
    /// WINDOW_UPDATE
    WindowUpdate,
    /// CONTINUATION
    Continuation,
    /// Any other: to be ignored, as the standard wants (section 4.1).
    Unknown,
}

impl Kind {
    /// Every type, in the order of their declaration.
    pub const ALL: &'static [Kind] = Kind::VARIANTS;
}

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: Kind,
    /// Its flags, whose meaning depends on the type.
    pub flags: u8,
    /// Bytes of payload, at most 2²⁴ − 1.
    pub length: u32,
    /// The stream, without the reserved bit; 0 is the connection.
    pub stream: u32,
}

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

impl Frame {
    /// Reads a header.
    pub fn read(header: [u8; HEADER_BYTES]) -> Frame {
        let [high, middle, low, kind, flags, a, b, c, d] = header;
        let kind = match kind {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x2 | 0x10 => Kind::Priority,
            0x3 => Kind::Reset,
            0x4 => Kind::Settings,
            0x5 => Kind::PushPromise,
            0x6 => Kind::Ping,
            0x7 => Kind::GoAway,
            0x8 => Kind::WindowUpdate,
            0x9 => Kind::Continuation,
            _ => Kind::Unknown,
        };
        let length = u32::from_be_bytes([0, high, middle, low]);
        Frame { kind, flags, length, stream: u32::from_be_bytes([a & 0x7f, b, c, d]) }
    }

    /// Whether this is the last frame of a block of header fields.
    pub fn ends_headers(&self) -> bool {
        matches!(self.kind, Kind::Headers | Kind::Continuation) && self.flags & END_HEADERS != 0
    }

    /// Whether this is a part of a message, as all but DATA and HEADERS are not.
    pub fn is_of_an_answer(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What the scanner has come upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A frame's header is complete; its payload follows.
    Begun(Frame),
    /// The frame that had begun is complete.
    Ended(Frame),
}

/// Finds frames in bytes that come in pieces of any size.
#[derive(Debug)]
pub struct Scanner {
    /// Bytes before the first frame that have not passed yet.
    preface: usize,
    header: [u8; HEADER_BYTES],
    have: usize,
    /// The frame whose payload is passing, and how much of it has not passed yet.
    inside: Option<(Frame, u32)>,
}

impl Scanner {
    /// For a stream that begins with so many bytes that belong to no frame.
    pub fn new(preface: usize) -> Scanner {
        Scanner { preface, header: [0; HEADER_BYTES], have: 0, inside: None }
    }

    /// Passes over the bytes up to the next find; says how many those are. Without a find all have been passed over. A frame
    /// without payload ends after no bytes at all, so it is worth asking until nothing is found.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Option<Found>) {
        let skipped = self.preface.min(bytes.len());
        self.preface -= skipped;
        let mut passed = skipped;
        if let Some((frame, left)) = self.inside {
            let rest = bytes.len() - passed;
            let taken = usize::try_from(left).map_or(rest, |left| left.min(rest));
            passed += taken;
            let left = left - u32::try_from(taken).unwrap_or(left);
            self.inside = (left > 0).then_some((frame, left));
            return (passed, (left == 0).then_some(Found::Ended(frame)));
        }
        for byte in bytes.get(passed..).unwrap_or_default() {
            passed += 1;
            if let Some(place) = self.header.get_mut(self.have) {
                *place = *byte;
            }
            self.have += 1;
            if self.have == HEADER_BYTES {
                self.have = 0;
                let frame = Frame::read(self.header);
                self.inside = Some((frame, frame.length));
                return (passed, Some(Found::Begun(frame)));
            }
        }
        (passed, None)
    }

    /// Whether a part of a message is passing.
    pub fn is_inside_an_answer(&self) -> bool {
        self.inside.is_some_and(|(frame, _)| frame.is_of_an_answer())
    }
}

/// Why a connection is closed before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Violation {
    /// Requests cancelled faster than they could matter (rapid reset, CVE-2023-44487).
    Resets,
    /// Requests that make us reset their streams (MadeYouReset, CVE-2025-8671), or that were refused for their form, over and over.
    Refusals,
    /// PING frames.
    Ping,
    /// SETTINGS frames.
    Settings,
    /// PRIORITY frames.
    Priority,
    /// WINDOW_UPDATE frames.
    WindowUpdate,
    /// DATA frames without data.
    EmptyData,
    /// Frames of types that nobody knows, GOAWAY, and acknowledgements that nobody waits for.
    #[strum(serialize = "other_frames")]
    Other,
    /// A block of header fields in too many or too large pieces.
    Continuation,
    /// Header fields that unpack to far more than is allowed.
    HeaderBomb,
    /// A preface or a block of header fields that was not complete in time.
    Late,
    /// Neither reads nor sends while answers or bodies wait.
    Stalled,
    /// A violation of the protocol that ends the connection (RFC 9113 section 5.4.1).
    Protocol,
}

impl Violation {
    /// Every violation, so that counters can be made before the first request.
    pub const ALL: &'static [Violation] = Violation::VARIANTS;

    /// The word it is counted under.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

/// So many of something per so much time, and all of them at once at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// How many, above zero.
    pub count: u32,
    /// In how much time, above zero.
    pub nanos: u64,
}

/// What is left of an [`Allowance`]: one token bucket.
#[derive(Debug)]
pub struct Credit {
    allowance: Allowance,
    left: u32,
    /// Until when time has been turned into credit.
    since: Duration,
}

impl Credit {
    /// All of it.
    pub fn new(allowance: Allowance, now: Duration) -> Credit {
        Credit { allowance, left: allowance.count, since: now }
    }

    /// Takes so much; `false`, and all is gone, when less was left.
    pub fn take(&mut self, cost: u32, now: Duration) -> bool {
        if self.left < cost {
            self.refill(now);
        }
        let enough = self.left >= cost;
        self.left = self.left.saturating_sub(cost);
        enough
    }

    /// Gives some back, up to the whole.
    pub fn give(&mut self, more: u32) {
        self.left = self.left.saturating_add(more).min(self.allowance.count);
    }

    /// Looks at the clock only when the credit does not suffice, so most frames cost a subtraction.
    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.since).as_nanos();
        let (count, nanos) = (u128::from(self.allowance.count.max(1)), u128::from(self.allowance.nanos.max(1)));
        let earned = elapsed * count / nanos;
        if earned >= count {
            self.since = now;
            self.left = self.allowance.count;
        } else if let (Ok(more), Ok(paid)) = (u32::try_from(earned), u64::try_from(earned * nanos / count)) {
            // what is less than one stays in the clock
            self.since += Duration::from_nanos(paid);
            self.give(more);
        }
    }
}

/// How much a client may send that moves no request along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// PING, WINDOW_UPDATE, PRIORITY, SETTINGS, empty DATA and unknown frames together.
    pub control: Allowance,
    /// RST_STREAM frames.
    pub resets: Allowance,
    /// Bytes of one block of header fields, as sent.
    pub head_bytes: usize,
}

/// A SETTINGS frame makes us answer, and walk over every stream when it changes their window.
const SETTINGS_COST: u32 = 10;
/// A request earns its priorities, and the frames that browsers add to keep servers honest about unknown ones.
const EARNED_BY_REQUEST: u32 = 5;
/// A frame of an answer earns the two WINDOW_UPDATE frames (for the stream and the connection) that it may be met with.
const EARNED_BY_ANSWER: u32 = 2;

/// A DATA frame with fewer bytes is small: the library's own account of it outweighs what it holds.
pub const SMALL: u32 = 256;
/// How many small DATA frames may wait for the proxy to take them; then nothing is read until it has. Time gives some back for
/// those that it will never take, as their stream is gone.
const SMALL_FRAMES: Allowance = Allowance { count: 1_024, nanos: 40_960_000_000 };
/// What the library counts for them before it gives the connection up: each as [`SMALL`] bytes.
pub const SMALL_BUDGET: usize = 4 * SMALL_FRAMES.count as usize * SMALL as usize;

/// What one client has sent and is still good for.
#[derive(Debug)]
pub struct Account {
    limits: FrameLimits,
    control: Credit,
    resets: Credit,
    /// Small DATA frames that may still come before nothing more is read for a while.
    small: Credit,
    highest: u32,
    /// The block of header fields that is passing.
    head: Option<Head>,
}

/// A block of header fields.
#[derive(Debug, Clone, Copy)]
struct Head {
    bytes: usize,
    opens: bool,
    since: Duration,
}

impl Account {
    /// A new client.
    pub fn new(limits: FrameLimits, now: Duration) -> Account {
        Account {
            limits,
            control: Credit::new(limits.control, now),
            resets: Credit::new(limits.resets, now),
            small: Credit::new(SMALL_FRAMES, now),
            highest: 0,
            head: None,
        }
    }

    /// The client has begun a frame.
    ///
    /// # Errors
    /// It is one too many.
    pub fn begun(&mut self, frame: Frame, now: Duration) -> Result<(), Violation> {
        let (cost, abuse) = match frame.kind {
            Kind::Data if frame.length == 0 && !frame.has(END_STREAM) => (1, Violation::EmptyData),
            Kind::Data => {
                if frame.length < SMALL {
                    self.small.take(1, now);
                }
                return Ok(());
            }
            Kind::Headers => return self.head(frame, now),
            Kind::Continuation => {
                self.more_head(frame)?;
                (1, Violation::Continuation)
            }
            Kind::Reset => {
                return if self.resets.take(1, now) { Ok(()) } else { Err(Violation::Resets) };
            }
            Kind::Settings if !frame.has(ACK) => (SETTINGS_COST, Violation::Settings),
            Kind::Ping if !frame.has(ACK) => (1, Violation::Ping),
            Kind::Priority => (1, Violation::Priority),
            Kind::WindowUpdate => (1, Violation::WindowUpdate),
            Kind::Settings | Kind::Ping | Kind::PushPromise | Kind::GoAway | Kind::Unknown => (1, Violation::Other),
        };
        if self.control.take(cost, now) { Ok(()) } else { Err(abuse) }
    }

    /// The client's frame is complete; says whether it completes the head of a new request.
    pub fn ended(&mut self, frame: Frame) -> bool {
        frame.ends_headers() && self.head.take().is_some_and(|head| head.opens)
    }

    /// We have sent a frame.
    pub fn sent(&mut self, frame: Frame) {
        if frame.is_of_an_answer() {
            self.control.give(EARNED_BY_ANSWER);
        }
        if frame.kind == Kind::Headers {
            // whoever waits for an answer and then breaks off has paid for it as for any other request
            self.resets.give(1);
        }
    }

    /// Whether nothing more is to be read until small DATA frames have been taken.
    pub fn is_choked(&self) -> bool {
        self.small.left == 0
    }

    /// So many small DATA frames were taken since the last call.
    pub fn relieve(&mut self, taken: u32, now: Duration) {
        self.small.refill(now);
        self.small.give(taken);
    }

    /// Since when a block of header fields is passing, if one is.
    pub fn head_since(&self) -> Option<Duration> {
        self.head.map(|head| head.since)
    }

    fn head(&mut self, frame: Frame, now: Duration) -> Result<(), Violation> {
        let opens = frame.stream > self.highest;
        if opens {
            self.highest = frame.stream;
            self.control.give(EARNED_BY_REQUEST);
        }
        self.head = Some(Head { bytes: 0, opens, since: now });
        self.more_head(frame)
    }

    fn more_head(&mut self, frame: Frame) -> Result<(), Violation> {
        let Some(head) = &mut self.head else { return Ok(()) };
        head.bytes = head.bytes.saturating_add(usize::try_from(frame.length).unwrap_or(usize::MAX));
        if head.bytes > self.limits.head_bytes { Err(Violation::Continuation) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
