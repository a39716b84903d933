//! One policy in force, with all that a request takes from it. There is one way to it: a start is a reload from nothing.
//!
//! [`Generation::next`] does everything that can fail and touches nothing that is in force. [`Process::activate`](super::process)
//! then cannot fail.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;

use super::backends::Backends;
use super::fault::Fault;
use crate::answer::RouteFields;
use crate::client::Client;
use crate::config::settings::Settings;
use crate::config::{Config, Places, Tree};
use crate::engine::{Base, Engine, Succession};
use crate::explain::Book;
use crate::observe::decisions::Decisions;
use crate::observe::fair_share_log::Flood;
use crate::observe::metrics::{Metrics, OriginError};
use crate::observe::notices::sample::Sample;
use crate::observe::offenders::MostRefused;
use crate::origins::origin::OriginState;
use crate::policy::{ClientList, OnClientAbort, OnLimit, Origin, Policy, Route, StoreId};
use crate::sketch::UpperQuantile;
use crate::store::StoreInUse;
use crate::system::clock::{Clock, wall_nanos};

/// Everything that a request takes from the policy in force. Replaced as a whole.
pub struct Generation {
    engine: Engine,
    backends: Backends,
    source: Arc<Source>,
    waiting: Vec<String>,
    fields: Vec<RouteFields>,
    tag_fields: Vec<HeaderName>,
    times_origins: bool,
    refuses_escaped_slashes: bool,
    usual: Vec<Arc<UpperQuantile>>,
    floods: Vec<Option<Flood>>,
    refused: Arc<MostRefused>,
    sample: Arc<Sample>,
    metrics: Metrics,
    book: u16,
    denied: Vec<(String, Arc<ClientList>)>,
}

/// The configuration that a generation was made from.
#[derive(Debug)]
pub struct Source {
    /// What is not the policy.
    pub settings: Settings,
    /// The whole as a policy file, with secrets masked.
    pub effective: Tree,
    /// The part of it that may be shown: without the values of variables.
    pub shown: Tree,
    /// Its fingerprint.
    pub fingerprint: String,
    /// When it was loaded, in nanoseconds since 1970.
    pub loaded: u64,
}

/// A generation that is not in force yet. Everything that can fail is done, and nothing in force has been touched.
pub struct Next {
    /// The configuration.
    pub source: Source,
    /// What becomes of the state of its limits.
    pub succession: Succession,
    /// Paths of settings that the process does not follow before an upgrade.
    pub waiting: Vec<String>,
    engine: Engine,
    backends: Backends,
    places: Places,
}

impl Generation {
    /// Makes the generation that follows the one of the base's snapshot, or the first one. Numbers of limits change at the base's
    /// time, so [activate](super::process::Process::activate) it at once.
    ///
    /// # Errors
    /// A limit.
    pub fn next(config: Config, backends: Backends, base: Base<'_>) -> Result<Next, Fault> {
        let Config { policy, settings, fingerprint, effective, shown, places, .. } = config;
        let (engine, succession) =
            Engine::next(policy, settings.naming(), base).map_err(|(name, fault)| Fault::Limit(name, fault))?;
        let source = Source { settings, fingerprint, effective, shown, loaded: wall_nanos() };
        Ok(Next { source, succession, waiting: Vec::new(), engine, backends, places })
    }

    /// Returns whether listeners that leave it to the policy refuse paths with escaped slashes.
    pub fn refuses_escaped_slashes(&self) -> bool {
        self.refuses_escaped_slashes
    }

    /// Returns its origins and stores.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Returns the stores that limits are shared through, in the policy's order.
    pub fn stores(&self) -> &[Arc<StoreInUse>] {
        self.backends.stores()
    }

    /// Returns a store.
    pub fn store(&self, id: StoreId) -> Option<&Arc<StoreInUse>> {
        self.stores().get(id.0)
    }

