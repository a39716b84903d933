//! What all connections share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::generation::Installed;
use super::in_force::InForce;
use crate::config::settings::{ClientInLog, Settings};
use crate::config::{Places, Tree};
use crate::edge::tls::watch::Watch;
use crate::explain::Book;
use crate::observe::access_log::AccessLog;
use crate::observe::client_errors::{Noise, Saying};
use crate::observe::decisions::Decisions;
use crate::observe::history::History;
use crate::observe::notices::Notices;
use crate::observe::pseudonym::Pseudonyms;
use crate::running::waits::Waits;
use crate::running::wakers::Bells;
use crate::system::clock::{Clock, wall_nanos};
use crate::units::Timestamp;

/// The process's state, made once at start.
pub struct Shared {
    /// Time.
    pub clock: Clock,
    /// The access log and how clients appear in it; `None`: not written.
    pub access_log: Option<(AccessLog, ClientInLog)>,
    /// How clients are named outside the process.
    pub pseudonyms: Pseudonyms,
    /// What the process was started with.
    pub settings: Settings,
    /// The requests that limits delay.
    pub waits: Waits,
    /// Requests that wait for what another one asks a store.
    pub bells: Arc<Bells>,
    /// The last ten minutes, by name; so it goes on when the policy changes.
    pub history: History,
    /// What was decided lately, and why.
    pub decisions: Decisions,
    /// What the gate notices of its own misuse.
    pub notices: Notices,
    /// The listeners' certificates; set once, at start.
    pub certificates: OnceLock<Arc<Watch>>,
    /// By listener, in the order of the settings.
    noise: Box<[Noise]>,
    /// For listeners that are none of the settings', of which there are none.
    no_noise: Noise,
    watched: AtomicBool,
    installed: ArcSwap<Installed>,
    in_force: ArcSwap<InForce>,
    draining: AtomicBool,
}

impl Shared {
    /// Everything in place, serving `installed`.
    pub fn new(
        clock: Clock,
        access_log: Option<(AccessLog, ClientInLog)>,
        pseudonyms: Pseudonyms,
        settings: Settings,
        waits: Waits,
        installed: Arc<Installed>,
    ) -> Shared {
        let book = book_of(&installed, Places::default());
        let watched = settings.metrics.is_some() || access_log.is_some() || settings.admin.is_some();
        Shared {
            clock,
            access_log,
            pseudonyms,
            noise: settings.listeners.iter().map(|_| Noise::new()).collect(),
            no_noise: Noise::new(),
            watched: AtomicBool::new(watched),
            settings,
            waits,
            bells: Arc::default(),
            history: History::new(),
            decisions: Decisions::new(book),
            notices: Notices::default(),
            certificates: OnceLock::new(),
            installed: ArcSwap::new(installed),
            in_force: ArcSwap::from_pointee(InForce { file: None, shown: Tree::Map(Vec::new()), waiting: Vec::new() }),
            draining: AtomicBool::new(false),
        }
    }

    /// The same, with the places in the file at which the limits and routes of the policy in force are written.
    pub fn with_places(self, places: Places) -> Shared {
        self.decisions.begin(book_of(&self.installed(), places));
        self
    }

    /// The wall clock's time at the origin of all stamps, in nanoseconds since 1970, as far as the wall clock is right now.
    pub fn unix_nanos_at_origin(&self) -> u64 {
        wall_nanos().saturating_sub(self.clock.now().nanos())
    }

    /// There is somebody who may ask for what happened: from now on it is counted.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// The time, if anybody will ever see what it is used for: without a metrics page, admin endpoints and an access log it is not
    /// read.
    pub fn now_if_watched(&self) -> Option<Timestamp> {
        self.watched.load(Ordering::Relaxed).then(|| self.clock.now())
    }

    /// What strangers do wrong at the listener at this position in the settings.
    pub fn noise(&self, listener: usize) -> &Noise {
        self.noise.get(listener).unwrap_or(&self.no_noise)
    }

    /// Writes what happened lately into the process's log. For the housekeeping, about once a second.
    pub fn tell_noise(&self) {
        let installed = self.installed();
        let saying = Saying {
            rules: &installed.snapshot().policy().clients,
            as_what: self.clients_in_log(),
            pseudonyms: &self.pseudonyms,
        };
        for (noise, listener) in self.noise.iter().zip(&self.settings.listeners) {
            noise.tell(&listener.name, self.clock.now(), &saying);
        }
    }

    /// The policy in force. Taken once per request and kept to its end.
    pub fn installed(&self) -> Arc<Installed> {
        self.installed.load_full()
    }

    /// The configuration in force, as text.
    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.load_full()
    }

    /// Tells which configuration is in force from now on. To be called with every policy that is installed.
    pub fn set_in_force(&self, in_force: InForce) {
        self.in_force.store(Arc::new(in_force));
    }

    /// How clients appear in log and lists.
    pub fn clients_in_log(&self) -> ClientInLog {
        self.access_log.as_ref().map_or(ClientInLog::Pseudonym, |(_, clients)| *clients)
    }

    /// Puts another policy in force; gives the one before.
    pub fn install(&self, next: Arc<Installed>) -> Arc<Installed> {
        self.installed.swap(next)
    }

    /// The hash over the whole configuration in force, in hexadecimal digits; people are shown the first seven.
    pub fn config_hash(&self) -> String {
        self.installed.load().version().hash.clone()
    }

    /// When the configuration in force was loaded, in nanoseconds since 1970.
    pub fn config_loaded(&self) -> u64 {
        self.installed.load().version().loaded
    }

    /// From now on every answer closes its connection, so that clients go elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process is about to stop.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// What is remembered of a policy, under the name of its configuration.
fn book_of(installed: &Installed, places: Places) -> Book {
    let version = installed.version();
    let book = Book::new(installed.snapshot().policy(), places, version.loaded);
    // tests have policies without a configuration
    if version.hash.is_empty() { book } else { Book { fingerprint: version.hash.clone(), ..book } }
}
