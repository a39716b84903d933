//! Takes renewed certificates into use while connections come and go.
//!
//! The files' metadata are looked at a few times a second: that works with every way of renewing, needs no hook, and survives
//! symbolic links, bind mounts and network file systems, where notification does not. A file that cannot be used changes nothing:
//! the old certificate is shown as before, and the log says so once. Tools replace certificate and key one after the other, so a
//! pair that does not match is given a moment before it is called a fault.

mod files;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::acceptor::Acceptor;
use super::chosen::Table;
use super::expiry::{Reminder, Reminders};
use crate::config::certificate::{self, Certificate, CertificateFault, Part};
use crate::config::settings::{CertificateFiles, FilePath, Listener, Tls};
use files::Files;

/// How often the files are looked at.
pub const POLL: Duration = Duration::from_millis(250);

/// How the metrics call the authorities of client certificates.
const AUTHORITIES: &str = "client_certificates";

/// All certificates of all listeners, and what they do TLS with.
#[derive(Debug)]
pub struct Watch {
    listeners: Vec<Option<Arc<Acceptor>>>,
    /// Taken by the poll and by whoever asks for a reload, never for a connection.
    watched: Mutex<Vec<Watched>>,
    states: Vec<Arc<State>>,
}

/// What the metrics tell of one certificate.
#[derive(Debug)]
pub struct State {
    /// The listener's name.
    pub listener: String,
    /// Its first name when the process started, or `certificate_N` by its place in the list, from 0; `client_certificates` for the
    /// authorities of those.
    pub certificate: String,
    /// When the one in use ends, in seconds since 1970; `None` for authorities.
    expires: Option<AtomicI64>,
    /// Whether what lies in the files now is in use.
    current: AtomicBool,
}

impl State {
    /// When the one in use ends, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        // a figure for display
        self.expires.as_ref().map(|expires| expires.load(Ordering::Relaxed))
    }

    /// Whether what lies in the files now is in use.
    pub fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed)
    }
}

/// A certificate that cannot be used at the start.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

#[derive(Debug)]
struct Watched {
    listener: String,
    acceptor: Arc<Acceptor>,
    pairs: Vec<Pair>,
    authorities: Option<Authorities>,
}

#[derive(Debug)]
struct Pair {
    named: CertificateFiles,
    files: Files,
    used: Certificate,
    reminders: Reminders,
    state: Arc<State>,
}

#[derive(Debug)]
struct Authorities {
    named: FilePath,
    files: Files,
    state: Arc<State>,
}

impl Watch {
    /// Reads the certificates of these listeners; `alpn` says which protocols a listener speaks, in the order of our preference.
    ///
    /// # Errors
    /// A file that cannot be used: loading the policy has found it good, so it was changed since.
    pub fn new(listeners: &[Listener], alpn: impl Fn(&Listener) -> Vec<Vec<u8>>) -> Result<Watch, Unusable> {
        let mut watch = Watch { listeners: Vec::new(), watched: Mutex::default(), states: Vec::new() };
        for listener in listeners {
            let acceptor = match &listener.tls {
                Some(tls) => Some(watch.add(&listener.name, tls, alpn(listener))?),
                None => None,
            };
            watch.listeners.push(acceptor);
        }
        Ok(watch)
    }

