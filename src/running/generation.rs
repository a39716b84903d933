//! A policy made ready to serve: its snapshot, its origins at run time, and what of its answers can be written in advance.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;

use crate::answer::RouteFields;
use crate::config::places::Trusted;
use crate::engine::{Cluster, Snapshot};
use crate::limiter::Limiter;
use crate::limiter::cluster::Sharing;
use crate::observe::flood::Flood;
use crate::observe::metrics::{EndpointLoad, LimitState, Metrics, OriginError, OriginLoad, Reader};
use crate::observe::notices::sample::Sample;
use crate::observe::refused::MostRefused;
use crate::origins::origin::OriginState;
use crate::origins::resolve::carry_over;
use crate::origins::tls::TlsFault;
use crate::policy::{OnClientAbort, OnLimit, Origin, OriginAddress, Policy, Route, Rule};
use crate::sketch::UpperQuantile;
use crate::store::StoreInUse;
use crate::system::clock::Clock;
use crate::units::Timestamp;

/// Everything that a request takes from the policy in force. Swapped as one.
pub struct Installed {
    snapshot: Snapshot,
    origins: Vec<Arc<OriginState>>,
    stores: Vec<Arc<StoreInUse>>,
    fields: Vec<RouteFields>,
    tag_fields: Vec<HeaderName>,
    times_origins: bool,
    refuses_escaped_slashes: bool,
    follows_origins: bool,
    usual: Vec<Arc<UpperQuantile>>,
    floods: Vec<Option<Flood>>,
    refused: Arc<MostRefused>,
    sample: Arc<Sample>,
    metrics: Metrics,
    version: Version,
    book: u16,
}

/// Which configuration it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// The hash over the whole effective configuration, in hexadecimal digits; empty in tests that have none.
    pub hash: String,
    /// When it was loaded, in nanoseconds since 1970.
    pub loaded: u64,
}

/// What of a new policy can fail, done before anything is touched.
pub struct Prepared {
    origins: Vec<Arc<OriginState>>,
    fresh: Vec<Arc<OriginState>>,
}

impl Prepared {
    /// Origins that begin with this policy, or take the place of one.
    pub fn fresh(&self) -> &[Arc<OriginState>] {
        &self.fresh
    }
}

