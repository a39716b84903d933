//! What each proxy is told for each row: the same work in each one's own words.
//!
//! One worker, keep-alive on both sides without a cap on requests, loopback trusted to say the client's address. Every forwarded request
//! has its peer appended to X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host set, and the client's Host; the stand looks whether that
//! is so before anything is measured.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::load::HOST;
use crate::rows::Row;

/// What of the process a part of the benchmark changes.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Worker threads.
    pub workers: usize,
    /// Limits on the route, instead of the row's.
    pub limits: Option<usize>,
    /// The row's limit has a table of so many MiB, and keeps it in snapshots or not.
    pub table: Option<(usize, bool)>,
}

impl Process {
    /// One worker, and the row's limits.
    pub const ONE: Process = Process { workers: 1, limits: None, table: None };
}

/// tidegate's policy. It chooses its ports itself and says which. It looks at every request for overload, and takes no delay for one: the load
/// is as much as the CPU can do, and none of it is to be refused. Its edits have no word for the request's Host, so that
/// X-Forwarded-Host is a constant.
pub fn tidegate(row: Row, direct: bool, process: Process, origin: SocketAddr, directory: &Path) -> String {
    let folder = directory.display();
    let mut named = String::new();
    let mut state = String::new();
    let limits = match (process.limits, process.table, row) {
        (None, Some((mebibytes, is_kept)), _) => {
            let _ = writeln!(named, "limits: {{ clients: {{ rate: 1000/s, burst: 1000, memory: {mebibytes}MiB }} }}");
            if is_kept {
                state = format!(", state: {{ directory: {folder}/state, every: 1s }}");
            }
            "    limits: [clients]\n".to_owned()
        }
        (Some(count), ..) => {
            let names: Vec<String> = (0..count).map(|index| format!("limit{index}")).collect();
            // an empty map would have no value
            named.push_str(if count > 0 { "limits:\n" } else { "" });
            for name in &names {
                let _ = writeln!(named, "  {name}: {{ rate: 1000/s, burst: 1000 }}");
            }
            String::new()
        }
        (None, None, Row::Limited | Row::Full) => "    limit: 1000/s burst 1000\n".to_owned(),
        (None, None, Row::Refused | Row::RefusedEach) => "    limit: 1/h burst 1\n".to_owned(),
        (None, None, _) => String::new(),
    };
    // a route holds few of them, so that each of many has a route of its own
    let forward = format!(
        "    origin: {origin}\n    request_headers: {{ set: {{ X-Forwarded-Proto: {}, X-Forwarded-Host: {HOST} }} }}\n",
        if row.is_secure() { "https" } else { "http" },
    );
    let mut routes = String::new();
    for index in 0..process.limits.unwrap_or(0) {
        let _ = write!(routes, "  - match: {{ path: /limit{index}/ }}\n    limits: [limit{index}]\n{forward}");
    }
    let _ = write!(routes, "  - name: all\n{forward}{limits}");
    let tls = match row {
        Row::Tls | Row::Http2 => {
            format!("    tls: {{ certificates: [{{ cert: {folder}/../cert.pem, key: {folder}/../key.pem }}] }}\n")
        }
        _ => String::new(),
    };
    let telemetry = match row {
        Row::Full => {
            format!(
                "telemetry:\n  metrics: {{ address: \"127.0.0.1:0\" }}\n  access_log: {{ to: {folder}/access.log }}\n"
            )
        }
        _ => String::new(),
    };
    format!(
        "listeners:
  main:
    address: \"127.0.0.1:0\"
    connections: {{ max: 20000, per_client: none, handshakes: none, requests: 1000000, idle: 1h, lifetime: none }}
{tls}server: {{ threads: {}, direct: {}, overload: {{ delay: 10s }}{state} }}
trusted_proxies: [127.0.0.0/8]
responses: {{ ratelimit_headers: {} }}
{telemetry}{named}routes:
{routes}",
        process.workers,
        if direct { "on" } else { "off" },
        if row == Row::Full { "draft" } else { "off" },
    )
}

