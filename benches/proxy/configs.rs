//! What each proxy is told for each row: the same promise in each one's own words.
//!
//! One worker, keep-alive on both sides without a cap on requests, loopback trusted to say the client's address.

use std::net::SocketAddr;
use std::path::Path;

use crate::rows::Row;

/// tidegate's policy. It chooses its ports itself and says which.
pub fn tidegate(row: Row, origin: SocketAddr, directory: &Path) -> String {
    let limit = match row {
        Row::Plain => "",
        Row::Limited | Row::Full => "    limit: 1000/s burst 1000\n",
        Row::Refused => "    limit: 1/h burst 1\n",
    };
    let fields = if row == Row::Full { "draft" } else { "off" };
    let telemetry = match row {
        Row::Full => format!(
            "telemetry:\n  metrics: {{ address: \"127.0.0.1:0\" }}\n  access_log: {{ to: {} }}\n",
            directory.join("access.log").display()
        ),
        Row::Plain | Row::Limited | Row::Refused => String::new(),
    };
    format!(
        "listen: \"127.0.0.1:0\"\n\
         server: {{ threads: 1 }}\n\
         trusted_proxies: [127.0.0.0/8]\n\
         responses: {{ ratelimit_headers: {fields} }}\n\
         {telemetry}\
         routes:\n  - origin: {origin}\n{limit}"
    )
}

/// nginx with `limit_req` keyed by what its realip module makes of X-Forwarded-For. It has no RateLimit fields: its `full` row is
/// the log alone, buffered as its manual advises.
pub fn nginx(row: Row, listen: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let directory = directory.display();
    let zone = match row {
        Row::Plain => "",
        Row::Limited | Row::Full => "limit_req_zone $binary_remote_addr zone=clients:32m rate=1000r/s;",
        Row::Refused => "limit_req_zone $binary_remote_addr zone=clients:32m rate=1r/m;",
    };
    let limit = match row {
        Row::Plain => "",
        Row::Limited | Row::Full => "limit_req zone=clients burst=1000 nodelay;",
        Row::Refused => "limit_req zone=clients;",
    };
    let log = match row {
        Row::Full => format!("{directory}/access.log combined buffer=64k flush=1s"),
        Row::Plain | Row::Limited | Row::Refused => "off".to_owned(),
    };
    format!(
        "daemon off; master_process off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log crit;
events {{ worker_connections 1024; }}
http {{
  access_log {log};
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;
  {zone}
  upstream origin {{ server {origin}; keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen {listen};
    location / {{
      {limit}
      limit_req_status 429;
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"
    )
}

/// haproxy with a stick table keyed by the last address of X-Forwarded-For. Its `full` row is the log alone, to standard output,
/// which the benchmark sends to a file.
pub fn haproxy(row: Row, listen: SocketAddr, origin: SocketAddr) -> String {
    let (store, most) = match row {
        Row::Plain | Row::Limited | Row::Full => ("http_req_rate(1s)", 1000),
        Row::Refused => ("http_req_rate(1h)", 1),
    };
    let (limit, table) = match row {
        Row::Plain => (String::new(), String::new()),
        Row::Limited | Row::Full | Row::Refused => (
            format!(
                "http-request track-sc0 src table clients\n  \
                 http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {most} }}"
            ),
            format!("backend clients\n  stick-table type ip size 200k expire 1h store {store}"),
        ),
    };
    let (global, log) = match row {
        Row::Full => ("log stdout len 1024 format raw local0 info", "log global\n  option httplog"),
        Row::Plain | Row::Limited | Row::Refused => ("", ""),
    };
    format!(
        "global
  nbthread 1
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
  bind {listen}
  http-request set-src req.hdr_ip(x-forwarded-for,-1) if {{ src 127.0.0.0/8 }}
  {limit}
  default_backend origin
backend origin
  option forwardfor
  server origin {origin}
{table}
"
    )
}
