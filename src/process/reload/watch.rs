//! Looks whether the files have changed, for those who switched `watch` on.
//!
//! By their content, every few seconds: that works with editors that write a new file in the place of the old one, with network
//! file systems, and with the links that Kubernetes turns for a ConfigMap, where notification does not. A file that is refused is refused
//! once; the next look at the same content says nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Reloader;

/// How often it is asked whether somebody has switched it on.
const IDLE: Duration = Duration::from_secs(1);

/// Looks at the files for as long as the process takes requests.
pub async fn keep_watching(reloader: Arc<Reloader>) {
    let mut stopping = reloader.process.waits.stopping().clone();
    loop {
        let every = reloader.process.generation().source().settings.watch;
        tokio::select! {
            () = tokio::time::sleep(every.unwrap_or(IDLE)) => {}
            changed = stopping.changed() => if changed.is_err() || *stopping.borrow() { return },
        }
        if every.is_some() {
            reloader.reload_changed().await;
        }
    }
}
