//! The tables of ratios, and the bars held against them.

use std::collections::BTreeMap;

use crate::ratios::Sample;
use crate::rows::{Kind, OURS, Row, Subject};

/// Samples by subject, one per round, in the order of the rounds.
pub type Samples = BTreeMap<Subject, Vec<Sample>>;

/// A row's proxies.
pub fn print_row(row: Row, samples: &Samples) {
    println!("\n{}", row.title());
    println!(
        "  {:<22} {:>8} {:>7} {:>7} {:>8} {:>15} {:>7} {:>9} {:>9} {:>8}",
        "", "µs/req", "user", "sys", "÷ nginx", "middle half", "quiet", "requests", "B/answer", "RSS MiB"
    );
    for kind in Kind::ALL {
        let Some(rounds) = samples.get(&Subject { row, kind }) else { continue };
        let micros = median(rounds.iter().map(|sample| sample.micros));
        let user: u64 = rounds.iter().map(|sample| sample.ticks.user).sum();
        let system: u64 = rounds.iter().map(|sample| sample.ticks.system).sum();
        let user = micros * user as f64 / (user + system).max(1) as f64;
        let requests: u64 = rounds.iter().map(|sample| sample.seen.requests()).sum();
        let bytes: u64 = rounds.iter().map(|sample| sample.seen.bytes).sum();
        let resident = rounds.last().map_or(0.0, |sample| sample.resident as f64 / f64::from(1 << 20));
        let ratio = Ratio::of(row, kind, Kind::Nginx, samples);
        let (middle, half, quiet) = ratio.map_or_else(Default::default, |ratio| {
            (format!("{:.3}", ratio.median), ratio.middle_half(), format!("{:.3}", ratio.quiet))
        });
        println!(
            "  {:<22} {micros:>8.2} {user:>7.1} {:>7.1} {middle:>8} {half:>15} {quiet:>7} {requests:>9} {:>9.0} {resident:>8.1}",
            kind.name(),
            micros - user,
            bytes as f64 / requests as f64,
        );
    }
}

/// The table of all rows as it stands in `docs/performance.md`.
pub fn print_summary(rows: &[Row], samples: &Samples) {
    println!("\n| CPU time per request ÷ nginx | tidegate | `direct: off` | HAProxy | bare Pingora | nginx, µs |");
    println!("|---|---|---|---|---|---|");
    for row in rows {
        print!("| {} |", row.word());
        for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Nginx) {
            match Ratio::of(*row, *kind, Kind::Nginx, samples) {
                Some(ratio) => print!(" {:.2} ({}) |", ratio.median, ratio.middle_half()),
                None => print!(" |"),
            }
        }
        let nginx = samples.get(&Subject { row: *row, kind: Kind::Nginx });
        println!(" {:.1} |", nginx.map_or(0.0, |nginx| median(nginx.iter().map(|sample| sample.micros))));
    }
}

/// What tidegate may take at most, and whether it does.
pub fn print_bars(rows: &[Row], samples: &Samples) {
    println!();
    for row in rows {
        let (most, other) = row.bar();
        let Some(ratio) = Ratio::of(*row, OURS, other, samples) else { continue };
        let what = format!("{}: CPU time ÷ {}", row.word(), other.name());
        print_bar(&what, most, ratio.median, 2);
    }
}

/// One line of the bars.
pub fn print_bar(what: &str, most: f64, measured: f64, decimals: usize) {
    let verdict = if measured <= most { "met" } else { "MISSED" };
    println!("bar: {what:<44} at most {most:>9.decimals$}, measured {measured:>9.decimals$}: {verdict}");
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
    fn of(row: Row, kind: Kind, other: Kind, samples: &Samples) -> Option<Ratio> {
        let of = |kind| samples.get(&Subject { row, kind });
        let (ours, theirs) = (of(kind)?, of(other)?);
        let ratios = sorted(ours.iter().zip(theirs).map(|(ours, theirs)| ours.micros / theirs.micros));
        Some(Ratio {
            median: median(ratios.iter().copied()),
            lower_quartile: *ratios.get(ratios.len() / 4)?,
            upper_quartile: *ratios.get(ratios.len() * 3 / 4)?,
            quiet: quiet(ours) / quiet(theirs),
        })
    }

    fn middle_half(&self) -> String {
        format!("{:.2} – {:.2}", self.lower_quartile, self.upper_quartile)
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
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