    /// Returns the configuration that it was made from.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Returns the paths of settings that the process does not follow before an upgrade.
    pub fn waiting(&self) -> &[String] {
        &self.waiting
    }

    /// Returns the sample: one request in sixteen, examined more closely.
    pub fn sample(&self) -> &Arc<Sample> {
        &self.sample
    }

    /// Returns the number that its decisions are remembered under.
    pub fn book(&self) -> u16 {
        self.book
    }

    /// Returns the policy with the state of its limits.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns all origins, in the policy's order.
    pub fn origins(&self) -> &[Arc<OriginState>] {
        self.backends.origins()
    }

    /// Returns the origin at this position in the policy.
    pub fn origin(&self, index: usize) -> Option<&Arc<OriginState>> {
        self.origins().get(index)
    }

    /// Returns the prepared rate-limit fields of the route at this position in the policy.
    pub fn fields(&self, route: usize) -> Option<&RouteFields> {
        self.fields.get(route)
    }

    /// Returns the names of all fields that limits with `action: tag` may send to an origin, each once. They are taken out of what
    /// clients send.
    pub fn tag_fields(&self) -> &[HeaderName] {
        &self.tag_fields
    }

    /// Returns whether the time that origins take to answer is measured, for what is learnt of origins.
    pub fn times_origins(&self) -> bool {
        self.times_origins
    }

    /// Returns the usual time until an answer begins on the route at this position, in units of [`USUAL_UNIT`].
    pub fn usual(&self, route: usize) -> Option<&UpperQuantile> {
        self.usual.get(route).map(Arc::as_ref)
    }

    /// Returns what is known of the refusals of the limit at this position in the policy, if it is a `fair_share`.
    pub fn flood(&self, rule: usize) -> Option<&Flood> {
        self.floods.get(rule)?.as_ref()
    }

    /// Returns the clients that its limits refuse most.
    pub fn refused(&self) -> &MostRefused {
        &self.refused
    }

    /// Returns whether the listener at this position in the settings that the process was started with refuses the client.
    #[inline]
    pub fn denies(&self, listener: usize, client: &Client) -> bool {
        self.denied.get(listener).is_some_and(|(_, deny)| deny.lists(client))
    }

    /// Returns whether it was made from this configuration, or from one that is equal to it. Lists of clients stand in files of their own.
    pub fn is_of(&self, config: &Config) -> bool {
        let of_route = |route: &Route| {
            let matched = route.matches.iter().filter_map(|asked| asked.client.clone());
            matched.chain([Arc::clone(&route.deny)]).collect::<Vec<_>>()
        };
        let routes = |policy: &Policy| policy.routes.iter().flat_map(of_route).collect::<Vec<_>>();
        let listeners =
            |settings: &Settings| settings.listeners.iter().map(|own| Arc::clone(&own.deny)).collect::<Vec<_>>();
        config.effective == self.source.effective
            && routes(&config.policy) == routes(self.engine.policy())
            && listeners(&config.settings) == listeners(&self.source.settings)
    }

