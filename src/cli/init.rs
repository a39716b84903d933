//! `tidegate init`: a first policy with tests of its own, from four answers.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit;
use super::global::{Global, environment};
use super::output::{print, say};
use super::test::tested;
use crate::config::preset::BUILT_IN;
use crate::config::render::{Format, render};
use crate::config::schema::json_schema;
use crate::config::{self, Loaded};
use crate::human;
use crate::request::Peer;

/// Write a first policy file, with tests
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate init\n  \
    tidegate init --origin 127.0.0.1:3000 --trusted-proxies cloudflare --limit '10/s burst 40' tidegate.yaml\n\n\
    On a terminal it asks for what no option says. Elsewhere the origin must be named.\n\
    A file that exists is left alone. Editors complete the words of the file by the schema that its first line names.\n\n\
    Exit codes: 0 written, 1 the file exists, 2 an answer is not valid, 71 the file cannot be written")]
pub struct Arguments {
    /// The file to write; - for standard output
    #[arg(value_name = "FILE", default_value = "tidegate.yaml")]
    file: PathBuf,
    /// Where to listen, such as `:8080` or `127.0.0.1:8080` [default: :8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Your server, such as `127.0.0.1:3000`
    #[arg(long, value_name = "HOST:PORT")]
    origin: Option<String>,
    /// The proxies before this machine, separated by commas: networks, `cloudflare`, `private`, or `none` [default: none]
    #[arg(long, value_name = "LIST")]
    trusted_proxies: Option<String>,
    /// What each client may send [default: 10/s burst 40]
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,
}

/// Where the package has the schema of policy files.
const INSTALLED_SCHEMA: &str = "/usr/share/tidegate/tidegate.schema.json";

/// The schema's name beside the policy, where no package has it.
const SCHEMA: &str = "tidegate.schema.json";

/// Bursts that the tests of the policy still send.
const MOST_SENT: u32 = 10_000;

/// Asks, writes, and says what to do next.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let to_stdout = arguments.file == Path::new("-");
    let schema = if Path::new(INSTALLED_SCHEMA).exists() { INSTALLED_SCHEMA } else { SCHEMA };
    let terminal = io::stdin().is_terminal().then(|| io::stdin().lock().lines());
    let written = answers(arguments, global, terminal).and_then(|answers| {
        let policy = policy(&answers, global)?;
        // beside the policy, which standard output is not
        let modeline = !to_stdout || schema == INSTALLED_SCHEMA;
        let head = if modeline { format!("# yaml-language-server: $schema={schema}\n") } else { String::new() };
        Ok(Policy { text: head + &policy.text, ..policy })
    });
    let policy = match written {
        Ok(policy) => policy,
        Err(code) => return ExitCode::from(code),
    };
    if to_stdout {
        print(&policy.text);
        return ExitCode::SUCCESS;
    }
    let file = &arguments.file;
    if let Err(error) = create(file, &policy.text) {
        let (code, hint) = match error.kind() {
            io::ErrorKind::AlreadyExists => (exit::NO, "; name another file, or move it away"),
            _ => (exit::SYSTEM, ""),
        };
        say(&format!("tidegate: {}: {error}{hint}\n", file.display()));
        return ExitCode::from(code);
    }
    let beside = file.with_file_name(SCHEMA);
    if schema == SCHEMA
        && let Err(error) = create(&beside, &format!("{:#}\n", json_schema().as_value()))
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        say(&format!("warning: {}: {error}; an editor will not complete words\n", beside.display()));
    }
    if !global.quiet {
        let (tests, file) = (human::count(policy.tests as u64, "test"), file.display());
        say(&format!(
            "wrote {file}: {tests} passed\n  before the first start   tidegate doctor -c {file}\n  start                    tidegate run -c {file}\n"
        ));
    }
    ExitCode::SUCCESS
}

/// Writes a file that is not there yet.
fn create(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes())
}

/// What the policy is made of.
#[derive(Debug, Clone)]
struct Answers {
    listen: String,
    origin: String,
    trusted_proxies: String,
    limit: String,
}

/// One of the questions: what is asked, what an empty answer stands for, and its place among the answers.
struct Question {
    text: &'static str,
    default: Option<&'static str>,
    given: fn(&Arguments) -> Option<&String>,
    place: fn(&mut Answers) -> &mut String,
}

const QUESTIONS: [Question; 4] = [
    Question {
        text: "Where do requests come in? An address and a port",
        default: Some(":8080"),
        given: |arguments| arguments.listen.as_ref(),
        place: |answers| &mut answers.listen,
    },
    Question {
        text: "Where is your server? Its host and port",
        default: None,
        given: |arguments| arguments.origin.as_ref(),
        place: |answers| &mut answers.origin,
    },
    Question {
        text: "Which proxies or CDNs stand before this machine? Networks, cloudflare, private, or none",
        default: Some("none"),
        given: |arguments| arguments.trusted_proxies.as_ref(),
        place: |answers| &mut answers.trusted_proxies,
    },
    Question {
        text: "What may each client send?",
        default: Some("10/s burst 40"),
        given: |arguments| arguments.limit.as_ref(),
        place: |answers| &mut answers.limit,
    },
];

