use super::*;

/// What a line of a format says: client, method, host, path, query, status, bytes, start, duration, fields.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    client: String,
    method: String,
    host: Option<String>,
    path: String,
    query: Option<String>,
    status: u16,
    bytes: u64,
    start: u64,
    duration: Option<u64>,
    fields: Vec<(String, String)>,
}

fn text(span: Span, line: &[u8]) -> Option<String> {
    span.of(line).map(|text| String::from_utf8_lossy(text).into_owned())
}

fn read(format: &Format, line: &str) -> Result<Said, Line> {
    let mut parser = Parser::new(format.clone());
    said(&mut parser, line.as_bytes())
}

fn said(parser: &mut Parser, line: &[u8]) -> Result<Said, Line> {
    let (mut line, mut fields, mut parsed) = (line.to_vec(), Vec::new(), Parsed::default());
    match parser.parse(&mut line, &mut fields, &mut parsed) {
        Line::Request => {}
        other => return Err(other),
    }
    let names = parser.names();
    let field = |field: &FieldSpan| {
        let name = match field.name.of(&line, &names)? {
            FieldName::Header(name) => name.to_string(),
            FieldName::Cookie(name) => format!("cookie:{name}"),
            FieldName::Query(name) => format!("query:{name}"),
        };
        Some((name, text(field.value, &line)?))
    };
    Ok(Said {
        client: parsed.address.map_or_else(|| text(parsed.client, &line).unwrap(), |address| address.to_string()),
        method: text(parsed.method, &line).unwrap(),
        host: text(parsed.host, &line),
        path: text(parsed.path, &line).unwrap(),
        query: text(parsed.query, &line),
        status: parsed.status,
        bytes: parsed.bytes,
        start: parsed.start,
        duration: parsed.duration,
        fields: fields.iter().filter_map(field).collect(),
    })
}

