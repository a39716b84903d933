//! `origins` and the addresses that routes name directly.

use std::sync::Arc;

use super::{health, queue};
use crate::client::key::{KeyFault, KeyPart, KeySpec, Missing};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::nearest::nearest;
use crate::config::place::OriginPlace;
use crate::config::read::{At, Field, Scalar, invalid};
use crate::config::schema::{self, BalanceText};
use crate::config::setting::over;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::span::Span;
use crate::config::text::{HostPort, OriginName};
use crate::config::word::BalanceWord;
use crate::policy::{Balance, Origin, OriginAddress, Timeouts};

/// All origins, as they are found.
pub struct Origins {
    above: Timeouts,
    list: Vec<Arc<Origin>>,
    named: Vec<Named>,
}

struct Named {
    name: String,
    at: Span,
    /// `None`: it has faults of its own.
    origin: Option<usize>,
    used: bool,
}

impl Origins {
    /// Reads the section `origins`.
    pub fn named(section: &Field<Keyed<OriginName, schema::Origin>>, above: Timeouts, faults: &mut Faults) -> Origins {
        let mut origins = Origins { above, list: Vec::new(), named: Vec::new() };
        for entry in section.value().iter().flat_map(|map| &map.0) {
            let name = entry.key.as_ref().map_or(&entry.name, |name| &name.0).clone();
            if let Some(first) = origins.named.iter().find(|named| named.name == name) {
                faults.push(
                    Diagnostic::error(
                        Code::DUPLICATE_NAME,
                        entry.key_span,
                        format!("the origin `{name}` is here twice"),
                    )
                    .label("a second time")
                    .related(first.at, "first here"),
                );
            }
            let origin = match (&entry.key, &entry.value) {
                (Some(_), Some(origin)) => origin_of(name.clone(), &origin.value, above, faults),
                _ => None,
            };
            let origin = origin.map(|origin| {
                origins.list.push(Arc::new(origin));
                origins.list.len() - 1
            });
            // a name that is none cannot be used, and is not told to be unused as well
            let used = entry.key.is_none();
            origins.named.push(Named { name, at: entry.key_span, origin, used });
        }
        origins
    }

    /// The origins, in the order of [`crate::policy::Policy::origins`].
    pub fn origins(self) -> Vec<Arc<Origin>> {
        self.list
    }

    /// The origin that a route names, or whose address it gives; with its timeouts.
    pub fn find(&mut self, name: &At<String>, faults: &mut Faults) -> Option<(usize, Timeouts)> {
        let address = HostPort::parse(&name.value);
        let canonical = address.as_ref().map_or_else(|_| name.value.clone(), HostPort::to_string);
        if let Some(named) = self.named.iter_mut().find(|named| named.name == canonical) {
            named.used = true;
            let at = named.origin?;
            return Some((at, self.list.get(at)?.timeouts));
        }
        match address {
            Ok(HostPort { host, port }) => {
                let at = self.list.iter().position(|origin| origin.name == canonical).unwrap_or_else(|| {
                    let addresses = vec![server(&OriginPlace { host, port }, &schema::OriginAddress::default())];
                    self.list.push(Arc::new(Origin { timeouts: self.above, ..Origin::of(canonical, addresses) }));
                    self.list.len() - 1
                });
                Some((at, self.above))
            }
            Err(wrong) if name.value.contains([':', '/']) => {
                faults.push(invalid::<HostPort>(wrong, name.span, &name.shown, name.masked));
                None
            }
            Err(_) => {
                self.unknown(name, faults);
                None
            }
        }
    }

    /// The origin whose in-flight cap a limit follows, which says `origin:NAME`; `None` when there is none or it has faults,
    /// which have been told.
    pub fn capped(&mut self, name: &At<String>, faults: &mut Faults) -> Option<usize> {
        let Some(named) = self.named.iter().find(|named| named.name == name.value) else {
            let near = nearest(&name.value, self.named.iter().map(|named| named.name.as_str()));
            let near = near.filter(|_| !name.masked).map(|near| format!("origin:{near}"));
            faults.push(
                Diagnostic::error(
                    Code::UNKNOWN_ORIGIN,
                    name.span,
                    format!("limit refers to an unknown origin {}", name.shown),
                )
                .label("no origin has this name")
                .nearest(near.as_deref()),
            );
            return None;
        };
        let at = named.origin?;
        if self.list.get(at)?.inflight.is_none() {
            faults.push(
                Diagnostic::error(Code::CONFLICT, name.span, format!("the origin `{}` has no `inflight`", name.value))
                    .label("what it can take is not known")
                    .related(named.at, "defined here")
                    .help("give the origin an `inflight`, or the limit a rate such as 2000/s"),
            );
            return None;
        }
        Some(at)
    }

    fn unknown(&mut self, name: &At<String>, faults: &mut Faults) {
        let near = nearest(&name.value, self.named.iter().map(|named| named.name.as_str())).filter(|_| !name.masked);
        let fault = Diagnostic::error(
            Code::UNKNOWN_ORIGIN,
            name.span,
            format!("route refers to an unknown origin {}", name.shown),
        )
        .label("no origin has this name")
        .nearest(near);
        let near = near.map(str::to_owned);
        faults.push(match near.and_then(|near| self.named.iter_mut().find(|named| named.name == near)) {
            Some(named) => {
                named.used = true;
                fault.related(named.at, "a similar origin is defined here")
            }
            None => fault.help("define it under `origins:`, or write an address such as 127.0.0.1:3000"),
        });
    }