/// The answers of the options, and of whoever types `lines` at a terminal.
///
/// # Errors
/// The exit code, after it was said why: nobody can be asked for the origin, or standard input ended.
fn answers(
    arguments: &Arguments,
    global: &Global,
    mut lines: Option<impl Iterator<Item = io::Result<String>>>,
) -> Result<Answers, u8> {
    // valid, so that each answer can be tried before the next question
    let mut answers = Answers {
        listen: ":8080".to_owned(),
        origin: "127.0.0.1:3000".to_owned(),
        trusted_proxies: "none".to_owned(),
        limit: "10/s burst 40".to_owned(),
    };
    for question in &QUESTIONS {
        match ((question.given)(arguments), &mut lines) {
            (Some(given), _) => given.clone_into((question.place)(&mut answers)),
            (None, Some(lines)) => ask(question, &mut answers, lines, global)?,
            (None, None) if question.default.is_none() => {
                say("tidegate: no terminal to ask at: name your server, such as --origin 127.0.0.1:3000\n");
                return Err(exit::USAGE);
            }
            (None, None) => {}
        }
    }
    Ok(answers)
}

/// Asks until the answer is valid.
fn ask(
    question: &Question,
    answers: &mut Answers,
    lines: &mut impl Iterator<Item = io::Result<String>>,
    global: &Global,
) -> Result<(), u8> {
    loop {
        let default = question.default.map(|default| format!(" [{default}]")).unwrap_or_default();
        say(&format!("{}{default}: ", question.text));
        let Some(Ok(line)) = lines.next() else {
            say("\n");
            return Err(exit::USAGE);
        };
        let answer = match (line.trim(), question.default) {
            ("", Some(default)) => default,
            ("", None) => continue,
            (answer, _) => answer,
        };
        let mut tried = answers.clone();
        answer.clone_into((question.place)(&mut tried));
        if policy(&tried, global).is_ok() {
            *answers = tried;
            return Ok(());
        }
    }
}

/// A policy whose tests pass.
#[derive(Debug)]
struct Policy {
    text: String,
    tests: usize,
}

/// The policy of these answers.
///
/// # Errors
/// The exit code, after it was said what is wrong.
fn policy(answers: &Answers, global: &Global) -> Result<Policy, u8> {
    let load = |text: &str| config::load_text("tidegate.yaml", text, &environment, Path::new("."));
    let untested = text_of(answers);
    let loaded = load(&untested);
    let config = loaded.outcome.as_ref().map_err(|_| refused(&loaded, global))?;
    let clients = &config.policy.clients.trust;
    let believes = |address: &str| address.parse().is_ok_and(|address: IpAddr| clients.believes(Peer::Ip(address)));
    let burst = config.policy.rules.first().and_then(|rule| rule.kind.at_once()).filter(|burst| *burst < MOST_SENT);
    let text = burst.map(|burst| untested + &tests(burst, proxy(&answers.trusted_proxies).as_deref(), believes));
    let Some(text) = text else { return Err(no_rate(answers)) };
    let loaded = load(&text);
    match tested(&loaded, None) {
        Ok(None) => Err(refused(&loaded, global)),
        Ok(Some(cases)) if cases.iter().all(|case| case.outcome.holds()) => Ok(Policy { text, tests: cases.len() }),
        // bytes, for example
        Ok(Some(_)) | Err(_) => Err(no_rate(answers)),
    }
}

fn no_rate(answers: &Answers) -> u8 {
    let most = human::grouped(MOST_SENT.into());
    say(&format!(
        "tidegate: `{}` is no rate of requests with a burst below {most}, such as `10/s burst 40`\n",
        answers.limit
    ));
    exit::USAGE
}

fn refused(loaded: &Loaded, global: &Global) -> u8 {
    say(&render(loaded, Format::Text, global.colored(&io::stderr())));
    exit::USAGE
}

/// The proxies that were named.
fn proxies(list: &str) -> Vec<&str> {
    let named: Vec<&str> = list.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if named == ["none"] { Vec::new() } else { named }
}

/// A network among the proxies, as tests write it.
fn proxy(list: &str) -> Option<String> {
    let first = *proxies(list).first()?;
    let preset = BUILT_IN.iter().find(|(name, _)| *name == first);
    let network = match preset {
        Some((_, networks)) => networks.lines().find(|line| !line.is_empty() && !line.starts_with('#'))?,
        None => first,
    };
    Some(network.split_whitespace().next()?.to_owned())
}

