//! `stores`, which limits share, and what only all limits together tell of them.

use std::sync::Arc;
use std::time::Duration;

use super::checks::out_of_place;
use super::context::Context;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::nearest::nearest;
use crate::config::read::{At, Field};
use crate::config::scalar::duration;
use crate::config::schema::{self, File};
use crate::config::secret;
use crate::config::setting::values;
use crate::config::settings::Secret;
use crate::config::shape::Keyed;
use crate::config::span::Span;
use crate::config::store_text::{StoreUrl, is_near};
use crate::config::text::Name;
use crate::config::tree::Tree;
use crate::config::word::StoreModeWord;
use crate::limiter::sharing::{OnStoreError, Sharing};
use crate::policy::route::Action;
use crate::policy::{KnownBy, Mode, Policy, Store, StoreId, StoreMode};

/// What a person notices when every request waits for it.
const LONG_FOR_EXACT: Duration = Duration::from_millis(50);

/// All stores, as they are found, and the limits that use them.
pub struct Stores {
    /// What a limit does that does not say it.
    pub on_store_error: OnStoreError,
    list: Vec<Arc<Store>>,
    passwords: Vec<Option<Secret>>,
    /// The passwords as the effective configuration writes them.
    written: Vec<Option<Tree>>,
    named: Vec<Named>,
    uses: Vec<Use>,
}

struct Named {
    name: String,
    at: Span,
    /// `None`: it has faults of its own.
    store: Option<StoreId>,
    /// Where its `timeout` stands.
    timeout: Option<Span>,
    /// Where it says that gates share their bans.
    share_bans: Option<Span>,
    used: bool,
}

/// That a limit is shared, and where it says so.
pub struct Use {
    /// The limit's name.
    pub limit: String,
    /// Its `store`.
    pub store: Span,
    /// Its `sharing`.
    pub sharing: Option<Span>,
    /// Its `on_store_error`.
    pub on_store_error: Option<Span>,
}

impl Stores {
    /// Reads the section `stores`.
    pub fn named(
        section: &Field<Keyed<Name, schema::Store>>,
        on_store_error: OnStoreError,
        context: &mut Context<'_>,
    ) -> Stores {
        let mut stores = Stores {
            on_store_error,
            list: Vec::new(),
            passwords: Vec::new(),
            written: Vec::new(),
            named: Vec::new(),
            uses: Vec::new(),
        };
        for entry in section.value().iter().flat_map(|map| &map.0) {
            let store = match (&entry.key, &entry.value) {
                (Some(name), Some(at)) => {
                    let password = at.value.password.get().map(|at| secret::secret(at, context));
                    let store = store(&name.0, &at.value, context.faults);
                    store.map(|store| {
                        stores.list.push(Arc::new(store));
                        stores.passwords.push(password.flatten());
                        stores.written.push(at.value.password.value().and_then(secret::written));
                        StoreId(stores.list.len() - 1)
                    })
                }
                _ => None,
            };
            let timeout = entry.value.as_ref().and_then(|at| at.value.timeout.get()).map(|timeout| timeout.span);
            let share_bans = entry.value.as_ref().and_then(|at| at.value.share_bans.get());
            let share_bans = share_bans.filter(|said| said.value).map(|said| said.span);
            // what has faults of its own is not told to be unused as well
            let used = store.is_none() || share_bans.is_some();
            let (name, at) = (entry.name.clone(), entry.key_span);
            stores.named.push(Named { name, at, store, timeout, share_bans, used });
        }
        stores
    }

    /// The store that a limit names; `None` when there is none or it has faults, which have been told.
    pub fn find(&mut self, name: &At<Name>, faults: &mut Faults) -> Option<StoreId> {
        if let Some(named) = self.named.iter_mut().find(|named| named.name == name.value.0) {
            named.used = true;
            return named.store;
        }
        let near = nearest(&name.value.0, self.named.iter().map(|named| named.name.as_str())).filter(|_| !name.masked);
        let mut fault = Diagnostic::error(
            Code::UNKNOWN_STORE,
            name.span,
            format!("limit refers to an unknown store {}", name.shown),
        )
        .label("no store has this name")
        .nearest(near);
        let near = near.map(str::to_owned);
        match near.and_then(|near| self.named.iter_mut().find(|named| named.name == near)) {
            Some(named) => {
                // most likely meant, so it is not told to be unused as well
                named.used = true;
                fault = fault.related(named.at, "a similar store is defined here");
            }
            None => fault = fault.help("define it under `stores:`, with a `url` such as `redis://127.0.0.1:6379`"),
        }
        faults.push(fault);
        None
    }

