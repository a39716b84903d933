//! The places at origins while one process takes another's place: together they never have more than there are.
//!
//! The old process tells how many it keeps, less with every request that ends; the new one has the others. Until the first word the new process
//! has none and its requests wait, which is as long as the old one needs to hear that it serves. When the conversation ends all are the new one's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::origins::door::Count;
use crate::origins::origin::OriginState;

/// By the origin's name.
type Kept = BTreeMap<String, Count>;

/// From one look to the next.
const STEP: Duration = Duration::from_millis(10);

/// So long clients may still send requests on connections of the old process, for which it keeps some places.
const LAST_REQUESTS: Duration = Duration::from_millis(1_500);

/// The old process's part: gives its places away as they come free.
pub async fn give(mut stream: UnixStream, origins: Vec<Arc<OriginState>>) {
    let (began, mut told) = (Instant::now(), Vec::new());
    loop {
        let spare = began.elapsed() < LAST_REQUESTS;
        let capped = origins.iter().filter(|origin| origin.limit().is_some());
        let kept: Kept = capped.map(|origin| (origin.spec().name.clone(), origin.door().keep_used(spare))).collect();
        let Ok(mut line) = serde_json::to_vec(&kept) else { return };
        line.push(b'\n');
        if line != told {
            if stream.write_all(&line).await.is_err() {
                return;
            }
            told = line;
        }
        sleep(STEP).await;
    }
}

/// All places are the old process's, until it tells.
pub fn have_none(origins: &[Arc<OriginState>]) {
    origins.iter().for_each(|origin| origin.door().set_elsewhere(Count::ALL));
}

/// The new process's part: has what the old one does not keep. `origins`: those in force.
pub async fn take(stream: Option<UnixStream>, origins: impl Fn() -> Vec<Arc<OriginState>>) {
    let divide = |kept: &Kept| {
        for origin in origins() {
            origin.door().set_elsewhere(kept.get(&origin.spec().name).copied().unwrap_or_default());
        }
    };
    if let Some(stream) = stream {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(kept) = serde_json::from_str(&line) else { break };
            divide(&kept);
        }
    }
    divide(&Kept::new());
}
