//! Keeps what is known of a cluster's servers: which has which slots, and a tended [`Shard`] for each.
//!
//! The servers are asked again every [`AT_EASE`], sooner while one is not reached, and at once when one says that a key is
//! elsewhere. What most of them say counts: one that was cut off may still name itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::dialer::slots_of;
use super::fault::meaning;
use super::gate_count::PATIENCE;
use super::servers::{Servers, Shards};
use super::shard::Shard;
use super::slots::{Slots, most_said};
use super::store_log::Met;
use super::wire::Address;
use crate::system::clock;

/// How long servers that are all reached are not asked again, unless one says that a key is elsewhere.
const AT_EASE: Duration = Duration::from_secs(10);

/// How long, while one is not reached.
const IN_TROUBLE: Duration = Duration::from_millis(300);

/// How long in any case.
const LEAST: Duration = Duration::from_millis(100);

/// How many servers are asked.
const ASKED: usize = 3;

/// Finds the servers of a cluster and tends them; never returns. Servers are tended until this is dropped.
pub async fn tend(servers: &Arc<Servers>) {
    let mut tended = Tended::default();
    loop {
        match find(servers).await {
            Ok(slots) => tended.follow(servers, slots),
            Err(error) => {
                let meaning = meaning(&error);
                let shards = servers.shards();
                // whoever is known is asked all the same, and says why it cannot be
                if shards.list.is_empty() {
                    servers.set_shards(Shards {
                        slots: Some(Slots::default()),
                        list: Vec::new(),
                        instead: meaning.store_error,
                    });
                    servers.common.note(meaning, Met::Tending, None, &format_args!("cannot connect: {error}"));
                }
            }
        }
        sleep(LEAST).await;
        let period = if servers.shards().list.iter().all(|shard| shard.is_up()) { AT_EASE } else { IN_TROUBLE };
        let _ = timeout(period, servers.common.is_to_look()).await;
    }
}

/// What most servers say of who has which slots: some of those that are reached, or those that the policy names.
async fn find(servers: &Servers) -> RedisResult<Slots> {
    let shards = servers.shards();
    let mut up: Vec<_> = shards.list.iter().filter_map(|shard| Some((shard.address()?, shard.live().ok()?))).collect();
    let first = usize::try_from(clock::roll()).unwrap_or(0) % up.len().max(1);
    up.rotate_left(first);
    let mut asked = JoinSet::new();
    for (address, mut live) in up.into_iter().take(ASKED) {
        let address = address.clone();
        asked.spawn(timeout(PATIENCE, async move { slots_of(&mut live.wire, &address).await }));
    }
    let (mut said, mut fault): (Vec<Slots>, Option<RedisError>) = (Vec::new(), None);
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(Ok(slots))) => said.push(slots),
            Ok(Ok(Err(error))) => fault = Some(error),
            Ok(Err(_)) | Err(_) => {}
        }
    }
    match (most_said(said), fault) {
        (Some(slots), _) => Ok(slots),
        (None, fault) => servers.common.dialer.slots().await.map_err(|error| fault.unwrap_or(error)),
    }
}

/// The tasks of the servers that are known.
#[derive(Default)]
struct Tended {
    tasks: JoinSet<()>,
    handles: HashMap<Address, AbortHandle>,
}

impl Tended {
    /// Goes on with the servers that are known, begins with those that are not, and ends with those that have no slots any more.
    fn follow(&mut self, servers: &Arc<Servers>, slots: Slots) {
        let before = servers.shards();
        if before.slots.as_ref() == Some(&slots) {
            return;
        }
        let shard = |address: &Address| {
            before
                .at(address)
                .unwrap_or_else(|| Arc::new(Shard::new(servers.common.store.breaker, Some(address.clone()))))
        };
        let list: Vec<Arc<Shard>> = slots.servers.iter().map(shard).collect();
        self.handles.retain(|address, handle| {
            let stays = slots.servers.binary_search(address).is_ok();
            if !stays {
                handle.abort();
            }
            stays
        });
        for (address, shard) in slots.servers.iter().zip(&list) {
            if !self.handles.contains_key(address) {
                let (shard, servers) = (Arc::clone(shard), Arc::clone(servers));
                let handle = self.tasks.spawn(async move { shard.tend(&servers).await });
                self.handles.insert(address.clone(), handle);
            }
        }
        servers.set_shards(Shards { slots: Some(slots), list, instead: before.instead });
        // what has ended
        while self.tasks.try_join_next().is_some() {}
    }
}