    /// Remembers that a limit is shared.
    pub fn used(&mut self, by: Use) {
        self.uses.push(by);
    }

    /// The stores, in the order of [`Policy::stores`].
    pub fn stores(&self) -> Vec<Arc<Store>> {
        self.list.clone()
    }

    /// Their passwords, in the same order.
    pub fn passwords(&self) -> Vec<Option<Secret>> {
        self.passwords.clone()
    }

    /// Their passwords as the effective configuration writes them, in the same order.
    pub fn written(&self) -> Vec<Option<Tree>> {
        self.written.clone()
    }

    /// Reports what only the whole file tells: that gates would name clients differently, that all would be refused with the store,
    /// that every request would wait for long, that a store is of no use.
    pub fn check_uses(&self, file: &File, policy: &Policy, faults: &mut Faults) {
        let key = match &file.secrets {
            Field::Absent => false,
            Field::Bad { .. } => true,
            Field::Set { at, .. } => at.value.client_hmac.is_present(),
        };
        let limit = self.uses.first().map(|first| (first.store, format!("the limit `{}` is shared", first.limit)));
        let bans = || {
            let found = self.named.iter().find_map(|named| Some((named.share_bans?, &named.name)));
            found.map(|(at, name)| (at, format!("bans are shared through the store `{name}`")))
        };
        if let Some((at, what)) = limit.or_else(bans).filter(|_| !key) {
            faults.push(
                Diagnostic::error(Code::NO_SHARED_KEY, at, format!("{what}, and `secrets.client_hmac` is missing"))
                    .label("all gates must name clients alike")
                    .help(
                        "make a key with `head -c 32 /dev/urandom | base64`, give every gate the same one, and write \
                     `secrets: { client_hmac: { file: PATH } }`",
                    ),
            );
        }
        for by in &self.uses {
            let Some(rule) = policy.rules.iter().position(|rule| rule.name == by.limit) else { continue };
            self.check_closed(by, rule, policy, faults);
            self.check_exact(by, rule, policy, faults);
        }
        for named in self.named.iter().filter(|named| !named.used) {
            faults.push(
                Diagnostic::new(Code::UNUSED_STORE, named.at, format!("no limit uses the store `{}`", named.name))
                    .label("not used")
                    .help("name it in a limit's `store:`, or remove it"),
            );
        }
    }

    /// With this limit on every route, a silent store would be a silent site.
    fn check_closed(&self, by: &Use, rule: usize, policy: &Policy, faults: &mut Faults) {
        let Some(known) = policy.rules.get(rule) else { return };
        let closed = known.shared.is_some_and(|shared| shared.on_store_error == OnStoreError::Closed);
        if !closed || known.mode != Mode::Enforce {
            return;
        }
        // what the gate answers by itself is most often a health check, which nobody visits a site for
        let forwards = |route: &&crate::policy::Route| matches!(route.action, Action::Forward(_));
        let mut routes = policy.routes.iter().filter(forwards).peekable();
        if routes.peek().is_some() && routes.all(|route| route.rules.contains(&rule)) {
            faults.push(
                Diagnostic::new(
                    Code::CLOSED_EVERYWHERE,
                    by.on_store_error.unwrap_or(by.store),
                    format!("`on_store_error: closed` on `{}`, which covers every route", by.limit),
                )
                .label("when the store is silent, every request is refused with 503")
                .help("say `local`, and `closed` on the limits of single routes, such as a login"),
            );
        }
    }