    fn add(&mut self, listener: &str, tls: &Tls, alpn: Vec<Vec<u8>>) -> Result<Arc<Acceptor>, Unusable> {
        let mut pairs = Vec::new();
        for (place, named) in tls.certificates.iter().enumerate() {
            let files = Files::new([&named.cert.path, &named.key.path]);
            let used = Certificate::read(&named.cert.path, &named.key.path)
                .map_err(|fault| Unusable(format!("listener {listener}: {}: {fault}", path_of(named, fault.part))))?;
            let first = named.names.first().or(used.names.first());
            let taken = |name: &&String| {
                !self.states.iter().any(|state| state.certificate == **name && state.listener == listener)
            };
            let state = Arc::new(State {
                listener: listener.to_owned(),
                certificate: first.filter(taken).cloned().unwrap_or_else(|| format!("certificate_{place}")),
                expires: Some(used.not_after.into()),
                current: true.into(),
            });
            self.states.push(Arc::clone(&state));
            pairs.push(Pair { named: named.clone(), files, used, reminders: Reminders::default(), state });
        }
        let table = table(&pairs).ok_or_else(|| Unusable(format!("listener {listener}: it has no certificate")))?;
        let (mut authorities, mut clients) = (None, None);
        if let Some(asked) = &tls.client_certificates {
            let files = Files::new([&asked.ca.path]);
            let store = certificate::authorities(&asked.ca.path)
                .map_err(|fault| Unusable(format!("listener {listener}: {}: {fault}", asked.ca.written)))?;
            let state = Arc::new(State {
                listener: listener.to_owned(),
                certificate: AUTHORITIES.to_owned(),
                expires: None,
                current: true.into(),
            });
            self.states.push(Arc::clone(&state));
            authorities = Some(Authorities { named: asked.ca.clone(), files, state });
            clients = Some((store, asked.mode));
        }
        let acceptor = Acceptor::new(table, alpn, clients);
        let acceptor = Arc::new(acceptor.map_err(|cause| Unusable(format!("listener {listener}: {cause}")))?);
        let watched = Watched { listener: listener.to_owned(), acceptor: Arc::clone(&acceptor), pairs, authorities };
        self.watched.get_mut().push(watched);
        Ok(acceptor)
    }

    /// What the listener at this position does TLS with, if it does.
    pub fn acceptor(&self, listener: usize) -> Option<Arc<Acceptor>> {
        self.listeners.get(listener).cloned().flatten()
    }

    /// Whether there is anything to watch.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// What the metrics tell, in the order of listeners and their lists.
    pub fn states(&self) -> &[Arc<State>] {
        &self.states
    }

    /// Looks for renewed files and takes them into use; reminds of those that end soon. `wall` is the time in seconds since 1970.
    /// Reads files, so not for a worker that serves requests.
    pub fn poll(&self, now: Instant, wall: i64) {
        for watched in self.watched.lock().iter_mut() {
            watched.look(false, now, wall);
        }
    }

    /// Reads all files again, whatever their metadata say, and tells at once what cannot be used. Says whether all could.
    pub fn reload(&self, now: Instant, wall: i64) -> bool {
        for watched in self.watched.lock().iter_mut() {
            watched.look(true, now, wall);
        }
        self.states.iter().all(|state| state.is_current())
    }
}

impl Watched {
    fn look(&mut self, all: bool, now: Instant, wall: i64) {
        let listener = &self.listener;
        let mut renewed = false;
        for pair in &mut self.pairs {
            renewed |= pair.look(listener, all, now, wall);
            pair.remind(listener, wall);
        }
        if renewed && let Some(table) = table(&self.pairs) {
            self.acceptor.swap_certificates(table);
            // after the swap: whoever reads the line may rely on it
            self.pairs.iter_mut().for_each(|pair| pair.tell_of_use(listener, wall));
        }
        if let Some(authorities) = &mut self.authorities {
            authorities.look(listener, &self.acceptor, all, now);
        }
    }
}

impl Pair {
    /// Whether another certificate is in use from now on.
    fn look(&mut self, listener: &str, all: bool, now: Instant, wall: i64) -> bool {
        let mut renewed = false;
        if self.files.are_due(all, now) {
            let read = Certificate::read(&self.named.cert.path, &self.named.key.path);
            match read.and_then(|new| in_its_time(new, &self.used, wall)) {
                Ok(new) => {
                    // the same once more: touched, or put back after a bad one
                    let same = new.certified.cert == self.used.certified.cert;
                    self.files.good(!same);
                    self.used = new;
                    renewed = true;
                    if same {
                        self.state.current.store(true, Ordering::Relaxed);
                    }
                }
                Err(fault) => {
                    self.files.bad(format!("{}: {fault}", path_of(&self.named, fault.part)), now);
                }
            }
        }
        if let Some(fault) = self.files.news(all, now) {
            self.state.current.store(false, Ordering::Relaxed);
            tracing::error!(
                listener,
                certificate = self.named.cert.written,
                "a renewed certificate cannot be used, the one before is still shown: {fault}"
            );
        }
        renewed
    }

