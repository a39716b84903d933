//! Who the client is, and what the origin is told about it (`client::resolve`, `client::onward`).
//!
//! The input's first line says how the gate is set up, in any order: `forwarded` or `single` (otherwise
//! `X-Forwarded-For`), `hops3` or `proxies`, networks with a `/`, `unix`, the peer's address, `reject`, `https`. The other
//! lines are the header's.
//!
//! - The client is the one that a slow reading from the left finds, with the same mark.
//! - Nobody stands to the right of the client whom the operator does not trust, and no text that a client puts in front of
//!   the chain changes who it is.
//! - What the origin is told leads it to the peer when it believes one hop, and to the same client when it trusts the same
//!   proxies and us.

use std::net::IpAddr;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::client::onward::MAX_ONWARD_BYTES;
use tidegate::client::trust::{MAX_ELEMENTS, X_FORWARDED_FOR, parse_cidr_or_everyone};
use tidegate::client::{
    Client, ClientAddress, ClientRules, Field, ForwardHeader, Mark, OnDegraded, OnShort, Onward, Proto, ProxySet,
    Source, Trust, onward, resolve,
};
use tidegate::request::Peer;
use tidegate::units::Prefix;

use super::address::{slow_element, slow_node};
use super::cost::{self, USUAL, Work};

/// More lines than any test needs; a header map has room for 32,768.
const MOST_LINES: usize = 64;

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let mut lines = data.split(|byte| *byte == b'\n').take(1 + 200);
    let setting = Setting::read(lines.next()?);
    let headers = setting.headers(&lines.collect::<Vec<_>>())?;
    Some(Box::new(move || {
        let found = resolve(&setting.rules, setting.peer, &headers);
        let client = found.unwrap_or_else(|refused| refused.client);
        drop(onward(&setting.rules, setting.peer, &client, &headers, setting.proto, &mut BytesMut::new()));
    }))
}

/// The target.
pub fn forwarding(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let mut lines = data.split(|byte| *byte == b'\n').take(MOST_LINES);
    let setting = Setting::read(lines.next().unwrap_or_default());
    let lines: Vec<&[u8]> = lines.collect();
    let Some(headers) = setting.headers(&lines) else { return };
    let found = resolve(&setting.rules, setting.peer, &headers);
    let client = found.unwrap_or_else(|refused| refused.client);
    let refused = match client.mark {
        Mark::Short => setting.rules.short == OnShort::Reject,
        Mark::Degraded => setting.rules.degraded == OnDegraded::Reject,
        _ => false,
    };
    assert_eq!(found.is_err(), refused);
    let chain = chain(&setting.rules.header, &lines);
    is_who_a_slow_reader_finds(&setting, &client, chain.as_deref());
    cannot_be_written_by_a_client(&setting, &client, &lines);
    let told = onward(&setting.rules, setting.peer, &client, &headers, setting.proto, &mut BytesMut::new());
    is_told_to_the_origin(&setting, &client, &told, lines.iter().map(|line| line.len() + 2).sum());
}

struct Setting {
    rules: ClientRules,
    networks: Vec<Prefix>,
    unix: bool,
    peer: Peer,
    proto: Proto,
}

impl Setting {
    fn read(line: &[u8]) -> Setting {
        let mut header = ForwardHeader::XForwardedFor;
        let (mut hops, mut proxies, mut unix, mut reject) = (None, false, false, false);
        let mut networks = Vec::new();
        let mut peer = None;
        let mut proto = Proto::Http;
        for word in String::from_utf8_lossy(line).split(' ') {
            match word {
                "forwarded" => header = ForwardHeader::Forwarded,
                "single" => header = ForwardHeader::Single(HeaderName::from_static("cf-connecting-ip")),
                "proxies" => proxies = true,
                "unix" => unix = true,
                "reject" => reject = true,
                "https" => proto = Proto::Https,
                _ => {
                    hops = word.strip_prefix("hops").and_then(|hops| hops.parse().ok()).or(hops);
                    if word.contains('/') {
                        networks.extend(parse_cidr_or_everyone(word).ok().map(|(prefix, _)| prefix));
                    } else {
                        peer = slow_element(word.as_bytes()).or(peer);
                    }
                }
            }
        }
        let set = ProxySet::new(networks.iter().copied(), unix);
        let trust = match hops {
            _ if proxies => Trust::Proxies(set),
            Some(hops) => Trust::Hops { hops, from: set },
            None => Trust::Off,
        };
        let rules = ClientRules {
            trust,
            header,
            short: if reject { OnShort::Reject } else { OnShort::Peer },
            degraded: if reject { OnDegraded::Reject } else { OnDegraded::Hop },
            ..ClientRules::default()
        };
        Setting { rules, networks, unix, peer: peer.map_or(Peer::Unix, Peer::Ip), proto }
    }

    fn headers(&self, lines: &[impl AsRef<[u8]>]) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(self.rules.header.name().clone(), HeaderValue::from_bytes(line.as_ref()).ok()?);
        }
        Some(headers)
    }

    fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Unix => self.unix,
            Peer::Ip(address) => self.networks.iter().any(|network| network.contains(address)),
        }
    }
}

