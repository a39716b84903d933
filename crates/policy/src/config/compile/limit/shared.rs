//! Whether gates share a limit through a store, and what cannot be shared.

use std::borrow::Cow;

use super::written::Written;
use crate::config::compile::checks::out_of_place;
use crate::config::compile::stores::{Stores, Use};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::CountText;
use crate::config::read::Field;
use crate::config::span::Span;
use crate::config::word::{all_of, limit_words};
use crate::limiter::Form;
use crate::limiter::kinds::Shareable;
use crate::limiter::sharing::{OnStoreError, Promise, Sharing};
use crate::policy::{Kind, OnLimit, Shared, Tier};

/// How it is shared, `Some(None)` if it is not; `None` when there are faults, which have been told.
pub fn shared(
    written: &Written<'_>,
    kind: Option<&Kind>,
    tiers: Option<&[Tier]>,
    action: Option<&OnLimit>,
    stores: &mut Stores,
    faults: &mut Faults,
) -> Option<Option<Shared>> {
    let limit = written.limit;
    let at = match &limit.store {
        Field::Absent => {
            let help = "name the store of `stores:` that this limit is shared through: `store: NAME`";
            out_of_place(&limit.sharing, "`sharing` without `store`", help, faults);
            out_of_place(&limit.on_store_error, "`on_store_error` without `store`", help, faults);
            return Some(None);
        }
        Field::Bad { .. } => return None,
        Field::Set { at, .. } => at,
    };
    let store = stores.find(at, faults);
    let sharing = limit.sharing.value().copied().unwrap_or(Sharing::Lease);
    let obstacles = obstacles(written, kind, action, sharing);
    let possible = obstacles.is_empty();
    for obstacle in obstacles {
        let fault = Diagnostic::error(Code::NOT_SHARED, at.span, obstacle.message).label(obstacle.why);
        let fault = obstacle.place.into_iter().fold(fault, |fault, place| fault.related(place, "because of this"));
        faults.push(fault.help(obstacle.way_out));
    }
    let asks = sharing != Sharing::Estimate;
    if possible && asks {
        comes_back(written, kind, tiers, faults);
        are_kept(written, kind, tiers, faults);
    }
    let said = limit.on_store_error.value().copied();
    if let (false, Some(at)) = (asks, limit.on_store_error.key()) {
        let fault = Diagnostic::error(Code::CONFLICT, at, "`on_store_error` beside `sharing: estimate`")
            .label("no request asks the store, so none finds it silent")
            .help("leave `on_store_error` out: a gate that hears nothing goes on by what it counts itself");
        let because = limit.sharing.get().map(|at| at.span);
        faults.push(because.into_iter().fold(fault, |fault, at| fault.related(at, "because of this")));
        return None;
    }
    if limit.sharing.is_present() && limit.sharing.get().is_none() {
        return None;
    }
    let store = store.filter(|_| possible)?;
    stores.used(Use {
        limit: written.name.to_owned(),
        store: at.span,
        sharing: limit.sharing.get().map(|at| at.span),
        on_store_error: limit.on_store_error.get().map(|at| at.span),
    });
    Some(Some(Shared {
        store,
        sharing,
        on_store_error: if asks { said.unwrap_or(stores.on_store_error) } else { OnStoreError::Local },
    }))
}

/// Reports more different values than the store keeps of a key.
fn are_kept(written: &Written<'_>, kind: Option<&Kind>, tiers: Option<&[Tier]>, faults: &mut Faults) {
    let limit = written.limit;
    let are_many = |kind: &Kind| {
        kind.store_promise()
            .is_some_and(|promise| matches!(promise, Promise::Values { .. }) && promise.terms().is_err())
    };
    let own = kind.is_some_and(are_many).then(|| limit.own.field("max").key()).flatten();
    let of_tiers = tiers.unwrap_or_default().iter().any(|tier| tier.kind.as_ref().is_some_and(are_many));
    let of_tiers = of_tiers.then(|| limit.tiers.key()).flatten().filter(|_| own.is_none());
    for at in own.into_iter().chain(of_tiers) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at, "more different values than a store keeps of a key")
                .label("must be 100000 at most")
                .help("each takes 120 bytes or more in the store; without `store`, every gate counts for itself"),
        );
    }
}