fn custom(format: &str) -> Format {
    Format::Custom(Arc::new(Custom::new(format).unwrap()))
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Every sample, the format that is found for it, and how many of its lines are requests, others, without a request, and not
/// readable.
const SAMPLES: [(&str, &[u8], &str, [usize; 4]); 15] = [
    (
        "apache-combined",
        include_bytes!("../../../../../tests/data/logs/apache-combined.log"),
        "nginx/Apache combined",
        [7, 2, 0, 0],
    ),
    (
        "nginx-combined",
        include_bytes!("../../../../../tests/data/logs/nginx-combined.log"),
        "nginx/Apache combined",
        [8, 1, 0, 0],
    ),
    (
        "dos-cache",
        include_bytes!("../../../../../tests/data/logs/attack-dos-bypass-cache.log"),
        "nginx/Apache combined",
        [356, 0, 0, 0],
    ),
    (
        "dos-uri",
        include_bytes!("../../../../../tests/data/logs/attack-dos-random-uri.log"),
        "nginx/Apache combined",
        [66, 0, 0, 0],
    ),
    (
        "dos-agent",
        include_bytes!("../../../../../tests/data/logs/attack-dos-switching-ua.log"),
        "nginx/Apache combined",
        [15, 0, 0, 0],
    ),
    (
        "login",
        include_bytes!("../../../../../tests/data/logs/attack-login-bruteforce.log"),
        "nginx/Apache combined",
        [9, 1, 0, 0],
    ),
    (
        "probing",
        include_bytes!("../../../../../tests/data/logs/attack-probing.log"),
        "nginx/Apache combined",
        [77, 0, 0, 0],
    ),
    ("alb", include_bytes!("../../../../../tests/data/logs/aws-alb.log"), "AWS ALB", [14, 0, 0, 0]),
    ("caddy", include_bytes!("../../../../../tests/data/logs/caddy-json.log"), "Caddy JSON", [10, 2, 0, 0]),
    ("cloudfront", include_bytes!("../../../../../tests/data/logs/cloudfront.tsv"), "CloudFront", [2, 0, 0, 0]),
    ("envoy", include_bytes!("../../../../../tests/data/logs/envoy-json-crawl.log"), "Envoy JSON", [41, 0, 0, 0]),
    ("haproxy", include_bytes!("../../../../../tests/data/logs/haproxy-http.log"), "HAProxy HTTP", [2, 0, 3, 0]),
    ("traefik-text", include_bytes!("../../../../../tests/data/logs/traefik-clf.log"), "Traefik text", [7, 2, 0, 0]),
    (
        "traefik-scan",
        include_bytes!("../../../../../tests/data/logs/traefik-json-scan.log"),
        "Traefik JSON",
        [80, 0, 0, 0],
    ),
    ("traefik", include_bytes!("../../../../../tests/data/logs/traefik-json.log"), "Traefik JSON", [6, 1, 0, 0]),
];

#[test]
fn every_real_log_is_read_without_loss() {
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    for (name, log, title, wanted) in SAMPLES {
        let lines = log.strip_suffix(b"\n").unwrap_or(log).split(|byte| *byte == b'\n');
        let format = Format::of(lines.clone().take(100)).expect(name);
        assert_eq!(format.title(), title, "{name}");
        let mut parser = Parser::new(format);
        let mut found = [0; 4];
        for line in lines {
            let kind = match said(&mut parser, line) {
                Ok(_) => 0,
                Err(Line::Other) => 1,
                Err(Line::NoRequest) => 2,
                Err(_) => 3,
            };
            found[kind] += 1;
            if kind == 3 {
                println!("{name}: {}", String::from_utf8_lossy(line));
            }
        }
        all.push((name, found));
        expected.push((name, wanted));
    }
    assert_eq!(all, expected);
}

#[test]
fn combined_and_common_with_and_without_a_virtual_host() {
    let line =
        r#"203.0.113.7 - alice [10/Oct/2023:11:06:56 +0200] "GET /a?b=c HTTP/1.1" 404 125 "http://r/" "UA \"x\"""#;
    let wanted = Said {
        client: "203.0.113.7".into(),
        method: "GET".into(),
        host: None,
        path: "/a".into(),
        query: Some("b=c".into()),
        status: 404,
        bytes: 125,
        start: 1_696_928_816_000_000_000,
        duration: None,
        fields: fields(&[("user-agent", "UA \"x\""), ("referer", "http://r/")]),
    };
    assert_eq!(read(&Format::Combined, line), Ok(wanted));
    let common = r#"host.example.net - - [10/Oct/2023:11:06:56 +0200] "GET / HTTP/1.0" 200 -"#;
    let said = read(&Format::Combined, common).unwrap();
    assert_eq!((said.client.as_str(), said.host, said.bytes, said.fields.len()), ("host.example.net", None, 0, 0));
    let vhost = r#"shop.example.com:443 2001:db8::7 - - [10/Oct/2023:11:06:56 +0200] "GET / HTTP/2.0" 200 5 "-" "-""#;
    let said = read(&Format::Combined, vhost).unwrap();
    assert_eq!((said.client.as_str(), said.host.as_deref()), ("2001:db8::7", Some("shop.example.com:443")));
    let greeting = r#"203.0.113.7 - - [10/Oct/2023:11:06:56 +0200] "\x16\x03\x01" 400 157 "-" "-""#;
    assert_eq!(read(&Format::Combined, greeting), Err(Line::NoRequest));
    for line in
        ["", " ", "x", "1.2.3.4 - - [", "1.2.3.4 - - [10/Oct/2023:11:06:56 +0200]", "1.2.3.4 - - [] \"", "[[[[", "\"\""]
    {
        assert!(read(&Format::Combined, line).is_err(), "{line}");
    }
}

#[test]
fn formats_in_the_words_of_nginx() {
    let format = custom(
        r#"$remote_addr [$time_iso8601] $host "$request" $status $body_bytes_sent rt=$request_time k="$http_x_api_key" c=$cookie_sid"#,
    );
    let line = r#"203.0.113.7 [2023-10-10T11:06:57+02:00] Shop.example.com "POST /a?b HTTP/1.1" 201 7 rt=0.250 k="k\x2201" c=s1"#;
    let said = read(&format, line).unwrap();
    assert_eq!(said.start, 1_696_928_816_750_000_000, "the end less the duration");
    assert_eq!(said.duration, Some(250_000_000));
    assert_eq!((said.method.as_str(), said.host.as_deref(), said.status), ("POST", Some("Shop.example.com"), 201));
    assert_eq!(said.fields, fields(&[("x-api-key", "k\"01"), ("cookie:sid", "s1")]));
    let other = custom("${remote_addr}|$msec|$request_method|$uri|$args|$arg_q");
    let said = read(&other, "203.0.113.7|1696928816.125|GET|/x|q=1|1").unwrap();
    assert_eq!((said.start, said.path.as_str(), said.query.as_deref()), (1_696_928_816_125_000_000, "/x", Some("q=1")));
    assert_eq!(said.fields, fields(&[("query:q", "1")]));
    assert_eq!(read(&other, "203.0.113.7|x|GET|/x|q=1|1"), Err(Line::Unreadable));
}

#[test]
fn formats_in_the_words_of_apache() {
    let format = custom(r#"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D"#);
    let line = r#"h:80 203.0.113.7 - - [10/Oct/2023:11:06:57 +0200] "GET / HTTP/1.1" 200 5 "-" "curl" 1500000"#;
    let said = read(&format, line).unwrap();
    assert_eq!((said.start, said.duration), (1_696_928_815_500_000_000, Some(1_500_000_000)));
    assert_eq!(said.fields, fields(&[("user-agent", "curl")]));
}

#[test]
fn a_format_that_cannot_be_read_back_is_refused() {
    for (format, wanted) in [
        ("$remote_addr$status $msec $request", "log format: nothing separates `$status` from the value before it"),
        ("$status $msec $request", "log format: found no client ($remote_addr, %h)"),
        ("$remote_addr $request", "log format: found no time ($time_local, $time_iso8601, $msec, %t)"),
        ("%h %t %s", "log format: found no request ($request, $request_uri, $uri, %r, %U)"),
        ("%h %t %r %{x", "log format: unknown directive `%{x`"),
        ("%h %t %r %", "log format: unknown directive `%`"),
    ] {
        assert_eq!(Custom::new(format).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn json_says_durations_headers_and_hosts() {
    let line = r#"{"level":"info","ts":1693840791.75,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","method":"GET","host":"h:8080","uri":"/a?b","headers":{"X-Api-Key":["k\u00e9"],"Cookie":["REDACTED"]}},"duration":0.25,"size":9,"status":200}"#;
    let said = read(&Format::Caddy, line).unwrap();
    assert_eq!(
        (said.client.as_str(), said.start, said.duration),
        ("203.0.113.7", 1_693_840_791_500_000_000, Some(250_000_000))
    );
    assert_eq!(said.fields, fields(&[("x-api-key", "ké"), ("cookie", "REDACTED")]));
    let line = r#"{"start_time":"2025-12-31T16:40:00.100Z","method":"GET","path":"/p?q","response_code":404,"duration":12,"downstream_remote_address":"10.0.0.13:40000",":authority":"h"}"#;
    let said = read(&Format::Envoy, line).unwrap();
    assert_eq!(
        (said.start % 1_000_000_000, said.duration, said.client.as_str()),
        (100_000_000, Some(12_000_000), "10.0.0.13")
    );
    let line = r#"[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#;
    let said = read(&Format::Known(&custom::ENVOY), line).unwrap();
    assert_eq!(
        (said.client.as_str(), said.host.as_deref(), said.duration),
        ("10.0.35.28", Some("locations"), Some(226_000_000))
    );
}

#[test]
fn the_columns_of_cloudfront_are_where_its_head_says() {
    let mut parser = Parser::new(Format::CloudFront(cloudfront::STANDARD));
    assert_eq!(said(&mut parser, b"#Version: 1.0"), Err(Line::Other));
    assert_eq!(
        said(&mut parser, b"#Fields: c-ip date time cs-method cs-uri-stem cs(Host) sc-status time-taken"),
        Err(Line::Other)
    );
    let said = said(&mut parser, b"203.0.113.7\t2024-03-12\t15:22:28\tGET\t/x\td.net\t200\t0.5").unwrap();
    assert_eq!(
        (said.client.as_str(), said.host.as_deref(), said.start % 1_000_000_000),
        ("203.0.113.7", Some("d.net"), 500_000_000)
    );
}

#[test]
fn no_cut_line_of_any_format_makes_a_parser_panic() {
    for (name, log, _, _) in SAMPLES {
        let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        let mut step = 0_usize;
        for line in lines.iter().filter(|line| !line.is_empty()).take(12) {
            for end in 0..line.len() {
                step = step.wrapping_mul(31).wrapping_add(end);
                let mut broken = line.get(..end).unwrap().to_vec();
                if let Some(byte) = broken.get_mut(step % end.max(1)) {
                    *byte = b"\"\\[]{} \0\xff-"[step % 10];
                }
                for (_, format) in &NAMES {
                    let _ = said(&mut Parser::new(format.clone()), &broken);
                }
            }
        }
        assert!(!lines.is_empty(), "{name}");
    }
}

#[test]
fn our_own_line_is_read_as_its_writer_reads_it() {
    use crate::answer::entry::Entry;
    let line = r#"{"schema":"tidegate.access/1","time":"2026-11-21T08:35:53.000000001Z","at":5000000007,"at_zero":1000000000000000000,"id":"000000000001A","listener":"main","client":"203.0.113.7","client_source":"peer","client_mark":"degraded","method":"POST","host":"h\u00e9:80","path":"/a\"b","route":"login","status":429,"verdict":"refused","reason":"limit","limits":[{"name":"l","mode":"enforce","outcome":"limited","remaining":0}],"attempts":0,"duration_ns":81000,"bytes_in":12,"bytes_out":345}"#;
    let entry = Entry::read(line.as_bytes()).unwrap();
    let (mut text, mut fields, mut parsed) = (line.as_bytes().to_vec(), Vec::new(), Parsed::default());
    assert_eq!(Parser::new(Format::Tidegate).parse(&mut text, &mut fields, &mut parsed), Line::Request);
    assert_eq!(parsed.host.of(&text), Some(&*entry.host));
    assert_eq!(parsed.path.of(&text), Some(&*entry.path));
    assert_eq!(parsed.method.of(&text), Some(entry.method.as_bytes()));
    assert_eq!(
        (parsed.status, parsed.bytes, parsed.duration),
        (entry.status, entry.bytes_out, Some(entry.duration_nanos))
    );
    assert_eq!(parsed.start, entry.at_zero.unwrap() + entry.at.nanos());
    let told = parsed.told.unwrap();
    assert_eq!(told.id.of(&text), Some(entry.id.to_string().as_bytes()));
    assert_eq!(told.mark.of(&text), Some(&b"degraded"[..]));
    assert_eq!(told.reason.of(&text), Some(&b"limit"[..]));
    let without = line.replace(r#""at_zero":1000000000000000000,"#, "");
    assert_eq!(
        read(&Format::Tidegate, &without).unwrap().start,
        entry.time_unix_nanos,
        "older lines have the wall clock only"
    );
}
