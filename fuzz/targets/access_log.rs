//! The access log's line (`answer::entry`, `answer::json`), written and read back.
//!
//! An input that begins with `{` is a line to read; any other is what an entry is made of, field by field.
//!
//! - Whatever was in the request, a line is one line of JSON without control characters, and says each thing once.
//! - It reads back as the entry it was written from; a stranger's bytes as a lenient reader sees them, long texts cut.
//! - What is read from any line writes a line that reads the same.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tidegate::answer::Entry;
use tidegate::answer::entry::{LimitEntry, MAX_TEXT_BYTES, Unreadable};
use tidegate::answer::json;
use tidegate::engine::{DecisionId, Outcome, Refusal, Verdict};
use tidegate::policy::{Mode, Route};
use tidegate::units::Timestamp;

use super::cost::{self, Bound, USUAL, Work};
use super::cursor::Cursor;

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    if data.first() == Some(&b'{') {
        return Some(Box::new(|| drop(Entry::read(data).map(drop))));
    }
    let entry = entry(&mut Cursor::new(data));
    Some(Box::new(move || entry.write(&mut Vec::new())))
}

/// The target.
pub fn access_log(data: &[u8]) {
    cost::is_bounded(data, Bound { loops: 400, ..USUAL }, work);
    if data.first() == Some(&b'{') {
        match Entry::read(data) {
            Ok(entry) => is_read_back(&entry),
            Err(fault) => assert!(!fault.to_string().is_empty() && !matches!(fault, Unreadable::Limits(0..=8))),
        }
        return;
    }
    let mut input = Cursor::new(data);
    is_read_back(&entry(&mut input));
    text_is_cut_well(input.bytes(), input.small::<u16>().into());
}

fn is_read_back(entry: &Entry<'_>) {
    let line = written(entry);
    is_one_line(&line);
    let read = Entry::read(&line).expect("our own line");
    assert_eq!(read, expected(entry));
    // a text that had to be cut is longer than what is cut, by its ellipsis
    let fits = |text: &str| text.len() <= MAX_TEXT_BYTES;
    let texts = [&read.listener, &read.method].into_iter().map(|text| &**text);
    let limits = read.limits.iter().flat_map(|limit| [Some(&limit.name), limit.node.as_ref(), limit.prefix.as_ref()]);
    let optional =
        [&read.protocol, &read.client, &read.client_source, &read.client_mark, &read.route, &read.origin, &read.error];
    let optional = optional.into_iter().map(|text| text.as_ref()).chain([read.origin_address.as_ref()]).chain(limits);
    let all_fit = texts.chain(optional.flatten().map(|text| &**text)).all(fits);
    if all_fit && read.host.len() <= MAX_TEXT_BYTES && read.path.len() <= MAX_TEXT_BYTES {
        assert_eq!(written(&read).escape_ascii().to_string(), line.escape_ascii().to_string());
    }
}

fn written(entry: &Entry<'_>) -> Vec<u8> {
    let mut line = b"before".to_vec();
    entry.write(&mut line);
    assert!(line.starts_with(b"before"), "a line is appended");
    line.split_off(b"before".len())
}

fn is_one_line(line: &[u8]) {
    let text = std::str::from_utf8(line).expect("a line is text").strip_suffix('\n').expect("a line ends");
    let breaks = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
    assert!(!text.chars().any(breaks), "{text}");
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).expect("a line is an object");
    // a name twice would have been one here; a text that imitates one has its quotes escaped
    let names = fields.len()
        + fields["limits"]
            .as_array()
            .map_or(0, |limits| limits.iter().filter_map(|limit| limit.as_object()).map(|limit| limit.len()).sum());
    assert_eq!(names_of(text.as_bytes()), names, "{text}");
}

/// How many strings have a colon behind them.
fn names_of(text: &[u8]) -> usize {
    let (mut names, mut inside, mut escaped) = (0, false, false);
    for (place, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside,
            b'"' => {
                names += usize::from(inside && text.get(place + 1) == Some(&b':'));
                inside = !inside;
            }
            _ => {}
        }
    }
    names
}

