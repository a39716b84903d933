//! The house stands as its plan says: a folder uses lower floors only, never a neighbour on its own floor, and only the
//! faces see time, dice, sockets and the framework.

mod circles;
mod picture;

use std::fs;
use std::path::{Path, PathBuf};

/// Where the modules of the plan are.
const SOURCES: [&str; 5] = [HTTP, "crates/limits/src", "crates/policy/src", "crates/offline/src", "src"];
/// One module of the plan, by the name that its crate has.
const HTTP: &str = "crates/http/src";

/// The plan: module of a crate, its floor.
const FLOORS: [(&str, u32); 33] = [
    ("tidegate_http", 1),
    ("human", 1),
    ("sync", 1),
    ("saved", 1),
    ("units", 1),
    ("request", 2),
    ("sketch", 2),
    ("door", 2),
    ("limiter", 3),
    ("overload", 3),
    ("client", 4),
    ("bans", 5),
    ("policy", 5),
    ("config", 6),
    ("engine", 6),
    ("answer", 7),
    ("gate", 7),
    ("picture", 7),
    ("explain", 7),
    ("replay", 8),
    ("scenario", 8),
    ("system", 8),
    ("edge", 9),
    ("origins", 10),
    ("store", 11),
    ("small_server", 11),
    ("observe", 12),
    ("running", 13),
    ("proxy", 14),
    ("admin", 15),
    ("process", 16),
    ("cli", 17),
    ("main", 18),
];

/// Where the faces begin.
const FACES: u32 = 8;

/// What only a face may name: the framework, the runtime, a clock, dice, the network.
const FACES_ONLY: [&str; 10] = [
    "pingora",
    "tokio",
    "getrandom",
    "socket2",
    "Instant",
    "SystemTime",
    "UNIX_EPOCH",
    "TcpStream",
    "TcpListener",
    "thread_rng",
];

/// The store's crate, which has an everyday name: it counts where an item is taken from it.
const STORES: &str = "redis::";

/// What writes to a descriptor that somebody else reads, and waits for as long as nobody does.
const WAITS_FOR_A_READER: [&str; 7] = ["println!", "eprintln!", "print!", "eprint!", "dbg!", "stdout()", "stderr()"];

/// Who may name one of these in a process that serves.
const MAY_NAME_THEM: [(&str, &str); 4] = [
    ("observe/lines/target.rs", "the thread that writes"),
    ("observe/standard_error.rs", "before there is a thread"),
    ("observe/log.rs", "asks what standard error is"),
    ("cli/run.rs", "asks for colours"),
];

/// How tests told before that they did not run.
const SAYS_SKIPPED: [&str; 4] = ["skipped:", "left out", "not checked", "not run"];

/// Folders and files of a process that serves.
const SERVES: [&str; 10] =
    ["system/", "edge/", "origins/", "store/", "small_server/", "observe/", "running/", "proxy/", "admin/", "process/"];
const ALSO_SERVES: [&str; 2] = ["cli/run.rs", "cli/demo.rs"];

/// Sockets whose writes wait, and who may have them without a time limit of their own.
const WAITING_SOCKETS: [&str; 2] = ["UnixStream", "UnixDatagram"];
const WITHOUT_A_LIMIT: [(&str, &str); 2] = [
    ("admin/client.rs", "asks a process that serves, and serves nobody"),
    ("process/upgrade.rs", "hands its end to `handover`, which sets one"),
];

/// What `crates/limits/models/lib.rs` compiles, and the crates and modules whose words its models would not see.
const MODELLED: [&str; 2] = ["sketch/", "limiter/"];
const NOT_MODELLED: [&str; 4] = ["atomic", "arc_swap", "parking_lot", "loom"];

/// A file is one idea.
const LONGEST: usize = 500;

