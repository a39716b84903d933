//! Certificates while the process runs: their renewal from time to time, and what a reload finds of them.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::housekeeping::Housekeeping;
use super::reload::report::{Renewed, Tls};
use crate::edge::tls::watch::{POLL, Watch};
use crate::system::clock::wall_nanos;

/// Looks for renewed certificates from now on, on a thread of its own: reading files may take its time.
///
/// # Errors
/// The system gives no thread.
pub fn keep_renewing(watch: &Arc<Watch>) -> io::Result<Option<Housekeeping>> {
    if watch.is_empty() {
        return Ok(None);
    }
    let watch = Arc::clone(watch);
    // once at the start, for those that end soon
    watch.poll(Instant::now(), wall_seconds());
    Housekeeping::every(POLL, move || watch.poll(Instant::now(), wall_seconds())).map(Some)
}

/// The certificates that can be used, for a dry run of a reload.
pub fn usable(watch: &Watch) -> Tls {
    let certificates = watch.states().iter().filter(|state| state.expires().is_some()).count();
    Tls { certificates, ..Tls::default() }
}

/// Takes renewed certificates into use, off the workers that serve requests.
pub async fn renew(watch: Arc<Watch>) -> Tls {
    let renew = move || {
        let expiry = || watch.states().iter().map(|state| state.expires()).collect::<Vec<_>>();
        let before = expiry();
        if !watch.is_empty() {
            watch.reload(Instant::now(), wall_seconds());
        }
        let states = || watch.states().iter();
        let renewed = states().zip(before).filter_map(|(state, before)| {
            let expires = state.expires().filter(|expires| Some(*expires) != before)?;
            Some(Renewed { certificate: state.certificate.clone(), expires })
        });
        let renewed = renewed.collect();
        let unusable = states().filter(|state| !state.is_current()).map(|state| state.certificate.clone()).collect();
        Tls { renewed, unusable, ..usable(&watch) }
    };
    tokio::task::spawn_blocking(renew).await.unwrap_or_default()
}

fn wall_seconds() -> i64 {
    i64::try_from(wall_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}
