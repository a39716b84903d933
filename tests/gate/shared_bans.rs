//! Bans that gates share through a real store, as three processes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::admin::{request, verb};
use crate::harness::gate::{Folder, binary};
use crate::harness::redis::{Cluster, Server};
use crate::harness::{Gate, wait_for};
use crate::shared_limits::{gates, told};

const BANNED: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.8";

/// How long an order may take to the other gates: the store is asked each second, a tenth later at most; the machine is busy.
const REACHES: Duration = Duration::from_secs(2);

fn policy(store: &Server, secret: &str, more: &str) -> String {
    format!(
        "trusted_proxies: [127.0.0.0/8]
secrets: {{ client_hmac: \"{secret}\" }}
stores: {{ shared: {{ url: \"redis://127.0.0.1:{}\", timeout: 1s, {more} }} }}
limits:
  by_key: {{ key: \"header:x-api-key\", missing: allow, rate: 1000/s, burst: 1000, store: shared, sharing: estimate }}
  abusers: {{ type: recent_average, key: client_ip, rate: 1/m, half_life: 1m, count: all, max_penalty: 1m, mode: shadow }}
routes: [{{ name: page, limits: [by_key], respond: {{ status: 200, body: ok }} }}]
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
server: {{ overload: off }}
",
        store.port
    )
}

const SECRET: &str = "one secret of all the gates, for bans as for limits";

fn done(gate: &Gate, arguments: &[&str]) -> (String, String) {
    let ended = verb(gate, arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    (ended.stdout, ended.stderr)
}

/// Waits until each of these refuses a client, or serves it; returns the longest time since `began`.
fn all_say(gates: &[Gate], client: &str, status: u16, began: Instant) -> Duration {
    for gate in gates {
        wait_for("all gates", || (request(gate, client) == status).then_some(()));
    }
    began.elapsed()
}

fn by_key(gate: &Gate, key: &str) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: 192.0.2.9\r\nX-Api-Key: {key}\r\n")).status
}

fn gate_of(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    Gate::start_in(folder, Stdio::null(), command, policy)
}

#[test]
fn an_order_on_one_gate_reaches_all_within_two_seconds_and_so_does_its_end() {
    let store = Server::start(&[]);
    let wire = store.listen_in();
    let gates = gates(&policy(&store, SECRET, ""));
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        let began = Instant::now();
        let (_, said) = done(&gates[round % 3], &["ban", BANNED, "--for", "1h", "--why", "scrapes the shop"]);
        assert!(!said.contains("other gates"), "{said}");
        slowest = slowest.max(all_say(&gates, BANNED, 403, began));
        let began = Instant::now();
        // on another gate, by the name that it has everywhere
        done(&gates[(round + 1) % 3], &["unban", BANNED]);
        slowest = slowest.max(all_say(&gates, BANNED, 200, began));
    }
    println!("ten orders reached three gates within {} ms", slowest.as_millis());
    assert!(slowest <= REACHES, "{slowest:?}");
    done(&gates[0], &["ban", BANNED, "--for", "1h", "--why", "scrapes the shop"]);
    done(&gates[0], &["ban", "by_key=stolen", "--for", "1h"]);
    done(&gates[0], &["ban", "198.51.100.0/24", "--for", "1h"]);
    for gate in &gates {
        wait_for("a network", || (request(gate, "198.51.100.200") == 403).then_some(()));
        wait_for("a key", || (by_key(gate, "stolen") == 403).then_some(()));
        assert_eq!((request(gate, OTHER), by_key(gate, "other")), (200, 200));
    }
    let (listed, _) = done(&gates[1], &["bans"]);
    assert!(listed.contains(" on another gate: scrapes the shop"), "{listed}");
    assert!(!done(&gates[0], &["bans"]).0.contains("on another gate"));
    assert!(gates[1].talk().contains("banned on another gate"), "{}", gates[1].talk());
    assert!(gates[1].metrics().sum("tidegate_bans_given_total", &[("by", "gate")]) >= 3.0);
    assert!(told(&gates, "tidegate_store_bans_age_seconds", &[]) < 30.0);
    let (stored, wire) = (store.contents(), wire.heard());
    assert!(stored.contains("tidegate:{bans}:"), "{stored}");
    for (place, text) in [("store", &stored), ("wire", &wire)] {
        for raw in ["203.0.113", "198.51.100", "stolen", "scrapes", "by_key\"", "Network", "network"] {
            assert!(!text.contains(raw), "{raw} in the {place}");
        }
    }
}

#[test]
fn a_silent_store_changes_nothing_and_an_emptied_one_is_filled_again() {
    let mut store = Server::start(&[]);
    let gates = gates(&policy(&store, SECRET, ""));
    done(&gates[0], &["ban", BANNED, "--for", "1h"]);
    all_say(&gates, BANNED, 403, Instant::now());
    store.kill();
    assert!(gates.iter().all(|gate| request(gate, BANNED) == 403), "what is known stays");
    let (_, said) = done(&gates[1], &["ban", OTHER, "--for", "1h"]);
    assert!(said.contains("the store `shared` does not answer: other gates hear of this order when it does"), "{said}");
    assert_eq!((request(&gates[1], OTHER), request(&gates[0], OTHER)), (403, 200));
    // lifted where the store cannot hear of it
    done(&gates[2], &["unban", BANNED]);
    store.restart();
    all_say(&gates, OTHER, 403, Instant::now());
    all_say(&gates, BANNED, 200, Instant::now());
    // a gate that begins with nothing, and its store emptied before
    assert_eq!(store.cli(&["FLUSHALL"]), "OK");
    wait_for("the bans again", || store.contents().contains("{bans}:").then_some(()));
    let fresh = gate_of(&policy(&store, SECRET, ""));
    all_say(&[fresh], OTHER, 403, Instant::now());
}

#[test]
fn gates_that_have_another_secret_or_do_not_share_hear_of_nothing_and_a_changed_secret_loses_no_ban() {
    let store = Server::start(&[]);
    let ours = gate_of(&policy(&store, SECRET, ""));
    let strangers = gate_of(&policy(&store, "another secret than all those other gates", ""));
    let alone = gate_of(&policy(&store, SECRET, "share_bans: false"));
    done(&ours, &["ban", BANNED, "--for", "1h"]);
    done(&strangers, &["ban", OTHER, "--for", "1h"]);
    wait_for("two places", || (store.contents().matches("{bans}:").count() == 2).then_some(()));
    std::thread::sleep(REACHES);
    assert_eq!((request(&ours, BANNED), request(&ours, OTHER)), (403, 200));
    assert_eq!((request(&strangers, BANNED), request(&strangers, OTHER)), (200, 403));
    assert_eq!((request(&alone, BANNED), request(&alone, OTHER)), (200, 200));
    // a gate with both carries bans from gates with the old secret to gates with the new
    let both = policy(&store, SECRET, "")
        .replace(&format!("client_hmac: \"{SECRET}\""), "client_hmac: { env: NEW_SECRET, previous_env: OLD_SECRET }");
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    command.env("NEW_SECRET", "the next secret of all gates, after this").env("OLD_SECRET", SECRET);
    let bridge = [Gate::start_in(folder, Stdio::null(), command, &both)];
    all_say(&bridge, BANNED, 403, Instant::now());
    let next = gate_of(&policy(&store, "the next secret of all gates, after this", ""));
    all_say(&[next], BANNED, 403, Instant::now());
}

#[test]
fn the_servers_of_a_cluster_and_the_least_rights_are_enough() {
    let cluster = Cluster::start();
    let text = policy(&cluster.servers[0], SECRET, "mode: cluster");
    let all: Vec<Gate> = (0..2).map(|_| gate_of(&text)).collect();
    let (_, said) = done(&all[0], &["ban", BANNED, "--for", "1h"]);
    assert!(!said.contains("other gates"), "{said}");
    all_say(&all, BANNED, 403, Instant::now());
    // what docs/limits/cluster.md names, without the rights of an estimate
    let store = Server::start(&[]);
    let rights = "on >word resetkeys ~tidegate:* resetchannels -@all +evalsha +eval +time +get +set +pexpire +zadd \
                  +zremrangebyscore +zcard";
    let words: Vec<&str> = ["ACL", "SETUSER", "gate"].into_iter().chain(rights.split_whitespace()).collect();
    assert_eq!(store.cli(&words), "OK");
    let text = policy(&store, SECRET, "username: gate, password: word").replace(", sharing: estimate", "");
    let all: Vec<Gate> = (0..2).map(|_| gate_of(&text)).collect();
    let (_, said) = done(&all[0], &["ban", BANNED, "--for", "1h"]);
    assert!(!said.contains("other gates"), "{said}");
    all_say(&all, BANNED, 403, Instant::now());
    assert_eq!(told(&all, "tidegate_store_errors_total", &[]), 0.0);
}

#[test]
fn whatever_a_store_puts_there_bans_nobody_and_undoes_nothing() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, SECRET, ""));
    done(&gates[0], &["ban", BANNED, "--for", "1h"]);
    done(&gates[0], &["ban", OTHER, "--for", "1h"]);
    all_say(&gates, BANNED, 403, Instant::now());
    all_say(&gates, OTHER, 403, Instant::now());
    let place = store.cli(&["KEYS", "*{bans}*"]);
    // a text of before, put there when one of its bans was lifted
    assert_eq!(store.cli(&["COPY", &place, "before"]), "1");
    done(&gates[1], &["unban", BANNED]);
    all_say(&gates, BANNED, 200, Instant::now());
    let is_before = || store.cli(&["GET", &place]) == store.cli(&["GET", "before"]);
    assert!(!is_before());
    assert_eq!(store.cli(&["COPY", "before", &place, "REPLACE"]), "1");
    wait_for("the old text to be replaced", || (!is_before()).then_some(()));
    std::thread::sleep(REACHES);
    for text in ["", "nonsense", "[]"] {
        assert_eq!(store.cli(&["SET", &place, text]), "OK");
        wait_for("a text that is none to be replaced", || (store.cli(&["GET", &place]).len() > 50).then_some(()));
    }
    std::thread::sleep(REACHES);
    for gate in &gates {
        assert_eq!((request(gate, BANNED), request(gate, OTHER)), (200, 403));
    }
}

#[test]
fn a_penalty_of_one_gate_bans_at_all() {
    let store = Server::start(&[]);
    let text = policy(&store, SECRET, "").replace("mode: shadow }", "ban: { after: 3, for: 30m, max: 1h } }");
    let text = text.replace("limits: [by_key]", "limits: [by_key, abusers]");
    let gates = gates(&text);
    wait_for("the ban", || (request(&gates[0], BANNED) == 403).then_some(()));
    for gate in &gates[1..] {
        // no request of the client there: it would bring a penalty, too
        let listed = wait_for("word of it", || Some(done(gate, &["bans"]).0).filter(|listed| !listed.is_empty()));
        assert!(listed.contains("by limit abusers (automatic) on another gate"), "{listed}");
        assert_eq!(request(gate, BANNED), 403);
    }
}

#[test]
fn the_next_ban_of_a_row_is_longer_at_whichever_gate_it_comes() {
    let store = Server::start(&[]);
    let text = policy(&store, SECRET, "").replace("mode: shadow }", "ban: { after: 3, for: 3s, max: 1h } }");
    let gates = gates(&text.replace("limits: [by_key]", "limits: [by_key, abusers]"));
    let banned = |gate: &Gate| {
        wait_for("a ban by this gate", || {
            request(gate, BANNED);
            let listed = done(gate, &["bans"]).0;
            (listed.contains("by limit abusers (automatic):")).then_some(listed)
        })
    };
    let first = banned(&gates[0]);
    assert!(!first.contains("in a row"), "{first}");
    wait_for("word of it", || done(&gates[1], &["bans"]).0.contains("on another gate").then_some(()));
    let second = banned(&gates[1]);
    assert!(second.contains("ban 2 in a row"), "{second}");
}
