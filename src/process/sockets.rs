//! All listening sockets of the process: opened once, kept in systemd's descriptor store, handed over or given up at the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::control;
use super::given::{Given, Passed, Purpose, Tag};
use super::notify::Notifier;
use crate::config::settings::{ListenOn, Listener, Settings};
use crate::edge::bind::{self, BindError, Bound};
use crate::edge::socket_file::SocketFile;
use crate::process::start_error::StartError;

/// Who may use the admin socket: its owner, and root.
const ADMIN_PERMISSIONS: u32 = 0o600;

/// The sockets, each where it is needed.
#[derive(Debug)]
pub struct Opened {
    /// Of the listeners, in the settings' order.
    pub listeners: Vec<Bound>,
    /// Of the metrics page.
    pub metrics: Option<Bound>,
    /// Of the admin endpoints' web address.
    pub web: Option<Bound>,
    /// The admin socket.
    pub admin: Option<Bound>,
    /// All of them.
    pub sockets: Sockets,
}

/// A second hold on every listening socket.
#[derive(Debug)]
pub struct Sockets {
    kept: Vec<Kept>,
    /// Names in the descriptor store that nobody wants any more.
    unwanted: Vec<String>,
    /// Those that it was told so already.
    released: Vec<String>,
    notifier: Arc<Notifier>,
}

#[derive(Debug)]
struct Kept {
    tag: Tag,
    address: ListenOn,
    socket: OwnedFd,
    file: Option<SocketFile>,
    /// Its position among the sockets that the predecessor offered.
    offered: Option<usize>,
}

/// Opens everything that the settings name: takes what was given where it fits, binds the rest.
///
/// `offered` is the order in which a predecessor offered what is given; empty when there is none.
///
/// # Errors
/// A socket cannot be had, or systemd passed one that no listener takes. Sockets that were given stay as they were.
pub fn open(
    settings: &Settings,
    admin: Option<&Path>,
    mut given: Given,
    offered: &[Tag],
    notifier: Arc<Notifier>,
) -> Result<Opened, StartError> {
    let mut sockets = Sockets { kept: Vec::new(), unwanted: Vec::new(), released: Vec::new(), notifier };
    let page = |name: &str, address| Listener::new(name, ListenOn::Ip(address));
    let metrics = settings.metrics.as_ref().map(|settings| page("metrics", settings.address));
    let web = settings.admin.as_ref().map(|settings| page("admin", settings.address));
    let admin = admin
        .map(|path| Listener::new("admin", ListenOn::Unix { path: path.to_owned(), permissions: ADMIN_PERMISSIONS }));
    let single = [(Purpose::Metrics, metrics), (Purpose::Web, web), (Purpose::Admin, admin)];
    // all that was given is taken before anything is bound, so that what nobody takes can be closed first
    let mut take = |purpose, listener: &Listener| given.take(purpose, listener);
    let taken: Vec<_> = settings.listeners.iter().map(|listener| take(Purpose::Listener, listener)).collect();
    let single = single.map(|(purpose, listener)| {
        listener.map(|listener| {
            let taken = take(purpose, &listener);
            (purpose, listener, taken)
        })
    });
    sockets.give_up(given.rest(), offered.is_empty())?;
    let mut listeners = Vec::new();
    for (listener, passed) in settings.listeners.iter().zip(taken) {
        listeners.push(sockets.hold(Purpose::Listener, listener, passed, offered)?);
    }
    let mut hold = |wanted: Option<(Purpose, Listener, Option<Passed>)>| {
        let Some((purpose, listener, taken)) = wanted else { return Ok(None) };
        if let (None, Purpose::Admin, ListenOn::Unix { path, .. }) = (&taken, purpose, &listener.address) {
            control::prepare(path).map_err(|text| StartError::System("no admin socket", text))?;
        }
        sockets.hold(purpose, &listener, taken, offered).map(Some)
    };
    let [metrics, web, admin] = single;
    let (metrics, web, admin) = (hold(metrics)?, hold(web)?, hold(admin)?);
    Ok(Opened { listeners, metrics, web, admin, sockets })
}

impl Sockets {
    /// Deals with given sockets that nobody takes.
    fn give_up(&mut self, rest: Vec<Passed>, alone: bool) -> Result<(), StartError> {
        for passed in &rest {
            if passed.tag.stored {
                self.unwanted.push(passed.tag.in_store());
            } else if let (Some(unit), true) = (&passed.tag.unit, alone) {
                return Err(StartError::System(
                    "systemd passed a socket that no listener takes",
                    format!(
                        "{unit} ({}); give a listener the address `systemd:{unit}`, or take it out of the socket unit",
                        passed.address
                    ),
                ));
            }
        }
        drop(rest);
        if alone && !self.unwanted.is_empty() {
            // systemd still holds them, and what is bound next may want their addresses
            self.unwanted.iter().for_each(|name| self.notifier.release(name));
            self.released.append(&mut self.unwanted);
            self.notifier.barrier();
        }
        Ok(())
    }

