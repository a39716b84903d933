//! The table, and the budgets held against it.

use std::collections::BTreeMap;

use crate::rows::{Allocator, Kind, Row, Subject};
use crate::stand::Sample;

/// Samples by subject, one per round, in the order of the rounds.
pub type Samples = BTreeMap<Subject, Vec<Sample>>;

/// A row's proxies, the baseline first.
pub fn print_row(row: Row, samples: &Samples) {
    println!("\n{}", row.title());
    println!(
        "  {:<34} {:>7} {:>6} {:>6} {:>7} {:>15} {:>7} {:>9} {:>9} {:>8}",
        "", "µs/req", "user", "sys", "ratio", "middle half", "quiet", "requests", "B/answer", "RSS MiB"
    );
    let mut subjects = Subject::all(row);
    if !subjects.contains(&row.baseline()) {
        subjects.insert(0, row.baseline());
    }
    for subject in subjects {
        let Some(rounds) = samples.get(&subject) else { continue };
        let micros = median(rounds.iter().map(|sample| sample.micros));
        let user: u64 = rounds.iter().map(|sample| sample.ticks.user).sum();
        let system: u64 = rounds.iter().map(|sample| sample.ticks.system).sum();
        let user = micros * user as f64 / (user + system).max(1) as f64;
        let requests: u64 = rounds.iter().map(|sample| sample.seen.requests()).sum();
        let bytes: u64 = rounds.iter().map(|sample| sample.seen.bytes).sum();
        let resident = rounds.last().map_or(0.0, |sample| sample.resident as f64 / f64::from(1 << 20));
        let Some(ratio) = Ratio::of(subject, row.baseline(), samples) else { continue };
        println!(
            "  {:<34} {micros:>7.2} {user:>6.1} {:>6.1} {:>7.3} {:>15} {:>7.3} {requests:>9} {:>9.0} {resident:>8.1}",
            subject.name(),
            micros - user,
            ratio.median,
            format!("{:.3} – {:.3}", ratio.lower_quartile, ratio.upper_quartile),
            ratio.quiet,
            bytes as f64 / requests as f64,
        );
    }
}

/// The three budgets of this benchmark, each with what was measured.
pub fn print_budgets(samples: &Samples) {
    println!("\nbudgets: CPU time per request of tidegate as a multiple, judged by the median");
    println!("  {:<64} {:>6} {:>8} {:>8} {:>7}", "", "must", "stretch", "median", "quiet");
    let tidegate = |row| Subject { row, kind: Kind::Tidegate, allocator: Allocator::Mimalloc };
    let default = Subject { row: Row::Plain, kind: Kind::Bare, allocator: Allocator::Default };
    let budgets = [
        ("limited by trusted X-Forwarded-For / bare pingora", Row::Limited, Row::Limited.baseline(), 1.03, 1.02),
        ("with fields, metrics and log / bare pingora, default allocator", Row::Full, default, 1.0, 0.92),
        ("refused on keep-alive / pingora's own filter", Row::Refused, Row::Refused.baseline(), 1.1, 0.47),
    ];
    for (what, row, baseline, must, stretch) in budgets {
        print!("  {what:<64} {must:>6.2} {stretch:>8.2}");
        match Ratio::of(tidegate(row), baseline, samples) {
            None => println!("  not measured"),
            Some(ratio) => {
                let verdict = match ratio.median {
                    median if median <= stretch => "pass, stretch",
                    median if median <= must => "pass",
                    _ => "FAIL",
                };
                println!(" {:>8.3} {:>7.3}  {verdict}", ratio.median, ratio.quiet);
            }
        }
    }
}

/// A subject's CPU time over another's.
struct Ratio {
    /// The middle of the rounds' ratios, each within one round, so that a disturbed stretch of time touches both sides.
    median: f64,
    /// A quarter of the rounds had less.
    lower_quartile: f64,
    /// A quarter of the rounds had more.
    upper_quartile: f64,
    /// Between the means of each side's quietest quarter: neighbours only ever add, so this is nearest to a machine without.
    quiet: f64,
}

impl Ratio {
    fn of(subject: Subject, baseline: Subject, samples: &Samples) -> Option<Ratio> {
        let (ours, theirs) = (samples.get(&subject)?, samples.get(&baseline)?);
        let ratios = sorted(ours.iter().zip(theirs).map(|(ours, theirs)| ours.micros / theirs.micros));
        Some(Ratio {
            median: median(ratios.iter().copied()),
            lower_quartile: *ratios.get(ratios.len() / 4)?,
            upper_quartile: *ratios.get(ratios.len() * 3 / 4)?,
            quiet: quiet(ours) / quiet(theirs),
        })
    }
}

fn quiet(samples: &[Sample]) -> f64 {
    let micros = sorted(samples.iter().map(|sample| sample.micros));
    let quarter = micros.len().div_ceil(4);
    micros.iter().take(quarter).sum::<f64>() / quarter as f64
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the two in the middle; zero of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
