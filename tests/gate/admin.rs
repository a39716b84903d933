//! The admin endpoints: the socket, which takes everything and hears its owner, and the web address, which only tells.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::gate::{Ended, Folder, binary, end, run_to_end};
use crate::harness::{Gate, PATIENCE, wait_for};
use crate::skips::skip;

const TOKEN: &str = "0123456789abcdef0123";

/// A gate with an admin socket and a web address, whose clients come by `X-Forwarded-For`.
pub fn gate(admin: &str, telemetry: &str) -> Gate {
    let folder = Folder::new();
    let token = folder.path().join("admin.token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let policy = format!(
        "trusted_proxies: [127.0.0.0/8]
admin: {admin}
limits:
  per_client: {{ key: client_ip, rate: 2/h, burst: 2 }}
  per_site: {{ key: \"client_ip:ipv4_prefix=24\", rate: 1000/s, burst: 1000 }}
  by_key: {{ key: \"header:x-api-key\", missing: allow, rate: 1/h, burst: 1 }}
origins:
  app: {{ addresses: [\"127.0.0.1:9\"], inflight: {{ max: 7 }} }}
routes:
  - {{ name: page, limits: [per_client, per_site, by_key], respond: {{ status: 200, body: ok }} }}
  - {{ name: app, match: {{ path: /app }}, origin: app }}
{telemetry}"
    );
    let gate = Gate::start_in(folder, Stdio::null(), command, &policy);
    // the socket is there a moment after the listeners
    wait_for("the admin socket", || UnixStream::connect(gate.admin_socket()).ok());
    wait_for("the gate to be ready", || (ask(&gate, "GET", "/readyz", &Value::Null).0 == 200).then_some(()));
    gate
}

/// An `admin` for everybody on this machine.
pub const OPEN: &str = "{ address: \"127.0.0.1:0\", open: true }";

fn web_address(gate: &Gate) -> SocketAddr {
    gate.announced("admin address", |line| line.strip_prefix("admin on http://")?.strip_suffix('/')?.parse().ok())
}

/// Everything that is answered to these bytes: the status, the head, the body.
fn talk(mut stream: impl Read + Write, request: &[u8]) -> (u16, String, String) {
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), body.to_owned())
}

fn web(address: SocketAddr, request: &str) -> (u16, String, String) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    talk(stream, request.as_bytes())
}

fn get(address: SocketAddr, path: &str, lines: &str) -> (u16, String, String) {
    web(address, &format!("GET {path} HTTP/1.1\r\n{lines}\r\n"))
}

/// Asks on the socket, as `curl --unix-socket` does.
pub fn ask(gate: &Gate, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: gate\r\nContent-Length: {length}\r\n\r\n{body}");
    let (status, head, body) = talk(stream, request.as_bytes());
    assert!(head.contains("Content-Type: application/json") || !path.starts_with("/api/"), "{head}");
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// Runs a verb that asks this gate.
pub fn verb(gate: &Gate, arguments: &[&str]) -> Ended {
    end(binary().args(arguments).arg("--admin").arg(gate.admin_socket()))
}

/// One request of this client; its status.
pub fn request(gate: &Gate, client: &str) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: {client}\r\n")).status
}

#[test]
fn a_name_that_others_could_point_here_is_not_answered() {
    let gate = gate(OPEN, "");
    let address = web_address(&gate);
    for host in [format!("{address}"), "127.0.0.1".into(), "localhost:9901".into(), "[::1]:9901".into()] {
        assert_eq!(get(address, "/api/v1/status", &format!("Host: {host}\r\n")).0, 200, "{host}");
    }
    for lines in
        ["Host: evil.example\r\n", "Host: localhost.evil.example:9901\r\n", "", "Host: a\r\nHost: localhost\r\n"]
    {
        let (status, _, body) = get(address, "/api/v1/status", lines);
        assert_eq!(status, 403, "{lines:?}");
        assert!(body.starts_with("{\"error\":") && !body.contains("per_client"), "{body}");
    }
    let (_, head, _) = get(address, "/api/v1/status", "Host: localhost\r\n");
    for field in ["Content-Security-Policy: default-src 'none'; script-src 'self'", "Cache-Control: no-store"] {
        assert!(head.contains(field), "{head}");
    }
    let foreign = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    assert_eq!(get(address, "/api/v1/status", foreign).0, 403);
}

#[test]
fn the_web_address_only_tells() {
    let gate = gate(OPEN, "");
    let address = web_address(&gate);
    for path in ["/api/v1/upgrade", "/api/v1/pardon", "/api/v1/pardon/revoke", "/api/v1/status", "/nothing"] {
        for method in ["POST", "PUT", "DELETE"] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}");
            let (status, head, _) = web(address, &request);
            assert_eq!(status, 405, "{method} {path}");
            assert!(head.contains("Allow: GET, HEAD\r\n"), "{head}");
        }
    }
    // a GET does not act either
    assert_eq!(get(address, "/api/v1/upgrade", "Host: localhost\r\n").0, 405);
    assert_eq!(get(address, "/nothing", "Host: localhost\r\n").0, 404);
    for path in ["/healthz", "/readyz", "/api/v1/limits", "/api/v1/origins", "/api/v1/offenders", "/api/v1/config"] {
        assert_eq!(get(address, path, "Host: localhost\r\n").0, 200, "{path}");
        let head = web(address, &format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((head.0, head.2.as_str()), (200, ""), "{path}");
    }
    // and nothing of it is on the public listener
    assert_eq!(gate.fetch("/api/v1/status", "").text(), "ok");
}

#[test]
fn without_a_token_neither_clients_nor_the_configuration_are_told() {
    let gate = gate("127.0.0.1:0", "");
    let address = web_address(&gate);
    for _ in 0..4 {
        request(&gate, "203.0.113.7");
    }
    let offenders = ask(&gate, "GET", "/api/v1/offenders", &Value::Null).1;
    let pseudonym = offenders["offenders"][0]["client"].as_str().expect("it was refused").to_owned();
    let decisions = ask(&gate, "GET", "/api/v1/decisions", &Value::Null).1;
    let id = decisions["decisions"][0]["id"].as_str().expect("it is remembered").to_owned();
    let one = format!("/api/v1/decisions/{id}");
    let closed =
        ["config", "status", "origins", "offenders", "decisions", "pardons"].map(|name| format!("/api/v1/{name}"));
    for path in closed.iter().chain([&one]) {
        for method in ["GET", "HEAD"] {
            let (status, _, body) = web(address, &format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(status, 403, "{method} {path}");
            assert_eq!(body.contains("admin socket") && body.contains("token"), method == "GET", "{path}: {body}");
        }
    }
    // what stays open names no client, no address of an origin, and nothing of the file
    for path in ["/", "/healthz", "/readyz", "/page.css", "/page.js", "/api/v1/limits", "/api/v1/history"] {
        let (status, _, body) = get(address, path, "Host: localhost\r\n");
        assert_eq!(status, 200, "{path}");
        for secret in [pseudonym.as_str(), &id, "203.0.113", "127.0.0.1:9", "tidegate.yaml"] {
            assert!(!body.contains(secret), "{path} tells {secret}: {body}");
        }
    }
    // nor does the stream that keeps the page live
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /api/v1/stream?view=page HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut told = String::new();
    let mut piece = [0; 4096];
    while !told.contains("Clients are not shown") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{told}");
        told.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    assert!(!told.contains(&pseudonym) && !told.contains(&id) && !told.contains("127.0.0.1:9"), "{told}");
    // the socket asks for no token
    assert_eq!(ask(&gate, "GET", "/api/v1/config", &Value::Null).0, 200);
}

#[test]
fn names_in_the_policy_file_are_answered_too() {
    let admin = "{ address: \"127.0.0.1:0\", open: true, hosts: gate.internal }";
    let gate = gate(
        admin,
        "telemetry: { metrics: { address: \"127.0.0.1:0\", hosts: [\"*.svc\"] }, access_log: { to: ACCESS_LOG, sample: { refused: none } } }\n",
    );
    let status = |address, path, host: &str| get(address, path, &format!("Host: {host}\r\n")).0;
    let (admin, metrics) = (web_address(&gate), gate.metrics_address());
    for (host, at_admin, at_metrics) in [
        ("gate.internal:9901", 200, 403),
        ("prometheus.svc", 403, 200),
        ("localhost", 200, 200),
        ("10.1.2.3:9464", 200, 200),
        ("evil.example", 403, 403),
        ("svc", 403, 403),
    ] {
        assert_eq!(status(admin, "/api/v1/status", host), at_admin, "{host}");
        assert_eq!(status(metrics, "/metrics", host), at_metrics, "{host}");
        assert_eq!(status(metrics, "/healthz", host), 200, "{host}");
    }
    assert_eq!(get(metrics, "/metrics", "").0, 403);
    assert_eq!(get(metrics, "/metrics", "Host: localhost\r\nHost: localhost\r\n").0, 403);
}

#[test]
fn connections_that_do_nothing_delay_nobody() {
    let gate = gate(OPEN, "");
    let (admin, metrics) = (web_address(&gate), gate.metrics_address());
    let socket = gate.admin_socket();
    let idle: Vec<TcpStream> =
        [admin, metrics].iter().flat_map(|address| (0..100).map(|_| TcpStream::connect(*address).unwrap())).collect();
    let idle_at_socket: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // and some that have their answer and do not leave
    let stubborn: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(metrics).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let began = std::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(get(metrics, "/metrics", "Host: localhost\r\n").0, 200);
        assert_eq!(get(admin, "/api/v1/status", "Host: localhost\r\n").0, 200);
        assert_eq!(ask(&gate, "GET", "/healthz", &Value::Null).0, 200);
    }
    // fifteen answers that did not each wait for the five seconds after which silence ends by itself
    assert!(began.elapsed() < std::time::Duration::from_secs(25), "{:?}", began.elapsed());
    drop((idle, idle_at_socket, stubborn));
}

#[test]
fn a_token_is_asked_for_and_never_told() {
    let gate = gate("{ address: \"127.0.0.1:0\", token: { file: admin.token } }", "");
    let address = web_address(&gate);
    let with = |line: &str| get(address, "/api/v1/config", &format!("Host: localhost\r\n{line}"));
    let (status, head, body) = with("");
    assert_eq!((status, body.contains("per_client")), (401, false));
    // a field for each, or browsers do not ask
    assert!(head.contains("\r\nWWW-Authenticate: Basic realm=\"tidegate\", charset=\"UTF-8\"\r\n"), "{head}");
    assert!(head.contains("\r\nWWW-Authenticate: Bearer\r\n"), "{head}");
    assert_eq!(with("Authorization: Bearer 0123456789abcdef012\r\n").0, 401);
    let (status, _, body) = with(&format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!((status, body.contains(TOKEN)), (200, false));
    // base64 of `op:` and the token
    assert_eq!(with("Authorization: Basic b3A6MDEyMzQ1Njc4OWFiY2RlZjAxMjM=\r\n").0, 200);
    assert!(!gate.talk().contains(TOKEN));
}

#[test]
fn whoever_has_the_token_gives_orders_about_clients_and_no_page_of_another_site_does() {
    let gate = gate("{ address: \"127.0.0.1:0\", token: { file: admin.token } }", "");
    let address = web_address(&gate);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let json = "Content-Type: application/json\r\n";
    let post = |path: &str, lines: &str, body: &Value| {
        let body = body.to_string();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n{lines}\r\n{body}");
        web(address, &head).0
    };
    let ban = json!({ "target": "203.0.113.7", "for_seconds": 60 });
    let own = format!("Origin: http://{address}\r\n");
    for (lines, status) in [
        (json.to_owned(), 401),
        (format!("{token}{json}Origin: http://evil.example\r\n"), 403),
        (format!("{token}{json}{own}Sec-Fetch-Site: same-site\r\n"), 403),
        (format!("{token}{own}Content-Type: text/plain\r\n"), 403),
        (format!("{token}{json}Origin: null\r\n"), 403),
    ] {
        assert_eq!(post("/api/v1/ban", &lines, &ban), status, "{lines}");
    }
    assert_eq!(request(&gate, "203.0.113.7"), 200, "nothing was done");
    let allowed = format!("{token}{json}{own}Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(post("/api/v1/ban", &allowed, &ban), 200);
    assert_eq!(request(&gate, "203.0.113.7"), 403);
    assert_eq!(post("/api/v1/unban", &format!("{token}{json}"), &json!({ "target": "1" })), 200, "by curl");
    assert_eq!(request(&gate, "203.0.113.7"), 200);
    // what is about the process stays on the socket
    for path in ["/api/v1/reload", "/api/v1/upgrade", "/api/v1/bans/networks"] {
        assert_eq!(post(path, &allowed, &json!({})), 405, "{path}");
    }
    let page = |lines: &str| get(address, "/", &format!("Host: localhost\r\n{lines}")).2;
    wait_for("somebody who is refused", || {
        for _ in 0..4 {
            request(&gate, "203.0.113.8");
        }
        page(&token).contains("data-verb=\"ban\" data-acts").then_some(())
    });
    assert!(page(&token).contains("data-verb=\"pardon\" data-acts"));
}

#[test]
fn without_a_token_the_page_gives_no_orders_and_a_tunnel_to_the_socket_takes_none_of_other_sites() {
    let gate = gate("{ address: \"127.0.0.1:0\", open: true }", "");
    let address = web_address(&gate);
    let body = json!({ "target": "203.0.113.7", "for_seconds": 60 }).to_string();
    let order = |lines: &str| {
        format!(
            "POST /api/v1/ban HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{lines}\r\n{body}",
            body.len()
        )
    };
    assert_eq!(web(address, &order("")).0, 405);
    wait_for("somebody who is refused", || {
        for _ in 0..4 {
            request(&gate, "203.0.113.8");
        }
        get(address, "/", "Host: localhost\r\n").2.contains("data-verb=\"ban\"").then_some(())
    });
    let page = get(address, "/", "Host: localhost\r\n").2;
    assert!(!page.contains("data-order") && !page.contains("data-acts"));
    let at_socket = |lines: &str| talk(UnixStream::connect(gate.admin_socket()).unwrap(), order(lines).as_bytes()).0;
    assert_eq!(at_socket("Origin: http://evil.example\r\n"), 403);
    let rebound =
        order("Origin: http://evil.example:9901\r\n").replace(&format!("Host: {address}"), "Host: evil.example:9901");
    assert_eq!(talk(UnixStream::connect(gate.admin_socket()).unwrap(), rebound.as_bytes()).0, 403);
    assert_eq!(request(&gate, "203.0.113.7"), 200);
    assert_eq!(at_socket(&format!("Origin: http://{address}\r\n")), 200);
    assert_eq!(request(&gate, "203.0.113.7"), 403);
}

#[test]
fn an_address_for_all_needs_a_token() {
    let policy = "listen: \"127.0.0.1:0\"\nadmin: \"0.0.0.0:0\"\nroutes: [{ respond: { status: 200 } }]\n";
    let ended = run_to_end(&["check", "tidegate.yaml"], policy);
    assert_eq!(ended.code, Some(78));
    assert!((ended.stdout + &ended.stderr).contains("E0321"));
}

#[test]
fn what_is_too_long_is_refused() {
    let gate = gate(OPEN, "");
    let long = "x".repeat(9_000);
    let (status, ..) = web(web_address(&gate), &format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"));
    assert_eq!(status, 431);
    let stream = UnixStream::connect(gate.admin_socket()).unwrap();
    let (status, ..) = talk(stream, b"POST /api/v1/pardon HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n");
    assert_eq!(status, 413);
    let stream = UnixStream::connect(gate.admin_socket()).unwrap();
    let (status, ..) = talk(stream, b"POST /api/v1/pardon HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(status, 411);
}

#[test]
fn who_is_slow_is_closed_and_holds_nobody_up() {
    let gate = gate(OPEN, "");
    let address = web_address(&gate);
    let slow: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: loc").unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
        .collect();
    // one more takes the place of the oldest; the socket has places of its own
    assert_eq!(ask(&gate, "GET", "/healthz", &Value::Null).0, 200);
    assert_eq!(get(address, "/api/v1/status", "Host: localhost\r\n").0, 200);
    for mut stream in slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "closed without an answer");
    }
}

#[test]
fn another_user_is_not_heard() {
    let gate = gate(OPEN, "");
    let can = end(Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", "true"])).code == Some(0);
    if !can {
        return skip("another user at the admin socket", "not root, or no setpriv");
    }
    let socket = gate.admin_socket();
    // what the file's mode and the folder's keep out is let in here, so that only the kernel's word is left
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    for folder in
        socket.ancestors().skip(1).take_while(|folder| *folder != Path::new("/tmp") && folder.parent().is_some())
    {
        let mode = std::fs::metadata(folder).unwrap().permissions().mode();
        let _ = std::fs::set_permissions(folder, PermissionsExt::from_mode(mode | 0o055));
    }
    let mut curl = Command::new("setpriv");
    curl.args(["--reuid", "65534", "--clear-groups", "curl", "-s", "-X", "POST", "--unix-socket"]);
    let ended = end(curl.arg(&socket).arg("http://gate/api/v1/upgrade"));
    assert_ne!(ended.code, Some(127), "no curl, which `./dev setup` installs: {}", ended.stderr);
    assert!(ended.stdout.contains("only the process's own user and root"), "{} {}", ended.stdout, ended.stderr);
    wait_for("the log to tell", || gate.talk().contains("another user").then_some(()));
    assert_eq!(ask(&gate, "GET", "/healthz", &Value::Null).0, 200);
}

#[test]
fn status_says_what_the_metrics_say() {
    let gate = gate(OPEN, "");
    for n in 0..5 {
        request(&gate, &format!("192.0.2.{n}"));
    }
    for _ in 0..4 {
        request(&gate, "198.51.100.1");
    }
    gate.counts("tidegate_requests_total", &[], 9.0);
    let metrics = gate.metrics();
    let (status, told) = ask(&gate, "GET", "/api/v1/status", &Value::Null);
    assert_eq!(status, 200);
    assert_eq!(told["schema"], "tidegate.status/1");
    assert_eq!((&told["process"], &told["state"]), (&json!(gate.id()), &json!("ready")));
    assert_eq!(told["requests"]["ended"], json!(metrics.sum("tidegate_requests_total", &[]) as u64));
    assert_eq!(told["requests"]["refused"], json!(2));
    assert_eq!(told["listeners"][0]["address"], json!(gate.address("main").to_string()));
    assert_eq!(
        told["listeners"][0]["accepted"],
        json!(metrics.sum("tidegate_connections_accepted_total", &[("listener", "main")]) as u64)
    );
    let limits = told["limits"].as_array().unwrap();
    let limit = limits.iter().find(|limit| limit["name"] == "per_client").unwrap();
    for verdict in ["allowed", "limited"] {
        let counted = metrics.sum("tidegate_limit_decisions_total", &[("limit", "per_client"), ("verdict", verdict)]);
        assert_eq!(limit["decisions"][verdict], json!(counted as u64), "{verdict}");
    }
    assert_eq!((&limit["keys"], &limit["kind"]), (&json!(6), &json!("rate")));
    assert_eq!(told["origins"][0]["limit"], json!(7));
    assert_eq!((&told["waiting_for_upgrade"], &told["notices"]), (&json!([]), &json!([])));
    // the verb shows the same
    let ended = verb(&gate, &["status"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    println!("{}", ended.stdout);
    for part in ["per_client", "0/7", told["config"]["fingerprint"].as_str().unwrap(), "tidegate.yaml"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert_eq!(verb(&gate, &["status", "--quiet"]).stdout, "");
    let ended = verb(&gate, &["status", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap()["process"], json!(gate.id()));
    let nobody = end(binary().args(["status", "--admin", "/nonexistent/admin.sock"]));
    assert_eq!(nobody.code, Some(69), "{}", nobody.stderr);
}

#[test]
fn what_runs_is_shown_as_the_file_would_be() {
    let gate = gate(OPEN, "");
    let file = gate.folder().join("tidegate.yaml");
    let of_file = end(binary().args(["show", "-c"]).arg(&file));
    let of_running = verb(&gate, &["show", "--running"]);
    assert_eq!((of_running.code, of_running.stdout), (Some(0), of_file.stdout));
    let part = verb(&gate, &["show", "--running", "limits.per_client.rate"]);
    assert_eq!(part.stdout, "2/h\n");
    let none = verb(&gate, &["show", "--running", "limits.per_clien"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("did you mean `limits.per_client`"), "{}", none.stderr);
}

#[test]
fn a_limited_client_is_pardoned_and_nobody_else_is() {
    let gate = gate(OPEN, "");
    let (client, other) = ("203.0.113.7", "203.0.113.8");
    let use_up = |client: &str| (0..4).map(|_| request(&gate, client)).collect::<Vec<_>>();
    assert_eq!(use_up(client), [200, 200, 429, 429]);
    assert_eq!(use_up(other), [200, 200, 429, 429]);
    let ended = verb(&gate, &["pardon", client]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("pardoned 203.0.113.7 (")
            && ended.stdout.contains("): counts reset in per_client, per_site\n"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("unchanged: by_key (does not count by the client alone)"), "{}", ended.stdout);
    assert_eq!(use_up(client), [200, 200, 429, 429], "a whole budget again, and no more");
    assert_eq!(request(&gate, other), 429, "nobody else");
    // for a while, then no longer
    assert_eq!(ask(&gate, "POST", "/api/v1/pardon", &json!({ "client": client, "exempt_seconds": 3_600 })).0, 200);
    assert!((0..10).all(|_| request(&gate, client) == 200));
    let listed = ask(&gate, "GET", "/api/v1/pardons", &Value::Null).1;
    assert_eq!(listed["pardons"].as_array().unwrap().len(), 1, "{listed}");
    assert!(listed["pardons"][0]["exempt_for_seconds"].as_u64().unwrap() > 3_500, "{listed}");
    let ended = verb(&gate, &["pardon", "--revoke", client]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(request(&gate, client), 429, "the debt from before counts again");
    assert_eq!(verb(&gate, &["pardon", "--list"]).stdout, "");
    assert_eq!(verb(&gate, &["pardon", "--revoke", client]).code, Some(1));
    // nobody is named by address where the log does not
    assert!(!gate.talk().contains(client) && !listed.to_string().contains(client), "{}", gate.talk());
}

#[test]
fn a_client_is_found_by_its_pseudonym_and_by_its_network() {
    let gate = gate(OPEN, "");
    let client = "203.0.113.7";
    assert_eq!((0..3).map(|_| request(&gate, client)).collect::<Vec<_>>(), [200, 200, 429]);
    let offenders = ask(&gate, "GET", "/api/v1/offenders", &Value::Null).1;
    let offender = &offenders["offenders"][0];
    assert_eq!((&offender["limit"], &offender["count"]), (&json!("per_client"), &json!(1)), "{offenders}");
    let pseudonym = offender["client"].as_str().unwrap();
    assert_eq!(verb(&gate, &["pardon", pseudonym, "--limit", "per_client"]).code, Some(0));
    assert_eq!((0..3).map(|_| request(&gate, client)).collect::<Vec<_>>(), [200, 200, 429]);
    let refused = |arguments: &[&str]| {
        let ended = verb(&gate, arguments);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        ended.stderr
    };
    assert!(refused(&["pardon", "AAAAAAAAAAAAAAAAAAAAAA"]).contains("unknown client"));
    assert!(refused(&["pardon", client, "--limit", "none"]).contains("there is no limit `none`"));
    assert!(refused(&["pardon", client, "--limit", "by_key"]).contains("does not count by the client alone"));
    assert!(refused(&["pardon", "203.0.113.0/24", "--limit", "per_client"]).contains("counts smaller networks"));
    let site = verb(&gate, &["pardon", "203.0.113.0/24"]);
    assert!(
        site.stdout.contains("counts reset in per_site\n") && site.stdout.contains("unchanged: per_client ("),
        "{}",
        site.stdout
    );
    assert_eq!(verb(&gate, &["pardon"]).code, Some(2));
}

#[test]
fn after_a_reload_other_words_are_in_force_and_what_waits_is_told() {
    let gate = gate(OPEN, "");
    let before = ask(&gate, "GET", "/api/v1/status", &Value::Null).1;
    let file = gate.folder().join("tidegate.yaml");
    let policy = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, policy.replace("rate: 2/h", "rate: 3/h").replace("threads: 2", "threads: 3")).unwrap();
    let (status, told) = ask(&gate, "POST", "/api/v1/reload", &json!({}));
    assert_eq!(status, 200, "{told}");
    let after = ask(&gate, "GET", "/api/v1/status", &Value::Null).1;
    assert_ne!(before["config"]["fingerprint"], after["config"]["fingerprint"]);
    assert_eq!(after["waiting_for_upgrade"], json!(["server.threads"]));
    assert_eq!(verb(&gate, &["show", "--running", "limits.per_client.rate"]).stdout, "3/h\n");
}

#[test]
fn addresses_are_shown_on_the_socket_to_whoever_asks_and_pseudonyms_elsewhere() {
    const CLIENT: &str = "203.0.113.7";
    let gate = gate(OPEN, "");
    let address = web_address(&gate);
    for client in [CLIENT, "203.0.113.8"] {
        assert_eq!([0; 4].map(|_| request(&gate, client)), [200, 200, 429, 429]);
    }
    assert_eq!(verb(&gate, &["ban", "198.51.100.0/24", "--for", "1h"]).code, Some(0));
    let shown = |arguments: &[&str]| {
        let ended = verb(&gate, arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        ended.stdout
    };
    for (verb, name) in [(&["bans"][..], "198.51.100.0/24"), (&["top", "--once"][..], CLIENT)] {
        assert!(!shown(verb).contains(name), "{verb:?}");
        let told = shown(&[verb, &["--show-clients"]].concat());
        assert!(told.contains(name), "{verb:?}: {told}");
    }
    assert!(shown(&["top", "--once", "--show-clients"]).contains("203.0.113.0/24"), "networks too");
    for path in ["/api/v1/bans", "/api/v1/offenders"] {
        let on_socket = ask(&gate, "GET", &format!("{path}?clients=address"), &Value::Null);
        assert!(on_socket.0 == 200 && on_socket.1.to_string().contains("/24"), "{on_socket:?}");
        assert_eq!(ask(&gate, "GET", &format!("{path}?clients=names"), &Value::Null).0, 400);
        let (status, _, body) = get(address, &format!("{path}?clients=address"), "Host: localhost\r\n");
        assert!(status == 403 && body.contains("on the admin socket only"), "{status} {body}");
        let (status, _, body) = get(address, path, "Host: localhost\r\n");
        assert!(status == 200 && !body.contains("203.0.113") && !body.contains("198.51.100"), "{status} {body}");
    }
}
