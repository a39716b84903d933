//! What all connections share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::generation::{Installed, Next};
use crate::config::settings::{ClientInLog, Settings};
use crate::edge::tls::watch::Watch;
use crate::observe::access_log::AccessLog;
use crate::observe::decisions::Decisions;
use crate::observe::history::History;
use crate::observe::log;
use crate::observe::noise::{Noise, Saying};
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
    /// The file or directory of the configuration; `None`: it came from the command line.
    pub file: Option<PathBuf>,
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
    draining: AtomicBool,
}

impl Shared {
    /// A process that is about to serve by its first generation; [`Shared::begin`] when it does.
    pub fn new(
        clock: Clock,
        access_log: Option<(AccessLog, ClientInLog)>,
        pseudonyms: Pseudonyms,
        file: Option<PathBuf>,
        waits: Waits,
        first: Next,
    ) -> Shared {
        let settings = first.source.settings.clone();
        let watched = settings.metrics.is_some() || access_log.is_some() || settings.admin.is_some();
        let decisions = Decisions::default();
        let first = first.in_place_of(None, &decisions, clock);
        Shared {
            clock,
            access_log,
            pseudonyms,
            noise: settings.listeners.iter().map(|_| Noise::new()).collect(),
            no_noise: Noise::new(),
            watched: AtomicBool::new(watched),
            settings,
            file,
            waits,
            bells: Arc::default(),
            history: History::new(),
            decisions,
            notices: Notices::default(),
            certificates: OnceLock::new(),
            installed: ArcSwap::from_pointee(first),
            draining: AtomicBool::new(false),
        }
    }

    /// Begins to serve by the first generation. Needs a runtime.
    pub fn begin(&self) {
        let first = self.installed();
        self.follow(&first, &first);
    }

    /// Puts the next generation in force; cannot fail. Needs a runtime.
    pub fn activate(&self, next: Next) {
        let before = self.installed();
        let next = Arc::new(next.in_place_of(Some(&before), &self.decisions, self.clock));
        self.installed.store(Arc::clone(&next));
        self.follow(&before, &next);
        next.metrics().reload_succeeded(next.snapshot().generation());
    }

    /// Has all that lives longer than a generation go by `next` from now on.
    fn follow(&self, before: &Installed, next: &Installed) {
        let settings = &next.source().settings;
        next.snapshot().take_over();
        next.backends().take_over(before.backends(), self.clock, self.waits.stopping());
        log::set_level(settings.log.level);
        if let (Some((log, _)), Some(words)) = (&self.access_log, &settings.access_log) {
            log.resample(words);
        }
        if before.source().settings.client_hmac != settings.client_hmac {
            self.pseudonyms.rekey(settings.client_hmac.as_ref().map(|secret| secret.0.as_slice()));
        }
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

    /// How clients appear in log and lists.
    pub fn clients_in_log(&self) -> ClientInLog {
        self.access_log.as_ref().map_or(ClientInLog::Pseudonym, |(_, clients)| *clients)
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
