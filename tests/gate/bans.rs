//! Bans by order: whom they refuse, whom they do not, and what they outlive.

use serde_json::{Value, json};

use crate::admin::{OPEN, ask, gate, request, verb};
use crate::explain;
use crate::harness::gate::Folder;
use crate::harness::{Gate, Latch, Origin, Reply, wait_for};

const BANNED: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.8";

fn done(gate: &Gate, arguments: &[&str]) -> String {
    let ended = verb(gate, arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

fn refused(gate: &Gate, arguments: &[&str]) -> String {
    let ended = verb(gate, arguments);
    assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stdout);
    ended.stderr
}

/// The status for these forwarding fields, all from one trusted proxy.
fn forwarded(gate: &Gate, field: &str) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: {field}\r\n")).status
}

#[test]
fn a_banned_client_behind_a_proxy_is_refused_and_others_of_that_proxy_are_served() {
    let gate = gate(OPEN, "telemetry: { metrics: { address: \"127.0.0.1:0\" } }");
    assert_eq!((request(&gate, BANNED), request(&gate, OTHER)), (200, 200));
    let told = done(&gate, &["ban", BANNED, "--for", "2h", "--why", "scrapes the shop"]);
    assert!(told.starts_with(&format!("ban 1: {BANNED} (")) && told.ends_with(") is refused for 2 h\n"), "{told}");
    for _ in 0..3 {
        let answer = gate.fetch("/", &format!("X-Forwarded-For: {BANNED}\r\n"));
        assert_eq!(answer.status, 403);
        assert_eq!(answer.field("retry-after"), None);
        let text = answer.text();
        assert!(!text.contains("scrapes") && !text.contains("ban"), "the reason is for the operator: {text}");
    }
    // no limit was asked: one request of two is left
    assert_eq!((request(&gate, OTHER), request(&gate, OTHER)), (200, 429));
    gate.counts("tidegate_refused_requests_total", &[("reason", "banned")], 3.0);
    assert_eq!(gate.metrics().sum("tidegate_bans", &[]), 1.0);
    let listed = ask(&gate, "GET", "/api/v1/bans", &Value::Null).1;
    let ban = &listed["bans"][0];
    assert_eq!((&ban["number"], &ban["refused"], &ban["why"]), (&json!(1), &json!(3), &json!("scrapes the shop")));
    assert!((7_190..=7_200).contains(&ban["ends_in_seconds"].as_u64().unwrap()), "{listed}");
    assert!(!listed.to_string().contains(BANNED), "the log has pseudonyms: {listed}");
    // who, why and until when
    let explained = done(&gate, &["explain", "--client", BANNED]);
    for words in ["403 refused: banned", "number 1, by ", "until ", "scrapes the shop", "tidegate unban"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    assert!(done(&gate, &["status"]).contains("1 banned: see `tidegate bans`"));
    let told = done(&gate, &["unban", BANNED]);
    assert!(told.starts_with("ban 1: ") && told.contains("let in again"), "{told}");
    assert_eq!((request(&gate, BANNED), request(&gate, BANNED)), (200, 429), "refused requests were not charged");
    assert_eq!(done(&gate, &["bans"]), "");
    assert!(refused(&gate, &["unban", BANNED]).contains("there is no such ban"));
    assert!(done(&gate, &["explain", "--client", BANNED]).contains("number 1, which has ended since"));
}

#[test]
fn a_forged_field_neither_bans_another_nor_lets_a_banned_client_in() {
    let gate = gate(OPEN, "");
    done(&gate, &["ban", BANNED, "--for", "1h"]);
    for forged in ["", "203.0.113.8, ", "127.0.0.1, ", "nonsense, ", "203.0.113.7.evil, ", ", , "] {
        assert_eq!(forwarded(&gate, &format!("{forged}{BANNED}")), 403, "{forged}");
        assert_eq!(forwarded(&gate, &format!("{forged}::ffff:{BANNED}")), 403, "{forged}");
        assert_eq!(forwarded(&gate, &format!("{forged}{BANNED}:4711")), 403, "{forged}");
    }
    // an IPv4 address that a translator wrote into an IPv6 one is that client
    done(&gate, &["ban", "8.8.8.8", "--for", "1h"]);
    assert_eq!(forwarded(&gate, "64:ff9b::8.8.8.8"), 403);
    // and a network of such addresses is all of them
    done(&gate, &["ban", "64:ff9b::9.9.9.0/120", "--for", "1h"]);
    for (client, banned) in
        [("64:ff9b::9.9.9.0", true), ("64:ff9b::9.9.9.255", true), ("64:ff9b::9.9.8.255", false), ("9.9.9.0", false)]
    {
        assert_eq!(forwarded(&gate, client) == 403, banned, "{client}");
    }
    // another client that names the banned one is itself
    assert_ne!(forwarded(&gate, &format!("{BANNED}, {OTHER}")), 403);
}

#[test]
fn networks_names_and_keys_can_be_banned() {
    let gate = gate(OPEN, "");
    let statuses = |clients: &[&str]| clients.iter().map(|client| forwarded(&gate, client)).collect::<Vec<_>>();
    done(&gate, &["ban", "198.51.100.0/24", "--for", "1h"]);
    done(&gate, &["ban", "2001:db8:7::1", "--for", "1h"]);
    let asked = ["198.51.100.0", "198.51.100.255", "198.51.101.0", "2001:db8:7::ffff", "2001:db8:7:1::1"];
    assert_eq!(statuses(&asked), [403, 403, 200, 403, 200], "an IPv6 client is its /64");
    // a client that the limits refused, by the beginning of its name
    assert_eq!(statuses(&[BANNED, BANNED, BANNED]), [200, 200, 429]);
    let offenders = ask(&gate, "GET", "/api/v1/offenders", &Value::Null).1;
    let name = offenders["offenders"][0]["client"].as_str().unwrap();
    assert!(refused(&gate, &["ban", &name[..7], "--for", "1h"]).contains("unknown client"));
    done(&gate, &["ban", &name[..8], "--for", "1h"]);
    assert_eq!(statuses(&[BANNED, OTHER]), [403, 200]);
    assert!(done(&gate, &["explain", "--client", &name[..8]]).contains("403 refused: banned"));
    done(&gate, &["unban", &name[..8]]);
    assert_eq!(statuses(&[BANNED]), [429]);
    assert_eq!(ask(&gate, "POST", "/api/v1/pardon", &json!({ "client": &name[..8] })).0, 200);
    assert_eq!(statuses(&[BANNED]), [200]);
    // a key of a limit, on the routes that have it
    let by_key =
        |client: &str, key: &str| gate.fetch("/", &format!("X-Forwarded-For: {client}\r\nX-Api-Key: {key}\r\n")).status;
    done(&gate, &["ban", "by_key=stolen", "--for", "1h"]);
    assert_eq!((by_key("192.0.2.1", "stolen"), by_key("192.0.2.2", "stolen")), (403, 403));
    assert_eq!((by_key("192.0.2.1", "other"), by_key("192.0.2.2", "Stolen")), (200, 200));
    let listed = done(&gate, &["bans", "--format", "json"]);
    assert!(listed.contains("by_key=") && !listed.contains("stolen"), "{listed}");
    done(&gate, &["unban", "by_key=stolen"]);
    assert_eq!(by_key("192.0.2.3", "stolen"), 200);
    for (target, why) in [
        ("none=1", "there is no limit `none`"),
        ("per_client=nonsense", "which is no client_ip"),
        ("nonsense", "unknown client"),
        ("203.0.113.7/33", "unknown client"),
    ] {
        assert!(refused(&gate, &["ban", target, "--for", "1h"]).contains(why), "{target}");
    }
    let long = json!({ "target": BANNED, "for_seconds": 365 * 86_400 + 1 });
    assert_eq!(ask(&gate, "POST", "/api/v1/ban", &long).0, 400);
    assert_eq!(verb(&gate, &["ban", BANNED]).code, Some(2), "every ban ends");
}

#[test]
fn a_ban_of_the_gates_own_surroundings_needs_force() {
    let gate = gate(OPEN, "");
    for (target, why) in [
        ("0.0.0.0/0", "large part of the Internet"),
        ("::/0", "large part of the Internet"),
        ("64.0.0.0/7", "wider than a /8"),
        ("127.0.0.1", "a trusted proxy is in this network"),
        ("127.1.0.0/16", "a trusted proxy is in this network"),
        ("::1", "this machine's own addresses"),
        // which is what the address counts as
        ("64:ff9b::10.0.0.1", "all clients behind a translator"),
        ("unix", "all clients of UNIX sockets"),
    ] {
        let said = refused(&gate, &["ban", target, "--for", "1h"]);
        assert!(said.contains(why) && said.contains("--force"), "{target}: {said}");
    }
    let own = json!({ "target": "203.0.113.0/24", "for_seconds": 60, "from": BANNED });
    let (status, told) = ask(&gate, "POST", "/api/v1/ban", &own);
    assert_eq!(status, 409, "{told}");
    assert!(told["error"].as_str().unwrap().contains("you are connected from this network"), "{told}");
    assert_eq!(done(&gate, &["bans"]), "");
    done(&gate, &["ban", "0.0.0.0/0", "--for", "1h", "--force"]);
    assert_eq!(request(&gate, BANNED), 403);
    assert_eq!(forwarded(&gate, "2001:db8::1"), 200);
}

#[test]
fn a_ban_ends_by_itself_and_the_longer_of_two_holds() {
    let gate = gate(OPEN, "");
    done(&gate, &["ban", BANNED, "--for", "1s"]);
    assert_eq!(request(&gate, BANNED), 403);
    wait_for("the end of the ban", || (request(&gate, BANNED) != 403).then_some(()));
    wait_for("the list to forget it", || done(&gate, &["bans"]).is_empty().then_some(()));
    wait_for("the log to say so", || gate.talk().contains("ban ended").then_some(()));
    // a short one inside of a long one takes nothing from that
    done(&gate, &["ban", "203.0.113.0/24", "--for", "1h"]);
    done(&gate, &["ban", OTHER, "--for", "1s"]);
    wait_for("the shorter ban to end", || (done(&gate, &["bans"]).lines().count() == 1).then_some(()));
    assert_eq!(request(&gate, OTHER), 403);
    // the same target again: its number stays, its end is the new one
    done(&gate, &["ban", "203.0.113.0/24", "--for", "2h", "--why", "still"]);
    let listed = ask(&gate, "GET", "/api/v1/bans", &Value::Null).1;
    let bans = listed["bans"].as_array().unwrap();
    assert_eq!((bans.len(), &bans[0]["number"], &bans[0]["why"]), (1, &json!(2), &json!("still")), "{listed}");
    assert!(bans[0]["ends_in_seconds"].as_u64().unwrap() > 3_600 && bans[0]["refused"] == 1, "{listed}");
}

/// A gate whose state outlives it, in this folder.
fn with_state(kept: &Folder) -> Gate {
    let directory = kept.path().join("state");
    gate(OPEN, &format!("server: {{ overload: off, state: {{ directory: \"{}\", every: 1h }} }}", directory.display()))
}

/// The gate after something that its bans should outlive.
fn after(how: &str, mut gate: Gate, kept: &Folder) -> Gate {
    match how {
        "reload" => {
            let file = gate.folder().join("tidegate.yaml");
            let policy = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, policy.replace("rate: 2/h", "rate: 3/h")).unwrap();
            assert_eq!(ask(&gate, "POST", "/api/v1/reload", &json!({})).0, 200);
        }
        "upgrade" => {
            let before = gate.id();
            let ended = gate.upgrade();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert_ne!(gate.id(), before);
            wait_for("the new process's admin socket", || {
                (ask(&gate, "GET", "/api/v1/status", &Value::Null).1["process"] == json!(gate.id())).then_some(())
            });
        }
        _ => {
            gate.signal(if how == "crash" { "KILL" } else { "TERM" });
            gate.exit_status();
            return with_state(kept);
        }
    }
    gate
}