    /// Says which certificate is in use now, if it is another than at the last time.
    fn tell_of_use(&mut self, listener: &str, wall: i64) {
        if !self.files.take_success() {
            return;
        }
        if let Some(expires) = &self.state.expires {
            expires.store(self.used.not_after, Ordering::Relaxed);
        }
        self.state.current.store(true, Ordering::Relaxed);
        let days = self.used.not_after.saturating_sub(wall).div_euclid(86_400);
        tracing::info!(
            listener,
            certificate = self.named.cert.written,
            names = self.used.names.join(" "),
            days_left = days,
            "a renewed certificate is in use"
        );
    }

    fn remind(&mut self, listener: &str, wall: i64) {
        let certificate = &self.named.cert.written;
        match self.reminders.due(self.used.not_after, wall) {
            Some(Reminder::Soon(days)) => {
                let when = in_days(days);
                tracing::warn!(
                    listener,
                    certificate,
                    "a certificate expires {when}: it should have been renewed by now"
                );
            }
            Some(Reminder::Urgent(days)) => {
                let when = in_days(days);
                tracing::error!(listener, certificate, "a certificate expires {when}: renew it now");
            }
            Some(Reminder::Expired(days)) => {
                tracing::error!(
                    listener,
                    certificate,
                    days_past = days,
                    "a certificate has expired: clients refuse it, renew it now"
                );
            }
            None => {}
        }
    }
}

fn in_days(days: i64) -> String {
    match days {
        0 => "within a day".to_owned(),
        1 => "in 1 day".to_owned(),
        _ => format!("in {days} days"),
    }
}

impl Authorities {
    fn look(&mut self, listener: &str, acceptor: &Acceptor, all: bool, now: Instant) {
        if self.files.are_due(all, now) {
            let read = certificate::authorities(&self.named.path).map_err(|fault| fault.to_string());
            match read.and_then(|store| acceptor.swap_authorities(store)) {
                Ok(()) => {
                    self.files.good(true);
                    if self.files.take_success() {
                        self.state.current.store(true, Ordering::Relaxed);
                        tracing::info!(
                            listener,
                            ca = self.named.written,
                            "renewed authorities of client certificates are in use"
                        );
                    }
                }
                Err(cause) => self.files.bad(cause, now),
            }
        }
        if let Some(cause) = self.files.news(all, now) {
            self.state.current.store(false, Ordering::Relaxed);
            let ca = &self.named.written;
            tracing::error!(
                listener,
                ca,
                "authorities of client certificates cannot be used, those before still are: {cause}"
            );
        }
    }
}

/// A certificate out of its time does not replace one that is in it.
fn in_its_time(new: Certificate, old: &Certificate, wall: i64) -> Result<Certificate, CertificateFault> {
    if new.is_valid_at(wall) || !old.is_valid_at(wall) {
        return Ok(new);
    }
    let cause = if wall < new.not_before { "it is not valid yet" } else { "it has expired" };
    Err(CertificateFault {
        part: Part::Certificate,
        cause: cause.to_owned(),
        help: "put the renewed certificate there; `openssl x509 -in FILE -noout -dates` shows its time".to_owned(),
    })
}

fn table(pairs: &[Pair]) -> Option<Table> {
    Table::new(pairs.iter().map(|pair| {
        let written = pair.named.names.as_slice();
        let names = if written.is_empty() { pair.used.names.as_slice() } else { written };
        (names, Arc::clone(&pair.used.certified))
    }))
}

fn path_of(files: &CertificateFiles, part: Part) -> &str {
    if part == Part::Key { &files.key.written } else { &files.cert.written }
}
