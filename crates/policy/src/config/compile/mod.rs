//! From what is written to what is meant: a [`File`] becomes a [`Policy`] and [`Settings`].
//!
//! Every function here reports what it finds and goes on with a stand-in, so that one fault hides no other; whether any
//! was found decides at the end. What a fault would only repeat is not said twice.

mod cases;
mod clients;
mod connections;
mod guards;
mod health;
mod http2;
mod limit;
mod limits;
mod matches;
mod origin_tls;
mod origins;
mod pages;
mod respelled;
mod responses;
mod routes;
mod settings;
mod stores;
mod tls;
mod untold;

pub use clients::WrittenClients;
pub use routes::WrittenRoute;

use std::path::Path;
use std::time::Duration;

use super::case::Case;
use super::effective::{Written, effective};
use super::fault::{Code, Diagnostic, Faults};
use super::node::Node;
use super::places::{Lines, Places};
use super::preset::UsedPreset;
use super::read::Field;
use super::scalar::{self, Count};
use super::schema::File;
use super::shape::Either;
use super::source::{Sources, Span};
use super::tree::Tree;
use super::variable::Environment;
use super::{Config, Shadow, UsedCertificate, schema, secret};
use crate::limiter::cluster::OnStoreError;
use crate::policy::{Mode, Policy, RouteTable, Timeouts};
use crate::units::Bytes;

/// What compiling needs beside the file.
pub struct Context<'a> {
    /// Where faults go.
    pub faults: &'a mut Faults,
    /// The texts read so far; lists of networks are added.
    pub sources: &'a mut Sources,
    /// Variables.
    pub environment: &'a Environment<'a>,
    /// What relative paths start from.
    pub directory: &'a Path,
    /// The presets that were used, with their dates.
    pub presets: Vec<UsedPreset>,
    /// The certificates that were read, with their times.
    pub certificates: Vec<UsedCertificate>,
    /// The limits in shadow that say since when.
    pub shadows: Vec<Shadow>,
    /// Where faults of the whole are shown.
    pub start: Span,
    /// Whether stand-ins are compiled, of which only the effective text is wanted, as far as it can be had.
    pub stands_in: bool,
}

impl<'c> Context<'c> {
    /// For the file whose tree this is.
    pub fn new(
        root: &Node,
        sources: &'c mut Sources,
        faults: &'c mut Faults,
        environment: &'c Environment<'c>,
        directory: &'c Path,
    ) -> Context<'c> {
        let start = Span::new(root.span.source(), root.span.range().start, root.span.range().start);
        let (presets, certificates, shadows) = Default::default();
        Context { faults, sources, environment, directory, presets, certificates, shadows, start, stands_in: false }
    }
}

/// What routes, origins and limits fall back on.
#[derive(Debug, Clone, Copy)]
struct Defaults {
    timeouts: Timeouts,
    body_limit: Option<Bytes>,
    mode: Mode,
    on_store_error: OnStoreError,
}

/// Compiles the file; what comes back is to be used only when no error was reported.
pub fn compile(file: &File, context: &mut Context<'_>) -> Config {
    version(file, context);
    let defaults = defaults(file, context.faults);
    let (clients, written_clients) = clients::clients(file, context);
    let responses = responses::responses(&file.responses, context.faults);
    let mut origins = origins::Origins::named(&file.origins, defaults.timeouts, context.faults);
    let mut stores = stores::Stores::named(&file.stores, defaults.on_store_error, context);
    let mut limits = limits::Limits::named(&file.limits, defaults.mode, &mut origins, &mut stores, context.faults);
    let routes = routes::routes(file, &defaults, &mut limits, &mut origins, context);
    let settings = settings::settings(file, &written_clients, &mut limits, &stores, context);
    let broken = limits.broken();
    limits.warn_of_unused(context.faults);
    origins.warn_of_unused(context.faults);
    let (routes, written): (Vec<_>, Vec<_>) = routes.into_iter().unzip();
    context.shadows = limits.shadows();
    let mut lines = Lines::of(context.sources);
    let places = Places {
        limits: limits.places().iter().map(|at| lines.place(*at)).collect(),
        routes: written.iter().map(|route: &WrittenRoute| lines.place(route.at)).collect(),
        trusted: written_clients.as_written.clone(),
        shown: None,
    };
    let limits_at = limits.places().to_vec();
    let mut policy = Policy {
        clients,
        repeated_fields: file.repeated_fields.value().copied().unwrap_or_default(),
        rules: limits.rules(),
        origins: origins.origins(),
        stores: stores.stores(),
        routes: RouteTable::new(routes),
        responses,
        fingerprint: String::new(),
    };
    stores.check_uses(file, &policy, context.faults);
    if context.faults.errors() == 0 {
        guards::warn(&policy, &settings, &written, context.faults);
    }
    respelled::warn(&policy, &limits_at, context.faults);
    untold::warn(&policy, &settings, &limits_at, &written, context.faults);
    let key = file.secrets.value().and_then(|secrets| secret::written_key(secrets.client_hmac.value()?));
    let token = match file.admin.value() {
        Some(Either::Long(admin)) => admin.token.value().and_then(secret::written),
        _ => None,
    };
    let known = cases::Known::new(&policy, &broken);
    let (cases, tests) = cases::cases(&file.tests, &known, context.faults).into_iter().unzip();
    let written =
        Written { clients: written_clients, routes: written, secret: key, token, passwords: stores.written(), tests };
    // of a file with mistakes, which nobody will load, it would be made in vain
    let effective = match context.faults.errors() {
        1.. if !context.stands_in => Tree::Map(Vec::new()),
        _ => effective(&policy, &settings, &written),
    };
    policy.fingerprint = super::effective::fingerprint(&effective);
    Config { policy, settings, shown: effective.clone(), effective, places, cases }
}

