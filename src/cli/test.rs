//! `tidegate test`: whether a policy does what it claims.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::exit;
use super::global::{Global, environment};
use super::output::{print, say};
use crate::config::{self, Loaded};
use crate::explain::Book;
use crate::scenario;
use crate::scenario::report::{self, Tested, report};

/// Run the tests in a policy file, without a server
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate test tidegate.yaml\n\nA test in the policy file:\n  tests:\n    \
    - name: the sixth wrong password in a minute is limited\n      send: { n: 6, every: 1s, method: POST, \
    url: \"https://shop.example.com/login\", answer: 401 }\n      expect: { allowed: 5, limited: 1, by: login }\n\n\
    No server is needed, and no time passes: a month takes milliseconds.\n\n\
    Exit codes: 0 all passed, 1 one failed or none was there, 78 invalid")]
pub struct Arguments {
    /// Policy file or directory; wins over --config
    pub file: Option<PathBuf>,
    /// More tests: a file with only `tests:`
    #[arg(short, long = "tests", value_name = "FILE")]
    pub tests: Vec<PathBuf>,
    /// Only tests whose name holds this text
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How to write outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As test runners do
    Text,
    /// One JSON document
    Json,
    /// JUnit's XML, for build servers
    Junit,
}

/// Runs the tests, and says what came of them.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let path = arguments.file.as_deref().unwrap_or(global.policy());
    let mut loaded = config::load(path, &environment);
    for file in &arguments.tests {
        loaded.add_tests(file, &environment);
    }
    if !global.quiet || loaded.outcome.is_err() {
        global.tell(&loaded);
    }
    let begun = Instant::now();
    let tests = match tested(&loaded, arguments.only.as_deref()) {
        Ok(Some(tests)) => tests,
        Ok(None) => return ExitCode::from(exit::INVALID),
        Err(fault) => {
            say(&format!("tidegate: {fault}\n"));
            return ExitCode::from(exit::INVALID);
        }
    };
    if tests.is_empty() {
        let which = if arguments.only.is_some() { "no test of that name" } else { "no `tests:`" };
        say(&format!("tidegate: there is {which} in {}\n", path.display()));
        return ExitCode::from(exit::NO);
    }
    let all = loaded.outcome.as_ref().map_or(0, |config| config.cases.len());
    let format = match arguments.format {
        Format::Text => report::Format::Text,
        Format::Json => report::Format::Json,
        Format::Junit => report::Format::Junit,
    };
    print(&report(&tests, all - tests.len(), format, begun.elapsed()));
    if tests.iter().all(|test| test.outcome.holds()) { ExitCode::SUCCESS } else { ExitCode::from(exit::NO) }
}

/// The tests that are asked for, run; `None` when the configuration is invalid.
pub fn tested(loaded: &Loaded, only: Option<&str>) -> Result<Option<Vec<Tested>>, String> {
    let Ok(config) = &loaded.outcome else { return Ok(None) };
    let book = Book::of(config);
    // as the live gate spells paths
    let wanted = config.cases.iter().filter(|case| only.is_none_or(|text| case.name.contains(text)));
    let tests = wanted.map(|case| {
        let file = loaded.sources.of(case.at).map_or_else(String::new, |source| source.name.clone());
        let line = loaded.sources.position(case.at).line;
        let outcome = scenario::run(&config.policy, &book, case, config.escaped_slash())?;
        Ok(Tested { name: case.name.clone(), file, line, outcome })
    });
    tests.collect::<Result<_, String>>().map(Some)
}
