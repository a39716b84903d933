//! Clients that others wrote, through the gate over TLS, and nothing changed on the way: curl, h2load, wrk, Python's httpx, Node,
//! WebSocket by Python's websockets, gRPC by its own library on both sides; and a body of 1 GiB each way at constant memory.
//!
//! The programs come from Debian's packages; `./dev setup` installs what is missing. Their scripts are in `tests/gate/clients`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::harness::tls::{Authority, Files};
use crate::harness::{Gate, Origin, Reply};

const NAME: &str = "shop.example.com";
/// The system's Python, for which the packages are; another may come first in the path.
const PYTHON: &str = "/usr/bin/python3";
const LARGE: u64 = 1 << 30;

/// A gate that speaks everything over TLS, in front of this origin.
struct Edge {
    gate: Gate,
    files: Files,
    ca: PathBuf,
}

impl Edge {
    /// In front of `origin`, whose other words are in it: `127.0.0.1:80, protocol: h2`.
    fn before(origin: &str, more: &str) -> Edge {
        let (files, authority) = (Files::new(), Authority::new("an authority"));
        let ca = files.put("ca.pem", authority.pem());
        let pair = files.put_pair("server", &authority.sign(&[NAME]));
        let policy = format!(
            "listeners:
  main:
    address: \"127.0.0.1:0\"
    protocols: [h2, http/1.1]
    tls: {{ certificates: [{pair}] }}
origins:
  it: {{ addresses: {origin} }}
{more}"
        );
        Edge { gate: Gate::start(&policy), files, ca }
    }

    fn address(&self) -> SocketAddr {
        self.gate.address("main")
    }

    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.address().port())
    }

    /// curl, told to find the name here and to trust the authority.
    fn curl(&self, arguments: &[&str]) -> Output {
        let resolve = format!("{NAME}:{}:127.0.0.1", self.address().port());
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--resolve", &resolve, "--cacert"]).arg(&self.ca).args(arguments);
        run(&mut command)
    }
}

const ONE_ROUTE: &str = "routes:\n  - { name: all, origin: it, body_limit: none }\n";

/// Echoes what is sent to /echo and says ok elsewhere.
fn echo() -> Origin {
    Origin::start(|arrival| if arrival.target.starts_with("/echo") { Reply::Echo } else { Reply::Ok })
}

fn run(command: &mut Command) -> Output {
    let told = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{told}: {error}; `./dev setup` installs what tests need"));
    assert!(
        output.status.success(),
        "{told}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gate/clients").join(name)
}

/// An origin in another process, which ends when its standard input does.
struct Program(Child, SocketAddr);