fn survives(how: &str) {
    let kept = Folder::new();
    let mut gate = with_state(&kept);
    done(&gate, &["ban", "192.0.2.0/24", "--for", "2h"]);
    done(&gate, &["unban", "192.0.2.0/24"]);
    done(&gate, &["ban", "by_key=stolen", "--for", "1h"]);
    done(&gate, &["ban", BANNED, "--for", "2h", "--why", "scrapes"]);
    // at once: what was ordered is kept
    gate = after(how, gate, &kept);
    assert_eq!((request(&gate, BANNED), request(&gate, OTHER), request(&gate, "192.0.2.9")), (403, 200, 200), "{how}");
    let with_key = |gate: &Gate| gate.fetch("/", "X-Forwarded-For: 192.0.2.1\r\nX-Api-Key: stolen\r\n").status;
    assert_eq!(with_key(&gate), 403, "{how}");
    let listed = ask(&gate, "GET", "/api/v1/bans", &Value::Null).1;
    let bans = listed["bans"].as_array().unwrap();
    assert_eq!((bans.len(), &bans[1]["number"], &bans[1]["why"]), (2, &json!(3), &json!("scrapes")), "{how}: {listed}");
    assert!((3_600..=7_200).contains(&bans[1]["ends_in_seconds"].as_u64().unwrap()), "{how}: {listed}");
    assert!(done(&gate, &["ban", OTHER, "--for", "1h"]).starts_with("ban 4: "), "{how}: numbers are never given twice");
    // and what was lifted stays lifted
    done(&gate, &["unban", "3"]);
    gate = after(how, gate, &kept);
    assert_eq!((request(&gate, BANNED), request(&gate, OTHER), with_key(&gate)), (200, 403, 403), "{how}");
}