/// Compiles the tests of a file of their own.
pub fn more_cases(file: &schema::TestFile, policy: &Policy, faults: &mut Faults) -> Vec<Case> {
    cases::cases(&file.tests, &cases::Known::new(policy, &[]), faults).into_iter().map(|(case, _)| case).collect()
}

fn version(file: &File, context: &mut Context<'_>) {
    if let Some(version) = file.version.get().filter(|version| version.value != Count(1)) {
        context.faults.push(
            Diagnostic::error(Code::BAD_VERSION, version.span, format!("unknown version {}", version.shown))
                .label("this program knows version 1"),
        );
    }
}

fn defaults(file: &File, faults: &mut Faults) -> Defaults {
    // enough for forms and photographs; uploads say so themselves
    const BODY_LIMIT: Bytes = Bytes(10 << 20);
    let Some(defaults) = file.defaults.value() else {
        return Defaults {
            timeouts: Timeouts::default(),
            body_limit: Some(BODY_LIMIT),
            mode: Mode::Enforce,
            on_store_error: OnStoreError::Local,
        };
    };
    Defaults {
        timeouts: timeouts(&defaults.timeouts, Timeouts::default(), faults),
        body_limit: defaults.body_limit.value().map_or(Some(BODY_LIMIT), |limit| limit.0),
        mode: defaults.mode.value().copied().unwrap_or(Mode::Enforce),
        on_store_error: defaults.on_store_error.value().copied().unwrap_or(OnStoreError::Local),
    }
}

/// Timeouts over those of the level above.
fn timeouts(field: &Field<schema::Timeouts>, above: Timeouts, faults: &mut Faults) -> Timeouts {
    let Some(own) = field.value() else { return above };
    const LONGEST: Duration = Duration::from_secs(86_400);
    let range = Duration::from_millis(1)..=LONGEST;
    let mut over = |field: &Field<Duration>, above| span(field, range.clone(), above, faults);
    Timeouts {
        connect: over(&own.connect, above.connect),
        read: over(&own.read, above.read),
        write: over(&own.write, above.write),
        idle: over(&own.idle, above.idle),
        request: over(&own.request, above.request),
        attempt: own
            .r#try
            .is_present()
            .then(|| over(&own.r#try, above.attempt.unwrap_or(above.request)))
            .or(above.attempt),
        body: match above.body {
            None if own.body.get().is_none() => None,
            above => Some(over(&own.body, above.unwrap_or(LONGEST))),
        },
    }
}

/// A number in a range; `default` when absent, and as a stand-in.
fn number(field: &Field<Count>, range: std::ops::RangeInclusive<u64>, default: u64, faults: &mut Faults) -> u64 {
    let Some(at) = field.get() else { return default };
    if range.contains(&at.value.0) {
        return at.value.0;
    }
    let (low, high) = range.into_inner();
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown))
            .label(format!("must be {low} to {high}")),
    );
    default
}

/// The same for numbers that are kept in 32 bits. The range must fit them.
fn number32(field: &Field<Count>, range: std::ops::RangeInclusive<u32>, default: u32, faults: &mut Faults) -> u32 {
    let (low, high) = range.into_inner();
    let number = number(field, u64::from(low)..=u64::from(high), u64::from(default), faults);
    u32::try_from(number).unwrap_or(default)
}

/// The same without a stand-in: `None` when absent or faulty.
fn checked32(field: &Field<Count>, range: std::ops::RangeInclusive<u32>, faults: &mut Faults) -> Option<u32> {
    let at = field.get()?;
    let wide = u64::from(*range.start())..=u64::from(*range.end());
    number(field, wide.clone(), 0, faults);
    wide.contains(&at.value.0).then(|| u32::try_from(at.value.0).ok()).flatten()
}

/// A duration in a range; `default` when absent, and as a stand-in.
fn span(
    field: &Field<Duration>,
    range: std::ops::RangeInclusive<Duration>,
    default: Duration,
    faults: &mut Faults,
) -> Duration {
    let Some(at) = field.get() else { return default };
    if range.contains(&at.value) {
        return at.value;
    }
    let (low, high) = range.into_inner();
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown)).label(format!(
            "must be {} to {}",
            scalar::duration(low),
            scalar::duration(high)
        )),
    );
    default
}

/// Reports a field that has no place beside the others.
fn out_of_place<T>(field: &Field<T>, message: &str, help: &str, faults: &mut Faults) {
    if let Some(key) = field.key() {
        let fault = Diagnostic::error(Code::CONFLICT, key, message);
        faults.push(if help.is_empty() { fault } else { fault.help(help) });
    }
}