    /// Warns of every origin that no route uses.
    pub fn warn_of_unused(&self, faults: &mut Faults) {
        for named in self.named.iter().filter(|named| !named.used) {
            faults.push(
                Diagnostic::new(Code::UNUSED_ORIGIN, named.at, format!("no route uses the origin `{}`", named.name))
                    .label("not used")
                    .help("name it as a route's `origin:`, or remove it"),
            );
        }
    }
}

fn origin_of(name: String, origin: &schema::Origin, above: Timeouts, faults: &mut Faults) -> Option<Origin> {
    let addresses = addresses(&origin.addresses, faults);
    let balance = balance(&origin.balance, faults);
    let inflight = queue::inflight(&origin.inflight, faults);
    let timeouts = over(&origin.timeouts, &above);
    let retries = health::retries(&origin.retries, faults);
    let checks = health::health(&origin.health, faults);
    let ejection = health::ejection(&origin.ejection, faults);
    let tls = super::origin_tls::tls(&origin.tls, &name, addresses.as_deref(), faults);
    let slow_start = health::slow_start(origin, faults);
    let adaptive = health::adaptive(&origin.adaptive, inflight.as_ref(), origin.inflight.is_present(), faults);
    Some(Origin {
        name,
        addresses: addresses?,
        balance: balance?,
        inflight,
        timeouts,
        retries,
        health: checks,
        ejection,
        slow_start,
        adaptive,
        on_client_abort: origin.on_client_abort(),
        protocol: origin.protocol(),
        tls: tls?,
    })
}

fn addresses(
    field: &Field<OneOrMany<Either<OriginPlace, schema::OriginAddress>>>,
    faults: &mut Faults,
) -> Option<Vec<OriginAddress>> {
    let at = field.get()?;
    let OneOrMany(list) = &at.value;
    let mut addresses: Vec<(OriginAddress, Span)> = Vec::new();
    for item in &list.items {
        let found = match &item.value {
            Either::Short(place) => server(place, &schema::OriginAddress::default()),
            Either::Long(long) => {
                let Some(place) = long.address.value() else { continue };
                server(place, long)
            }
        };
        if let Some((_, first)) =
            addresses.iter().find(|(known, _)| known.host == found.host && known.port == found.port)
        {
            faults.push(
                Diagnostic::error(Code::DUPLICATE_NAME, item.span, "the same address twice in one origin")
                    .label("a second time")
                    .related(*first, "first here")
                    .help("give it a `weight` instead"),
            );
        }
        addresses.push((found, item.span));
    }
    if list.items.is_empty() && !list.bad {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, at.span, "an origin without addresses").label("needs one or more"),
        );
        return None;
    }
    let unix = addresses.iter().find(|(address, _)| address.unix_path().is_some());
    let anywhere = addresses.iter().find(|(address, _)| address.host == "0.0.0.0");
    if let (Some((_, unix)), Some((_, anywhere))) = (unix, anywhere) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, *anywhere, "0.0.0.0 beside a UNIX socket")
                .label("is no address of a server")
                .related(*unix, "the UNIX socket")
                .help("write 127.0.0.1"),
        );
    }
    Some(addresses.into_iter().map(|(address, _)| address).collect())
}

fn server(place: &OriginPlace, own: &schema::OriginAddress) -> OriginAddress {
    OriginAddress { host: place.host.clone(), port: place.port, weight: own.weight(), resolve: own.resolve() }
}

fn balance(field: &Field<Either<BalanceText, schema::Balance>>, faults: &mut Faults) -> Option<Balance> {
    let parts = match field.get().map(|at| &at.value) {
        None => return (!field.is_present()).then_some(Balance::RoundRobin),
        Some(Either::Short(BalanceText::Word(BalanceWord::RoundRobin))) => return Some(Balance::RoundRobin),
        Some(Either::Short(BalanceText::Word(BalanceWord::LeastInflight))) => return Some(Balance::LeastInflight),
        Some(Either::Short(BalanceText::Hash(part))) => vec![part.clone()],
        Some(Either::Long(long)) => {
            let OneOrMany(List { items, bad }) = long.hash.value()?;
            if *bad {
                return None;
            }
            items.iter().map(|part| part.value.clone()).collect()
        }
    };
    // a request without the key goes to any server; nothing is refused here
    let missing = parts.iter().any(KeyPart::can_be_missing).then_some(Missing::Allow);
    match KeySpec::new(parts, missing) {
        Ok(key) => Some(Balance::Hash(key)),
        Err(fault) => {
            let at = field.get().map(|at| at.span).unwrap_or_default();
            let code = if fault == KeyFault::Empty { Code::EMPTY_VALUE } else { Code::BAD_KEY };
            faults.push(Diagnostic::error(code, at, "these parts make no key").label(fault.to_string()));
            None
        }
    }
}