#[test]
fn bans_survive_a_reload() {
    survives("reload");
}

#[test]
fn bans_survive_an_upgrade() {
    survives("upgrade");
}

#[test]
fn bans_survive_a_restart() {
    survives("restart");
}

#[test]
fn bans_survive_a_crash_right_after_the_order() {
    survives("crash");
}

#[test]
fn a_restart_keeps_what_a_ban_refused_and_drops_what_ended() {
    let kept = Folder::new();
    let mut gate = with_state(&kept);
    done(&gate, &["ban", BANNED, "--for", "2h"]);
    done(&gate, &["ban", OTHER, "--for", "1s"]);
    assert_eq!((request(&gate, BANNED), request(&gate, BANNED)), (403, 403));
    gate.signal("TERM");
    assert!(gate.exit_status().success());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let gate = with_state(&kept);
    let listed = ask(&gate, "GET", "/api/v1/bans", &Value::Null).1;
    assert_eq!((&listed["bans"][0]["refused"], &listed["bans"][1]), (&json!(2), &Value::Null), "{listed}");
}

#[test]
fn an_order_after_an_upgrade_is_on_disk_although_the_old_process_has_not_ended() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |_| Reply::Held(held.clone()));
    let kept = Folder::new();
    let mut gate = explain::start(&format!(
        "server: {{ overload: off, drain: {{ timeout: 100s }}, state: {{ directory: \"{}\", every: 1h }} }}
origins: {{ app: {{ addresses: [\"{}\"], timeouts: {{ read: 120s, request: 120s }} }} }}
routes: [{{ origin: app }}]
",
        kept.path().join("state").display(),
        origin.address(),
    ));
    let mut inside = gate.connect();
    inside.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    origin.wait_for(1);
    let gate_before = gate.id();
    gate = after("upgrade", gate, &kept);
    let ended = verb(&gate, &["ban", BANNED, "--for", "1h"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(std::path::Path::new(&format!("/proc/{gate_before}")).exists(), "the old process serves a request");
    assert!(!gate.talk().contains("another process"), "{}", gate.talk());
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
}

#[test]
fn an_order_that_a_restart_forgets_says_so() {
    let without = gate(OPEN, "");
    let ended = verb(&without, &["ban", BANNED, "--for", "1h"]);
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stderr.contains("a restart forgets this order: the policy has no `server.state`"),
        "{}",
        ended.stderr
    );
    let kept = Folder::new();
    let gate = with_state(&kept);
    let ended = verb(&gate, &["ban", BANNED, "--for", "1h"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    // as on a full disk: what is to be written cannot be
    let obstacle = kept.path().join("state/bans.state.new");
    std::fs::create_dir(&obstacle).unwrap();
    let ended = verb(&gate, &["ban", OTHER, "--for", "1h"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("it is not on disk yet"), "{}", ended.stderr);
    assert_eq!(request(&gate, OTHER), 403, "it holds all the same");
    assert!(gate.talk().contains("the bans cannot be written, a restart would forget them"), "{}", gate.talk());
    std::fs::remove_dir(obstacle).unwrap();
    assert_eq!(verb(&gate, &["ban", OTHER, "--for", "2h"]).stderr, "");
}

#[test]
fn a_file_of_bans_that_cannot_be_used_is_told_and_bans_nobody() {
    let kept = Folder::new();
    let mut gate = with_state(&kept);
    done(&gate, &["ban", BANNED, "--for", "2h"]);
    let file = kept.path().join("state/bans.state");
    let good = std::fs::read(&file).unwrap();
    let mut corrupt = good.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 1;
    let mut newer = good.clone();
    newer[16] += 1;
    for (content, told) in [
        (corrupt, "is corrupt: a checksum does not match"),
        (good[..good.len() - 1].to_vec(), "is cut off"),
        (newer, "was written by a newer tidegate (version 2, this one reads 1)"),
    ] {
        gate.signal("KILL");
        gate.exit_status();
        std::fs::write(&file, content).unwrap();
        gate = with_state(&kept);
        let talk = gate.talk();
        assert!(talk.contains(&format!("state: the file of bans {told}; nobody is banned")), "{told}\n{talk}");
        assert_eq!(request(&gate, BANNED), 200, "{told}");
        assert!(talk.contains("it is kept as bans.state.unusable"), "{talk}");
    }
    // whoever has the right secret again has the file that it wrote
    gate.signal("KILL");
    gate.exit_status();
    std::fs::write(&file, good).unwrap();
    std::fs::remove_file(kept.path().join("state/bans.state.unusable")).unwrap();
    let gate = with_state(&kept);
    assert_eq!(request(&gate, BANNED), 403);
    assert!(!kept.path().join("state/bans.state.unusable").exists());
}

/// A gate whose limit bans for so long who goes on for three requests under its penalty.
fn with_penalty(kept: &Folder, length: &str) -> Gate {
    let folder = Folder::new();
    let mut command = crate::harness::gate::binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let policy = format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  abusers: {{ type: recent_average, key: client_ip, rate: 1/m, half_life: 1m, count: all, max_penalty: 1m, ban: {{ after: 3, for: {length}, max: 1h }} }}
routes: [{{ name: page, limits: [abusers], respond: {{ status: 200, body: ok }} }}]
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
server: {{ overload: off, state: {{ directory: \"{}\", every: 1h }} }}
",
        kept.path().join("state").display()
    );
    let gate = Gate::start_in(folder, std::process::Stdio::null(), command, &policy);
    wait_for("the admin socket", || std::os::unix::net::UnixStream::connect(gate.admin_socket()).ok());
    gate
}

#[test]
fn a_client_that_goes_on_under_a_penalty_is_banned_and_no_proxy_is() {
    let kept = Folder::new();
    let mut gate = with_penalty(&kept, "30m");
    // anybody can bring these about: nobody is banned for them
    for field in ["", "X-Forwarded-For: nonsense\r\n", "X-Forwarded-For: 127.0.0.9\r\n"] {
        for _ in 0..20 {
            assert_ne!(gate.fetch("/", field).status, 403, "{field}");
        }
    }
    assert_eq!(request(&gate, OTHER), 200);
    wait_for("the ban", || (request(&gate, BANNED) == 403).then_some(()));
    assert_ne!(request(&gate, OTHER), 403);
    let listed = ask(&gate, "GET", "/api/v1/bans", &Value::Null).1;
    let bans = listed["bans"].as_array().unwrap();
    assert_eq!(
        (bans.len(), &bans[0]["automatic"], &bans[0]["by"]),
        (1, &json!(true), &json!("limit abusers (automatic)"))
    );
    assert!(bans[0]["why"].as_str().unwrap().contains("under the penalty of `abusers` without a pause"), "{listed}");
    assert!((1_700..=1_800).contains(&bans[0]["ends_in_seconds"].as_u64().unwrap()), "{listed}");
    assert!(done(&gate, &["bans"]).contains("by limit abusers (automatic): sent "));
    let explained = done(&gate, &["explain", "--client", BANNED]);
    assert!(
        explained.contains("403 refused: banned") && explained.contains("by limit abusers (automatic)"),
        "{explained}"
    );
    assert_eq!(gate.metrics().sum("tidegate_bans_given_total", &[("by", "limit")]), 1.0);
    assert_eq!(gate.metrics().sum("tidegate_bans_given_total", &[("by", "operator")]), 0.0);
    assert!(gate.talk().contains("banned"), "{}", gate.talk());
    // written within a moment, without anybody who waits for it
    let file = kept.path().join("state/bans.state");
    let has = |word: &[u8]| std::fs::read(&file).is_ok_and(|bytes| bytes.windows(word.len()).any(|part| part == word));
    wait_for("the ban on disk", || has(b"limit abusers (automatic)").then_some(()));
    gate.signal("KILL");
    gate.exit_status();
    let gate = with_penalty(&kept, "30m");
    assert_eq!(request(&gate, BANNED), 403);
    done(&gate, &["unban", BANNED]);
    assert_ne!(request(&gate, BANNED), 403);
}

#[test]
fn the_next_ban_of_a_penalty_is_twice_as_long_after_a_restart_too() {
    let kept = Folder::new();
    let mut gate = with_penalty(&kept, "1s");
    let why = |gate: &Gate| {
        request(gate, BANNED);
        ask(gate, "GET", "/api/v1/bans", &Value::Null).1["bans"][0]["why"].as_str().unwrap_or_default().to_owned()
    };
    wait_for("a second ban", || why(&gate).contains("ban 2 in a row").then_some(()));
    gate.signal("TERM");
    assert!(gate.exit_status().success());
    let gate = with_penalty(&kept, "1s");
    wait_for("a third ban", || why(&gate).contains("ban 3 in a row").then_some(()));
}

#[test]
fn banned_networks_are_written_for_a_firewall() {
    let gate = gate(OPEN, "");
    for target in ["203.0.113.0/24", BANNED, "2001:db8::/48", "by_key=stolen"] {
        done(&gate, &["ban", target, "--for", "1h"]);
    }
    assert_eq!(done(&gate, &["bans", "--format", "plain"]), "203.0.113.0/24\n2001:db8::/48\n");
    let told = done(&gate, &["bans", "--format", "nftables"]);
    for words in ["table inet tidegate {", "203.0.113.0/24 timeout 3", "2001:db8::/48 timeout 3", "ip6 saddr @banned6"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(verb(&gate, &["bans", "--format", "plain"]).stderr.contains("1 ban of no network left out"));
    // addresses are for whoever may act
    let web = ask(&gate, "GET", "/api/v1/bans/networks", &Value::Null).0;
    assert_eq!(web, 405);
}
