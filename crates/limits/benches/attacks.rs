//! The attack table in virtual time: `cargo bench -p tidegate-limits --bench attacks`, some ten minutes. Each row is one flood against an origin's
//! door, beside the same flood against a queue in the order of arrival. Exits with 1 where a row misses a bar.

#[path = "../tests/door/attacks.rs"]
mod attacks;
#[path = "../tests/door/fate.rs"]
mod fate;
#[path = "../tests/door/world.rs"]
#[expect(dead_code, reason = "the tests have other worlds too")]
mod world;

use std::process::ExitCode;

use attacks::{Outcome, PLACES, Row};
use tidegate_limits::door::Reserve;

fn main() -> ExitCode {
    // cargo runs benchmarks as tests too; the rows are tests of their own
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("prints only under `cargo bench -p tidegate-limits --bench attacks`");
        return ExitCode::SUCCESS;
    }
    println!(
        "| attack | hosts | places | light | p99 of their wait | heavy, of its due | places used | most at the origin | in order of arrival: light | p99 | heavy |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut missed = Vec::new();
    for row in PLACES.into_iter().flat_map(Row::all) {
        let (fair, arrival) = (row.fair(), row.by_arrival());
        let Outcome { light, p99, heavy, used, most } = fair;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        println!(
            "| {:?}{} | {} | {} | {} | {} ms | {} | {} | {most} | {} | {} ms | {} |",
            row.attack,
            if row.is_known() { " \\*" } else { "" },
            row.hosts,
            row.max,
            percent(light),
            p99.as_millis(),
            percent(heavy),
            percent(used),
            percent(arrival.light),
            arrival.p99.as_millis(),
            percent(arrival.heavy),
        );
        missed.extend(row.misses(&fair).into_iter().map(|miss| format!("{row:?}: {miss}")));
    }
    println!("\n\\* known to miss a bar, and held to what it reaches");
    println!("\nThe same rows with other reserves: light, p99 of their wait, heavy of its due\n");
    println!("| attack | hosts | places | none | learned | a quarter | half |\n|---|--:|--:|---|---|---|---|");
    for row in PLACES.into_iter().flat_map(Row::all).filter(Row::is_known) {
        let cells = [Reserve::None, Reserve::Learned, Reserve::Share(0.25), Reserve::Share(0.5)].map(|reserve| {
            let Outcome { light, p99, heavy, .. } = row.with(reserve);
            format!("{:.1} %, {} ms, {:.0} %", 100.0 * light, p99.as_millis(), 100.0 * heavy)
        });
        println!("| {:?} | {} | {} | {} |", row.attack, row.hosts, row.max, cells.join(" | "));
    }
    for miss in &missed {
        eprintln!("{miss}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
