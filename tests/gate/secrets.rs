//! Values of variables stay inside of the process: whatever shows the configuration shows `${NAME}`.

use std::process::Stdio;

use serde_json::Value;

use crate::admin::ask;
use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Gate, wait_for};

/// Nobody guesses them, and each stands somewhere else.
const VALUES: [(&str, &str); 8] = [
    ("API_KEY", "hq7ZkT2mVwXy"),
    ("GREETING", "b4Rn9LsJfQpd"),
    ("PATH_PART", "w8Gc3DxYhMvt"),
    ("HOST_PART", "k5tz6wqbnrfj"),
    ("BACKEND", "127.83.61.29"),
    ("LOGIN_RATE", "4817/h"),
    ("KEY_PART", "header:x-m3vq8ztw"),
    ("EXPRESSION", "/n9d4hkbs.*"),
];

/// What an origin's address is made of is shown where addresses have to be: in the log, the metrics and the status.
const OF_ADDRESSES: [&str; 1] = ["BACKEND"];

const POLICY: &str = "admin: { address: \"127.0.0.1:0\", open: true }
limits:
  login:
    key: client_ip
    rate: ${LOGIN_RATE}
    exempt:
      - header:
          x-api-key: ${API_KEY}
  keyed:
    key:
      - ${KEY_PART}
    missing: allow
    rate: 1/h
origins:
  app:
    addresses:
      - ${BACKEND}:9
routes:
  - name: partner
    match:
      host: ${HOST_PART}.example.com
      path: /in/${PATH_PART}/x
    respond:
      body: hello ${GREETING:-nobody}, and ${UNSET:-welcome}
  - name: keyed
    match:
      path:
        regex: ${EXPRESSION}
    limits: [keyed]
    respond: { status: 200, body: in }
  - name: login
    match: { path: /login }
    limits: [login]
    respond: { status: 200, body: in }
  - name: app
    origin: app
    request_headers:
      set:
        x-secret: Bearer ${API_KEY}
";

fn gate() -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path()).envs(VALUES);
    let gate = Gate::start_in(folder, Stdio::null(), command, POLICY);
    wait_for("the admin socket", || std::os::unix::net::UnixStream::connect(gate.admin_socket()).ok());
    gate
}

#[track_caller]
fn shows_no_value(what: &str, text: &str, except: &[&str]) {
    for (name, value) in VALUES.iter().filter(|(name, _)| !except.contains(name)) {
        assert!(!text.to_lowercase().contains(&value.to_lowercase()), "{what} shows ${{{name}}}: {text}");
    }
}

#[test]
fn values_of_variables_are_shown_nowhere() {
    let gate = gate();
    let verb = |arguments: &[&str]| {
        let file = gate.folder().join("tidegate.yaml");
        let mut command = binary();
        command.envs(VALUES).args(arguments);
        match arguments.contains(&"-c") {
            true => command.arg(file),
            false => command.arg("--admin").arg(gate.admin_socket()),
        };
        let ended = end(&mut command);
        assert!(ended.code.is_some_and(|code| code < 2), "{arguments:?}: {}", ended.stderr);
        ended.stdout + &ended.stderr
    };
    for path in ["/login", "/", "/in/w8Gc3DxYhMvt/x"] {
        gate.fetch(path, "");
    }
    gate.fetch("/in/w8Gc3DxYhMvt/x", "Host: k5tz6wqbnrfj.example.com\r\n");
    for _ in 0..2 {
        gate.fetch("/n9d4hkbsX", "x-m3vq8ztw: a\r\n");
    }
    for arguments in [
        &["explain", "--client", "127.0.0.1"][..],
        &["explain", "--client", "127.0.0.1", "--format", "json"],
        #[cfg(feature = "tui")]
        &["top", "--once"],
        &["show", "--running"],
        &["show", "--running", "--format", "json"],
        &["show", "--running", "origins.app"],
        &["show", "-c"],
        &["show", "--format", "json", "-c"],
        &["check", "-v", "-c"],
        &["check", "--format", "json", "-c"],
        &["reload"],
    ] {
        shows_no_value(&format!("{arguments:?}"), &verb(arguments), &[]);
    }
    for path in ["/api/v1/config", "/api/v1/config?path=routes", "/api/v1/limits", "/api/v1/decisions?latest=100"] {
        let told = ask(&gate, "GET", path, &Value::Null).1.to_string();
        shows_no_value(path, &told, &[]);
    }
    let explained = verb(&["explain", "--client", "127.0.0.1"]);
    for written in ["path ${EXPRESSION}", "${KEY_PART}", "LIMITED"] {
        assert!(explained.contains(written), "{written:?} is missing in {explained}");
    }
    let asked =
        ["explain", "--request", "GET http://a/n9d4hkbsY", "--header", "x-m3vq8ztw: b", "--from", "192.0.2.1", "-c"];
    let told = verb(&asked);
    assert!(told.contains("path ${EXPRESSION}"), "{told}");
    shows_no_value("explain --request", &told.replace("/n9d4hkbsY", ""), &[]);
    let shown = verb(&["show", "--running"]);
    for written in [
        "rate: ${LOGIN_RATE}",
        "- ${BACKEND}:9\n",
        "x-api-key: ${API_KEY}",
        "body: hello ${GREETING:-nobody}, and ${UNSET:-welcome}",
        "name: partner",
        "status: 200",
    ] {
        assert!(shown.contains(written), "{written:?} is missing in {shown}");
    }
    for path in ["/", "/api/v1/status", "/api/v1/history"] {
        shows_no_value(path, &ask(&gate, "GET", path, &Value::Null).1.to_string(), &OF_ADDRESSES);
    }

    // a change of the file that names the same variables elsewhere, and one that is wrong
    let file = gate.folder().join("tidegate.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let other = text.replace("rate: ${LOGIN_RATE}", "rate: 7/s").replace("name: app\n", "name: other\n");
    assert_ne!(other, text);
    std::fs::write(&file, &other).unwrap();
    let told = verb(&["reload"]);
    assert!(told.contains("rate ${LOGIN_RATE} → 7/s") || told.contains("${LOGIN_RATE}"), "{told}");
    shows_no_value("reload", &told, &[]);
    for (from, to) in [
        ("rate: 7/s", "rate: ${API_KEY}"),
        ("path: /login", "path: ${GREETING}"),
        ("limits: [login]", "limits:\n      - ${PATH_PART}"),
        ("origin: app", "origin: ${HOST_PART}"),
        ("status: 200", "status: ${API_KEY}"),
        ("key: client_ip", "key: ${API_KEY}"),
        ("name: partner", "name: ${API_KEY} ${GREETING}"),
    ] {
        let broken = other.replace(from, to).replace("match: { path: ${GREETING} }", "match:\n      path: ${GREETING}");
        assert_ne!(broken, other, "{from}");
        std::fs::write(&file, broken.replace("{ status: ${API_KEY}, body: in }", "\n      status: ${API_KEY}"))
            .unwrap();
        shows_no_value(to, &verb(&["reload"]), &[]);
        shows_no_value(to, &end(binary().envs(VALUES).args(["check", "-c"]).arg(&file)).stderr, &[]);
    }
    shows_no_value("the process's log", &gate.talk(), &OF_ADDRESSES);
}