impl Installed {
    /// A snapshot with the metrics that were resolved for its policy, which learn here what to read from it, and with what
    /// counts its refusals.
    /// `clock` is the one that requests are judged by.
    ///
    /// # Errors
    /// Files that an origin's TLS rests on cannot be used; names the origin.
    pub fn new(
        snapshot: Snapshot,
        metrics: Metrics,
        refused: MostRefused,
        clock: Clock,
    ) -> Result<Installed, (String, TlsFault)> {
        let open =
            |origin: &Arc<Origin>| OriginState::new(Arc::clone(origin)).map_err(|fault| (origin.name.clone(), fault));
        let origins: Vec<_> = snapshot.policy().origins.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Installed::of(snapshot, origins, metrics, Arc::new(refused), clock))
    }

    /// The same under the name of its configuration.
    pub fn with_version(self, version: Version) -> Installed {
        Installed { version, ..self }
    }

    /// Makes the origins of a policy that is to follow: those that are what they were, those that take the place of one, and new ones.
    /// Touches nothing that is in force.
    ///
    /// # Errors
    /// As [`Installed::new`].
    pub fn prepare(&self, policy: &Policy) -> Result<Prepared, (String, TlsFault)> {
        let mut fresh = Vec::new();
        let mut origin = |spec: &Arc<Origin>| {
            let before = self.origins.iter().find(|before| before.spec().name == spec.name);
            let opened = match before {
                Some(before) if before.spec() == &**spec => return Ok(Arc::clone(before)),
                Some(before) => before.followed_by(Arc::clone(spec)).inspect(|after| carry_over(after, before)),
                None => OriginState::new(Arc::clone(spec)),
            };
            let opened = opened.map_err(|fault| (spec.name.clone(), fault))?;
            fresh.push(Arc::clone(&opened));
            Ok(opened)
        };
        let origins = policy.origins.iter().map(&mut origin).collect::<Result<_, _>>()?;
        Ok(Prepared { origins, fresh })
    }

    /// What is to follow this one, made of a snapshot and the origins that were prepared for its policy. Series of names that are gone
    /// end here, so it is to be taken into use at once.
    pub fn followed_by(&self, snapshot: Snapshot, prepared: &Prepared, clock: Clock, version: Version) -> Installed {
        let policies = [&self.snapshot, &snapshot].map(|snapshot| &snapshot.policy().fingerprint);
        let same = policies[0] == policies[1] && !policies[0].is_empty();
        let names = |snapshot: &Snapshot| -> Vec<String> {
            snapshot.policy().rules.iter().map(|rule| rule.name.clone()).collect()
        };
        // it knows limits by their place
        let refused = match names(&self.snapshot) == names(&snapshot) {
            true => Arc::clone(&self.refused),
            false => Arc::new(self.refused.empty()),
        };
        let metrics = self.metrics.next(snapshot.policy());
        let known = |route: &Route| {
            let before = self.snapshot.policy().routes.iter().position(|before| before.name == route.name);
            before.and_then(|index| self.usual.get(index)).cloned()
        };
        let usual = snapshot.policy().routes.iter().map(|route| known(route).unwrap_or_else(unmeasured)).collect();
        let next = Installed::of(snapshot, prepared.origins.clone(), metrics, refused, clock).with_version(version);
        let next = Installed { usual, ..next };
        // what was measured under the same policy goes on
        if same { Installed { sample: Arc::clone(&self.sample), ..next } } else { next }
    }

    fn of(
        snapshot: Snapshot,
        origins: Vec<Arc<OriginState>>,
        metrics: Metrics,
        refused: Arc<MostRefused>,
        clock: Clock,
    ) -> Installed {
        let policy = snapshot.policy();
        let fields = policy.routes.iter().map(|route| RouteFields::new(policy, route)).collect();
        for (index, origin) in origins.iter().enumerate() {
            if let Some(counter) = metrics.origin_error_counter(index, OriginError::Surplus) {
                origin.way().count_surplus(counter);
            }
            metrics.register_origin(&origin.spec().name, reader_of_origin(Arc::clone(origin), clock));
        }
        for (index, (rule, limiter)) in policy.rules.iter().zip(snapshot.limiters()).enumerate() {
            let cluster = snapshot.cluster(index).cloned();
            metrics.register_limit(&rule.name, reader_of_limit(Arc::clone(limiter), cluster, clock));
        }
        let tag_fields = tag_fields(policy);
        let follows_origins = policy.rules.iter().any(|rule| follows_an_origin(rule));
        let times_origins = follows_origins
            || policy.origins.iter().any(|origin| learns_by_time(origin))
            || policy.routes.iter().any(|route| route.timeouts.attempt.is_some())
            || policy.origins.iter().any(|origin| origin.on_client_abort != OnClientAbort::Release);
        let refuses_escaped_slashes = policy.escaped_slash_walks_round();
        let usual = policy.routes.iter().map(|_| unmeasured()).collect();
        let floods = policy.rules.iter().map(|rule| Flood::of(rule)).collect();
        let version = Version::default();
        let sample = Sample::new(policy, &[], refused.seed().derive("a sample"), clock.now(), None);
        Installed {
            snapshot,
            origins,
            stores: Vec::new(),
            fields,
            tag_fields,
            times_origins,
            refuses_escaped_slashes,
            follows_origins,
            usual,
            floods,
            refused,
            sample: Arc::new(sample),
            metrics,
            version,
            book: 0,
        }
    }

    /// Whether paths with escaped slashes are refused on listeners that leave it to the policy.
    pub fn refuses_escaped_slashes(&self) -> bool {
        self.refuses_escaped_slashes
    }

    /// The same for a policy that is not the process's first: the number that its decisions are remembered under, which
    /// [`Decisions::open`](super::telling::decisions::Decisions::open) gives.
    pub fn under(self, book: u16) -> Installed {
        Installed { book, ..self }
    }

    /// The same, with the networks that the policy trusts as they are written; what `before` knows of them goes on.
    pub fn watching(self, trusted: &[Trusted], before: Option<&Installed>, now: Timestamp) -> Installed {
        let kept = before.filter(|before| Arc::ptr_eq(&before.sample, &self.sample));
        if kept.is_some() {
            return self;
        }
        let before = before.map(|before| &*before.sample);
        let seed = self.sample.seed().clone();
        let sample = Sample::new(self.snapshot.policy(), trusted, seed, now, before);
        Installed { sample: Arc::new(sample), ..self }
    }

    /// The same with the stores of its policy, in their order.
    pub fn with_stores(self, stores: Vec<Arc<StoreInUse>>) -> Installed {
        let read = stores.clone();
        self.metrics.register_stores(Arc::new(move || read.iter().map(|store| store.state()).collect()));
        Installed { stores, ..self }
    }

    /// From now on its stores tell other gates what its limits admit, where they are shared so.
    pub fn tell(&self) {
        for (index, store) in self.stores.iter().enumerate() {
            let mine = self.snapshot.all_told().iter().flatten().filter(|told| told.shared().store == index);
            store.tell(mine.cloned().collect());
        }
    }

    /// The stores that its limits are shared through, in the policy's order.
    pub fn stores(&self) -> &[Arc<StoreInUse>] {
        &self.stores
    }

    /// One request in sixteen, looked at more closely.
    pub fn sample(&self) -> &Arc<Sample> {
        &self.sample
    }

    /// The number that its decisions are remembered under.
    pub fn book(&self) -> u16 {
        self.book
    }

    /// The policy and the state of its limits.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// All origins, in the policy's order.
    pub fn origins(&self) -> &[Arc<OriginState>] {
        &self.origins
    }

    /// The origin at this position in the policy.
    pub fn origin(&self, index: usize) -> Option<&Arc<OriginState>> {
        self.origins.get(index)
    }

    /// The prepared rate-limit fields of the route at this position in the policy.
    pub fn fields(&self, route: usize) -> Option<&RouteFields> {
        self.fields.get(route)
    }

    /// The names of all fields that limits with `action: tag` may send to an origin; without doubles. Clients have no say in
    /// them.
    pub fn tag_fields(&self) -> &[HeaderName] {
        &self.tag_fields
    }

    /// Whether anybody wants to know how long origins take to answer: a limit, or what is learnt of origins.
    pub fn times_origins(&self) -> bool {
        self.times_origins
    }

    /// Whether a limit shares out what an origin can take.
    pub fn follows_origins(&self) -> bool {
        self.follows_origins
    }

    /// How long requests of the route at this position usually take until their answer begins, in units of [`USUAL_UNIT`].
    pub fn usual(&self, route: usize) -> Option<&UpperQuantile> {
        self.usual.get(route).map(Arc::as_ref)
    }

    /// What is known of the refusals of the limit at this position in the policy, if it is a `fair_share`.
    pub fn flood(&self, rule: usize) -> Option<&Flood> {
        self.floods.get(rule)?.as_ref()
    }

    /// Whom its limits refuse most.
    pub fn refused(&self) -> &MostRefused {
        &self.refused
    }

    /// Which configuration it is.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The counters of this policy.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// What [`Installed::usual`] counts in.
