//! The gate notices that everybody has become one client, tells it everywhere in the same words, and stops when it is mended.

use std::os::unix::net::UnixStream;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Connection, Gate, PATIENCE, wait_for, wait_within};

const POLICY: &str = "TRUSTadmin: { address: \"127.0.0.1:0\", open: true }
limits:
  per_client: { key: client_ip, rate: 100000/s, burst: 100000 }
  api: { key: \"header:x-api-key\", missing: allow, rate: 100000/s, burst: 100000 }
  forgotten: { rate: 100000/s, burst: 100000, mode: shadow, since: 2020-01-01 }
routes:
  - { name: site, limits: [per_client, api, forgotten], respond: { status: 200 } }
";

/// Running, and hears verbs.
fn start() -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let gate = Gate::start_in(folder, Stdio::null(), command, &POLICY.replace("TRUST", ""));
    wait_for("the admin socket", || UnixStream::connect(gate.admin_socket()).ok());
    gate
}

fn status(gate: &Gate) -> Value {
    let ended = end(binary().args(["status", "--format", "json", "--admin"]).arg(gate.admin_socket()));
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr))
}

/// The notice of this kind.
fn notice(gate: &Gate, kind: &str) -> Option<Value> {
    let status = status(gate);
    let notices = status["notices"].as_array().expect("a list of notices");
    notices.iter().find(|notice| notice["kind"] == kind).cloned()
}

/// A proxy on this machine that asks for many clients.
fn ask(gate: &Gate, requests: u32) {
    let mut proxy = gate.connect();
    for n in 0..requests {
        let line = format!("X-Forwarded-For: 203.0.{}.{}\r\n", n / 200 % 200, n % 200);
        assert_eq!(proxy.ask("GET", "/", &line, b"").status, 200);
    }
}

fn page(gate: &Gate) -> String {
    let admin: std::net::SocketAddr =
        gate.announced("admin page", |line| line.split_once("admin on http://")?.1.trim_end_matches('/').parse().ok());
    let mut connection = Connection::open(admin);
    connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    connection.answer_to("GET").expect("an answer comes").text()
}

fn reload(gate: &Gate, trust: &str) {
    let file = gate.folder().join("tidegate.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, rest) = text.split_once("admin:").unwrap();
    std::fs::write(&file, format!("{trust}admin:{rest}")).unwrap();
    let ended = end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn everybody_behind_an_untrusted_proxy_is_noticed_until_the_proxy_is_trusted() {
    let gate = start();
    assert_eq!(notice(&gate, "clients_collapsed"), None);
    let told = wait_for("the notice", || {
        // sampled by dice: whoever is unlucky asks more
        ask(&gate, 400);
        notice(&gate, "clients_collapsed").filter(|told| told["subject"] != "")
    });
    assert_eq!(told["subject"], "127.0.0.1/32", "{told}");
    let text = told["text"].as_str().unwrap();
    assert!(text.starts_with("100 % of all requests come with a forwarding header"), "{text}");
    assert!(told["hint"].as_str().unwrap().contains("`trusted_proxies: [127.0.0.1/32]`"), "{told}");
    // the same words everywhere
    let screen = end(binary().args(["status", "--admin"]).arg(gate.admin_socket())).stdout;
    assert!(screen.contains(text), "{screen}");
    wait_for("the page", || page(&gate).contains("everybody behind 127.0.0.1/32 is one client").then_some(()));
    wait_for("the log", || gate.talk().contains("everybody behind 127.0.0.1/32 is one client").then_some(()));
    let of = |kind: &str| gate.metrics().sum("tidegate_notice", &[("notice", kind)]);
    assert_eq!((of("clients_collapsed"), of("reload_refused")), (1.0, 0.0));
    wait_for("its share", || {
        ask(&gate, 400);
        (gate.metrics().sum("tidegate_top_client_share_ratio", &[]) > 0.9).then_some(())
    });
    // nobody sends the key, and nobody has looked at the shadow for years
    let key = wait_for("the key", || notice(&gate, "key_missing"));
    assert_eq!((&key["subject"], &key["urgent"]), (&"api".into(), &false.into()));
    let shadow = notice(&gate, "shadow_old").expect("a shadow of 2020 is old");
    assert!(shadow["text"].as_str().unwrap().starts_with("the limit `forgotten` has been in shadow for "), "{shadow}");

    reload(&gate, "trusted_proxies: [127.0.0.1/32]\n");
    wait_for("its end", || {
        ask(&gate, 400);
        notice(&gate, "clients_collapsed").is_none().then_some(())
    });
    wait_for("its end in the metrics", || (of("clients_collapsed") == 0.0).then_some(()));
    assert!(notice(&gate, "clients_collapsed").is_none());
    // the sentence at the top of the page stays for 30 s
    wait_within(2 * PATIENCE, "its end on the page", &mut || (!page(&gate).contains("everybody behind")).then_some(()));
    wait_for("its end in the log", || gate.talk().contains("notice is over: 100 % of all requests").then_some(()));
}

#[test]
fn a_refused_file_is_noticed_with_its_faults_until_a_good_one_comes() {
    let gate = start();
    let file = gate.folder().join("tidegate.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, good.replace("100000/s", "100000/sec")).unwrap();
    let order = || end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()));
    assert_eq!(order().code, Some(1));
    let told = wait_for("the notice", || notice(&gate, "reload_refused"));
    assert!(told["details"].as_str().unwrap().contains("error[E0203]: invalid rate `100000/sec`"), "{told}");
    wait_for("the page", || page(&gate).contains("error[E0203]").then_some(()));
    std::fs::write(&file, good).unwrap();
    assert_eq!(order().code, Some(0));
    wait_for("its end", || notice(&gate, "reload_refused").is_none().then_some(()));
}
