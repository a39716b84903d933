//! The line in the combined format of Apache and nginx, for tools that read no JSON.
//!
//! `CLIENT - - [TIME] "METHOD PATH PROTOCOL" STATUS BYTES "-" "-"`. There is no query string, referrer or user agent, as in every
//! line. The time is that of the end, as in nginx.
//!
//! Source: Apache HTTP Server documentation, "Log Files"; nginx, `ngx_http_log_module`.

use super::{Entry, MAX_TEXT_BYTES, time};
use crate::answer::json;

impl Entry<'_> {
    /// Appends the line in the combined format, with its line break, to `out`; allocates nothing else. A line that stands for
    /// several refused requests ends in `sampled=N`.
    pub fn write_combined(&self, out: &mut Vec<u8>) {
        word(out, self.client.as_deref().unwrap_or_default().as_bytes());
        out.extend_from_slice(b" - - [");
        time::write_common(out, self.time_unix_nanos.saturating_add(self.duration_nanos));
        out.extend_from_slice(b"] \"");
        if self.method.is_empty() || self.path.is_empty() {
            out.push(b'-');
        } else {
            word(out, self.method.as_bytes());
            out.push(b' ');
            word(out, &self.path);
            let http2 = self.protocol.as_deref() == Some("h2");
            out.extend_from_slice(if http2 { b" HTTP/2.0" } else { b" HTTP/1.1" });
        }
        out.extend_from_slice(b"\" ");
        json::number(out, u64::from(self.status));
        out.push(b' ');
        json::number(out, self.bytes_out);
        out.extend_from_slice(b" \"-\" \"-\"");
        if let Some(sampled) = self.sampled {
            out.extend_from_slice(b" sampled=");
            json::number(out, sampled);
        }
        out.push(b'\n');
    }
}

/// Appends a text as one word: what is no printable ASCII, a space, a quotation mark or a backslash becomes `\xHH`. An empty text is
/// `-`; a long one is cut.
fn word(out: &mut Vec<u8>, text: &[u8]) {
    if text.is_empty() {
        out.push(b'-');
    }
    for byte in text.iter().take(MAX_TEXT_BYTES) {
        match byte {
            b'"' | b'\\' | 0..=0x20 | 0x7f.. => {
                let digit = |half: u8| if half < 10 { b'0' + half } else { b'A' + half - 10 };
                out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
            }
            byte => out.push(*byte),
        }
    }
}