    /// Returns the metrics of this policy.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Next {
    /// Makes the generation that takes the place of `before`. Series of names that are gone end, and stores are told of its limits.
    pub(super) fn in_place_of(self, before: Option<&Generation>, decisions: &Decisions, clock: Clock) -> Generation {
        let Next { source, waiting, engine, backends, places, .. } = self;
        let policy = engine.policy();
        let metrics = match before {
            Some(before) => before.metrics.next(policy, &source.fingerprint),
            None => Metrics::new(policy, &source.settings, &source.fingerprint),
        };
        for (index, origin) in backends.origins().iter().enumerate() {
            if let Some(counter) = metrics.origin_error_counter(index, OriginError::Surplus) {
                origin.way().count_surplus(counter);
            }
        }
        backends.publish(&engine, source.settings.naming());
        let refused = match before {
            // it knows limits by their positions
            Some(before) if names(before.engine.policy()).eq(names(policy)) => Arc::clone(&before.refused),
            Some(before) => Arc::new(before.refused.empty()),
            None => Arc::new(MostRefused::new(workers(&source.settings), engine.seed().derive("most refused"))),
        };
        // what it knows concerns limits by their positions, and the networks that are trusted
        let same = |before: &&Generation| {
            let before = before.engine.policy();
            before.rules == policy.rules && before.clients == policy.clients
        };
        let sample = match before.filter(same) {
            Some(before) => Arc::clone(&before.sample),
            None => {
                let (seed, before) = (refused.seed().derive("a sample"), before.map(|before| &*before.sample));
                Arc::new(Sample::new(policy, &places.trusted, seed, clock.now(), before))
            }
        };
        let known = |route: &Route| {
            let before = before?;
            let index = before.engine.policy().routes.iter().position(|before| before.name == route.name)?;
            before.usual.get(index).cloned()
        };
        let times_origins = policy.origins.iter().any(|origin| learns_by_time(origin))
            || policy.routes.iter().any(|route| route.timeouts.r#try.is_some())
            || policy.origins.iter().any(|origin| origin.on_client_abort != OnClientAbort::Release);
        let denied = match before {
            None => source.settings.listeners.iter().map(|own| (own.name.clone(), Arc::clone(&own.deny))).collect(),
            // the listeners that the process has: one that the file has no more goes on until an upgrade
            Some(before) => before.denied.iter().map(|known| denied_by(known, &source.settings)).collect(),
        };
        let book = Book::new(policy, &source.fingerprint, places, source.loaded);
        Generation {
            fields: policy.routes.iter().map(|route| RouteFields::new(policy, route)).collect(),
            tag_fields: tag_fields(policy),
            times_origins,
            refuses_escaped_slashes: policy.escaped_slash_walks_round(),
            usual: policy.routes.iter().map(|route| known(route).unwrap_or_else(unmeasured)).collect(),
            floods: policy.rules.iter().map(|rule| Flood::of(rule)).collect(),
            book: decisions.open(book),
            denied,
            source: Arc::new(source),
            engine,
            backends,
            waiting,
            refused,
            sample,
            metrics,
        }
    }
}

/// Returns what the settings say of the listener of that name.
fn denied_by((name, before): &(String, Arc<ClientList>), settings: &Settings) -> (String, Arc<ClientList>) {
    let now = settings.listeners.iter().find(|listener| listener.name == *name);
    (name.clone(), Arc::clone(now.map_or(before, |listener| &listener.deny)))
}

/// Returns the number of threads that serve requests.
pub fn workers(settings: &Settings) -> usize {
    settings.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn names(policy: &Policy) -> impl Iterator<Item = &str> {
    policy.rules.iter().map(|rule| rule.name.as_str())
}

/// The unit of [`Generation::usual`].
pub const USUAL_UNIT: Duration = Duration::from_micros(100);
/// The least time that a duration counts; it counts at most twice as long.
const USUAL_PERIOD: Duration = Duration::from_secs(300);

/// No measurement yet. One request in a hundred may take longer than is usual.
fn unmeasured() -> Arc<UpperQuantile> {
    Arc::new(UpperQuantile::new(990, USUAL_PERIOD))
}

fn tag_fields(policy: &Policy) -> Vec<HeaderName> {
    let mut names: Vec<HeaderName> = Vec::new();
    for rule in &policy.rules {
        if let OnLimit::Tag { header } = &rule.action
            && !names.contains(header)
        {
            names.push(header.clone());
        }
    }
    names
}

/// Returns whether what is learnt of the origin depends on the time of its answers.
fn learns_by_time(origin: &Origin) -> bool {
    let retries = &origin.retries;
    let learns = origin.health.is_some() || origin.ejection.is_some() || origin.adaptive.is_some();
    learns || retries.on_reset_before_answer || retries.on_timeout
}