/// One element of a chain: an address, or something that cannot be read.
type Element = Option<IpAddr>;

/// All elements from the left; none when the list itself cannot be read.
fn chain(header: &ForwardHeader, lines: &[&[u8]]) -> Option<Vec<Element>> {
    match header {
        ForwardHeader::XForwardedFor => {
            let text = lines.join(&b','.to_owned());
            let elements = text.split(|byte| *byte == b',').map(trimmed).filter(|element| !element.is_empty());
            Some(elements.map(slow_element).collect())
        }
        ForwardHeader::Single(_) => Some(match lines {
            [] => Vec::new(),
            [line] => vec![slow_element(trimmed(line))],
            _ => vec![None],
        }),
        ForwardHeader::Forwarded => {
            let elements: Option<Vec<Vec<Element>>> = lines.iter().map(|line| forwarded_line(line)).collect();
            elements.map(|elements| elements.concat())
        }
    }
}

/// What separates in a line of `Forwarded`, and what does not.
#[derive(Clone, PartialEq)]
enum Token {
    Byte(u8),
    /// What stood between quotes, escapes taken out.
    Quoted(Vec<u8>),
}

/// The elements of a line of `Forwarded`: first the quotes, then commas, then semicolons, then pairs.
fn forwarded_line(line: &[u8]) -> Option<Vec<Element>> {
    let mut tokens = Vec::new();
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'"' {
            tokens.push(Token::Byte(byte));
            continue;
        }
        let mut quoted = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => quoted.push(bytes.next()?),
                byte => quoted.push(byte),
            }
        }
        tokens.push(Token::Quoted(quoted));
    }
    let elements = tokens.split(|token| *token == Token::Byte(b',')).filter(|element| !blank(element));
    elements.map(forwarded_element).collect()
}

fn forwarded_element(element: &[Token]) -> Option<Element> {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut ascii = true;
    for pair in element.split(|token| *token == Token::Byte(b';')).filter(|pair| !blank(pair)) {
        let is_blank = |token: &Token| matches!(token, Token::Byte(b' ' | b'\t'));
        let start = pair.iter().position(|token| !is_blank(token))?;
        let end = pair.iter().rposition(|token| !is_blank(token))?;
        let equals = pair.iter().position(|token| *token == Token::Byte(b'='))?;
        let name = bytes(pair.get(start..equals)?)?;
        let value = pair.get(equals + 1..=end)?;
        let is_node = name.eq_ignore_ascii_case(b"for") || name.eq_ignore_ascii_case(b"by");
        let value = match value {
            [Token::Quoted(text)] => text.clone(),
            plain => {
                let text = bytes(plain)?;
                let known = |byte: &u8| is_token(*byte) || (is_node && b":[]".contains(byte));
                (!text.is_empty() && text.iter().all(known)).then_some(text)?
            }
        };
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return None;
        }
        ascii &= value.is_ascii();
        pairs.push((name.to_ascii_lowercase(), value));
    }
    let mut names: Vec<&[u8]> = pairs.iter().map(|(name, _)| name.as_slice()).collect();
    names.sort_unstable();
    names.dedup();
    let one_meaning = ascii && names.len() == pairs.len() && pairs.len() <= 16;
    let node = pairs.iter().find(|(name, _)| one_meaning && name == b"for");
    Some(node.and_then(|(_, node)| slow_node(node)))
}

fn blank(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| matches!(token, Token::Byte(b' ' | b'\t')))
}

fn bytes(tokens: &[Token]) -> Option<Vec<u8>> {
    tokens.iter().map(|token| if let Token::Byte(byte) = token { Some(*byte) } else { None }).collect()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn trimmed(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |end| end + 1);
    &text[start..end]
}

fn is_who_a_slow_reader_finds(setting: &Setting, client: &Client, chain: Option<&[Element]>) {
    let peer = match setting.peer {
        Peer::Ip(address) => ClientAddress::Ip(address.to_canonical()),
        Peer::Unix => ClientAddress::Unix,
    };
    let believed = match &setting.rules.trust {
        Trust::Off | Trust::Hops { hops: 0, .. } => false,
        _ => setting.trusts(setting.peer),
    };
    assert_eq!(client.peer_trusted, believed);
    assert_eq!(client.source, if client.hops == 0 { Source::Peer } else { Source::Forwarded });
    let found = (client.address, usize::from(client.hops), client.mark);
    if !believed {
        return assert_eq!(found, (peer, 0, Mark::Verified));
    }
    let Some(chain) = chain else { return assert_eq!(found, (peer, 0, Mark::Degraded)) };
    let from_right: Vec<Element> = chain.iter().rev().take(MAX_ELEMENTS).copied().collect();
    let at = |hops: usize| match hops.checked_sub(1) {
        Some(index) => ClientAddress::Ip(from_right[index].expect("a readable element")),
        None => peer,
    };
    let expected = match &setting.rules.trust {
        Trust::Hops { hops, .. } => match from_right.get(usize::from(*hops) - 1) {
            None => (peer, 0, Mark::Short),
            Some(element) => {
                let nearest = (1..=usize::from(*hops)).rev().find(|hops| from_right[hops - 1].is_some()).unwrap_or(0);
                (at(nearest), nearest, if element.is_some() { Mark::Verified } else { Mark::Degraded })
            }
        },
        _ => {
            let trusted = |element: &&Element| element.is_some_and(|address| setting.trusts(Peer::Ip(address)));
            let passed = from_right.iter().take_while(trusted).count();
            match from_right.get(passed) {
                Some(Some(_)) => (at(passed + 1), passed + 1, Mark::Verified),
                Some(None) => (at(passed), passed, Mark::Degraded),
                None if passed == 0 => (peer, 0, Mark::Verified),
                None => (at(passed), passed, Mark::AllTrusted),
            }
        }
    };
    assert_eq!(found, expected);
    if matches!(setting.rules.trust, Trust::Proxies(_)) {
        let between = from_right.iter().take(usize::from(client.hops).saturating_sub(1));
        assert!(
            between.into_iter().all(|hop| hop.is_some_and(|hop| setting.trusts(Peer::Ip(hop)))),
            "passed a stranger"
        );
    }
}