/// nginx with `limit_req` keyed by what its realip module makes of X-Forwarded-For. It has no RateLimit fields and no metrics: its `full` row
/// is the log, buffered as its manual advises.
pub fn nginx(row: Row, process: Process, listen: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let directory = directory.display();
    let (zone, limit) = match row {
        Row::Limited | Row::Full => (
            "limit_req_zone $binary_remote_addr zone=clients:32m rate=1000r/s;",
            "limit_req zone=clients burst=1000 nodelay;",
        ),
        Row::Refused | Row::RefusedEach => {
            ("limit_req_zone $binary_remote_addr zone=clients:32m rate=1r/m;", "limit_req zone=clients;")
        }
        _ => ("", ""),
    };
    let real_ip = if row.limits() {
        "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;"
    } else {
        ""
    };
    // the module puts the client's address in the place of the peer's
    let forwarded =
        if row.limits() { "\"$http_x_forwarded_for, $realip_remote_addr\"" } else { "$proxy_add_x_forwarded_for" };
    let (format, log) = match row {
        Row::Full => (
            "log_format json escape=json '{\"time\":\"$time_iso8601\",\"id\":\"$request_id\",\"listener\":\"$server_port\",\
             \"protocol\":\"$server_protocol\",\"client\":\"$remote_addr\",\"method\":\"$request_method\",\"host\":\"$http_host\",\
             \"path\":\"$uri\",\"status\":$status,\"limit\":\"$limit_req_status\",\"origin\":\"$upstream_addr\",\
             \"duration\":$request_time,\"origin_duration\":\"$upstream_response_time\",\"bytes_in\":$request_length,\
             \"bytes_out\":$body_bytes_sent}';",
            format!("{directory}/access.log json buffer=64k flush=1s"),
        ),
        _ => ("", "off".to_owned()),
    };
    let tls = if row.is_secure() {
        format!(
            "ssl_certificate {directory}/../cert.pem; ssl_certificate_key {directory}/../key.pem; ssl_protocols TLSv1.2 TLSv1.3;"
        )
    } else {
        String::new()
    };
    let secure = match row {
        Row::Tls => " ssl",
        Row::Http2 => " ssl http2",
        _ => "",
    };
    // without a master where one worker is measured: it is one process less to read
    let master = if process.workers == 1 { "off" } else { "on" };
    let workers = process.workers;
    format!(
        "daemon off; master_process {master}; worker_processes {workers}; pid {directory}/pid;
error_log {directory}/error.log crit; worker_rlimit_nofile 65536;
events {{ worker_connections 12000; }}
http {{
  {format}
  access_log {log};
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  keepalive_requests 1000000000; keepalive_timeout 1h; keepalive_time 24h; http2_max_concurrent_streams 128;
  {real_ip}
  {zone}
  upstream origin {{ server {origin}; keepalive 512; keepalive_requests 1000000000; keepalive_timeout 1h; keepalive_time 24h; }}
  server {{
    listen {listen}{secure};
    {tls}
    location / {{
      {limit}
      limit_req_status 429;
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For {forwarded};
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
    }}
  }}
}}
"
    )
}

/// HAProxy with a stick table keyed by the last address of X-Forwarded-For. It has no RateLimit fields: its `full` row is the log, to standard
/// output, which the benchmark sends to a file.
pub fn haproxy(row: Row, process: Process, listen: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let directory = directory.display();
    let (limit, table) = if row.limits() {
        let (store, most) = if row.refuses() { ("http_req_rate(1h)", 1) } else { ("http_req_rate(1s)", 1000) };
        (
            format!(
                "http-request track-sc0 req.hdr_ip(x-forwarded-for,-1) table clients if {{ src 127.0.0.0/8 }}\n  \
                 http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {most} }}"
            ),
            format!("backend clients\n  stick-table type ip size 200k expire 1h store {store}"),
        )
    } else {
        (String::new(), String::new())
    };
    let (global, log) = match row {
        Row::Full => (
            "log stdout len 2048 format raw local0 info",
            "log global\n  log-format '{\"time\":\"%T\",\"id\":\"%ID\",\"listener\":\"%ft\",\"client\":\"%ci\",\"method\":\"%HM\",\
             \"path\":\"%HPO\",\"status\":%ST,\"origin\":\"%b\",\"origin_address\":\"%si:%sp\",\"duration\":%Ta,\
             \"origin_duration\":%Tr,\"bytes_in\":%U,\"bytes_out\":%B}'",
        ),
        _ => ("", ""),
    };
    let tls = match row {
        Row::Tls => format!(" ssl crt {directory}/../both.pem alpn http/1.1"),
        Row::Http2 => format!(" ssl crt {directory}/../both.pem alpn h2"),
        _ => String::new(),
    };
    let proto = if row.is_secure() { "https" } else { "http" };
    let workers = process.workers;
    format!(
        "global
  nbthread {workers}
  maxconn 12000
  no strict-limits
  {global}
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout http-keep-alive 1h
  {log}
  option http-keep-alive
  http-reuse always
frontend main
  bind {listen}{tls}
  maxconn 12000
  option forwardfor
  http-request set-header X-Forwarded-Proto {proto}
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  {limit}
  default_backend origin
backend origin
  server origin {origin} pool-max-conn 512
{table}
"
    )
}