impl Program {
    fn start(name: &str) -> Program {
        let mut command = Command::new(PYTHON);
        command.arg(script(name)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{PYTHON}: {error}; see `./dev setup`"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        Program(child, address.unwrap_or_else(|| panic!("{name} did not start; `./dev setup` installs what it needs")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn curl_speaks_both_versions_and_gets_what_the_origin_said() {
    let origin = echo();
    let edge = Edge::before(&origin.address().to_string(), ONE_ROUTE);
    let body = edge.files.put("body", &"0123456789".repeat(50_000));
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let told = "\n%{http_version} %{http_code} %{num_connects} ";
        let output = edge.curl(&[flag, "--write-out", told, &edge.url("/a?b=c"), &edge.url("/d")]);
        // the second request on the connection of the first
        assert_eq!(said(&output), format!("ok\n{version} 200 1 ok\n{version} 200 0 "), "{version}");
        let upload = format!("@{}", body.display());
        let output = edge.curl(&[flag, "--data-binary", &upload, &edge.url("/echo")]);
        assert_eq!(output.stdout.len(), 500_000, "{version}");
        // curl waits for the permission to send only so long; the gate asks the origin for it
        let output = edge.curl(&[flag, "-H", "Expect: 100-continue", "--data-binary", &upload, &edge.url("/echo")]);
        assert_eq!(output.stdout.len(), 500_000, "{version}, expecting");
        let output = edge.curl(&[
            flag,
            "-T",
            &body.display().to_string(),
            "-H",
            "Transfer-Encoding: chunked",
            &edge.url("/echo"),
        ]);
        assert_eq!(output.stdout.len(), 500_000, "{version}, in chunks");
    }
}

#[test]
fn h2load_and_wrk_see_nothing_but_successes() {
    let origin = echo();
    let edge = Edge::before(&origin.address().to_string(), ONE_ROUTE);
    let url = format!("https://{}/", edge.address());
    let authority = format!(":authority: {NAME}");
    let host = format!("Host: {NAME}");
    for version in [["-m", "16"].as_slice(), &["--h1"]] {
        let mut command = Command::new("h2load");
        command.args(["-n", "2000", "-c", "4", "-H", &authority]).args(version).arg(&url);
        let said = said(&run(&mut command));
        assert!(said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
        assert!(said.contains("status codes: 2000 2xx"), "{said}");
    }
    let said = said(&run(Command::new("wrk").args(["-t", "1", "-c", "8", "-d", "1s", "-H", &host, &url])));
    assert!(said.contains("requests in") && !said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
}

#[test]
fn python_and_node_clients_speak_both_versions() {
    let origin = echo();
    let edge = Edge::before(&origin.address().to_string(), ONE_ROUTE);
    let url = format!("https://localhost:{}", edge.address().port());
    // httpx has no way to be told an address for a name, so its certificate is for localhost
    let local = {
        let (files, authority) = (Files::new(), Authority::new("another authority"));
        let ca = files.put("ca.pem", authority.pem());
        let pair = files.put_pair("server", &authority.sign(&["localhost"]));
        let policy = format!(
            "listeners:\n  main:\n    address: \"127.0.0.1:0\"\n    tls: {{ certificates: [{pair}] }}\n\
             origins:\n  it: {{ addresses: {} }}\n{ONE_ROUTE}",
            origin.address()
        );
        Edge { gate: Gate::start(&policy), files, ca }
    };
    let url = url.replace(&edge.address().port().to_string(), &local.address().port().to_string());
    let output = run(Command::new(PYTHON).arg(script("http_client.py")).arg(url).arg(&local.ca));
    assert_eq!(said(&output), "ok\n");
    let mut node = Command::new("node");
    let output =
        run(node.arg(script("http_client.mjs")).arg(edge.address().port().to_string()).arg(&edge.ca).arg(NAME));
    assert_eq!(said(&output), "ok\n");
}

#[test]
fn a_websocket_client_talks_to_its_origin() {
    let origin = Program::start("websocket_origin.py");
    let edge = Edge::before(&origin.1.to_string(), ONE_ROUTE);
    let url = format!("wss://127.0.0.1:{}/chat", edge.address().port());
    let output = run(Command::new(PYTHON).arg(script("websocket_client.py")).arg(url).arg(&edge.ca).arg(NAME));
    assert_eq!(said(&output), "ok\n");
}

#[test]
fn grpc_passes_in_all_four_shapes_with_its_trailers() {
    let origin = Program::start("grpc_origin.py");
    let edge = Edge::before(
        &format!("{}, protocol: h2", origin.1),
        "limits:
  few: { rate: 1/h, burst: 2, key: client_ip }
routes:
  - { name: limited, match: { path: /tidegate.Limited }, limits: [few], origin: it }
  - { name: all, origin: it, body_limit: none }
",
    );
    let target = edge.address().to_string();
    let output = run(Command::new(PYTHON).arg(script("grpc_client.py")).arg(target).arg(&edge.ca).arg(NAME));
    // the origin does not know the other service; the gate's refusal arrives as the status that gRPC has for it
    assert_eq!(said(&output), "UNIMPLEMENTED UNIMPLEMENTED RESOURCE_EXHAUSTED RESOURCE_EXHAUSTED\nok\n");
}

/// Takes one request after the other: a download of zeros, or an upload that it counts.
fn large_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let zeros = vec![0; 64 * 1024];
            if head.starts_with(b"GET") {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\nConnection: close\r\n\r\n").unwrap();
                (0..LARGE / zeros.len() as u64).for_each(|_| stream.write_all(&zeros).unwrap());
            } else {
                let (mut taken, mut space) = (0, zeros);
                while taken < LARGE {
                    match stream.read(&mut space) {
                        Ok(read @ 1..) => taken += read as u64,
                        _ => break,
                    }
                }
                let text = taken.to_string();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
                    .unwrap();
            }
        }
    });
    address
}

#[test]
fn a_gibibyte_each_way_costs_no_memory() {
    let edge = Edge::before(
        &large_origin().to_string(),
        "routes:\n  - { name: all, origin: it, body_limit: none, timeouts: { request: 10m } }\n",
    );
    for flag in ["--http1.1", "--http2"] {
        let before = edge.gate.resident_peak_kib();
        let output = edge.curl(&[flag, "--output", "/dev/null", "--write-out", "%{size_download}", &edge.url("/")]);
        assert_eq!(said(&output), LARGE.to_string(), "{flag}");
        let resolve = format!("{NAME}:{}:127.0.0.1", edge.address().port());
        let mut upload = Command::new("sh");
        upload.arg("-c").arg(format!(
            "head -c {LARGE} /dev/zero | curl --silent --show-error {flag} --resolve {resolve} --cacert {} \
             -H 'Content-Length: {LARGE}' -H 'Transfer-Encoding:' -T - {}",
            edge.ca.display(),
            edge.url("/")
        ));
        assert_eq!(said(&run(&mut upload)), LARGE.to_string(), "{flag}");
        let grown = edge.gate.resident_peak_kib() - before;
        println!("{flag}: 1 GiB down and 1 GiB up, peak memory +{grown} KiB");
        // buffers of both connections and of TLS, and what the allocator keeps of them; a gibibyte it is not
        assert!(grown < 32 * 1024, "{flag}: peak memory grew by {grown} KiB");
    }
}