/// Where the walk ended inside the chain, nothing to the left of that end matters.
fn cannot_be_written_by_a_client(setting: &Setting, client: &Client, lines: &[&[u8]]) {
    let ended = match client.mark {
        Mark::Verified => client.hops > 0 || !client.peer_trusted,
        Mark::Degraded => true,
        Mark::Short | Mark::AllTrusted => false,
    };
    if !ended || matches!(setting.rules.header, ForwardHeader::Single(_)) {
        return;
    }
    for forged in ["6.6.6.6", "10.0.0.6", "for=6.6.6.6", "for=\"", "nonsense"] {
        // a line that cannot be read makes the whole of `Forwarded` unreadable, which names nobody
        let readable = setting.rules.header != ForwardHeader::Forwarded || forwarded_line(forged.as_bytes()).is_some();
        let with: Vec<&[u8]> = [forged.as_bytes()].into_iter().chain(lines.iter().copied()).collect();
        let headers = setting.headers(&with).expect("lines that were values before");
        let again = resolve(&setting.rules, setting.peer, &headers).unwrap_or_else(|refused| refused.client);
        let same = (again.address, again.mark, again.hops) == (client.address, client.mark, client.hops);
        let nobody = again.mark == Mark::Degraded && again.hops == 0;
        assert!(same || (!readable && nobody), "{forged} made {client:?} into {again:?}");
    }
}

fn is_told_to_the_origin(setting: &Setting, client: &Client, told: &Onward<'_>, size: usize) {
    let Field::Set(x_forwarded_for) = &told.x_forwarded_for else { panic!("X-Forwarded-For is always set") };
    assert!(x_forwarded_for.len() <= MAX_ONWARD_BYTES);
    origin_finds(setting, client, ForwardHeader::XForwardedFor, &X_FORWARDED_FOR, x_forwarded_for, size);
    if let Field::Set(forwarded) = &told.forwarded {
        assert!(forwarded.len() <= MAX_ONWARD_BYTES);
        assert_eq!(setting.rules.header, ForwardHeader::Forwarded);
        origin_finds(setting, client, ForwardHeader::Forwarded, &http::header::FORWARDED, forwarded, size);
    }
    let kept = client.peer_trusted && client.mark != Mark::Degraded;
    assert_eq!(told.remove.is_some(), matches!(setting.rules.header, ForwardHeader::Single(_)) && !kept);
}

/// An origin behind us, which trusts us as 192.0.2.250.
fn origin_finds(
    setting: &Setting,
    client: &Client,
    header: ForwardHeader,
    name: &HeaderName,
    value: &HeaderValue,
    size: usize,
) {
    let us = Peer::Ip([192, 0, 2, 250].into());
    let here = Prefix::around([192, 0, 2, 250].into(), 32, 128);
    let headers = HeaderMap::from_iter([(name.clone(), value.clone())]);
    let found = |trust: Trust| {
        let rules = ClientRules { trust, header: header.clone(), ..ClientRules::default() };
        resolve(&rules, us, &headers).expect("nothing is rejected by default")
    };
    let Peer::Ip(peer) = setting.peer else { return };
    let one_hop = found(Trust::Hops { hops: 1, from: ProxySet::new([here], false) });
    assert_eq!(one_hop.address, ClientAddress::Ip(peer.to_canonical()));
    assert_eq!((one_hop.mark, one_hop.hops), (Mark::Verified, 1));
    // one element more than is read here, or more bytes than are passed on, and the left end is lost on purpose
    let whole = usize::from(client.hops) < MAX_ELEMENTS && size < MAX_ONWARD_BYTES - 128;
    if whole && client.peer_trusted && matches!(setting.rules.trust, Trust::Proxies(_)) {
        let networks = setting.networks.iter().copied().chain([here]);
        let same_trust = found(Trust::Proxies(ProxySet::new(networks, setting.unix)));
        assert_eq!(same_trust.address, client.address, "told {value:?}");
    }
}
