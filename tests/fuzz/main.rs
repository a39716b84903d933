//! The fuzz targets in the normal test command: every committed input, then a bounded run of inputs made from them.
//!
//! The run is the same each time: nothing in it is drawn from a clock or from the system. What an hour of libFuzzer finds is
//! committed as an input and found here in a second. `FUZZ_INPUTS=100000` runs longer; it replaces each target's number.

#[path = "../../fuzz/targets/mod.rs"]
mod targets;

mod corpus;
mod heads;
mod linear;
mod mutate;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::path::PathBuf;
use std::sync::Once;

use corpus::Corpus;
use mutate::Mutator;

#[test]
fn access_log_keeps_its_promises() {
    run("access_log", targets::access_log::access_log, 6_000);
}

#[test]
fn address_keeps_its_promises() {
    run("address", targets::address::address, 6_000);
}

#[test]
fn chunks_keeps_its_promises() {
    run("chunks", targets::chunks::chunks, 8_000);
}

#[test]
fn deltas_keeps_its_promises() {
    run("deltas", targets::deltas::deltas, 10_000);
}

#[test]
fn forwarding_keeps_its_promises() {
    run("forwarding", targets::forwarding::forwarding, 15_000);
}

#[test]
fn h2_frames_keeps_its_promises() {
    run("h2_frames", targets::h2_frames::h2_frames, 20_000);
}

#[test]
fn h2_head_keeps_its_promises() {
    run("h2_head", targets::h2_head::h2_head, 12_000);
}

#[test]
fn head_keeps_its_promises() {
    run("head", targets::head::head, 12_000);
}

#[test]
fn lines_keeps_its_promises() {
    run("lines", targets::lines::lines, 40_000);
}

#[test]
fn origin_answer_keeps_its_promises() {
    run("origin_answer", targets::origin_answer::origin_answer, 10_000);
}

#[test]
fn path_keeps_its_promises() {
    run("path", targets::path::path, 20_000);
}

#[test]
fn policy_keeps_its_promises() {
    run("policy", targets::policy::policy, 600);
}

#[test]
fn proxy_protocol_keeps_its_promises() {
    run("proxy_protocol", targets::proxy_protocol::proxy_protocol, 20_000);
}

#[test]
fn structured_keeps_its_promises() {
    run("structured", targets::structured::structured, 10_000);
}

/// A function that asserts what it promises of any bytes.
type Target = fn(&[u8]);

/// All inputs of the corpus as they are, then `inputs` more made from them.
fn run(name: &str, target: Target, inputs: usize) {
    let corpus = Corpus::read(name);
    for (path, input) in &corpus.inputs {
        try_one(name, target, input, &path.display().to_string());
    }
    let inputs = std::env::var("FUZZ_INPUTS").ok().and_then(|number| number.parse().ok()).unwrap_or(inputs);
    let mut mutator = Mutator::new(name, &corpus);
    for nth in 0..inputs {
        let input = mutator.next_input();
        try_one(name, target, &input, &format!("input {nth} of the run"));
    }
}

/// Runs one input; on a failure leaves it in a file, so that it can be looked at and committed.
fn try_one(name: &str, target: Target, input: &[u8], origin: &str) {
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let small = smaller(target, input);
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-finding"));
        let kept = std::fs::write(&file, &small).map_or("not kept".to_owned(), |()| file.display().to_string());
        eprintln!("{name}: {origin} fails; smallest form found, in {kept}:\n{}", small.escape_ascii());
        resume_unwind(failure);
    }
}

/// Takes pieces out as long as it still fails, without a word about each failure on the way.
fn smaller(target: Target, input: &[u8]) -> Vec<u8> {
    thread_local!(static IS_QUIET: Cell<bool> = const { Cell::new(false) });
    static QUIET_HOOK: Once = Once::new();
    QUIET_HOOK.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |failure| {
            if !IS_QUIET.get() {
                hook(failure)
            }
        }));
    });
    IS_QUIET.set(true);
    let mut small = input.to_vec();
    let mut piece = small.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= small.len() {
            let without = [&small[..at], &small[at + piece..]].concat();
            if catch_unwind(AssertUnwindSafe(|| target(&without))).is_err() {
                small = without;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    IS_QUIET.set(false);
    small
}