    /// Takes what was given, or binds, and keeps a second hold.
    fn hold(
        &mut self,
        purpose: Purpose,
        listener: &Listener,
        passed: Option<Passed>,
        offered: &[Tag],
    ) -> Result<Bound, StartError> {
        let mut tag = Tag { purpose, name: listener.name.clone(), unit: None, stored: false };
        let mut position = None;
        let mut bound = match passed {
            Some(passed) => {
                position = offered.iter().position(|offer| *offer == passed.tag);
                tag.unit.clone_from(&passed.tag.unit);
                let before = passed.tag.in_store();
                // all of a name leave the store together
                let still = passed.tag.stored && !self.released.contains(&before);
                tag.stored = still && before == tag.in_store();
                if still && !tag.stored {
                    self.unwanted.push(before);
                }
                let address = match (&listener.address, passed.address) {
                    (asked @ ListenOn::Unix { .. }, _) => asked.clone(),
                    (_, found) => found,
                };
                let file = match &listener.address {
                    ListenOn::Unix { path, .. } => SocketFile::of_another(path),
                    ListenOn::Ip(_) | ListenOn::Systemd(_) => None,
                };
                Bound { name: listener.name.clone(), socket: passed.socket, address, file }
            }
            None => self.bind(listener)?,
        };
        let socket = bound.socket.as_fd().try_clone_to_owned().map_err(|cause| {
            StartError::Bind(BindError { listener: listener.name.clone(), address: listener.address.clone(), cause })
        })?;
        let (address, file) = (bound.address.clone(), bound.file.take());
        self.kept.push(Kept { tag, address, socket, file, offered: position });
        Ok(bound)
    }

    /// Binds a listener that was not given. The address of a socket that has just been given up may be held a moment longer: by
    /// whoever passed it on, or a process that is being started at this moment and has not closed its copy.
    fn bind(&self, listener: &Listener) -> Result<Bound, StartError> {
        const TRIES: u32 = 50;
        const PAUSE: Duration = Duration::from_millis(20);
        let mut tries = if self.released.is_empty() { 1 } else { TRIES };
        loop {
            tries -= 1;
            match bind::bind(listener) {
                Err(fault) if tries > 0 && fault.cause.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(PAUSE),
                done => return done.map_err(StartError::Bind),
            }
        }
    }

    /// This process is the one that counts from now on: takes over the files of UNIX sockets, and brings systemd's descriptor
    /// store up to date.
    pub fn settle(&mut self) {
        for name in self.unwanted.drain(..) {
            self.notifier.release(&name);
        }
        for Kept { tag, address, socket, file, .. } in &mut self.kept {
            if let (Some(file), ListenOn::Unix { permissions, path }) = (file, &*address)
                && let Err(error) = file.take_over(*permissions)
            {
                tracing::warn!(%error, path = %path.display(), "the permissions of the socket cannot be set");
            }
            // systemd holds those of its socket units anyway, and the admin socket is worth nothing after us
            let wanted = tag.unit.is_none() && tag.purpose != Purpose::Admin;
            if self.notifier.is_heard() && wanted && !tag.stored {
                self.notifier.store(&tag.in_store(), socket.as_fd());
                tag.stored = true;
            }
        }
    }

    /// The positions in the predecessor's offer of what was taken.
    pub fn taken(&self) -> Vec<usize> {
        self.kept.iter().filter_map(|kept| kept.offered).collect()
    }

    /// How all of them are called, for an offer.
    pub fn tags(&self) -> Vec<Tag> {
        self.kept.iter().map(|kept| kept.tag.clone()).collect()
    }

    /// All of them, in the same order.
    pub fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        self.kept.iter().map(|kept| kept.socket.as_fd()).collect()
    }

    /// A successor has taken those at these positions: their files stay. What it has not taken is closed.
    pub fn hand_over(mut self, taken: &[usize]) {
        for (at, kept) in self.kept.iter_mut().enumerate() {
            if let (true, Some(file)) = (taken.contains(&at), &mut kept.file) {
                file.leave();
            }
        }
    }

    /// The process ends. What systemd keeps stays where others find it, for the next start.
    pub fn close(mut self) {
        for kept in &mut self.kept {
            if let (true, Some(file)) = (kept.tag.stored, &mut kept.file) {
                file.leave();
            }
        }
    }
}
