//! Makes small wrong changes to the heart of tidegate, one at a time, and says which of them no test notices.
//!
//! `tidegate-mutants N [SEED [PATH]]`, from the root of the project: a sample of N changes in the files below PATH.
//! `tidegate-mutants --check`: whether every explained change is one that can be made. See `docs/mutants.md`.
//!
//! All changes of the sample are built into one copy of the tree, each behind a switch that an environment variable turns on: a
//! build takes minutes, the tests of one change take seconds.

mod build;
mod explained;
mod find;
mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use explained::Explained;
use find::Change;
use run::{Bench, Fate};

/// What is changed.
const FOLDERS: [&str; 5] = [
    "crates/limits/src/sketch",
    "crates/limits/src/door",
    "crates/limits/src/limiter",
    "crates/policy/src/engine",
    "crates/policy/src/client",
];

/// Changes that no test can notice, each with its reason.
const EXPLAINED: &str = "mutants/explained.txt";

/// Where the copy of the tree is; its own target folder is beside it.
const WORK: &str = "target/mutants";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--check"] {
        return check();
    }
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>());
    let (Some(Ok(count)), Some(Ok(seed))) = (number(0), number(1).or(Some(Ok(1)))) else {
        eprintln!("usage: ./dev mutants N [SEED [PATH]], or --check");
        return ExitCode::from(64);
    };
    let below = arguments.get(2).map_or("crates", String::as_str);
    let all = all_changes(below);
    let chosen = sample(&all, count as usize, seed);
    println!("{} of {} changes below {below}, seed {seed}", chosen.len(), all.len());

    let work = PathBuf::from(WORK);
    let (built, programs) = build::build(&chosen, &work);
    let bench = Bench::new(&work, programs);
    if let Err(fault) = bench.passes_unchanged() {
        eprintln!("without any change: {fault}");
        return ExitCode::FAILURE;
    }
    let explained = explained();
    let mut outcomes = Outcomes::default();
    for (number, change) in chosen.iter().enumerate() {
        let place = format!("{number:>3} line {:>3} of {}", change.line, change.name());
        if !built.contains(&number) {
            println!("{place}\n    unviable: does not compile");
            outcomes.unviable += 1;
            continue;
        }
        let fate = bench.fate(number, change);
        println!("{place}\n    {fate}");
        match fate {
            Fate::Killed(_) => outcomes.killed += 1,
            Fate::TimedOut(_) => outcomes.timed_out += 1,
            Fate::Survived => outcomes.survivors.push((place, explained.reason(&change.name()))),
        }
    }
    outcomes.report(chosen.len())
}

#[derive(Default)]
struct Outcomes {
    killed: usize,
    timed_out: usize,
    unviable: usize,
    survivors: Vec<(String, Option<String>)>,
}

impl Outcomes {
    fn report(&self, count: usize) -> ExitCode {
        let Outcomes { killed, timed_out, unviable, survivors } = self;
        let unexplained = survivors.iter().filter(|(_, reason)| reason.is_none()).count();
        println!();
        for (place, reason) in survivors {
            println!("survived: {place}\n    {}", reason.as_deref().unwrap_or("NOT EXPLAINED"));
        }
        println!(
            "{count} changes: {killed} killed, {timed_out} timed out, {unviable} unviable, {} survived, {unexplained} of them not explained in {EXPLAINED}",
            survivors.len()
        );
        if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn explained() -> Explained {
    Explained::read(&fs::read_to_string(EXPLAINED).unwrap_or_else(|fault| panic!("{EXPLAINED}: {fault}")))
}

/// Fails if an explained change cannot be made, or has no reason. Builds nothing.
fn check() -> ExitCode {
    let faults = explained().faults(&all_changes("crates"));
    faults.iter().for_each(|fault| eprintln!("{EXPLAINED}: {fault}"));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all_changes(below: &str) -> Vec<Change> {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| rust_files(Path::new(folder), &mut files));
    files.sort();
    let mut all = Vec::new();
    for file in files.iter().filter(|file| file.starts_with(below)) {
        // files of tests alone
        if !file.ends_with("tests.rs") {
            let text = fs::read_to_string(file).unwrap_or_else(|fault| panic!("{file}: {fault}"));
            all.extend(find::changes(file, &text));
        }
    }
    all
}

fn rust_files(folder: &Path, files: &mut Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()));
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path.to_string_lossy().into_owned());
        }
    }
}

/// The same for the same seed: drawn one after the other, without those that lie inside one that was drawn before.
fn sample(all: &[Change], count: usize, seed: u64) -> Vec<Change> {
    let mut left: Vec<usize> = (0..all.len()).collect();
    let mut state = seed;
    let mut chosen: Vec<Change> = Vec::new();
    while chosen.len() < count && !left.is_empty() {
        let drawn = &all[left.swap_remove((split_mix(&mut state) % left.len() as u64) as usize)];
        if !chosen.iter().any(|other| drawn.overlaps(other)) {
            chosen.push(drawn.clone());
        }
    }
    chosen
}

/// SplitMix64, of Steele, Lea and Flood.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
