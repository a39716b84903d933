//! The whole file, in the order in which its sections need each other.

use super::context::Context;
use super::defaults::defaults;
use super::routes::WrittenRoute;
use super::{
    cases, clients, guards, limits, origins, respelled, responses, routes, settings, stores, tiers, tls, untold,
};
use crate::config::case::Case;
use crate::config::configuration::Config;
use crate::config::effective::{Written, effective, fingerprint};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::places::{Place, Places};
use crate::config::scalar::Count;
use crate::config::schema::{File, TestFile};
use crate::config::secret;
use crate::config::shape::Either;
use crate::config::span::Span;
use crate::config::tree::Tree;
use crate::policy::{Policy, RouteTable};

/// Compiles the file; what comes back is to be used only when no error was reported.
pub fn compile(file: &File, context: &mut Context<'_>) -> Config {
    version(file, context);
    let defaults = defaults(file);
    let (clients, written_clients) = clients::clients(file, context);
    let responses = file.responses.value().map(|own| responses::responses(own, context)).unwrap_or_default();
    let (tiers, tiers_at): (Vec<_>, Vec<_>) = tiers::tiers(&file.tiers, context.faults).into_iter().unzip();
    let mut origins = origins::Origins::named(&file.origins, defaults.timeouts, context.faults);
    let mut stores = stores::Stores::named(&file.stores, defaults.on_store_error, context);
    let mut limits = limits::Limits::named(&file.limits, defaults.mode, &mut origins, &mut stores, context.faults);
    limits.add_responses(&file.limits, context);
    let routes = routes::routes(file, &defaults, &mut limits, &mut origins, context);
    let settings = settings::settings(file, &written_clients, &mut limits, &stores, context);
    let broken = limits.broken();
    limits.warn_of_unused(context.faults);
    origins.warn_of_unused(context.faults);
    let (routes, written): (Vec<_>, Vec<_>) = routes.into_iter().unzip();
    context.shadows = limits.shadows();
    let place = |at: Span| Place::of(at, context.sources);
    let places = Places {
        limits: limits.places().iter().map(|at| place(*at)).collect(),
        routes: written.iter().map(|route: &WrittenRoute| place(route.at)).collect(),
        trusted: written_clients.as_written.clone(),
        shown: None,
    };
    let limits_at = limits.places().to_vec();
    let policy = Policy {
        clients,
        repeated_fields: file.repeated_fields(),
        tiers,
        rules: limits.rules(),
        origins: origins.origins(),
        stores: stores.stores(),
        routes: RouteTable::new(routes),
        responses,
    };
    stores.check_uses(file, &policy, context.faults);
    if context.faults.errors() == 0 {
        guards::warn(&policy, &settings, &written, context.faults);
        tls::warn_of_idle(&policy.routes, &context.certificates, context.faults);
    }
    respelled::warn(&policy, &limits_at, context.faults);
    untold::warn(&policy, &settings, (&limits_at, &tiers_at), &written, context.faults);
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
    let fingerprint = fingerprint(&effective);
    Config { policy, settings, fingerprint, shown: effective.clone(), effective, places, cases }
}

/// Compiles the tests of a file of their own.
pub fn more_cases(file: &TestFile, policy: &Policy, faults: &mut Faults) -> Vec<Case> {
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
