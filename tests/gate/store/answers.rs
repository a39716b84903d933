//! What a store answers, and what it is let in with.

use std::time::Duration;

use tidegate::limiter::sharing::{Answer, Promise, StoreError};
use tidegate::store::Access;

use super::{Server, answered, connected, one, question, single, slow, tended, until};
use crate::harness::secure::Authority;

#[tokio::test]
async fn a_rate_is_charged_and_its_retry_time_told() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    let first = asking.ask(&question(1, slow(10), 8, 1), "login").await.unwrap();
    assert_eq!(first, Answer { granted: 8, left: 2, retry_nanos: Some(0), ends_nanos: u64::MAX });
    let refused = asking.ask(&question(1, slow(10), 8, 3), "login").await.unwrap();
    assert_eq!((refused.granted, refused.left), (0, 2));
    let wait = refused.retry_nanos.unwrap();
    assert!(wait > 0 && wait <= 3_600_000_000_000, "{wait}");
    assert_eq!(asking.ask(&question(2, slow(10), 10, 10), "login").await.unwrap().granted, 10, "another key");
    let never = asking.ask(&question(1, slow(10), 11, 11), "login").await.unwrap();
    assert_eq!(never.retry_nanos, None);
    let key = "tg:{AQEBAQEBAQEBAQEBAQEBAQ}:login:rate";
    let lives: u64 = server.cli(&["PTTL", key]).parse().unwrap();
    assert!(lives > 7 * 3_600_000 && lives <= 8 * 3_600_000, "until its debt has drained: {lives}");
    assert_eq!(asking.client.counters().answered.load(std::sync::atomic::Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_quota_is_charged_until_its_window_ends() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    const DAY: u64 = 86_400_000_000;
    let name = "tg:{AQEBAQEBAQEBAQEBAQEBAQ}:export:quota";
    let quota = Promise::Quota { max: 5, window: Duration::from_secs(86_400) };
    loop {
        let (first, before) = asking.ask_stamped(&question(1, quota, 3, 1), "export").await.unwrap();
        assert_eq!((first.granted, first.left), (3, 2));
        let (refused, now) = asking.ask_stamped(&question(1, quota, 3, 3), "export").await.unwrap();
        assert_eq!(server.cli(&["EXISTS", name]), "1");
        // the window, a day that begins at midnight UTC, ended between the two: once more, in the new one
        if before / DAY != now / DAY {
            assert_eq!(server.cli(&["DEL", name]), "1");
            continue;
        }
        let rest = (DAY - now % DAY) * 1_000;
        assert_eq!(refused, Answer { granted: 0, left: 2, retry_nanos: Some(rest), ends_nanos: rest });
        return;
    }
}

#[tokio::test]
async fn changed_numbers_keep_what_was_spent() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    asking.ask(&question(1, slow(10), 8, 8), "limit").await.unwrap();
    let other = super::rate(1, Duration::from_secs(7_000), 20);
    let answer = asking.ask(&question(1, other, 12, 12), "limit").await.unwrap();
    assert_eq!((answer.granted, answer.left), (12, 0));
}

#[tokio::test]
async fn a_store_that_forgets_its_scripts_is_given_them_again() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 98);
}

#[tokio::test]
async fn a_user_with_a_password_is_let_in_and_one_without_rights_is_a_fault() {
    let rights = "~tg:* +evalsha +eval +time +get +set +zadd +zremrangebyscore +zcard +pexpire +ping +select";
    let server = Server::start(&[]);
    let allow = |name: &str, rights: &str| {
        let mut words = vec!["ACL", "SETUSER", name, "on", ">secret"];
        words.extend(rights.split(' '));
        assert_eq!(server.cli(&words), "OK");
    };
    allow("gate", rights);
    allow("guest", "~other:* +evalsha +eval +time +get +set");
    let password = Access { password: Some(b"secret".to_vec()), ..Access::default() };
    let mut store = single(&server);

    store.username = Some("gate".to_owned());
    let gate = tended(&store, &password);
    assert_eq!(answered(&gate, &one(1)).await.left, 99);
    until("its stamp", || server.cli(&["ZCARD", "tg:{gates}"]) == "1").await;

    store.username = Some("guest".to_owned());
    let guest = tended(&store, &password);
    until("a connection", || guest.status().connected).await;
    assert_eq!(guest.ask(&one(1), "limit").await, Err(StoreError::Faulty));
    assert_eq!(guest.client.counters().silent(StoreError::Faulty), 1);

    let wrong = tended(&store, &Access { password: Some(b"guessed".to_vec()), ..Access::default() });
    until("the refusal", || wrong.status().last_fault.is_some()).await;
    assert_eq!(wrong.ask(&one(1), "limit").await, Err(StoreError::Faulty));
}

#[tokio::test]
async fn what_is_no_answer_is_a_fault() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    let key = "tg:{AQEBAQEBAQEBAQEBAQEBAQ}:limit:rate";
    for value in ["3 1 1 1", "2 1 1 1", "2 0 1 1 1 1 7", "2", "spent", ""] {
        server.cli(&["SET", key, value]);
        assert_eq!(asking.ask(&one(1), "limit").await, Err(StoreError::Faulty));
    }
    server.cli(&["DEL", key]);
    server.cli(&["RPUSH", key, "1"]);
    assert_eq!(asking.ask(&one(1), "limit").await, Err(StoreError::Faulty));
    assert!(asking.status().connected, "a fault is no outage");
    assert_eq!(asking.ask(&one(2), "limit").await.unwrap().granted, 1);
}

#[tokio::test]
async fn a_full_store_is_an_outage() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    asking.ask(&one(1), "limit").await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(asking.ask(&one(1), "limit").await, Err(StoreError::Unreachable));
    let fault = asking.status().last_fault.unwrap();
    assert!(fault.contains("full"), "{fault}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(answered(&asking, &one(1)).await.left, 98);
}

#[tokio::test]
async fn an_encrypted_store_is_believed_only_by_its_authority() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("store", &["127.0.0.1"], 2100);
    let (ca, certificate, key) =
        (authority.ca().display().to_string(), certificate.display().to_string(), key.display().to_string());
    let server = Server::start_closed(
        &[
            "--port",
            "0",
            "--tls-port",
            "PORT",
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            "no",
        ],
        &["--tls", "--cacert", &ca],
    );
    let mut store = single(&server);
    store.tls = true;
    let ours = tended(&store, &Access { authorities: Some(std::fs::read(&ca).unwrap()), ..Access::default() });
    assert_eq!(answered(&ours, &one(1)).await.left, 99);

    let other = Authority::new();
    let theirs = Access { authorities: Some(std::fs::read(other.ca()).unwrap()), ..Access::default() };
    let strangers = tended(&store, &theirs);
    until("the refusal", || strangers.status().last_fault.is_some()).await;
    assert_eq!(strangers.ask(&one(1), "limit").await, Err(StoreError::Unreachable));
}
