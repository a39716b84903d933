//! The admin page as an operator meets it: headless Chromium during a flood, in light, in dark and as narrow as a phone.
//!
//! Chromium is Debian's package; `./dev setup` installs it. Its driver is `tests/gate/clients/page_browser.py`. Pictures of
//! the page are left in `target/screenshots`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::{Answer, Connection, Gate, Origin, Reply, wait_for};

/// The system's Python, for which the packages are; another may come first in the path.
const PYTHON: &str = "/usr/bin/python3";

const ABUSER: &str = "198.51.100.66";

fn gate(origin: &Origin) -> Gate {
    let origin = origin.address();
    Gate::start(&format!(
        "admin: {{ address: \"127.0.0.1:0\", open: true }}
trusted_proxies: [127.0.0.0/8]
origins:
  shop: {{ addresses: [\"{origin}\"], inflight: {{ max: 40, queue: 10, queue_timeout: 250ms }} }}
limits:
  per_client: {{ key: client_ip, rate: 5/s, burst: 10 }}
  half: {{ key: client_ip, rate: 1/s, burst: 2, mode: shadow }}
  crowd: {{ type: fair_share, capacity: 100000/s }}
routes:
  - {{ name: shop, match: {{ path: /shop }}, limits: [per_client, half], origin: shop }}
  - {{ name: site, limits: [half, crowd], respond: {{ status: 200, body: ok }} }}
"
    ))
}

fn admin(gate: &Gate) -> SocketAddr {
    gate.announced("admin page", |line| line.split_once("admin on http://")?.1.trim_end_matches('/').parse().ok())
}

/// Reads from the admin address, which answers to no name but `localhost`.
fn get(gate: &Gate, path: &str) -> Answer {
    let mut connection = Connection::open(admin(gate));
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    connection.answer_to("GET").expect("an answer comes")
}

/// Clients that ask until they are told to stop: one that asks far too much, and many that hardly ask.
struct Flood {
    stop: Arc<AtomicBool>,
    clients: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn on(address: SocketAddr) -> Flood {
        let stop = Arc::<AtomicBool>::default();
        let clients = (0..3_u32).map(|number| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                let mut turn = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let honest = format!("203.0.{}.{}", turn / 200 % 4, turn % 200);
                    let (path, client) = match number {
                        0 => ("/shop", ABUSER),
                        1 => ("/shop", honest.as_str()),
                        _ => ("/", honest.as_str()),
                    };
                    let answer = connection.ask("GET", path, &format!("X-Forwarded-For: {client}\r\n"), b"");
                    assert!(matches!(answer.status, 200 | 429), "{answer:?}");
                    if !answer.keeps_connection() {
                        connection = Connection::open(address);
                    }
                    // a flood of some hundreds per second leaves the machine to the browser
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            })
        });
        Flood { clients: clients.collect(), stop }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("a client does not panic"));
    }
}

/// A browser that looks at the page.
struct Browser(Child, BufReader<ChildStdout>);

impl Browser {
    fn open(gate: &Gate, axe: Option<&Path>) -> Browser {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(PYTHON);
        command.arg(root.join("tests/gate/clients/page_browser.py"));
        command.arg(format!("http://{}/", admin(gate))).arg(format!("http://{}/metrics", gate.metrics_address()));
        command.arg(root.join("target/screenshots")).args(axe).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{PYTHON}: {error}; see `./dev setup`"));
        let said = BufReader::new(child.stdout.take().unwrap());
        Browser(child, said)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("its output is text");
        assert!(!line.is_empty(), "the browser ended early; `./dev setup` installs what it needs");
        line
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A number of the page: section, row, what it is.
fn number(numbers: &Value, section: &str, row: &str, class: &str) -> f64 {
    let told = numbers.as_array().expect("a list of numbers").iter();
    let mut fits = told.filter(|told| told[0] == section && told[1] == row && told[2] == class);
    let found = fits.next().unwrap_or_else(|| panic!("{section} {row} {class} is not on the page: {numbers}"));
    found[3].as_f64().expect("a number")
}

/// A count that a trend tells in words: section, row, the word behind it.
fn trend(trends: &Value, section: &str, row: &str, word: &str) -> f64 {
    let told = trends.as_array().expect("a list of trends").iter();
    let mut fits = told.filter(|told| told[0] == section && told[1] == row).filter_map(|told| told[2].as_str());
    let words = fits.next().unwrap_or_else(|| panic!("{section} {row} is not on the page: {trends}"));
    let (_, counts) = words.split_once(": ").expect("counts");
    let count = counts.split(", ").find_map(|count| count.strip_suffix(word)?.strip_suffix(' '));
    count.unwrap_or_else(|| panic!("{word}: {words}")).replace(',', "").parse().expect("a number")
}

/// Sums of means per second are a little off what was counted.
fn is_near(told: f64, counted: f64) -> bool {
    (told - counted).abs() <= 2.0 + 0.03 * counted
}

/// The sum of the series of this name with these labels.
fn metric(metrics: &Value, name: &str, labels: &[(&str, &str)]) -> f64 {
    let series = metrics.as_array().expect("a list of series").iter();
    let fits = series.filter(|one| one[0] == name && labels.iter().all(|(label, value)| one[1][*label] == *value));
    fits.map(|one| one[2].as_f64().expect("a number")).sum()
}

#[test]
fn the_page_is_filled_live_readable_and_says_what_the_metrics_say() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin);
    let flood = Flood::on(gate.address("main"));
    wait_for("something to look at", || {
        let limited = [("limit", "per_client"), ("verdict", "limited")];
        let counted = gate.metrics().sum("tidegate_limit_decisions_total", &limited) > 100.0;
        (counted && get(&gate, "/").text().contains("A flood is being held off")).then_some(())
    });
    let axe = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/axe/axe.min.js");
    let axe = axe.exists().then_some(axe);
    if axe.is_none() {
        crate::skips::skip("the page by axe-core's rules", "no target/tools/axe, which `./dev setup` fetches with npm");
    }
    let mut browser = Browser::open(&gate, axe.as_deref());
    assert_eq!(browser.line().trim(), "looked");
    flood.end();
    gate.counts("tidegate_origin_inflight_requests", &[], 0.0);
    browser.0.stdin.as_mut().unwrap().write_all(b"quiet\n").unwrap();
    let seen: Value = serde_json::from_str(&browser.line()).expect("what it saw is JSON");