/// Reports bursts that take so long to come back that the store would count them in numbers that are not whole any more.
fn comes_back(written: &Written<'_>, kind: Option<&Kind>, tiers: Option<&[Tier]>, faults: &mut Faults) {
    let limit = written.limit;
    let is_long =
        |kind: &Kind| kind.bucket().is_some_and(|(rate, burst)| Promise::Rate { rate, burst }.terms().is_err());
    let name = |word| limit.own.field(word).key();
    let own = kind.is_some_and(is_long).then(|| name("burst").or(name("rate"))).flatten();
    let of_tiers = tiers.unwrap_or_default().iter().any(|tier| tier.kind.as_ref().is_some_and(is_long));
    let of_tiers = of_tiers.then(|| limit.tiers.key()).flatten().filter(|_| own.is_none());
    for at in own.into_iter().chain(of_tiers) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at, "a shared burst that comes back in more than 400 days")
                .label("`burst` times the time for one must be 9600h at most")
                .help("`type: quota` counts so slow a limit"),
        );
    }
}

/// Why a limit cannot be shared.
struct Obstacle {
    message: String,
    why: &'static str,
    /// The word that makes it so.
    place: Option<Span>,
    way_out: Cow<'static, str>,
}

/// Why different values cannot be shared that count otherwise than when they pass.
fn values_counted_otherwise(written: &Written<'_>) -> Option<Obstacle> {
    let count = &written.limit.count;
    let (message, why) = match count.value()? {
        CountText::All => ("refused values cannot be shared", "the store counts the values that pass"),
        CountText::Responses(_) => {
            ("values that count by their answers cannot be shared", "the store counts a value before it is answered")
        }
        CountText::Admitted => return None,
    };
    Some(Obstacle {
        message: message.into(),
        why,
        place: count.key(),
        way_out: "leave `count` out: each different value counts; without `store`, every gate counts for itself".into(),
    })
}

fn obstacles(written: &Written<'_>, kind: Option<&Kind>, action: Option<&OnLimit>, sharing: Sharing) -> Vec<Obstacle> {
    const ESTIMATED: &str =
        "`sharing: estimate` shares it as an estimate; without `store`, every gate counts for itself";
    const ASKED: &str =
        "`sharing: exact` asks the store about each request; without `store`, every gate counts for itself";
    let (limit, estimate) = (written.limit, sharing == Sharing::Estimate);
    let mut found = Vec::new();
    let form = written.form;
    let fits = |form: &Form| match form.sharing {
        Shareable::Never => false,
        Shareable::AsEstimate => estimate,
        Shareable::ByAsking => !estimate,
        Shareable::Always => true,
    };
    if !fits(form) {
        let can: fn(&Form) -> bool = match estimate {
            true => |form| matches!(form.sharing, Shareable::Always | Shareable::AsEstimate),
            false => |form| matches!(form.sharing, Shareable::Always | Shareable::ByAsking),
        };
        let others = all_of(&limit_words(can));
        found.push(Obstacle {
            message: format!("a limit of type `{}` cannot be shared", form.word),
            why: if estimate { "gates cannot add up what others counted" } else { "the store keeps no such count" },
            place: limit.r#type.get().map(|at| at.span),
            way_out: match form.sharing {
                Shareable::AsEstimate => ESTIMATED.into(),
                Shareable::ByAsking => ASKED.into(),
                _ => format!("types {others} can be shared; without `store`, every gate counts for itself").into(),
            },
        });
        return found;
    }
    if form.takes("of") {
        found.extend(values_counted_otherwise(written));
    } else if form.sharing == Shareable::ByAsking {
        if kind.is_some_and(|kind| kind.store_promise().is_none()) {
            found.push(Obstacle {
                message: "a limit of what this gate has under way cannot be shared".into(),
                why: "the store counts by key",
                place: limit.key.key().or(limit.r#type.get().map(|at| at.span)),
                way_out: "name a `key` such as `client_ip`; without `store`, every gate counts for itself".into(),
            });
        }
        if let Some(upgraded) = limit.own.field("upgraded").key() {
            found.push(Obstacle {
                message: "places of switched connections cannot be shared".into(),
                why: "in the store a connection that is switched keeps its place",
                place: Some(upgraded),
                way_out: "leave `upgraded` out: they count in `max`".into(),
            });
        }
    }
    if matches!(action, Some(OnLimit::Delay { .. })) {
        found.push(Obstacle {
            message: "a limit that makes requests wait cannot be shared".into(),
            why: if estimate {
                "other gates' charges would move a place in the future"
            } else {
                "a place in the future cannot be booked in the store"
            },
            place: limit.action.key(),
            way_out: "`reject`, `close` and `tag` are possible".into(),
        });
    }
    found
}
