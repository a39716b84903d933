//! `docs/explain.md` shows what the commands print. Its policy is served, its commands are run, and what is different in every run (ids,
//! times, waits, pseudonyms) is made the same on both sides. `UPDATE_EXPECTED=1` writes what they print into the document.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::explain::start;
use crate::harness::Gate;
use crate::harness::gate::{binary, end};

#[test]
fn the_document_shows_what_the_commands_print() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explain.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let policy = block(&document, "```yaml\n");
    let gate = start(&policy.replace("listen: \":8080\"", "# listen"));
    std::fs::write(gate.folder().join("shop.yaml"), policy).unwrap();
    let lines = "X-Forwarded-For: 203.0.113.7\r\nX-Login-Name: ada\r\n";
    let answers: Vec<_> = (0..6).map(|_| gate.connect().ask("POST", "/login", lines, b"")).collect();
    let last = answers.last().unwrap();
    assert_eq!(last.status, 429);
    let id = last.field("x-tidegate-decision").expect("a refusal has an id");

    let mut shown = String::new();
    let mut rest = document.as_str();
    let mut commands = 0;
    while let Some(at) = rest.find("```console\n$ tidegate explain") {
        let (before, block) = rest.split_at(at);
        let end = block[3..].find("```").unwrap() + 3;
        let (block, behind) = block.split_at(end);
        let (command, printed) = block["```console\n$ ".len()..].split_once('\n').unwrap();
        let actual = run(&gate, command, &id);
        commands += 1;
        if std::env::var_os("UPDATE_EXPECTED").is_none() {
            assert_eq!(same(printed), same(&actual), "`{command}` prints something else than the document says");
        }
        let asked = if command.contains("--decision") {
            format!("tidegate explain --decision {id}")
        } else {
            command.to_owned()
        };
        shown.push_str(&format!("{before}```console\n$ {asked}\n{actual}"));
        rest = behind;
    }
    shown.push_str(rest);
    assert_eq!(commands, 2);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, shown).unwrap();
    }
}

/// The inside of the first block that begins so.
fn block<'a>(document: &'a str, begin: &str) -> &'a str {
    let (_, rest) = document.split_once(begin).expect("the document has it");
    rest.split_once("```").expect("and it ends").0
}

/// What a command prints, in the folder of the gate, with paths as they are where it is installed.
fn run(gate: &Gate, command: &str, id: &str) -> String {
    let mut words: Vec<String> = words(command);
    if let Some(at) = words.iter().position(|word| word == "--decision") {
        words[at + 1] = id.to_owned();
    }
    let socket: PathBuf = gate.admin_socket();
    let ended = end(binary().args(&words[1..]).arg("--admin").arg(socket).current_dir(gate.folder()));
    assert_eq!(ended.code, Some(0), "{command}: {}", ended.stderr);
    ended.stdout.replace(&gate.folder().display().to_string(), "/etc/tidegate")
}

/// The words of a command line with single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (nth, part) in command.split('\'').enumerate() {
        if nth % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        words.last_mut().unwrap().push_str(pieces.next().unwrap());
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A text without what is different in every run.
pub fn same(text: &str) -> String {
    [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "TIME"),
        (r"decision [0-9A-HJKMNP-TV-Z]{13}\b", "decision ID"),
        // a pseudonym may end in a dash, which ends no word
        (r"client_ip = [A-Za-z0-9_-]{4}…", "client_ip = PSEUDONYM"),
        (r"(client    |in the log )[A-Za-z0-9_-]{22}", "$1 PSEUDONYM"),
        (r"(the next one fits|one more) in ([0-9.]+ (µs|ms|s|min|h)( [0-9]+ (s|min))?)", "$1 in WAIT"),
        (r"Retry-After: \d+", "Retry-After: N"),
        (r";t=\d+", ";t=N"),
        // by how much faster it would have had to be depends on how fast the six were sent
        (r"burst ≥ 6(, or rate ≥ \d+/m,)? would", "burst ≥ 6 would"),
        (r"config    [0-9a-f]{12}", "config    HASH"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (pattern, word)| Regex::new(pattern).unwrap().replace_all(&text, *word).into_owned())
}
