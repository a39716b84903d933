//! From a refusal to its explanation: what the running process remembers, as the command line tells it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::gate::{Ended, Folder, binary, end};
use crate::harness::{Answer, Connection, Gate};

const POLICY: &str = "trusted_proxies: [127.0.0.0/8]
limits:
  login: { key: client_ip, rate: 5/m, burst: 5 }
  watched: { key: client_ip, rate: 1/h, burst: 1, mode: shadow }
routes:
  - { name: login, match: { path: =/login }, respond: { status: 200, body: in }, limits: [login] }
  - { name: page, respond: { status: 200, body: page }, limits: [watched] }
";

/// A gate that can be asked.
pub fn start(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.arg("--admin").arg(folder.path().join("private/admin.sock"));
    Gate::start_in(folder, Stdio::null(), command, policy)
}

fn explain(gate: &Gate, arguments: &[&str]) -> Ended {
    end(binary().arg("explain").args(arguments).arg("--admin").arg(gate.admin_socket()))
}

/// One that a proxy passes on.
fn passed_on(gate: &Gate, path: &str, client: &str) -> Answer {
    gate.fetch(path, &format!("X-Forwarded-For: {client}\r\n"))
}

/// The answer to the sixth of six at once.
fn sixth(gate: &Gate, client: &str) -> Answer {
    let mut answers: Vec<Answer> = (0..6).map(|_| passed_on(gate, "/login", client)).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    answers.pop().unwrap()
}

fn id_of(answer: &Answer) -> String {
    answer.field("x-tidegate-decision").expect("a refusal has an id")
}

