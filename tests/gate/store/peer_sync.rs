//! Messages that gates leave for each other.

use std::time::Instant;

use tidegate::limiter::sharing::StoreError;
use tidegate::policy::{Store, StoreMode};
use tidegate::store::Access;

use super::{Asking, connected, single, store, tended, until};
use crate::harness::PATIENCE;
use crate::harness::redis::{Cluster, Server};

/// What a gate hears that says this, having read so far; and how far it has read then.
async fn says(asking: &Asking, node: &[u8], bytes: &[u8], read: &mut (i64, i64)) -> Vec<Vec<u8>> {
    let start = Instant::now();
    loop {
        match asking.publish(*read, node, bytes, 128).await {
            Ok(heard) => {
                *read = heard.read;
                assert!(heard.messages.iter().all(|(came, _)| *came <= heard.now), "none is from the future");
                return heard.messages.into_iter().map(|(_, bytes)| bytes).collect();
            }
            Err(store_error) => assert!(start.elapsed() < PATIENCE, "still {store_error:?}: {:?}", asking.status()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn each_hears_the_other_once(store: &Store) {
    let (here, there) = (connected(store).await, connected(store).await);
    let (mut read, mut read_there) = ((0, 0), (0, 0));
    assert_eq!(says(&here, b"one", &[0, 255, 13, 10], &mut read).await, [[0; 0]; 0], "nobody hears himself");
    assert_eq!(says(&there, b"two", b"yes", &mut read_there).await, [[0, 255, 13, 10]]);
    assert_eq!(says(&here, b"one", b"then", &mut read).await, [b"yes"]);
    assert_eq!(says(&here, b"one", b"so", &mut read).await, [[0; 0]; 0], "none is read twice");
    assert_eq!(says(&there, b"two", b"", &mut read_there).await, [&b"then"[..], b"so"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_gate_hears_what_the_others_say_once_by_a_single_store() {
    each_hears_the_other_once(&single(&Server::start(&[]))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_gate_hears_what_the_others_say_once_by_a_cluster() {
    let cluster = Cluster::start();
    each_hears_the_other_once(&store(StoreMode::Cluster, vec![cluster.servers[0].port])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_do_not_stay_and_a_store_that_counts_anew_is_read_from_its_beginning() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    says(&asking, b"one", b"old", &mut (0, 0)).await;
    // a gate that has read what is yet to come: the store's clock is behind the one before it
    assert_eq!(says(&asking, b"two", b"", &mut (i64::MAX / 2, 3)).await, [b"old"]);
    let start = Instant::now();
    while !says(&asking, b"two", b"", &mut (0, 0)).await.is_empty() {
        assert!(start.elapsed() < PATIENCE, "it stays");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_ne!(server.cli(&["PTTL", "tg:{deltas}"]), "-1", "the last message goes, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_messages_than_are_read_at_once_are_read_in_turn() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    for number in 0..150_u8 {
        // stamped by hand, in 2096, so that none is too old however slow this machine is
        let id = format!("4000000000000-{}", number + 1);
        server.cli(&["XADD", "tg:{deltas}", &id, "n", "one", "m", &number.to_string()]);
    }
    let first = asking.publish((0, 0), b"two", b"", 128).await.unwrap();
    assert!(first.more && first.messages.len() == 128, "{}", first.messages.len());
    let second = asking.publish(first.read, b"two", b"", 128).await.unwrap();
    assert!(!second.more && second.messages.len() == 22, "{}", second.messages.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_the_way_of_messages_is_a_fault_and_what_the_documents_allow_is_enough() {
    let server = Server::start(&[]);
    let rights = "~tg:* +evalsha +eval +time +get +set +zadd +zremrangebyscore +zcard +pexpire";
    for (name, more) in [("gate", "+xadd +xrange"), ("guest", "")] {
        let mut words = vec!["ACL", "SETUSER", name, "on", ">secret", "resetchannels", "-@all"];
        words.extend(rights.split(' ').chain(more.split_whitespace()));
        assert_eq!(server.cli(&words), "OK");
    }
    for (name, expected) in [("gate", Ok(0)), ("guest", Err(StoreError::Faulty))] {
        let access = Access { password: Some(b"secret".to_vec()), ..Access::default() };
        let asking = tended(&Store { username: Some(name.to_owned()), ..single(&server) }, &access);
        until("a connection", || asking.status().connected).await;
        let heard = asking.publish((i64::MAX / 2, 0), name.as_bytes(), b"", 128).await;
        assert_eq!(heard.map(|heard| heard.messages.len()), expected, "{name}");
    }
}
