//! The table.

use std::collections::BTreeMap;

use crate::rows::{ROWS, Scene};
use crate::stand::Sample;

/// Samples by row, one per round, in the order of the rounds.
pub type Samples = BTreeMap<usize, Vec<Sample>>;

/// One scene. `added` is beside the same server without a limit, `ratio` to the same limit without a store, first of the server alone, then
/// with Redis; all are medians of what they are within each round. `req/CPU s` is what a second of CPU time is good for, of server
/// and Redis; `req/s` what the clients got, beside the load and whoever else was on that CPU. Round trips and waits are per 1,000
/// requests.
pub fn print(scene: &Scene, samples: &Samples) {
    println!("\n{}", scene.title);
    println!(
        "  {:<31} {:>6} {:>7} {:>7} {:>15} {:>7} {:>7} {:>11} {:>9} {:>11} {:>8}",
        "", "µs/req", "added", "ratio", "middle half", "Redis", "ratio", "req/CPU s", "req/s", "round trips", "waits"
    );
    let local = ROWS.iter().position(|row| row.is_local()).and_then(|row| samples.get(&row));
    for (row, rounds) in samples {
        let base = ROWS[*row].base().and_then(|base| samples.get(&base));
        let added = base.map(|base| median(within(rounds, base, |ours, base| ours.server - base.server)));
        let ratios = |of: fn(&Sample) -> f64| {
            local.map(|local| sorted(within(rounds, local, |ours, local| of(ours) / of(local)))).unwrap_or_default()
        };
        let (own, both) = (ratios(|sample| sample.server), ratios(|sample| sample.server + sample.redis));
        let all = |of: fn(&Sample) -> f64| median(rounds.iter().map(of));
        println!(
            "  {:<31} {:>6.1} {:>7} {:>7.2} {:>15} {:>7.1} {:>7.2} {:>11.0} {:>9.0} {:>11.1} {:>8.1}",
            ROWS[*row].name,
            all(|sample| sample.server),
            added.map_or("–".to_owned(), |added| format!("{added:+.1}")),
            median(own.iter().copied()),
            format!("{:.2} – {:.2}", quarter(&own, 1), quarter(&own, 3)),
            all(|sample| sample.redis),
            median(both),
            1e6 / all(|sample| sample.server + sample.redis),
            all(|sample| sample.per_second),
            all(|sample| sample.questions * 1e3),
            all(|sample| sample.waits * 1e3),
        );
    }
}

fn within<'a>(
    ours: &'a [Sample],
    theirs: &'a [Sample],
    of: impl Fn(&Sample, &Sample) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    ours.iter().zip(theirs).map(move |(ours, theirs)| of(ours, theirs))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn quarter(sorted: &[f64], part: usize) -> f64 {
    sorted.get(sorted.len() * part / 4).or(sorted.last()).copied().unwrap_or_default()
}

/// The middle value, or the upper of the two in the middle; zero of nothing.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quarter(&sorted(values.into_iter()), 2)
}