    // without any script: words and numbers are there
    let first = &seen["first_paint"];
    let text = first["text"].as_str().unwrap();
    let order = [
        "Is it well?",
        "Who is it?",
        "What now?",
        "Flow",
        "Who",
        "Limits",
        "Routes",
        "Origins",
        "Stores",
        "Decisions",
        "Policy",
    ];
    let mut from = text.find("A flood is being held off").expect("the sentence comes first");
    for word in order {
        from += text[from..].find(word).unwrap_or_else(|| panic!("{word} is missing, or not in its order: {text}"));
    }
    for word in
        ["per_client", "shadow", "crowd", "shop", "in use", "up ", "policy", "tidegate ban ", "If you do nothing", "× "]
    {
        assert!(text.contains(word), "{word} is missing: {text}");
    }
    assert!(text.replace('\n', " ").contains("429 limited by per_client"), "{text}");
    assert!(trend(&first["trends"], "limits", "per_client", "refused") > 50.0);
    assert!(trend(&first["trends"], "routes", "shop", "limited") > 50.0);
    assert!(!first["text"].as_str().unwrap().contains("198.51.100.66"), "clients are pseudonyms");

    // each way to look at it
    for look in ["light", "dark", "phone", "tablet", "narrow"] {
        let told = &seen[look];
        if axe.is_some() {
            assert_eq!(told["violations"], Value::Array(Vec::new()), "{look}: axe-core says");
        }
        assert_eq!(told["too_wide"], 0, "{look}: one would have to scroll sideways");
        assert_eq!(told["cut"], Value::Array(Vec::new()), "{look}: these are cut off, or squeezed");
        assert_eq!(told["nameless"], Value::Array(Vec::new()), "{look}: a screen reader could not name these");
        assert!(told["contrast"][0].as_f64().unwrap() >= 4.5, "{look}: {}", told["contrast"]);
    }
    let screens = seen["phone"]["screens"].as_f64().unwrap();
    assert!(screens <= 4.0, "a flood is {screens} screens of a phone");
    assert_eq!(seen["light"]["paper"], "rgb(255, 255, 255)");
    assert_eq!(seen["dark"]["paper"], "rgb(13, 17, 23)");
    assert_eq!(seen["chosen_dark"], seen["dark"]["paper"], "the switch goes before the system's theme");
    assert_eq!(seen["smooth"], "auto", "no motion for who wants none");
    assert_eq!(seen["complaints"], Value::Array(Vec::new()));
    let page = format!("http://{}/", admin(&gate));
    for address in seen["asked_for"].as_array().unwrap() {
        let address = address.as_str().unwrap();
        assert!(address.starts_with(&page) || address == "data:," || address == "about:blank", "{address}");
    }

    // all of it is small
    let all: usize = ["/", "/page.css", "/page.js"].into_iter().map(|path| get(&gate, path).body.len()).sum();
    assert!(all <= 60 << 10, "{all} bytes of HTML, CSS and script");