pub const USUAL_UNIT: Duration = Duration::from_micros(100);
/// How long a duration counts at least; at most twice as long.
const USUAL_PERIOD: Duration = Duration::from_secs(300);

/// One request in a hundred may take longer than is usual.
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

/// Whether the limit shares out what an origin can take, which shows in how long that one takes.
fn follows_an_origin(rule: &Rule) -> bool {
    let tiers = rule.tiers.iter().filter_map(|tier| tier.kind.as_ref());
    let mut kinds = std::iter::once(&rule.kind).chain(tiers);
    kinds.any(|kind| kind.follows_origin().is_some())
}

/// Whether what is known of the origin depends on the time.
fn learns_by_time(origin: &Origin) -> bool {
    let retries = &origin.retries;
    let learns = origin.health.is_some() || origin.ejection.is_some() || origin.adaptive.is_some();
    learns || retries.on_reset_before_answer || retries.on_timeout
}

fn reader_of_origin(origin: Arc<OriginState>, clock: Clock) -> Reader<OriginLoad> {
    Arc::new(move || OriginLoad {
        inflight: u64::from(origin.inflight()),
        limit: origin.limit().map(u64::from),
        queued: u64::from(origin.waiting()),
        abandoned: u64::from(origin.abandoned().count()),
        despite: origin.watches().then(|| origin.despite()),
        endpoints: endpoints(&origin, clock.now()),
    })
}

/// What the policy calls each of an origin's addresses, and how it is. A name has as many addresses as its name server says.
fn endpoints(origin: &OriginState, now: Timestamp) -> Vec<EndpointLoad> {
    let ring = origin.ring();
    let of_entry = |(entry, address): (usize, &OriginAddress)| {
        let mine = || ring.endpoints.iter().filter(move |endpoint| endpoint.entry == entry);
        let (all, usable) = (mine().count(), mine().filter(|endpoint| endpoint.is_usable(now)).count());
        EndpointLoad {
            endpoint: address.authority(),
            healthy: if all == 0 { 0.0 } else { usable as f64 / all as f64 },
            ejections: mine().map(|endpoint| endpoint.record.ejections()).sum(),
        }
    };
    origin.spec().addresses.iter().enumerate().map(of_entry).collect()
}

fn reader_of_limit(limiter: Arc<Limiter>, cluster: Option<Arc<Cluster>>, clock: Clock) -> Reader<LimitState> {
    Arc::new(move || {
        let gauges = limiter.gauges();
        // a limit without keys has a few counters and no table worth telling of
        let memory_bytes = limiter.is_keyed().then_some(gauges.memory);
        let leases = cluster.as_ref().filter(|cluster| cluster.shared().sharing == Sharing::Lease);
        let leased = leases.map(|cluster| cluster.leases().outstanding(clock.now()));
        LimitState { gauges, memory_bytes, crowding: limiter.crowding(clock.now()), leased }
    })
}
