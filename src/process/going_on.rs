//! What a start finds in the directory of snapshots, and what it says of it.

use std::io;

use super::snapshots::Files;
use crate::config::settings::StateFiles;
use crate::engine::{Fate, Restored, Succession};
use crate::policy::Policy;
use crate::running::process::Process;
use crate::system::clock::Clock;

/// Puts the bans of the directory in force. Those that cannot be used are told.
pub fn restore_bans(files: &Files, process: &Process) {
    let restored = files.read_bans().map_err(|fault| fault.to_string()).and_then(|saved| {
        let Some(saved) = saved else { return Ok(None) };
        process.restore_bans(saved).map(Some).map_err(|fault| format!("has {fault}"))
    });
    match restored {
        Ok(Some(bans)) if bans > 0 => tracing::info!(bans, "state: bans go on from what was saved"),
        Ok(_) => {}
        Err(fault) => {
            let directory = files.directory().display();
            let kept = kept(files.set_bans_aside());
            tracing::error!(%directory, "state: the file of bans {fault}; nobody is banned{kept}");
        }
    }
}

/// Opens the directory of snapshots. A process without one serves all the same.
pub fn open_state(settings: &StateFiles) -> Option<Files> {
    let opened = Files::open(settings);
    if let Err(fault) = &opened {
        let directory = settings.directory.display();
        tracing::error!(%directory, "state: the directory cannot be used, a restart will give fresh budgets: {fault}");
    }
    opened.ok()
}

/// Reads the snapshot, if there is one that can be used.
pub fn restored(files: &Files, policy: &Policy) -> Option<(Restored, Clock)> {
    let found = files.read(policy);
    if let Err(fault) = &found {
        let directory = files.directory().display();
        let kept = kept(files.set_snapshot_aside());
        tracing::error!(%directory, "state: the snapshot {fault}; all limits begin empty{kept}");
    }
    found.ok().flatten()
}

/// Where a file is that was set aside.
fn kept(aside: io::Result<String>) -> String {
    aside.map_or_else(|_| String::new(), |name| format!("; it is kept as {name}"))
}

/// Says what became of the limits.
pub fn tell_restored(succession: &Succession) {
    let limits = &succession.limits;
    let count = |wanted: fn(&Fate) -> bool| limits.iter().filter(|carried| wanted(&carried.fate)).count();
    tracing::info!(
        kept = count(|fate| matches!(fate, Fate::Kept { .. })),
        rerated = count(|fate| matches!(fate, Fate::Rerated { .. })),
        reset = count(|fate| matches!(fate, Fate::Reset(_))),
        added = count(|fate| matches!(fate, Fate::New)),
        removed = succession.removed.len(),
        "state: limits go on from what was saved"
    );
    for carried in limits {
        if let Fate::Reset(reset) = &carried.fate {
            tracing::warn!(limit = carried.name, because = reset.word(), "state: the limit begins empty");
        }
    }
}