    // by keyboard alone: every control in turn, each seen to have the focus
    let keyboard = &seen["keyboard"];
    let reached = keyboard["reached"].as_array().unwrap();
    assert!(reached.len() >= 9, "{keyboard}");
    for control in reached {
        assert!(control["outline"] == true && control["seen"] == true && control["words"] != "", "{control}");
    }
    let mut different: Vec<String> = reached.iter().map(Value::to_string).collect();
    assert_eq!(reached[0]["words"], "Skip to the state of the gate");
    different.sort();
    different.dedup();
    assert_eq!(different.len(), reached.len(), "no control is met twice before all have been: {keyboard}");
    let opened = keyboard["opened"].as_str().unwrap();
    assert!(opened.contains("per_client") || opened.contains("half"), "an explanation: {opened}");
    assert_eq!((&keyboard["frozen"], &keyboard["thawed"]), (&"true".into(), &"false".into()));

    // in the quiet after the flood: the same numbers in both places
    let (page, trends, metrics) = (&seen["numbers"], &seen["trends"], &seen["metrics"]);
    for route in ["shop", "site"] {
        let limited = metric(metrics, "tidegate_refused_requests_total", &[("route", route), ("reason", "limit")]);
        assert!(is_near(trend(trends, "routes", route, "limited"), limited), "{route}: {limited} {trends}");
    }
    for (limit, word, verdict) in [
        ("per_client", "admitted", "allowed"),
        ("per_client", "refused", "limited"),
        ("half", "would be refused", "limited"),
        ("crowd", "admitted", "allowed"),
    ] {
        let decided = metric(metrics, "tidegate_limit_decisions_total", &[("limit", limit), ("verdict", verdict)]);
        assert!(is_near(trend(trends, "limits", limit, word), decided), "{limit} {verdict}: {decided} {trends}");
        assert!(decided > 0.0, "{limit} {verdict}");
    }
    // what `half` allowed and `per_client` refused
    let elsewhere = metric(metrics, "tidegate_limit_refused_elsewhere_total", &[("limit", "half")]);
    let allowed = metric(metrics, "tidegate_limit_decisions_total", &[("limit", "half"), ("verdict", "allowed")]);
    assert!(is_near(trend(trends, "limits", "half", "refused elsewhere"), elsewhere), "{elsewhere} {trends}");
    assert!(is_near(trend(trends, "limits", "half", "admitted"), allowed - elsewhere), "{allowed} {trends}");
    for (class, name) in
        [("inflight-now", "tidegate_origin_inflight_requests"), ("queue-now", "tidegate_origin_queue_requests")]
    {
        let told = metric(metrics, name, &[("origin", "shop")]);
        assert_eq!(number(page, "origins", "shop", class), told, "{name}");
    }
}

#[test]
fn ten_minutes_come_as_json_and_every_second_as_an_event() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin);
    let mut connection = gate.connect();
    for _ in 0..20 {
        connection.ask("GET", "/", "X-Forwarded-For: 203.0.113.9\r\n", b"");
    }
    let sum = |series: &Value| series.as_array().unwrap().iter().map(|point| point.as_f64().unwrap()).sum::<f64>();
    let past = wait_for("the requests to be in the past", || {
        let past: Value = serde_json::from_str(&get(&gate, "/api/v1/history").text()).unwrap();
        (past["second"].is_u64() && sum(&past["routes"]["site"]["allowed"]) > 15.0).then_some(past)
    });
    assert_eq!(past["schema"], "tidegate.history/1");
    for series in ["allowed", "delayed", "limited", "shed", "failed"] {
        assert_eq!(past["routes"]["site"][series].as_array().map(Vec::len), Some(600), "{series}");
    }
    assert!(sum(&past["limits"]["half"]["shadow"]) > 0.0, "the shadow would have limited");
    assert_eq!(past["origins"]["shop"]["cap"][599], 40.0);
    let fewer: Value = serde_json::from_str(&get(&gate, "/api/v1/history?seconds=5").text()).unwrap();
    assert_eq!(fewer["limits"]["half"]["shadow"].as_array().map(Vec::len), Some(5));
    assert_eq!(get(&gate, "/api/v1/history?seconds=few").status, 400);

    // two seconds of the stream, as bytes
    let mut stream = std::net::TcpStream::connect(admin(&gate)).unwrap();
    stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut seconds = Vec::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).expect("an event is JSON");
            assert_eq!(event["routes"]["site"]["allowed"].as_array().map(Vec::len), Some(1));
            seconds.push(event["second"].as_u64().expect("a second"));
        }
        if seconds.len() == 2 {
            break;
        }
    }
    assert!(seconds[0] < seconds[1], "{seconds:?}");
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_is_not_on_the_public_listener() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin);
    for (path, kind) in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let answer = get(&gate, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.field("content-type").is_some_and(|told| told.starts_with(kind)), "{path}");
        let policy = answer.field("content-security-policy").expect("a policy");
        for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
    }
    assert_eq!(gate.fetch("/page.js", "").text(), "ok", "a path like any other there");
}