    /// Every request of an exact limit waits for the store.
    fn check_exact(&self, by: &Use, rule: usize, policy: &Policy, faults: &mut Faults) {
        let Some(rule) = policy.rules.get(rule) else { return };
        let Some(shared) = rule.shared else { return };
        let Some(store) = self.list.get(shared.store.0).filter(|store| store.timeout > LONG_FOR_EXACT) else { return };
        let told = KnownBy::of(rule).is_some();
        let (what, else_by) = match shared.sharing {
            Sharing::Exact if told => ("`sharing: exact`", "sharing: estimate"),
            Sharing::Exact => ("`sharing: exact`", "sharing: lease"),
            Sharing::Lease if told => ("a limit that asks about each request,", "sharing: estimate"),
            _ => return,
        };
        let otherwise = match KnownBy::of(rule) {
            Some(KnownBy::Place) => String::new(),
            _ => format!(", or `{else_by}`"),
        };
        let fault = Diagnostic::new(
            Code::SLOW_STORE,
            by.sharing.unwrap_or(by.store),
            format!("{what} on a store with a timeout of {}", duration(store.timeout)),
        )
        .label("every request may wait that long")
        .help(format!("a `timeout` of at most {} is usual{otherwise}", duration(LONG_FOR_EXACT)));
        let place = self.named.iter().find(|named| named.store == Some(shared.store)).and_then(|named| named.timeout);
        faults.push(match place {
            Some(place) => fault.related(place, "the store's timeout"),
            None => fault,
        });
    }
}

/// A store of this name; `None` when it has faults that leave nothing to go on with, which have been told.
fn store(name: &str, own: &schema::Store, faults: &mut Faults) -> Option<Store> {
    let mode = own.mode();
    if mode != StoreModeWord::Sentinel && !matches!(own.mode, Field::Bad { .. }) {
        out_of_place(
            &own.primary,
            "`primary` without `mode: sentinel`",
            "only sentinels know primaries by names",
            faults,
        );
    }
    if let (Some(at), false) = (own.username.get(), own.password.is_present()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "`username` without `password`")
                .label("a user proves itself by its password")
                .help("write `password: { file: PATH }`"),
        );
    }
    let url = own.url.get()?;
    check_url(url, own, mode, faults);
    let StoreUrl { tls, servers, database, .. } = &url.value;
    Some(Store {
        name: name.to_owned(),
        mode: match mode {
            StoreModeWord::Single => StoreMode::Single,
            StoreModeWord::Sentinel => StoreMode::Sentinel { primary: own.primary() },
            StoreModeWord::Cluster => StoreMode::Cluster,
        },
        servers: servers.iter().map(|server| (server.host.clone(), server.port)).collect(),
        tls: *tls,
        ca: own.ca.value().map(|file| file.0.clone()),
        database: *database,
        username: own.username.value().map(|name| name.0.clone()),
        timeout: own.timeout(),
        ready_within: own.ready_within(),
        prefix: own.prefix(),
        share_bans: own.share_bans(),
        breaker: values(&own.breaker),
    })
}

/// What of a store's URL does not go with its other words. Its text is shown only where it holds no password.
fn check_url(url: &At<StoreUrl>, own: &schema::Store, mode: StoreModeWord, faults: &mut Faults) {
    let StoreUrl { tls, servers, database, credentials } = &url.value;
    if *credentials {
        faults.push(
            Diagnostic::error(Code::BAD_STORE_URL, url.span, "a user or a password in a store's URL")
                .label("URLs are shown and logged, passwords are not")
                .help("write `username: NAME` and `password: { file: PATH }` beside `url`"),
        );
    }
    if servers.len() > 1 && mode == StoreModeWord::Single && !matches!(own.mode, Field::Bad { .. }) {
        let message = format!("{} servers, and `mode: single`", servers.len());
        let fault = Diagnostic::error(Code::CONFLICT, url.span, message)
            .label("one server is all that `single` has")
            .help("say `mode: cluster` for a cluster, or `mode: sentinel` if these are sentinels");
        faults.push(match own.mode.get() {
            Some(mode) => fault.related(mode.span, "said here"),
            None => fault,
        });
    }
    if let (StoreModeWord::Cluster, 1.., Some(mode)) = (mode, database, own.mode.get()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, url.span, format!("the database {database} of a cluster"))
                .label("a cluster has database 0 alone")
                .related(mode.span, "a cluster because of this")
                .help("keep limits apart by `prefix`"),
        );
    }
    if *tls {
        return;
    }
    out_of_place(&own.ca, "`ca` beside `redis://`", "without TLS no certificate is looked at: say `rediss://`", faults);
    if let Some(far) = servers.iter().find(|server| !is_near(&server.host)) {
        let what = if own.password.is_present() || *credentials { "reads the password and " } else { "" };
        faults.push(
            Diagnostic::new(Code::PLAIN_STORE, url.span, format!("the store at `{far}` is spoken to in clear"))
                .label(format!("whoever is on the way {what}can change every count"))
                .help("say `rediss://`, which is TLS, or reach it by a private address"),
        );
    }
}
