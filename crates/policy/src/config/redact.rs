//! What nobody may read in a diagnostic: passwords in URLs, and what stands behind a word that holds a secret.
//!
//! Diagnostics repeat the operator's text, and go to terminals, logs and the pages of CI systems. A secret is shown as so many `*` as
//! it has characters, so that what points into its line still points at the same place.
//!
//! This is no parser, as it has to hold for files that are none: whatever may be a secret is taken for one. What it takes too much
//! costs an operator a look into the file.

use std::borrow::Cow;
use std::ops::Range;

use super::nearest::nearest;

/// Words whose values are secrets.
const WORDS: [&str; 3] = ["password", "client_hmac", "token"];

/// Words below them that hold none: they say where the secret is. `url` is a store's that somebody gave such a name.
const PLACES: [&str; 5] = ["previous_file", "previous_env", "file", "env", "url"];

/// Schemes whose URLs hold nothing in which `@` could mean anything else.
const OF_STORES: [&str; 8] = ["redis", "rediss", "valkey", "valkeys", "tcp", "tls", "redis-sentinel", "redis+sentinel"];

/// A text in which some ranges of bytes, in their order and apart from each other, are shown as `*`.
#[derive(Debug, Clone)]
pub struct Redacted<'t> {
    text: &'t str,
    ranges: &'t [Range<usize>],
    /// Where the text begins in that of the ranges.
    start: usize,
}

impl<'t> Redacted<'t> {
    /// A part of a text of which `ranges` are secret; it begins there at `start`.
    pub fn new(text: &'t str, ranges: &'t [Range<usize>], start: usize) -> Redacted<'t> {
        // a source has few of them, and an excerpt none or one
        let (from, to) = (start, start + text.len());
        let first = ranges.partition_point(|range| range.end <= from);
        let behind = ranges.partition_point(|range| range.start < to);
        Redacted { text, ranges: ranges.get(first..behind.max(first)).unwrap_or_default(), start }
    }

    /// What may be shown.
    pub fn text(&self) -> Cow<'t, str> {
        if self.ranges.is_empty() {
            return Cow::Borrowed(self.text);
        }
        Cow::Owned(self.characters().map(|(_, character)| character).collect())
    }

    /// The offset in what is shown of one in the text.
    pub fn at(&self, offset: usize) -> usize {
        if self.ranges.is_empty() {
            return offset;
        }
        self.characters().take_while(|(at, _)| *at < offset).map(|(_, character)| character.len_utf8()).sum()
    }

    /// The characters as they may be shown, each with the offset of the one in the text.
    fn characters(&self) -> impl Iterator<Item = (usize, char)> + '_ {
        let hidden = |at: usize| self.ranges.iter().any(|range| range.contains(&(at + self.start)));
        self.text.char_indices().map(move |(at, character)| {
            let stays = matches!(character, '\n' | '\r') || !hidden(at);
            (at, if stays { character } else { '*' })
        })
    }
}

/// A text of a message as it may be shown. Where in a file it comes from is not known here, so this is about passwords in URLs
/// alone.
pub fn shown(text: &str) -> Cow<'_, str> {
    let ranges = in_urls(text);
    match ranges.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(Redacted::new(text, &ranges, 0).text().into_owned()),
    }
}

/// What is secret in a policy file, good or broken.
pub fn in_source(text: &str) -> Vec<Range<usize>> {
    let mut ranges = in_urls(text);
    behind_words(text, &mut ranges);
    joined(ranges)
}

/// In their order, and those that overlap as one.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The passwords of `SCHEME://USER:PASSWORD@HOST`, and of the same without a scheme.
fn in_urls(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    // most texts have none
    if !text.contains('@') {
        return ranges;
    }
    for (start, line) in lines(text).filter(|(_, line)| line.contains('@')) {
        let mut from = 0;
        while let Some(at) = line.get(from..).and_then(|rest| rest.find("://")).map(|at| from + at) {
            let scheme = line.get(..at).map_or("", |before| {
                let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                let length = before.bytes().rev().take_while(word).count();
                before.get(before.len() - length..).unwrap_or_default()
            });
            let quote = line.get(..at - scheme.len()).and_then(|before| before.chars().next_back());
            let body = at + 3;
            let rest = beginning(line.get(body..).unwrap_or_default());
            let end = match quote.filter(|quote| matches!(quote, '"' | '\'' | '`')) {
                Some(quote) => closing(rest, quote),
                None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            };
            let whole = rest.get(..end).unwrap_or_default();
            let user = userinfo(scheme, whole).unwrap_or(0);
            ranges.extend(password(whole.get(..user).unwrap_or_default(), start + body));
            from = body + user;
        }
        schemeless(line, start, &mut ranges);
    }
    joined(ranges)
}

/// How many bytes of what follows `SCHEME://` are a user and a password.
fn userinfo(scheme: &str, rest: &str) -> Option<usize> {
    let last = rest.rfind('@')?;
    if OF_STORES.iter().any(|name| scheme.eq_ignore_ascii_case(name)) {
        return Some(last);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(at) = authority.rfind('@') {
        return Some(at);
    }
    // a password with a `/` in it, unless what follows the colon is a port
    let (host, port) = authority.split_once(':')?;
    (!host.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit())).then_some(last)
}

/// The password of a user's part that begins at `start`; without a colon it may be all of it.
fn password(user: &str, start: usize) -> Option<Range<usize>> {
    let secret = user.find(':').map_or(0, |colon| colon + 1);
    let hidden = user.get(secret..).filter(|text| !text.is_empty() && !is_variable(text))?;
    Some(start + secret..start + secret + hidden.len())
}