/// How a line remembers an entry.
fn expected(entry: &Entry<'_>) -> Entry<'static> {
    let text = |text: &str| -> Cow<'static, str> { shown(text.as_bytes()).into() };
    let optional = |maybe: &Option<Cow<'_, str>>| maybe.as_deref().map(text);
    Entry {
        listener: text(&entry.listener),
        protocol: optional(&entry.protocol),
        client: optional(&entry.client),
        client_source: optional(&entry.client_source),
        client_mark: optional(&entry.client_mark),
        method: text(&entry.method),
        host: shown(&entry.host).into_bytes().into(),
        path: shown(&entry.path).into_bytes().into(),
        route: optional(&entry.route),
        criticality: optional(&entry.criticality),
        limits: entry
            .limits
            .iter()
            .map(|limit| LimitEntry {
                name: text(&limit.name),
                node: optional(&limit.node),
                prefix: optional(&limit.prefix),
                ..*limit
            })
            .collect(),
        origin: optional(&entry.origin),
        origin_address: optional(&entry.origin_address),
        error: optional(&entry.error),
        ..*entry
    }
}

/// A text as a lenient reader sees it, cut between characters.
fn shown(text: &[u8]) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut end = MAX_TEXT_BYTES;
    while end > MAX_TEXT_BYTES - 3 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    String::from_utf8_lossy(&text[..end]).into_owned() + "…"
}

fn text_is_cut_well(bytes: &[u8], most: usize) {
    let mut out = Vec::new();
    json::text(&mut out, bytes, most);
    let read: String = serde_json::from_slice(&out).expect("a JSON string");
    let whole = String::from_utf8_lossy(bytes);
    match read.strip_suffix('…').filter(|_| bytes.len() > most) {
        Some(kept) => assert!(kept.len() <= 3 * most && whole.starts_with(kept.trim_end_matches('\u{fffd}'))),
        None => assert_eq!(read, whole),
    }
}

/// An entry of whatever the input says.
fn entry<'a>(input: &mut Cursor<'a>) -> Entry<'a> {
    let flags: u32 = input.small();
    let mut flag = (0..32).map(|bit| flags >> bit & 1 == 1);
    let mut optional = |text: Cow<'a, str>| flag.next().unwrap_or(false).then_some(text);
    let verdict = match usize::from(input.byte().unwrap_or(0)) {
        0 => None,
        1 => Some(Verdict::Admitted),
        more => Some(Verdict::Refused(Refusal::ALL[more % Refusal::ALL.len()])),
    };
    // one text in 256 bytes of input is enough; a long one is that text again and again
    let repeat = usize::from(input.byte().unwrap_or(0) % 16);
    let path = input.bytes().repeat(1 + repeat);
    let mut entry = Entry {
        time_unix_nanos: input.number(),
        at: Timestamp::from_nanos(input.number()),
        at_zero: Some(input.number()),
        id: DecisionId(input.number()),
        listener: input.text().into(),
        client: optional(input.text().into()),
        client_source: optional(input.text().into()),
        client_mark: optional(input.text().into()),
        method: input.text().repeat(1 + repeat).into(),
        host: input.bytes().into(),
        path: path.into(),
        route: optional(input.text().into()),
        status: input.small(),
        verdict,
        limits: Default::default(),
        origin: optional(input.text().into()),
        origin_address: optional(input.text().into()),
        delay_nanos: input.number(),
        attempts: input.small(),
        duration_nanos: input.number(),
        origin_nanos: optional("".into()).map(|_| input.number()),
        bytes_in: input.number(),
        bytes_out: input.number(),
        error: optional(input.text().into()),
        // last, so that the inputs mean what they meant before there was this
        protocol: optional(input.text().into()),
        sampled: None,
        criticality: None,
    };
    for _ in 0..usize::from(input.byte().unwrap_or(0)) % (Route::MAX_RULES + 1) {
        let kinds = usize::from(input.byte().unwrap_or(0));
        entry.limits.push(LimitEntry {
            name: input.text().into(),
            mode: if kinds & 1 == 0 { Mode::Enforce } else { Mode::Shadow },
            tier: input.small(),
            outcome: Outcome::ALL[kinds / 2 % Outcome::ALL.len()],
            remaining: input.small(),
            retry_nanos: (kinds & 16 != 0).then(|| input.number()),
            node: (kinds & 32 != 0).then(|| input.text().into()),
            prefix: (kinds & 64 != 0).then(|| input.text().into()),
        });
    }
    entry.criticality = optional(input.text().into());
    entry
}
