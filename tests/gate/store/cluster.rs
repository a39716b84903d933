//! Keys that are shared out among servers, and move.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::limiter::sharing::StoreError;
use tidegate::policy::StoreMode;

use super::{Asking, Server, answered, connected, one, store};
use crate::harness::redis::Cluster;
use crate::harness::wait_for;

/// The key of `one(1)`.
const KEY: &str = "tg:{AQEBAQEBAQEBAQEBAQEBAQ}:limit:rate";

async fn asking(cluster: &Cluster) -> Asking {
    // one server named is enough to find the others
    connected(&store(StoreMode::Cluster, vec![cluster.servers[0].port])).await
}

#[tokio::test]
async fn the_keys_of_one_limit_are_on_all_servers() {
    let cluster = Cluster::start();
    let asking = asking(&cluster).await;
    for key in 0..30 {
        assert_eq!(asking.ask(&one(key), "limit").await.unwrap().left, 99);
        assert_eq!(asking.ask(&one(key), "limit").await.unwrap().left, 98);
    }
    for server in &cluster.servers {
        assert_ne!(server.cli(&["DBSIZE"]), "0");
    }
}

#[tokio::test]
async fn a_key_that_has_moved_is_answered_by_its_new_home_and_charged_once() {
    let cluster = Cluster::start();
    let asking = asking(&cluster).await;
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    let slot = cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", KEY]);
    let from = cluster.owner(&slot);
    let to = (from + 1) % 3;
    let (source, target) = (&cluster.servers[from], &cluster.servers[to]);
    let (source_id, target_id) = (source.cli(&["CLUSTER", "MYID"]), target.cli(&["CLUSTER", "MYID"]));
    assert_eq!(target.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]), "OK");
    assert_eq!(source.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]), "OK");
    let moved = source.cli(&["MIGRATE", "127.0.0.1", &target.port.to_string(), KEY, "0", "5000"]);
    assert_eq!(moved, "OK");
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 98, "asked of the server that takes it over");
    assert_eq!(target.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]), "OK");
    assert_eq!(source.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]), "OK");
    wait_for("the slot to have moved", || (cluster.owner(&slot) == to).then_some(()));
    // the third server may still name the old home, and be the one that the client reads the slots from
    assert_eq!(answered(&asking, &one(1)).await.left, 97);
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 96);
}

#[tokio::test]
async fn a_question_without_an_answer_is_not_sent_again() {
    let cluster = Cluster::start();
    let patient = asking(&cluster).await;
    assert_eq!(patient.ask(&one(1), "limit").await.unwrap().left, 99);
    let slot = cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", KEY]);
    let owner = &cluster.servers[cluster.owner(&slot)];
    let mut store = store(StoreMode::Cluster, vec![cluster.servers[0].port]);
    store.timeout = Duration::from_millis(50);
    let hasty = connected(&store).await;
    owner.pause();
    let mut sent = 0;
    for _ in 0..3 {
        let store_error = hasty.ask(&one(1), "limit").await.unwrap_err();
        sent += u32::from(store_error == StoreError::TimedOut);
    }
    owner.resume();
    assert!(sent > 0);
    let left = answered(&patient, &one(1)).await.left;
    assert!(left + 2 + sent >= 100, "each was charged once at most: {left} left after {sent}");
}

#[tokio::test]
async fn a_server_that_is_gone_takes_only_its_own_keys_along() {
    let mut cluster = Cluster::start();
    for server in &cluster.servers {
        assert_eq!(server.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]), "OK");
    }
    let asking = asking(&cluster).await;
    let slot = cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", KEY]);
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    let owner = cluster.owner(&slot);
    let elsewhere = (2..40).find(|key| {
        let name = URL_SAFE_NO_PAD.encode([*key; 16]);
        let slot = cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", &format!("tg:{{{name}}}")]);
        cluster.owner(&slot) != owner
    });
    let elsewhere = elsewhere.unwrap();
    cluster.servers[owner].kill();
    answered(&asking, &one(elsewhere)).await;
    assert!(asking.ask(&one(1), "limit").await.is_err());
}

#[tokio::test]
async fn a_cluster_that_was_all_gone_is_found_again() {
    let mut cluster = Cluster::start();
    let asking = asking(&cluster).await;
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    cluster.servers.iter_mut().for_each(Server::kill);
    for _ in 0..20 {
        let store_error = asking.ask(&one(1), "limit").await.unwrap_err();
        assert!(matches!(store_error, StoreError::Unreachable | StoreError::Breaker), "{store_error:?}");
    }
    cluster.servers.iter_mut().for_each(Server::restart);
    assert_eq!(answered(&asking, &one(1)).await.left, 99, "what they kept in memory is gone");
}
