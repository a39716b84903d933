//! The state of the process, which all connections share, and how a generation comes into force.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::generation::{Generation, Next};
use crate::bans::Saved;
use crate::client::{ClientNetwork, Mark};
use crate::config::settings::{ClientInLog, Settings};
use crate::edge::tls::watch::Watch;
use crate::observe::access_log::AccessLog;
use crate::observe::client_errors::{Noise, Saying};
use crate::observe::condition::Watch as ConditionWatch;
use crate::observe::decisions::Decisions;
use crate::observe::history::History;
use crate::observe::log;
use crate::observe::notices::Notices;
use crate::observe::pseudonym::Pseudonyms;
use crate::running::kept_bans::KeptBans;
use crate::running::loads::Loads;
use crate::running::pardoned::Pardons;
use crate::running::snapshot_status::SnapshotStatus;
use crate::running::successor::Successor;
use crate::running::waits::Waits;
use crate::running::wakers::Wakers;
use crate::system::clock::{Clock, wall_nanos};
use crate::system::overload::Overload;
use crate::units::Timestamp;

/// The state of the process, made once at start.
pub struct Process {
    /// The clock that requests are judged by.
    pub clock: Clock,
    /// The access log; `None`: not written.
    pub access_log: Option<AccessLog>,
    /// The names of clients outside the process.
    pub pseudonyms: Pseudonyms,
    /// The settings that the process was started with.
    pub settings: Settings,
    /// The file or directory of the configuration; `None`: it came from the command line.
    pub file: Option<PathBuf>,
    /// The requests that limits delay.
    pub waits: Waits,
    /// Wakes requests that wait for another request's question to a store.
    pub wakers: Arc<Wakers>,
    /// The last ten minutes, by name, so that it outlives a change of the policy.
    pub history: History,
    /// The latest decisions, and why they came out so.
    pub decisions: Decisions,
    /// Misuse of the gate by its operator that it noticed.
    pub notices: Notices,
    /// The whole of it in one sentence.
    pub condition: ConditionWatch,
    /// The policies that were loaded or refused.
    pub loads: Loads,
    /// Who is pardoned.
    pub pardons: Pardons,
    /// The listeners' certificates; set once, at start.
    pub certificates: OnceLock<Arc<Watch>>,
    /// What is known of the snapshots of limits.
    pub snapshots: SnapshotStatus,
    /// How far the bans are on disk.
    pub kept_bans: KeptBans,
    /// Whom the process refuses when it has more to do than it can; set once, at start, unless the settings say `off`.
    pub overload: OnceLock<Arc<Overload>>,
    /// By listener, in the order of the settings.
    noise: Box<[Noise]>,
    /// Stands in for a listener that the settings do not have, which no caller asks for.
    no_noise: Noise,
    watched: AtomicBool,
    generation: ArcSwap<Generation>,
    draining: AtomicBool,
    handing_over: AtomicBool,
    /// Whether there is a successor: one word for requests to read.
    moved: AtomicBool,
    successor: ArcSwapOption<Successor>,
}

impl Process {
    /// Makes the state of a process whose first generation is in force. Call [`Process::begin`] before it serves.
    pub fn new(
        clock: Clock,
        access_log: Option<AccessLog>,
        pseudonyms: Pseudonyms,
        file: Option<PathBuf>,
        waits: Waits,
        first: Next,
    ) -> Process {
        let settings = first.source.settings.clone();
        let watched = settings.metrics.is_some() || access_log.is_some() || settings.admin.is_some();
        let decisions = Decisions::default();
        let loads = Loads::default();
        loads.loaded(&first.source.fingerprint, "Start.");
        let first = first.in_place_of(None, &decisions, clock);
        Process {
            clock,
            access_log,
            pseudonyms,
            noise: settings.listeners.iter().map(|_| Noise::new()).collect(),
            no_noise: Noise::new(),
            watched: AtomicBool::new(watched),
            settings,
            file,
            waits,
            wakers: Arc::default(),
            history: History::new(),
            decisions,
            notices: Notices::default(),
            condition: ConditionWatch::default(),
            loads,
            pardons: Pardons::default(),
            certificates: OnceLock::new(),
            snapshots: SnapshotStatus::default(),
            kept_bans: KeptBans::default(),
            overload: OnceLock::new(),
            generation: ArcSwap::from_pointee(first),
            draining: AtomicBool::new(false),
            handing_over: AtomicBool::new(false),
            moved: AtomicBool::new(false),
            successor: ArcSwapOption::empty(),
        }
    }

    /// Begins to tend the origins of the first generation. Needs a runtime.
    pub fn begin(&self) {
        let first = self.generation();
        self.follow(&first, &first);
    }

    /// Puts the next generation in force. Cannot fail. Needs a runtime.
    pub fn activate(&self, next: Next) {
        let before = self.generation();
        let next = Arc::new(next.in_place_of(Some(&before), &self.decisions, self.clock));
        self.generation.store(Arc::clone(&next));
        self.follow(&before, &next);
        next.metrics().reload_succeeded(next.engine().generation());
    }