/// Without the tests. JSON strings are YAML strings, so nothing in an answer can become structure.
fn text_of(Answers { listen, origin, trusted_proxies, limit }: &Answers) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let trusted: Vec<String> = proxies(trusted_proxies).into_iter().map(quoted).collect();
    let trusted = match trusted.as_slice() {
        [] => "# Proxies or CDNs before this machine, whose word on the client's address counts:\n# trusted_proxies: [10.0.0.0/8, cloudflare]\n".to_owned(),
        some => format!("# Their word on the client's address counts; nobody else's does.\ntrusted_proxies: [{}]\n", some.join(", ")),
    };
    format!(
        "# Every word: `tidegate man tidegate.yaml | man -l -`. What is wrong with this file: `tidegate check`.
listen: {}

{trusted}
routes:
  - name: site
    origin: {}
    # for each client: IPv4 by address, IPv6 by /64
    limit: {}

telemetry:
  metrics: {{}}                       # http://127.0.0.1:9464/metrics
",
        quoted(listen),
        quoted(origin),
        quoted(limit)
    )
}

/// What the policy claims: its limit, and whom it believes.
fn tests(burst: u32, proxy: Option<&str>, believes: impl Fn(&str) -> bool) -> String {
    let mut text = String::from("\n# `tidegate test` runs them, without a server.\ntests:\n");
    let mut add = |name: &str, send: &str, expect: &str| {
        text.push_str(&format!("  - name: {name}\n    send: {{ {send} }}\n    expect: {{ {expect} }}\n"));
    };
    let stranger = ["198.51.100.9", "192.0.2.9", "2001:db8:9::9"].into_iter().find(|address| !believes(address));
    if let Some(stranger) = stranger {
        let more = burst.saturating_add(1);
        add(
            "one request more than the burst is limited",
            &format!("n: {more}, url: /, from: \"{stranger}\""),
            &format!("allowed: {burst}, limited: 1, by: site_limit"),
        );
        add(
            "a forged address changes nothing",
            &format!("n: {more}, url: /, from: \"{stranger}\", headers: {{ x-forwarded-for: \"203.0.113.{{n}}\" }}"),
            &format!("allowed: {burst}, limited: 1, client: \"{stranger}\""),
        );
    }
    if let Some(proxy) = proxy {
        add(
            "a client behind a proxy counts by its own address",
            &format!("url: /, from: \"{proxy}\", headers: {{ x-forwarded-for: 203.0.113.7 }}"),
            "allowed: 1, client: 203.0.113.7",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        global: Global,
    }

    fn made(line: &[&str]) -> Result<Policy, u8> {
        let Line { arguments, global } = Line::parse_from(std::iter::once(&"init").chain(line));
        let nobody = None::<std::iter::Empty<io::Result<String>>>;
        answers(&arguments, &global, nobody).and_then(|answers| policy(&answers, &global))
    }

    #[test]
    fn whatever_stands_before_the_machine_the_policy_and_its_tests_are_good() {
        for (proxies, tests) in [
            ("none", 2),
            ("private", 3),
            ("cloudflare", 3),
            ("loopback", 3),
            ("10.1.0.0/16, cloudflare", 3),
            ("2001:db8::/32", 3),
            // what stands for a stranger in the tests is a proxy here
            ("198.51.100.0/24", 3),
        ] {
            let policy = made(&["--origin", "127.0.0.1:3000", "--trusted-proxies", proxies]).unwrap();
            assert_eq!(policy.tests, tests, "{proxies}\n{}", policy.text);
        }
    }

    #[test]
    fn an_answer_cannot_become_structure() {
        assert_eq!(made(&["--origin", "x:1\nroutes: []", "--listen", ":1"]).unwrap_err(), exit::USAGE);
        assert_eq!(made(&["--origin", "x:1", "--limit", "10/s\"\n    name: y"]).unwrap_err(), exit::USAGE);
        assert_eq!(made(&["--origin", "x:1", "--trusted-proxies", "10.0.0.0/8], a: [b"]).unwrap_err(), exit::USAGE);
    }

    #[test]
    fn a_limit_must_be_a_rate_of_requests_that_can_be_tried() {
        for limit in ["1MiB/s burst 64MiB", "20000/s", "nonsense"] {
            assert_eq!(made(&["--origin", "x:1", "--limit", limit]).unwrap_err(), exit::USAGE, "{limit}");
        }
        for limit in ["5/m", "1/h", "500/s burst 9000"] {
            made(&["--origin", "x:1", "--limit", limit]).unwrap();
        }
    }

    #[test]
    fn a_wrong_answer_is_asked_for_again() {
        let Line { global, .. } = Line::parse_from(["init"]);
        let mut answers = Answers {
            listen: ":8080".to_owned(),
            origin: "127.0.0.1:3000".to_owned(),
            trusted_proxies: "none".to_owned(),
            limit: "10/s burst 40".to_owned(),
        };
        let mut typed = ["", "no port", " shop.internal:3000 "].map(|line| Ok(line.to_owned())).into_iter();
        ask(&QUESTIONS[1], &mut answers, &mut typed, &global).unwrap();
        assert_eq!((answers.origin.as_str(), typed.len()), ("shop.internal:3000", 0));
        ask(&QUESTIONS[3], &mut answers, &mut [Ok(String::new())].into_iter(), &global).unwrap();
        assert_eq!(answers.limit, "10/s burst 40");
        assert_eq!(ask(&QUESTIONS[3], &mut answers, &mut std::iter::empty(), &global), Err(exit::USAGE));
    }
}
