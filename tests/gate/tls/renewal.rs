//! Renewed files take the place of the old ones while requests go on.

use super::{Site, policy};
use crate::harness::load::{Ground, HOST};
use crate::harness::tls::{Authority, Files};
use crate::harness::{Gate, Origin, Reply, wait_for};

const SWAPS: usize = 100;

#[test]
fn a_hundred_renewals_under_constant_load_fail_no_request() {
    let ground = Ground::new();
    let gate = Gate::start(&ground.policy(0, "127.0.0.1:0", "127.0.0.1:0"));
    let (load, client) = (ground.load(&gate), ground.client());
    for _ in 0..SWAPS {
        let renewed = ground.renew();
        wait_for("the renewed certificate to be shown", || {
            let connection = client.connect(gate.address("secure"), HOST);
            (connection.tls().peer_certificates()?[0] == renewed.der()).then_some(())
        });
        load.goes_on(2);
    }
    let met = load.stop();
    println!("{SWAPS} certificate swaps:\n{}", met.at_least(2 * SWAPS));
    assert_eq!(gate.metrics().sum("tidegate_tls_handshake_failures_total", &[]), 0.0);
    // a thread of the gate writes its log
    let told = || gate.talk().matches("a renewed certificate is in use").count();
    wait_for("a line for each", || (told() >= SWAPS).then_some(()));
    assert_eq!(told(), SWAPS);
}

#[test]
fn a_bad_file_keeps_the_old_certificate_and_is_told_of_once() {
    let origin = Origin::that(Reply::Ok);
    let site = Site::start(&origin, "");
    let shown = || site.connect("a.test").tls().peer_certificates().unwrap()[0].clone();
    let before = shown();
    let labels = [("listener", "main"), ("certificate", "a.test")];
    let current = || site.gate.metrics().sum("tidegate_tls_certificate_reload_successful", &labels);
    let told = || site.gate.talk().matches("a renewed certificate cannot be used").count();

    // another's key
    site.files.put("a.key", &Authority::new("of nobody").sign(&["a.test"]).key);
    wait_for("the fault to be told", || (told() == 1).then_some(()));
    assert!(site.gate.talk().contains("the key does not match the certificate"), "{}", site.gate.talk());
    assert_eq!((shown(), current()), (before.clone(), 0.0));

    // a file that holds nothing is another fault
    site.files.put("a.pem", "");
    wait_for("the fault to be told", || (told() == 2).then_some(()));
    assert_eq!((shown(), current()), (before, 0.0));

    let renewed = site.authority.sign(&["a.test"]);
    site.files.put_pair("a", &renewed);
    wait_for("the good file to be taken", || (shown() == renewed.der()).then_some(()));
    assert_eq!(current(), 1.0);
    assert_eq!(told(), 2);
}

#[test]
fn a_certificate_that_ends_soon_is_told_of() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    // the days of the test's own clock
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds + 5 * 86_400 + 3_600);
    let pair = files.put_pair("a", &authority.sign_params(params));
    let policy = policy(&format!("{{ certificates: {pair} }}"), &origin, "");
    let gate = Gate::start(&policy);
    wait_for("the reminder", || gate.talk().contains("expires in 5 days").then_some(()));
    let checked =
        crate::harness::gate::run_to_end(&["check", "tidegate.yaml"], &policy.replace("ACCESS_LOG", "stdout"));
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("expires in 5 days"), "{}", checked.stdout);
}
