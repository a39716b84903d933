//! Orders and their answers as the pages on operations and blocking show them: run against a gate, they print what the page says, but for
//! what is different in every run.

use std::path::Path;

use regex::Regex;

use crate::explain::start;
use crate::harness::Gate;
use crate::harness::gate::shell;

/// A command, and what the page says that it prints.
type Shown = (String, String);

/// The commands of the first block in which one begins so.
fn shown(page: &str, begin: &str) -> Vec<Shown> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.into_iter().find(|block| block.lines().any(|line| line.starts_with(begin)));
    let mut found: Vec<Shown> = Vec::new();
    for line in block.unwrap_or_else(|| panic!("{page} has no block with `{begin}`")).lines() {
        match line.strip_prefix("$ ") {
            // without what is said about it
            Some(command) => {
                found.push((command.split("  # ").next().unwrap().trim_end().to_owned(), String::new()));
            }
            None => {
                let (_, printed) = found.last_mut().expect("a command comes first");
                printed.push_str(line);
                printed.push('\n');
            }
        }
    }
    found
}

/// What a command prints here, asking this gate.
fn printed(gate: &Gate, command: &str) -> String {
    let socket = gate.admin_socket();
    let line = command
        .replace("sudo systemctl reload tidegate", "tidegate reload")
        .replace("/run/tidegate/private/admin.sock", &socket.display().to_string())
        .replace("sudo ", "");
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let mut shell = shell(&format!("PATH={}:$PATH; export PATH; {line}", binary.display()));
    let output = shell.env("TIDEGATE_ADMIN", &socket).env_remove("SUDO_USER").output().expect("a shell runs");
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A text without what is different in every run.
fn same(text: &str) -> String {
    [
        // a dash may begin one, and begins no word
        (r"(?m)(^|[^A-Za-z0-9_-])[A-Za-z0-9_-]{22}", "${1}PSEUDONYM"),
        (r"\b[0-9a-f]{12} → [0-9a-f]{12} in [0-9.]+ \w+", "HASH → HASH in TIME"),
        (r"process \d+ ", "process ID "),
        (r"waited for [0-9.]+ \w+", "waited for TIME"),
        (
            r"(\d+ h )?\d+ (min|s|h) left, [0-9,]+ refused, (\d+ (min|s) ago|now) by [^:]+: ",
            "LEFT, REFUSED, AGO by WHO: ",
        ),
    ]
    .iter()
    .fold(text.to_owned(), |text, (pattern, word)| Regex::new(pattern).unwrap().replace_all(&text, *word).into_owned())
}

#[track_caller]
fn prints(gate: &Gate, (command, said): &Shown) {
    let printed = printed(gate, command);
    assert_eq!(same(&printed), same(said), "`{command}` prints something else than the page says:\n{printed}");
}

const CLIENT: &str = "X-Forwarded-For: 203.0.113.7\r\n";

fn three_limits() -> Gate {
    let gate = start(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: { rate: 10/s }
  login: { rate: 5/m, burst: 9 }
  api: { key: header:x-api-key, missing: allow, rate: 5/m }
listeners: { main: { address: \"127.0.0.1:0\" } }
routes:
  - { name: site, limits: [per_client, login, api], respond: { status: 200 } }
",
    );
    gate.fetch("/", CLIENT);
    gate
}

#[test]
fn a_client_is_banned_listed_and_let_in_again() {
    let gate = three_limits();
    let commands = shown("docs/blocking.md", "$ sudo tidegate ban ");
    assert_eq!(commands.len(), 3);
    for command in &commands {
        prints(&gate, command);
        let is_banned = !command.0.contains("unban");
        assert_eq!(gate.fetch("/", CLIENT).status, if is_banned { 403 } else { 200 });
    }
}

#[test]
fn a_pardon_names_the_limits_in_which_it_holds() {
    let gate = three_limits();
    for command in &shown("docs/operations.md", "$ sudo tidegate pardon ") {
        prints(&gate, command);
    }
}

#[test]
fn a_reload_tells_what_has_changed() {
    let gate = start(
        "trusted_proxies: [127.0.0.0/8]
listeners: { main: { address: \"127.0.0.1:0\" }, from_lb: { address: \"127.0.0.1:0\" } }
limits:
  per_client: { rate: 10/s }
  login: { rate: 10/m, burst: 5 }
  api: { key: header:x-api-key, missing: allow, rate: 5/m }
  api_tier: { key: header:x-plan, missing: allow, rate: 5/m }
  exports: { rate: 5/m, mode: shadow }
  images: { rate: 50/s }
  search: { rate: 2/s }
  uploads: { rate: 1/s }
routes:
  - { name: shop, match: { path: /shop }, limits: [per_client, exports], respond: { status: 200 } }
  - { name: login, match: { path: =/login }, limits: [login], respond: { status: 200 } }
  - { name: site, limits: [api, api_tier, images, search, uploads], respond: { status: 200 } }
",
    );
    // what the harness has added stays
    let file = gate.folder().join("tidegate.yaml");
    let policy = std::fs::read_to_string(&file).unwrap();
    let now = [
        ("from_lb: { address: \"127.0.0.1:0\" }", "from_lb: { address: \"127.0.0.2:0\" }"),
        ("rate: 10/m", "rate: 5/m"),
        ("header:x-plan", "header:x-tier"),
        ("mode: shadow", "mode: enforce"),
        ("limits: [per_client, exports]", "limits: [per_client, exports, search]"),
        ("limits: [login]", "limits: [per_client, login]"),
        ("routes:\n", "routes:\n  - { name: graphql, match: { path: /graphql }, respond: { status: 200 } }\n"),
    ];
    let now = now.iter().fold(policy, |policy, (from, to)| {
        assert!(policy.contains(from), "{from}");
        policy.replace(from, to)
    });
    std::fs::write(&file, now).unwrap();
    for command in &shown("docs/operations.md", "$ sudo systemctl reload ") {
        prints(&gate, command);
    }
}

#[test]
fn an_upgrade_tells_who_serves() {
    let mut gate = three_limits();
    let (_, said) = &shown("docs/operations.md", "$ sudo tidegate upgrade")[0];
    // through the gate, which ends the other process at its own end
    let printed = gate.upgrade().stdout;
    assert_eq!(same(&printed), same(said), "{printed}");
}

#[test]
fn a_process_is_asked_in_each_of_the_ways_that_are_shown() {
    let gate = three_limits();
    let commands = shown("docs/operations.md", "$ sudo tidegate status");
    let mut asked = 0;
    for (command, _) in &commands {
        // the screen needs a terminal, the other address a port
        if !command.contains("tidegate top") && !command.contains("admin.token") {
            assert!(printed(&gate, command).contains("per_client"), "{command}");
            asked += 1;
        }
    }
    assert_eq!((asked, commands.len()), (2, 4));
}