/// `USER:PASSWORD@HOST`, in the words of a line.
fn schemeless(line: &str, start: usize, ranges: &mut Vec<Range<usize>>) {
    let apart = |character: char| character.is_whitespace() || "\"'`{}[](),".contains(character);
    let mut from = 0;
    for word in line.split(apart) {
        let begin = from;
        from +=
            word.len() + line.get(from + word.len()..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let (Some((user, rest)), false) = (word.split_once(':'), word.contains("://")) else { continue };
        let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
        if !matches!(user, "" | "mailto")
            && user.bytes().all(name)
            && let Some(at) = rest.rfind('@').filter(|at| at + 1 < rest.len())
        {
            ranges.extend(password(word.get(..user.len() + 1 + at).unwrap_or_default(), start + begin));
        }
    }
}

/// The values of [`WORDS`].
fn behind_words(text: &str, ranges: &mut Vec<Range<usize>>) {
    let mut below: Option<Below> = None;
    for (start, line) in lines(text) {
        if let Some(of) = &below {
            let indent = line.chars().take_while(|character| *character == ' ').count();
            if line.trim().is_empty() || indent > of.column {
                if of.whole {
                    ranges.push(trimmed(line, start));
                    continue;
                }
                entries(line, start, ranges);
            } else {
                below = None;
            }
        }
        for (at, _) in line.match_indices([':', '=']) {
            let Some(column) = line.get(..at).and_then(ends_with_word) else { continue };
            let value = line.get(at + 1..).unwrap_or_default();
            let flow = line.get(..at).is_some_and(|before| before.matches('{').count() > before.matches('}').count());
            if let Some(whole) = one_value(value, start + at + 1, flow, ranges)
                && !flow
            {
                below = Some(Below { column, whole });
            }
        }
    }
}

/// What the lines below a word belong to.
struct Below {
    /// Lines that begin right of this column do.
    column: usize,
    /// Whether they are the value itself, rather than a map of where it is.
    whole: bool,
}

/// Whether it is one of [`WORDS`], or was to be one.
fn is_secret(word: &str) -> bool {
    nearest(word, WORDS).is_some_and(|known| known.len().abs_diff(word.len()) <= 1)
}

/// The column of the word that holds secrets and ends here, as it is or in quotes.
fn ends_with_word(before: &str) -> Option<usize> {
    let bare = before.trim_end();
    let (text, quoted) = match bare.strip_suffix(['"', '\'']) {
        Some(text) => (text, true),
        None => (bare, false),
    };
    let length = text.bytes().rev().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)).count();
    let word = text.get(text.len() - length..).filter(|word| is_secret(word))?;
    let head = text.get(..text.len() - word.len()).unwrap_or_default();
    Some(head.chars().count() - usize::from(quoted && !head.is_empty()))
}

/// One value up to the end of its line. Gives whether lines below may belong to it, and then whether they are the value itself.
fn one_value(text: &str, start: usize, flow: bool, ranges: &mut Vec<Range<usize>>) -> Option<bool> {
    let value = beginning(text.trim_start());
    let start = start + text.len() - text.trim_start().len();
    match value.chars().next() {
        None | Some('#') => Some(false),
        Some('|' | '>') => Some(true),
        Some('*') => None,
        Some('&' | '!') => {
            let tag = value.find(char::is_whitespace)?;
            one_value(value.get(tag..)?, start + tag, flow, ranges)
        }
        Some('{') => {
            let inner = value.get(1..)?;
            let end = inner.find('}');
            entries(inner.get(..end.unwrap_or(inner.len()))?, start + 1, ranges);
            end.is_none().then_some(false)
        }
        Some(quote @ ('"' | '\'')) => {
            let inner = value.get(1..)?;
            let end = closing(inner, quote);
            ranges.extend(inner.get(..end).filter(|text| !is_variable(text)).map(|_| start + 1..start + 1 + end));
            (end == inner.len()).then_some(true)
        }
        Some(_) => {
            let end = if flow { value.find([',', '}', ']']) } else { value.find(" #") };
            let range = trimmed(value.get(..end.unwrap_or(value.len()))?, start);
            if !is_variable(value.get(..range.len())?) {
                ranges.push(range);
            }
            Some(true)
        }
    }
}

/// The entries of a map below such a word, or a part of it: all but where the secret is.
fn entries(text: &str, start: usize, ranges: &mut Vec<Range<usize>>) {
    let mut at = start;
    for entry in text.split(',') {
        let bare = entry.trim_start().trim_start_matches(['"', '\'', '{']).trim_start();
        let is_place = PLACES.iter().any(|place| {
            bare.strip_prefix(place)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
        });
        let key = entry.find(':').map_or(0, |colon| colon + 1);
        // one that holds a secret itself is looked at by itself
        let is_word = entry.get(..key.saturating_sub(1)).and_then(ends_with_word).is_some();
        if !is_place && !is_word && !bare.starts_with('#') {
            ranges.push(trimmed(entry.get(key..).unwrap_or_default(), at + key));
        }
        at += entry.len() + 1;
    }
}

/// No secret is longer than this, and a line may be the whole file.
const LONGEST: usize = 4 << 10;

/// As much of a text as a secret may have.
fn beginning(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Where a text that begins at `start` stands without the spaces around it.
fn trimmed(text: &str, start: usize) -> Range<usize> {
    let begin = start + text.len() - text.trim_start().len();
    begin..begin + text.trim().len()
}

/// How much stands before the quotation mark that closes; all of it when none does.
fn closing(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if quote == '"' => escaped = true,
            other if other == quote => return at,
            _ => {}
        }
    }
    text.len()
}

/// `${NAME}`, which says where a secret is and not what it is.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// The lines without their ends, each with its offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    })
}

#[cfg(test)]
mod tests;
