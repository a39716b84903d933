//! The sources' own tests and tables (ALGORITHMS 1), one row each, asked of the product; where a row is adapted, it says in
//! what. Reference implementations of what the sources do stand beside the checks that compare ours with them. The table is
//! published as `docs/sources.md`.

mod document;
mod exim;
mod gate;
mod pingora_limits;
mod recent_average;
mod table;
mod throttlekit;

// the words in which other folders ask the same parts
#[path = "../../crates/policy/src/answer/sample.rs"]
mod sample;
#[allow(dead_code, reason = "the tests of sketches use more of it")]
#[path = "../../crates/limits/tests/sketch/shorthand.rs"]
mod shorthand;
#[path = "../../crates/policy/tests/client/support.rs"]
mod support;
#[path = "../../crates/limits/tests/sketch/values.rs"]
mod values;
#[path = "../../crates/policy/tests/client/vectors.rs"]
mod vectors;

use std::any::Any;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

// as the samples of `answer` name their own crate
use tidegate::{client, engine, limiter, policy, sketch, units};

use table::{Row, TABLE};

#[test]
fn every_row_of_the_sources_holds() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(row) = TABLE.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let failure = catch_unwind(row.check).err().map(|panic| text(&*panic));
            done.push((row, began.elapsed(), failure));
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<(&Row, Duration, Option<String>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    for row in TABLE {
        let (_, took, failure) = outcomes.iter().find(|(done, ..)| std::ptr::eq(*done, row)).unwrap();
        let Row { id, source, claim, numbers, adapted, .. } = row;
        let adapted = if adapted.is_empty() { String::new() } else { format!(" [adapted: {adapted}]") };
        let holds = if failure.is_some() { "FAILS" } else { "holds" };
        lines.push(format!("{id:<4}{source:<16}{holds} {:>6.2} s  {claim}: {numbers}{adapted}", took.as_secs_f64()));
        failed.extend(failure.as_ref().map(|failure| format!("{id} of {source}, {claim}: {failure}")));
    }
    println!("{}", lines.join("\n"));
    assert!(failed.is_empty(), "{} of {} rows fail:\n{}", failed.len(), TABLE.len(), failed.join("\n"));
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic without a text").to_owned()
}

#[test]
fn the_table_has_every_row_once_and_in_order() {
    let groups = [('T', 14), ('C', 9), ('E', 7), ('P', 6)];
    let expected: Vec<String> =
        groups.into_iter().flat_map(|(letter, rows)| (1..=rows).map(move |row| format!("{letter}{row}"))).collect();
    assert_eq!(TABLE.iter().map(|row| row.id).collect::<Vec<_>>(), expected);
    for row in TABLE {
        assert!(!row.source.is_empty() && !row.claim.is_empty() && !row.numbers.is_empty(), "{}", row.id);
    }
}
