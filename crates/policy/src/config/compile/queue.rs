//! How many requests an origin takes at once, and who of those above that goes next.

use super::checks::{number32, out_of_place};
use crate::client::key::{KeyPart, KeySpec, MAX_PARTS, Missing};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::queue_text::NetworkLength;
use crate::config::read::Field;
use crate::config::scalar::{Count, percent};
use crate::config::schema::{self, Inflight};
use crate::config::shape::{Either, Keyed};
use crate::config::span::Span;
use crate::config::word::OrderWord;
use crate::door::{LEVELS, PlacesSpec, Reserve, Reserved};
use crate::policy::{InflightCap, QueueOrder};

/// The most places, and the most that a network may stand for.
const MOST: u32 = PlacesSpec::UNCAPPED - 1;

/// What may be kept for classes together.
const MOST_RESERVED: f64 = 0.9;

/// For how many clients a network stands where nothing is said about it: a /24 and a /16.
const NETWORKS: [(u8, u32); 2] = [(24, 16), (16, 64)];

/// The cap that an origin writes.
pub fn inflight(field: &Field<Either<Count, Inflight>>, faults: &mut Faults) -> Option<InflightCap> {
    let at = field.get()?;
    let words = match &at.value {
        Either::Short(count) => {
            let field = Field::Set { key: at.span, at: at.with(*count) };
            let cap = InflightCap::of(number32(&field, 1..=MOST, 1, faults));
            return Some(InflightCap { order: fair(&Inflight::default(), faults)?, ..cap });
        }
        Either::Long(words) => words,
    };
    let cap = InflightCap::of(words.max().unwrap_or(1));
    let order = match words.order() {
        OrderWord::Fair => fair(words, faults)?,
        OrderWord::Arrival => {
            let why = "the first to come goes next, whoever it is";
            out_of_place(&words.key, "`key` without `order: fair`", why, faults);
            out_of_place(&words.networks, "`networks` without `order: fair`", why, faults);
            out_of_place(&words.reserve, "`reserve` without `order: fair`", why, faults);
            QueueOrder::Arrival
        }
    };
    let reserve = match order {
        QueueOrder::Arrival => Reserve::None,
        QueueOrder::Fair(_) => words.reserve.value().map_or(Reserve::Learned, |text| text.0),
    };
    let queue = words.queue().unwrap_or(cap.queue);
    if let Some(written) = words.queue.get().filter(|_| queue == 0) {
        faults.push(
            Diagnostic::new(Code::NO_QUEUE, written.span, "no queue: whoever comes first has the place")
                .label("one client with many requests leaves the others none")
                .help(format!("remove it for a fair queue of {}", cap.queue)),
        );
    }
    Some(InflightCap {
        reserved: reserved(&words.reserved, faults),
        queue,
        queue_timeout: words.queue_timeout(),
        order,
        reserve,
        upgraded: words.upgraded().unwrap_or(cap.max),
        ..cap
    })
}

/// The places that are kept for classes.
fn reserved(field: &Field<schema::Reserved>, faults: &mut Faults) -> Reserved {
    let Some(at) = field.get() else { return Reserved::default() };
    let (reserved, sum) = (at.value.parts(), at.value.parts().sum());
    if sum > MOST_RESERVED {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} of the places are reserved", percent(sum)))
                .label(format!("must be {} or less together", percent(MOST_RESERVED))),
        );
    }
    reserved
}

/// The order of a queue by what is written.
fn fair(words: &Inflight, faults: &mut Faults) -> Option<QueueOrder> {
    let parts = match words.key.get() {
        None => None,
        Some(at) if at.value.0.bad => return None,
        Some(at) => {
            let parts: Vec<_> = at.value.0.items.iter().map(|part| part.value.clone()).collect();
            if parts.is_empty() || parts.len() > MAX_PARTS {
                faults.push(
                    Diagnostic::error(Code::BAD_KEY, at.span, "these parts make no key")
                        .label(format!("needs 1 to {MAX_PARTS}")),
                );
                return None;
            }
            Some((parts, at.span))
        }
    };
    nodes(parts, &words.networks, faults).map(QueueOrder::Fair)
}

/// The key, by default the client, and the networks around it where it has an address; each with the number of clients that it stands for.
pub fn nodes(
    key: Option<(Vec<KeyPart>, Span)>,
    around: &Field<Keyed<NetworkLength, Count>>,
    faults: &mut Faults,
) -> Option<Vec<(KeySpec, u32)>> {
    let (parts, at) = key.unwrap_or_else(|| (vec![KeyPart::CLIENT_IP], Span::default()));
    // who lacks it is held together with all others who do
    let missing = parts.iter().any(KeyPart::can_be_missing).then_some(Missing::Allow);
    let by_address = parts.iter().any(|part| matches!(part, KeyPart::ClientIp { .. }));
    let key = match KeySpec::new(parts, missing) {
        Ok(key) => key,
        Err(fault) => {
            faults.push(Diagnostic::error(Code::BAD_KEY, at, "these parts make no key").label(fault.to_string()));
            return None;
        }
    };
    let mut nodes = vec![(key, 1)];
    if !by_address {
        out_of_place(around, "`networks` without `client_ip`", "the key has no address", faults);
        return Some(nodes);
    }
    for (length, share) in networks(around, faults) {
        let network = KeyPart::ClientIp { ipv4_prefix: Some(length), ipv6_prefix: Some(2 * length) };
        if let Ok(key) = KeySpec::new([network], None) {
            nodes.push((key, share));
        }
    }
    Some(nodes)
}

/// The lengths of the networks, the longest first, and for how many clients each stands.
fn networks(field: &Field<Keyed<NetworkLength, Count>>, faults: &mut Faults) -> Vec<(u8, u32)> {
    let Some(at) = field.get() else { return NETWORKS.to_vec() };
    let mut networks = Vec::new();
    for entry in &at.value.0 {
        let (Some(length), Some(share)) = (entry.key, &entry.value) else { continue };
        let share = Field::Set { key: entry.key_span, at: share.clone() };
        networks.push((length.0, number32(&share, 1..=1_000_000, 1, faults)));
    }
    networks.sort_by(|a, b| b.cmp(a));
    if networks.len() >= LEVELS {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} networks", networks.len()))
                .label(format!("allowed are {}", LEVELS - 1)),
        );
    }
    if networks.windows(2).any(|pair| matches!(pair, [(_, narrow), (_, wide)] if narrow > wide)) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, "a network stands for fewer clients than one inside it")
                .label("the wider one must have as many or more"),
        );
    }
    networks.truncate(LEVELS - 1);
    networks
}