#[test]
fn no_folder_looks_up_or_sideways() {
    let mut faults = Vec::new();
    for file in sources() {
        let (module, floor) = place(&file);
        for (number, line) in code(&file) {
            for target in crate_paths(&line) {
                let Some(other) = floor_of(&target) else { continue };
                if target != module && other >= floor {
                    faults.push(format!("{}:{number}: floor {floor} uses `{target}` of floor {other}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_the_faces_see_clock_dice_sockets_and_framework() {
    let mut faults = Vec::new();
    for file in sources() {
        let (_, floor) = place(&file);
        if floor >= FACES {
            continue;
        }
        for (number, line) in code(&file) {
            let stores = line.contains(STORES).then_some(STORES);
            for word in words(&line).filter(|word| FACES_ONLY.contains(word)).chain(stores) {
                faults.push(format!("{}:{number}: floor {floor} names `{word}`", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `crates/limits/models` runs these folders on words of a model checker, which stand in for what `crate::sync` has: a word from elsewhere would
/// be in no interleaving. Unit tests have what they like.
#[test]
fn what_the_models_run_takes_its_words_from_sync() {
    let mut faults = Vec::new();
    for file in sources() {
        let name = inside(&file);
        if !MODELLED.iter().any(|folder| name.starts_with(folder)) || name.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in product(&file) {
            for word in words(&line).filter(|word| NOT_MODELLED.contains(word)) {
                faults.push(format!("{name}:{number}: `{word}` past `crate::sync`: {}", line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A pipe, a terminal or a journal can stop taking bytes. Whoever serves must not wait for that.
#[test]
fn nobody_who_serves_waits_for_a_reader() {
    let mut faults = Vec::new();
    for file in sources() {
        let name = inside(&file);
        let serves = SERVES.iter().any(|folder| name.starts_with(folder)) || ALSO_SERVES.contains(&name.as_str());
        if !serves || name.ends_with("tests.rs") {
            continue;
        }
        let lines = product(&file);
        let may = MAY_NAME_THEM.iter().any(|(file, _)| *file == name);
        for (number, line) in lines.iter().filter(|_| !may) {
            for call in WAITS_FOR_A_READER.iter().filter(|call| names_call(line, call)) {
                faults.push(format!("{name}:{number}: `{call}` waits for a reader: `standard_error::say`, or the log"));
            }
        }
        let has = |word: &str| lines.iter().any(|(_, line)| line.contains(word));
        let waits = lines.iter().any(|(_, line)| {
            line.contains("std::os::unix::net") && words(line).any(|word| WAITING_SOCKETS.contains(&word))
        });
        let may = WITHOUT_A_LIMIT.iter().any(|(file, _)| *file == name) || ALSO_SERVES.contains(&name.as_str());
        if waits && !may && !has("set_write_timeout") {
            faults.push(format!("{name}: a socket whose writes may wait for ever: `set_write_timeout`"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (file, why) in MAY_NAME_THEM.iter().chain(&WITHOUT_A_LIMIT) {
        assert!(root().join("src").join(file).exists(), "{file} ({why}) is gone");
    }
}

/// A test that does not run must be told at the end of `./dev test`: `skips::skip` sees to it.
#[test]
fn no_test_is_skipped_in_silence() {
    let mut faults = Vec::new();
    let files = sources()
        .into_iter()
        .chain(below("tests"))
        .chain(below("crates/limits/tests"))
        .chain(below("crates/policy/tests"));
    for file in files.filter(|file| !file.ends_with("skips/mod.rs")) {
        for (number, line) in code(&file) {
            let line = line.to_lowercase();
            let says = line.contains("print") && SAYS_SKIPPED.iter().any(|word| line.contains(word));
            if says || line.trim_start().starts_with("#[ignore") {
                faults.push(format!("{}:{number}: {}: `skips::skip`", file.display(), line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A test that ends before it has checked anything says why by `return skip(…)`; a bare `return` would pass unseen.
#[test]
fn no_test_ends_early_in_silence() {
    let mut faults = Vec::new();
    for file in sources()
        .into_iter()
        .chain(below("tests"))
        .chain(below("crates/limits/tests"))
        .chain(below("crates/policy/tests"))
    {
        let mut test: Option<usize> = None;
        let mut attribute = false;
        for (number, line) in code(&file) {
            let indent = line.len() - line.trim_start().len();
            match test {
                None if line.trim_start().starts_with("fn ") && attribute => test = Some(indent),
                Some(of_test) if indent == of_test && line.trim() == "}" => test = None,
                Some(_) if words(&line).any(|word| word == "return") && line.contains("return;") => {
                    faults.push(format!("{}:{number}: `skips::skip`, or until it can be said", file.display()));
                }
                _ => {}
            }
            attribute = line.trim() == "#[test]" || attribute && line.trim_start().starts_with("#[");
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_is_one_idea() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|file| (fs::read_to_string(&file).unwrap().lines().count(), file))
        .filter(|(lines, _)| *lines > LONGEST)
        .map(|(lines, file)| format!("{}: {lines} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "over {LONGEST} lines: {}", long.join(", "));
}

#[test]
fn the_checks_see_what_they_are_for() {
    let found: Vec<String> = crate_paths("use crate::{policy::Route, sketch, units::{Cost}};").collect();
    assert_eq!(found, ["policy", "sketch", "units"]);
    let found: Vec<String> = crate_paths("    let x = crate::process::start(tidegate::cli::run());").collect();
    assert_eq!(found, ["process", "cli"]);
    assert!(words("let now = std::time::Instant::now();").any(|word| word == "Instant"));
    assert_eq!(strip_comment("let a = 1; // crate::serve"), "let a = 1; ");
    assert!(names_call("    eprintln!(\"x\");", "eprintln!") && !names_call("    eprintln!(\"x\");", "println!"));
    assert!(names_call("io::stderr().lock()", "stderr()") && !names_call("child.stderr.take()", "stderr()"));
}

/// The program's and those of its crates.
fn sources() -> Vec<PathBuf> {
    SOURCES.iter().flat_map(|folder| below(folder)).collect()
}

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// All Rust files below a folder of the project.
fn below(folder: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    assert!(found.len() > 20, "the sources are not where the test looks for them");
    found
}

/// Its path below its crate's `src`.
fn inside(file: &Path) -> String {
    let root = root();
    let inside = SOURCES.iter().find_map(|folder| file.strip_prefix(root.join(folder)).ok()).unwrap();
    inside.to_str().unwrap().to_owned()
}

/// Whether the line has this call, and not merely one whose name ends so.
fn names_call(line: &str, call: &str) -> bool {
    let before = |at: usize| line[..at].chars().next_back();
    line.match_indices(call).any(|(at, _)| !before(at).is_some_and(|before| before.is_alphanumeric() || before == '_'))
}

/// The module a file belongs to and its floor; `lib.rs`, the plan itself, may see everything.
fn place(file: &Path) -> (String, u32) {
    if file.starts_with(root().join(HTTP)) {
        return ("tidegate_http".to_owned(), 1);
    }
    let inside = inside(file);
    let module = inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
    if module == "lib" {
        return (module, u32::MAX);
    }
    let floor = floor_of(&module).unwrap_or_else(|| panic!("`{module}` stands on no floor: add it to the plan"));
    (module, floor)
}

fn floor_of(module: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// Statements with their line numbers: `use` lists over several lines are joined, comments are gone.
fn code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap();
    let mut statements = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = strip_comment(line);
        let starts_use = line.trim_start().trim_start_matches("pub ").starts_with("use ");
        let (start, mut statement) = open.take().unwrap_or((index + 1, String::new()));
        statement.push_str(line);
        if (starts_use || start != index + 1) && !line.contains(';') {
            open = Some((start, statement));
        } else {
            statements.push((start, statement));
        }
    }
    statements
}

/// What is compiled into the product: without modules of tests, which stand at a file's end or, in a file of their own, anywhere.
fn product(file: &Path) -> Vec<(usize, String)> {
    let mut kept = Vec::new();
    let mut for_tests = false;
    for (number, statement) in code(file) {
        if std::mem::take(&mut for_tests) {
            if statement.trim_end().ends_with(';') {
                continue;
            }
            if statement.trim_start().starts_with("mod ") {
                break;
            }
        }
        if statement.trim() == "#[cfg(test)]" {
            for_tests = true;
        } else {
            kept.push((number, statement));
        }
    }
    kept
}

fn strip_comment(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

/// The crate's own modules that a statement names, by `crate::` or by the crate's name.
fn crate_paths(statement: &str) -> impl Iterator<Item = String> + '_ {
    ["crate::", "tidegate::"].into_iter().flat_map(move |root| {
        statement.match_indices(root).flat_map(move |(at, _)| {
            let rest = &statement[at + root.len()..];
            if let Some(list) = rest.strip_prefix('{') { top_level_names(list) } else { vec![first_name(rest)] }
        })
    })
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn top_level_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut at_start = true;
    for (index, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                names.push(first_name(&list[index..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
