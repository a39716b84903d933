//! A primary that its sentinels replace.

use std::time::Duration;

use tidegate::policy::StoreMode;

use super::{answered, connected, one, store};
use crate::harness::redis::Sentinels;
use crate::harness::wait_for;

#[tokio::test]
async fn the_replica_is_asked_once_it_is_the_primary() {
    let mut servers = Sentinels::start();
    let mode = StoreMode::Sentinel { primary: "shared".to_owned() };
    let ports = servers.sentinels.iter().map(|sentinel| sentinel.port).collect();
    let asking = connected(&store(mode, ports)).await;
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    wait_for("the replica to have it", || (servers.replica.cli(&["DBSIZE"]) == "2").then_some(()));
    servers.primary.kill();
    assert_eq!(answered(&asking, &one(1)).await.left, 98, "the replica knows what was spent");
    assert!(servers.replica.cli(&["ROLE"]).starts_with("master"));
}

#[tokio::test]
async fn a_primary_that_hangs_is_left_for_its_replica() {
    let servers = Sentinels::start();
    let mode = StoreMode::Sentinel { primary: "shared".to_owned() };
    let ports = servers.sentinels.iter().map(|sentinel| sentinel.port).collect();
    let mut store = store(mode, ports);
    store.timeout = Duration::from_millis(100);
    let asking = connected(&store).await;
    answered(&asking, &one(1)).await;
    servers.primary.pause();
    assert!(asking.ask(&one(1), "limit").await.is_err());
    answered(&asking, &one(1)).await;
    assert!(servers.replica.cli(&["ROLE"]).starts_with("master"));
    servers.primary.resume();
}
