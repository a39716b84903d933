//! A store that does not let the gate in: a mistake of somebody's, and told apart from a store that is not there.

use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::limiter::sharing::{Question, StoreError};
use tidegate::policy::{Store, StoreMode};
use tidegate::store::Access;

use super::{Asking, PATIENCE, Server, answered, one, single, store, tended, until};
use crate::harness::redis::{Cluster, Sentinels};
use crate::harness::wait_for;

const PASSWORD: &str = "the right password";

fn access(password: Option<&str>) -> Access {
    Access { password: password.map(|password| password.as_bytes().to_vec()), authorities: None }
}

/// Who is not let in: without a password, with a wrong one, and by a user that there is not.
fn strangers(store: &Store) -> [Asking; 3] {
    let nobody = Store { username: Some("nobody".to_owned()), ..store.clone() };
    [
        tended(store, &access(None)),
        tended(store, &access(Some("a wrong password"))),
        tended(&nobody, &access(Some(PASSWORD))),
    ]
}

/// Asks until this is what is said, and checks that nothing else is said while the client tries to connect again and again.
async fn says(asking: &Asking, question: &Question, store_error: StoreError) {
    let start = std::time::Instant::now();
    while asking.ask(question, "limit").await != Err(store_error) {
        assert!(start.elapsed() < PATIENCE, "never {store_error:?}: {:?}", asking.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 0..150 {
        let said = asking.ask(question, "limit").await;
        assert_eq!(said, Err(store_error), "question {number}: {:?}", asking.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so_at_once_and_a_store_that_is_down_is_an_outage() {
    let mut server = Server::start(&[]);
    server.lock(PASSWORD);
    let strangers = strangers(&single(&server));
    for asking in &strangers {
        says(asking, &one(1), StoreError::Faulty).await;
        assert!(!asking.status().connected);
    }
    server.kill();
    for asking in &strangers {
        says(asking, &one(1), StoreError::Unreachable).await;
    }
    server.restart();
    for asking in &strangers {
        says(asking, &one(1), StoreError::Faulty).await;
    }
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", ""]), "OK");
    assert_eq!(answered(&strangers[0], &one(1)).await.left, 99, "as soon as it lets everybody in");
}

#[tokio::test]
async fn a_user_who_is_put_out_is_a_mistake_until_he_is_let_in_again() {
    let server = Server::start(&[]);
    assert_eq!(server.cli(&["ACL", "SETUSER", "gate", "on", ">word", "~*", "+@all"]), "OK");
    let store = Store { username: Some("gate".to_owned()), ..single(&server) };
    let asking = tended(&store, &access(Some("word")));
    answered(&asking, &one(1)).await;
    put_out(&server);
    says(&asking, &one(1), StoreError::Faulty).await;
    assert_eq!(server.cli(&["ACL", "SETUSER", "gate", "on"]), "OK");
    answered(&asking, &one(1)).await;
}

fn put_out(server: &Server) {
    assert_eq!(server.cli(&["ACL", "SETUSER", "gate", "off"]), "OK");
    server.cli(&["CLIENT", "KILL", "USER", "gate"]);
}

#[tokio::test]
async fn a_store_that_takes_no_more_clients_is_an_outage() {
    let mut server = Server::start(&[]);
    server.lock(PASSWORD);
    assert_eq!(server.cli(&["CONFIG", "SET", "maxclients", "1"]), "OK");
    let only = wait_for("the one place", || {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).ok()?;
        // who is one too many is told so and sent away
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        std::io::Read::read(&mut &stream, &mut [0; 64]).is_err().then_some(stream)
    });
    let asking = tended(&single(&server), &access(Some(PASSWORD)));
    until("the first refusal", || asking.status().last_fault.is_some()).await;
    says(&asking, &one(1), StoreError::Unreachable).await;
    drop(only);
    answered(&asking, &one(1)).await;
}

#[tokio::test]
async fn a_primary_behind_sentinels_that_lets_nobody_in_is_a_mistake() {
    let mut servers = Sentinels::start();
    servers.primary.lock(PASSWORD);
    let mode = StoreMode::Sentinel { primary: "shared".to_owned() };
    let store = store(mode, servers.sentinels.iter().map(|sentinel| sentinel.port).collect());
    for asking in &strangers(&store) {
        says(asking, &one(1), StoreError::Faulty).await;
    }
    answered(&tended(&store, &access(Some(PASSWORD))), &one(1)).await;
}

#[tokio::test]
async fn a_cluster_that_lets_nobody_in_is_a_mistake_though_one_of_its_servers_is_down() {
    let mut cluster = Cluster::start();
    cluster.servers.iter_mut().for_each(|server| server.lock(PASSWORD));
    let mut gone = Server::start(&[]);
    gone.kill();
    let store = store(StoreMode::Cluster, vec![gone.port, cluster.servers[0].port, gone.port]);
    for asking in &strangers(&store) {
        says(asking, &one(1), StoreError::Faulty).await;
    }
    answered(&tended(&store, &access(Some(PASSWORD))), &one(1)).await;
    cluster.servers.iter_mut().for_each(Server::kill);
    for asking in &strangers(&store) {
        says(asking, &one(1), StoreError::Unreachable).await;
    }
}

#[tokio::test]
async fn of_a_cluster_a_server_that_puts_the_user_out_makes_its_own_keys_a_mistake() {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        assert_eq!(server.cli(&["ACL", "SETUSER", "gate", "on", ">word", "~*", "+@all"]), "OK");
    }
    let owner = |key: u8| {
        let name = URL_SAFE_NO_PAD.encode([key; 16]);
        cluster.owner(&cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", &format!("tg:{{{name}}}")]))
    };
    let first = owner(1);
    let elsewhere = (2..40).find(|key| owner(*key) != first).unwrap();
    let mut store = store(StoreMode::Cluster, cluster.servers.iter().map(|server| server.port).collect());
    store.username = Some("gate".to_owned());
    let asking = tended(&store, &access(Some("word")));
    answered(&asking, &one(1)).await;
    put_out(&cluster.servers[first]);
    says(&asking, &one(1), StoreError::Faulty).await;
    answered(&asking, &one(elsewhere)).await;
    cluster.servers.iter().for_each(put_out);
    says(&asking, &one(elsewhere), StoreError::Faulty).await;
    for server in &cluster.servers {
        assert_eq!(server.cli(&["ACL", "SETUSER", "gate", "on"]), "OK");
    }
    answered(&asking, &one(1)).await;
    answered(&asking, &one(elsewhere)).await;
}