#[test]
fn a_refusal_is_explained_by_the_id_in_its_answer() {
    let gate = start(POLICY);
    let refused = sixth(&gate, "203.0.113.7");
    let id = id_of(&refused);
    // as support staff would type it
    let typed = format!("{}-{}", &id[..4], &id[4..]).to_lowercase();
    let told = explain(&gate, &["--decision", &typed]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{}", told.stdout);
    let text = told.stdout;
    for expected in [
        "GET  →  429 limited by `login`\n",
        &format!("decision {id}\n"),
        "(from x-forwarded-for, 1 hop)\n",
        " route     login         (exact path /login; next best: page)\n",
        "login  LIMITED  5 of 5 per minute used; the next one fits in ",
        " estimate  exact: the key has a counter of its own\n",
        " store     none (local)\n",
        " change    burst ≥ 6 would have let it through\n",
        "tidegate.yaml, line 3\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!text.contains("203.0.113.7"), "no address is remembered:\n{text}");
    for name in ["Retry-After", "RateLimit", "RateLimit-Policy"] {
        let sent = format!("{name}: {}", refused.field(name).expect("it was sent"));
        assert!(text.contains(&sent), "{sent:?} in\n{text}");
    }

    let json = explain(&gate, &["--decision", &id, "--format", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).expect("one document");
    assert_eq!(document["schema"], "tidegate.explain/1");
    assert_eq!((&document["id"], &document["status"]), (&Value::from(id), &Value::from(429)));
    assert_eq!(document["limits"][0]["needs"]["burst"], "6");
    assert_eq!(document["config"]["replaced"], false);
}

#[test]
fn a_client_is_found_by_its_address_and_by_its_pseudonym_in_the_log() {
    let gate = start(POLICY);
    let id = id_of(&sixth(&gate, "203.0.113.7"));
    sixth(&gate, "203.0.113.8");
    let told = explain(&gate, &["--client", "203.0.113.7", "--since", "10m"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(told.stdout.matches("limited by `login`").count(), 1, "{}", told.stdout);
    assert!(told.stdout.contains(&id) && told.stdout.contains(" client    203.0.113.7 "), "{}", told.stdout);

    let entries = gate.log_of(12);
    let entry = entries.iter().find(|entry| entry.id == id).expect("it was logged");
    let pseudonym = entry.client.clone();
    let told = explain(&gate, &["--client", &pseudonym]);
    assert!(told.code == Some(0) && told.stdout.contains(&id), "{}{}", told.stdout, told.stderr);
    assert_eq!(told.stdout.matches("limited by `login`").count(), 1, "{}", told.stdout);

    for (arguments, why) in [
        (["--client", "203.0.113.9"], "no refusal of 203.0.113.9 in memory"),
        (["--client", "nobody"], "neither an address nor a pseudonym"),
        (["--decision", "0000000000000"], "decision 0000000000000 is not in memory"),
        (["--decision", "7q3m-9f2k"], "is not a decision id"),
    ] {
        let told = explain(&gate, &arguments);
        assert_eq!(told.code, Some(1), "{arguments:?}: {}", told.stdout);
        assert!(told.stderr.contains(why), "{arguments:?}: {}", told.stderr);
    }
}

#[test]
fn what_a_shadow_limit_would_have_refused_is_remembered_although_it_passed() {
    let gate = start(POLICY);
    assert_eq!(passed_on(&gate, "/", "203.0.113.7").status, 200);
    assert_eq!(passed_on(&gate, "/", "203.0.113.7").status, 200);
    let told = explain(&gate, &["--client", "203.0.113.7"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let text = told.stdout;
    assert!(text.contains("→  admitted, over `watched`"), "{text}");
    assert!(text.contains("watched  shadow, over  1 of 1 per hour used"), "{text}");
    assert!(text.contains(" change    burst ≥ 2"), "{text}");
}

#[test]
fn the_endpoints_tell_the_last_ones_first_and_as_many_as_are_asked_for() {
    let gate = start(&format!("{POLICY}admin: {{ address: \"127.0.0.1:0\", open: true }}\n"));
    let address = gate.announced("admin address", |line| {
        let (_, rest) = line.split_once("admin on http://")?;
        rest.trim_end_matches('/').parse().ok()
    });
    let ids: Vec<String> =
        ["203.0.113.1", "203.0.113.2", "203.0.113.3"].map(|client| id_of(&sixth(&gate, client))).into();
    let get = |target: &str| {
        let mut connection = Connection::open(address);
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let answer = connection.answer_to("GET").expect("an answer comes");
        (answer.status, serde_json::from_str::<Value>(&answer.text()).expect("JSON"))
    };
    let list = |query: &str| -> Vec<(String, bool)> {
        let (status, list) = get(&format!("/api/v1/decisions?{query}"));
        assert_eq!((status, &list["schema"]), (200, &Value::from("tidegate.decisions/1")));
        let told = |one: &Value| (one["id"].as_str().unwrap().to_owned(), one["verdict"] == "refused");
        list["decisions"].as_array().unwrap().iter().map(told).collect()
    };
    // one in a thousand that are admitted is remembered as well
    let refused = |query: &str| -> Vec<String> {
        list(query).into_iter().filter(|(_, refused)| *refused).map(|(id, _)| id).collect()
    };
    let all = list("latest=40");
    assert_eq!(list("latest=2"), all[..2]);
    assert_eq!(refused("latest=40"), [&*ids[2], &ids[1], &ids[0]]);
    assert_eq!(refused("client=203.0.113.2&since=10m"), [&*ids[1]]);
    assert_eq!(get(&format!("/api/v1/decisions/{}", ids[0])).1["verdict"], "refused");
    assert_eq!(get("/api/v1/decisions/0000000000000").0, 404);
    assert_eq!(get("/api/v1/decisions?since=yesterday").0, 400);
    assert_eq!(get("/api/v1/decisions?latest=x").0, 400);
}

#[test]
fn a_flood_of_one_client_erases_nobody_elses_explanation() {
    let gate = start(POLICY);
    let refused = sixth(&gate, "203.0.113.7");
    let id = id_of(&refused);
    // more than all that is remembered: pipelined, a hundred at a time
    let mut connection = gate.connect();
    let hundred = "GET /login HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.66\r\n\r\n".repeat(100);
    let mut last = None;
    let mut refused = 0;
    while refused < 45_000 {
        connection.send(hundred.as_bytes()).unwrap();
        for _ in 0..100 {
            let answer = connection.answer_to("GET").expect("an answer comes");
            refused += u32::from(answer.status == 429);
            let goes_on = answer.keeps_connection();
            last = Some(answer);
            if !goes_on {
                connection = gate.connect();
                break;
            }
        }
    }
    let told = explain(&gate, &["--decision", &id]);
    assert!(told.code == Some(0) && told.stdout.contains("limited by `login`"), "{}{}", told.stdout, told.stderr);
    let told = explain(&gate, &["--client", "203.0.113.7"]);
    assert!(told.code == Some(0) && told.stdout.contains(&id), "{}{}", told.stdout, told.stderr);
    // one that is honest meanwhile is remembered as well
    let meanwhile = id_of(&sixth(&gate, "203.0.113.8"));
    passed_on(&gate, "/login", "198.51.100.66");
    assert_eq!(explain(&gate, &["--decision", &meanwhile]).code, Some(0));
    // and the flood by its latest decision
    assert_eq!(explain(&gate, &["--decision", &id_of(&last.unwrap())]).code, Some(0));
    assert_eq!(explain(&gate, &["--client", "198.51.100.66", "--limit", "5"]).code, Some(0));
}

#[test]
fn a_client_is_found_over_a_change_of_the_key() {
    let gate = start(POLICY);
    for name in ["one", "two"] {
        let file = gate.folder().join(name);
        std::fs::write(&file, format!("{name}, a key of thirty-two bytes....")).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let file = gate.folder().join("tidegate.yaml");
    let written = std::fs::read_to_string(&file).unwrap();
    let rotate = |key: &str| {
        std::fs::write(&file, format!("{written}secrets: {{ client_hmac: {{ file: {key} }} }}\n")).unwrap();
        let ended = end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    };
    // under the random key of the start, then under two of the operator's
    let first = id_of(&sixth(&gate, "203.0.113.7"));
    rotate("one");
    let second = id_of(&passed_on(&gate, "/login", "203.0.113.7"));
    rotate("two");
    let third = id_of(&passed_on(&gate, "/login", "203.0.113.7"));
    let told = explain(&gate, &["--client", "203.0.113.7"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    for id in [&first, &second, &third] {
        assert!(told.stdout.contains(id.as_str()), "{id} in {}", told.stdout);
    }
    // a pseudonym from a log line of before, and one of now, find the same
    let entries = gate.log_of(8);
    let of = |id: &str| entries.iter().find(|entry| entry.id == id).expect("it was logged").client.clone();
    let names = [of(&first), of(&second), of(&third)];
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    for name in &names {
        let told = explain(&gate, &["--client", name]);
        for id in [&first, &second, &third] {
            assert!(told.stdout.contains(id.as_str()), "{id} by {name} in {}{}", told.stdout, told.stderr);
        }
    }
    // and pardon knows it by its earlier name
    let pardoned = end(binary().args(["pardon", &names[0], "--admin"]).arg(gate.admin_socket()));
    assert_eq!(pardoned.code, Some(0), "{}", pardoned.stderr);
    assert_eq!(passed_on(&gate, "/login", "203.0.113.7").status, 200);
    rotate("one");
    let revoked = end(binary().args(["pardon", "--revoke", "203.0.113.7", "--admin"]).arg(gate.admin_socket()));
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
}

#[test]
fn without_a_running_process_there_is_nobody_to_ask() {
    let told = end(binary().args(["explain", "--decision", "0000000000000", "--admin", "/nonexistent/admin.sock"]));
    assert_eq!(told.code, Some(69), "{}", told.stderr);
}