    /// Puts a generation in force that has the state of the process before, in the place of the first. Cannot fail. Needs a runtime.
    pub fn adopt(&self, next: Next) {
        let before = self.generation();
        let next = Arc::new(next.in_place_of(Some(&before), &self.decisions, self.clock));
        self.generation.store(Arc::clone(&next));
        self.follow(&before, &next);
    }

    /// Applies `next` to everything that outlives a generation.
    fn follow(&self, before: &Generation, next: &Generation) {
        let settings = &next.source().settings;
        next.engine().take_over();
        next.backends().take_over(before.backends(), self.clock, self.waits.stopping());
        log::set_level(settings.log.level);
        if let (Some(log), Some(settings)) = (&self.access_log, &settings.access_log) {
            log.follow(settings);
        }
        if before.source().settings.client_hmac != settings.client_hmac {
            self.pseudonyms.rekey(settings.client_hmac.as_ref().map(|secret| secret.0.as_slice()));
        }
    }

    /// Returns the wall clock's time at the origin of all stamps, in nanoseconds since 1970; right if the wall clock is right now.
    pub fn unix_nanos_at_origin(&self) -> u64 {
        wall_nanos().saturating_sub(self.clock.now().nanos())
    }

    /// Has everything counted from now on, because an operator may ask for it.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Returns the time if anything counts it. Without a metrics page, admin endpoints and an access log the clock is not read.
    pub fn now_if_watched(&self) -> Option<Timestamp> {
        self.watched.load(Ordering::Relaxed).then(|| self.clock.now())
    }

    /// Returns what strangers do wrong at the listener at this position in the settings.
    pub fn noise(&self, listener: usize) -> &Noise {
        self.noise.get(listener).unwrap_or(&self.no_noise)
    }

    /// Writes what strangers did wrong lately into the process's log. Call it about once a second.
    pub fn tell_noise(&self) {
        let generation = self.generation();
        let saying = Saying {
            rules: &generation.engine().policy().clients,
            as_what: self.clients_in_log(),
            pseudonyms: &self.pseudonyms,
        };
        for (noise, listener) in self.noise.iter().zip(&self.settings.listeners) {
            noise.tell(&listener.name, self.clock.now(), &saying);
        }
    }

    /// The policy in force. Taken once per request and kept to its end.
    pub fn generation(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    /// Returns the form of clients in the log and in lists.
    pub fn clients_in_log(&self) -> ClientInLog {
        self.access_log.as_ref().map_or(ClientInLog::Pseudonym, AccessLog::clients)
    }

    /// The name of a client, or of a network around it, as in the access log.
    pub fn name_of(&self, mark: Mark, network: ClientNetwork, level: u8) -> String {
        match self.clients_in_log() {
            ClientInLog::Pseudonym => match network {
                ClientNetwork::Prefix(around) if level > 0 => self.pseudonyms.of_network(around).to_string(),
                _ => self.pseudonyms.all_named(mark, network).next().map_or_else(String::new, |name| name.to_string()),
            },
            ClientInLog::Address => network.to_string(),
        }
    }

    /// Has every answer close its connection from now on, so that clients go elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Says whether another process is about to take this one's place, with the bans as they are now.
    pub fn set_handing_over(&self, handing_over: bool) {
        self.handing_over.store(handing_over, Ordering::SeqCst);
    }

    /// Returns whether bans may not change, because another process is about to take this one's place.
    pub fn handing_over(&self) -> bool {
        self.handing_over.load(Ordering::SeqCst)
    }

    /// Has requests asked of the process that has the state of limits now; `None`: this one has it.
    pub fn set_successor(&self, successor: Option<Arc<Successor>>) {
        let moved = successor.is_some();
        self.successor.store(successor);
        // SeqCst: an admission that does not see it yet was noted before, which whoever reads the notes after this then sees
        self.moved.store(moved, Ordering::SeqCst);
    }

    /// Returns the process that has the state of limits now, if it is another.
    #[inline]
    pub fn successor(&self) -> Option<Arc<Successor>> {
        if self.moved.load(Ordering::SeqCst) { self.successor.load_full() } else { None }
    }

    /// The bans in force, for another process or for a file.
    pub fn saved_bans(&self) -> Saved {
        Saved::of(self.generation().engine().bans(), self.clock.now(), self.unix_nanos_at_origin())
    }

    /// Takes over the bans of another process. Returns how many hold.
    ///
    /// # Errors
    /// They are of a form that this version does not know.
    pub fn restore_bans(&self, saved: Saved) -> Result<usize, &'static str> {
        saved.restore(self.generation().engine().bans(), self.clock.now(), self.unix_nanos_at_origin())
    }

    /// Clears away bans that have ended. Call it about once a second.
    pub fn clear_ended_bans(&self) {
        for ban in self.generation().engine().bans().clear_ended(self.clock.now()) {
            tracing::info!(ban = ban.number, refused = ban.refused(), "ban ended");
        }
    }

    /// Lets connections stay open again: no other process takes this one's place.
    pub fn stop_draining(&self) {
        self.draining.store(false, Ordering::Relaxed);
    }

    /// Returns whether the process is about to stop.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
