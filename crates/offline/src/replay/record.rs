//! One request as a log tells it. Borrowed from the log's own bytes: reading one allocates nothing.

use std::net::IpAddr;

use super::line::{FieldName, FieldSpan, Parsed, Span};

/// One request of a log.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When it began, in nanoseconds since 1970: what the log says, or the stamp of its end less its duration. Never before
    /// the one that was given last; one whose line came too late to be put in order has the time of that one.
    pub start: u64,
    /// How long it took, in nanoseconds, if the log says so.
    pub duration: Option<u64>,
    /// Who asked.
    pub client: LoggedClient<'a>,
    /// The method as it was sent, never empty.
    pub method: &'a [u8],
    /// The host, with a port if the log has one; none when the log does not say it.
    pub host: Option<&'a [u8]>,
    /// The path as the log has it, without query; not put into canonical form. Never empty.
    pub path: &'a [u8],
    /// What follows the first `?`.
    pub query: Option<&'a [u8]>,
    /// The status of the answer; 0 when the log does not say it.
    pub status: u16,
    /// Bytes of the answer's body, or of all of it, as the log counts them.
    pub bytes: u64,
    /// Its line came so late that others, which began after it, had been given already.
    pub late: bool,
    /// What a log of our own says besides.
    pub told: Option<Told<'a>>,
    text: &'a [u8],
    fields: &'a [FieldSpan],
    names: &'a [FieldName],
}

/// Who asked, as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoggedClient<'a> {
    /// An address; IPv4-mapped IPv6 is folded.
    Address(IpAddr),
    /// A host name, a pseudonym, or anything else that is no address.
    Name(&'a [u8]),
}

/// What a log of our own says of a request besides.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The identifier of request and decision, in its thirteen characters.
    pub id: &'a [u8],
    /// What the wall clock showed at the origin of the gate's stamps, in nanoseconds since 1970; none in logs that do not say it.
    pub zero: Option<u64>,
    /// Refused requests that have no line, before this one.
    pub left_out: u64,
    /// The word for how sure the client's address is; empty when the line has none.
    pub mark: &'a [u8],
    /// `admitted` or `refused`; empty when the request was too faulty for a decision.
    pub verdict: &'a [u8],
    /// The word for why it was refused, or empty.
    pub reason: &'a [u8],
    /// The list of what each limit said, as JSON.
    pub limits: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn new(
        start: u64,
        late: bool,
        text: &'a [u8],
        parsed: &Parsed,
        fields: &'a [FieldSpan],
        names: &'a [FieldName],
    ) -> Record<'a> {
        let of = |span: Span| span.of(text);
        let told = parsed.told.map(|told| Told {
            id: of(told.id).unwrap_or_default(),
            zero: told.zero,
            left_out: told.left_out,
            mark: of(told.mark).unwrap_or_default(),
            verdict: of(told.verdict).unwrap_or_default(),
            reason: of(told.reason).unwrap_or_default(),
            limits: of(told.limits).unwrap_or_default(),
        });
        Record {
            start,
            duration: parsed.duration,
            client: match parsed.address {
                Some(address) => LoggedClient::Address(address),
                None => LoggedClient::Name(of(parsed.client).unwrap_or_default()),
            },
            method: of(parsed.method).unwrap_or_default(),
            host: of(parsed.host),
            path: of(parsed.path).unwrap_or_default(),
            query: of(parsed.query),
            status: parsed.status,
            bytes: parsed.bytes,
            late,
            told,
            text,
            fields,
            names,
        }
    }

    /// Header fields, cookies and parameters of the request that the log gives by name.
    pub fn fields(&self) -> impl Iterator<Item = (FieldName, &'a [u8])> + '_ {
        let (text, names) = (self.text, self.names);
        self.fields.iter().filter_map(move |field| Some((field.name.of(text, names)?, field.value.of(text)?)))
    }

    /// The header field of this name, in lower case, if the log gives it; the first of several.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.iter().find_map(|field| {
            let value = field.value.of(self.text)?;
            field.name.is_header(name, self.text, self.names).then_some(value)
        })
    }
}
