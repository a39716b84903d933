//! `recent_average` through real sockets: who goes on stays out, who backs off comes back when he was told.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Connection, Gate};

fn ask(connection: &mut Connection, address: &str) -> Answer {
    connection.ask("GET", "/", &format!("X-Forwarded-For: {address}\r\n"), b"")
}

fn gate() -> Gate {
    // a burst of 4·1/ln 2 = 5.77 requests
    Gate::start(
        "trusted_proxies: [127.0.0.0/8]
limits:
  average: { type: recent_average, rate: 4/s, half_life: 1s, count: all }
responses:
  retry_after: { jitter: 0% }
routes:
  - { respond: { status: 200, body: ok }, limits: [average] }
",
    )
}

#[test]
fn the_stubborn_stay_out_and_who_backs_off_is_admitted_at_the_second_he_was_told() {
    let gate = gate();
    let (mut stubborn, mut patient) = (gate.connect(), gate.connect());
    // within 60 ms too little is forgotten for a sixth: once more as another client where it took longer
    let burst = |connection: &mut Connection, network: u8| {
        let client = (1..=250).map(|host| format!("203.0.{network}.{host}")).find(|client| {
            let begun = Instant::now();
            let answers: Vec<u16> = (0..6).map(|_| ask(connection, client).status).collect();
            let at_once = begun.elapsed() < Duration::from_millis(60);
            assert!(!at_once || answers == [200, 200, 200, 200, 200, 429], "the burst is 5.77 requests: {answers:?}");
            at_once
        });
        client.expect("a burst that was fast enough")
    };
    let (stubborn_client, patient_client) = (burst(&mut stubborn, 113), burst(&mut patient, 114));
    // far enough above the rate that a moment without a request does not let it in
    for _ in 0..40 {
        ask(&mut stubborn, &stubborn_client);
    }

    // twenty times the rate, for as long as the patient one waits and longer
    let started = Instant::now();
    let mut told = None;
    let mut attempts = 0;
    while started.elapsed() < Duration::from_secs(6) {
        let answer = ask(&mut stubborn, &stubborn_client);
        assert_eq!(answer.status, 429, "attempt {attempts} after {:?}", started.elapsed());
        attempts += 1;
        sleep(Duration::from_millis(12));
        if told.is_none() {
            // on a machine that has too much to do it may have been long since its burst: then one passes before it is refused
            let answer = ask(&mut patient, &patient_client);
            if answer.status == 429 {
                let wait: u64 = answer.field("retry-after").expect("a refusal tells when").parse().unwrap();
                told = Some((Instant::now() + Duration::from_secs(wait), wait));
            }
        }
        if let Some((when, wait)) = told
            && Instant::now() >= when
        {
            assert_eq!(ask(&mut patient, &patient_client).status, 200, "told to come back after {wait} s");
            told = Some((when + Duration::from_secs(3_600), wait));
        }
    }
    assert!(attempts > 50, "{attempts}");
    assert!(told.is_some_and(|(when, _)| when > started + Duration::from_secs(3_000)), "the patient one came back");

    // and the stubborn one too, once it stops: never later than the cap of six half-lives and the time to be told
    let last = ask(&mut stubborn, &stubborn_client);
    assert_eq!(last.status, 429);
    let wait: u64 = last.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=7).contains(&wait), "the lock-out is capped: {wait} s");
    sleep(Duration::from_secs(wait));
    assert_eq!(ask(&mut stubborn, &stubborn_client).status, 200);
}
