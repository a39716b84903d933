//! CPU time of handshakes: `cargo bench --bench tls`, about a minute. tidegate against nginx, with the same certificate (ECDSA P-256), the
//! same origin and the same clients. Requests over TLS are measured by `cargo bench --bench proxy`.
//!
//! The time is each process's own, from the scheduler's accounting of its threads, so that neither origin nor load nor
//! neighbours are in it. The two take turns, and a ratio is taken within a round. Trust ratios rather than absolutes.
//!
//! Needs `nginx` (Debian: nginx-light). After `--`: `--rounds N`, 7 by default.

#[path = "../proxy/certificate.rs"]
mod certificate;
mod load;
#[path = "../proxy/origin.rs"]
mod origin;
#[path = "../proxy/parent.rs"]
mod parent;
#[path = "../proxy/process.rs"]
mod process;
mod stand;

use std::io;
use std::process::ExitCode;

use load::Load;
use process::Layout;
use stand::{Cost, Proxy, Stand};

/// One line of the table.
struct Row {
    name: &'static str,
    load: Load,
}

const ROWS: [Row; 4] = [
    Row { name: "full handshake, TLS 1.3, and a request", load: Load { tls13: true, resumed: false } },
    Row { name: "full handshake, TLS 1.2, and a request", load: Load { tls13: false, resumed: false } },
    Row { name: "resumed handshake, TLS 1.3, and a request", load: Load { tls13: true, resumed: true } },
    Row { name: "resumed handshake, TLS 1.2, and a request", load: Load { tls13: false, resumed: true } },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["origin"] => origin::serve(),
        ["--bench"] => run(7),
        ["--rounds", rounds, "--bench"] => rounds.parse().map_err(io::Error::other).and_then(run),
        // cargo runs benchmarks as tests too; this one shows nothing in a moment
        _ => {
            println!("measures only under `cargo bench --bench tls`");
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(rounds: usize) -> io::Result<()> {
    let stand = Stand::new(Layout::find(0))?;
    println!(
        "CPU time of the proxy's process, {rounds} rounds; ratio: the median of the rounds' own, and their middle half"
    );
    println!(
        "  {:<46} {:>10} {:>10} {:>7} {:>16} {:>16}",
        "", "tidegate", "nginx", "ratio", "middle half", "outside kernel"
    );
    for row in ROWS {
        let mut rounds: Vec<[Cost; 2]> = (0..rounds.max(1))
            .map(|_| Ok([stand.measure(Proxy::Tidegate, row.load)?, stand.measure(Proxy::Nginx, row.load)?]))
            .collect::<io::Result<_>>()?;
        let ratio = |round: &[Cost; 2]| round[0].micros / round[1].micros;
        rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let at = |part: usize| ratio(&rounds[(rounds.len() - 1) * part / 4]);
        let median = |proxy: usize, of: fn(&Cost) -> f64| median(rounds.iter().map(|round| of(&round[proxy])));
        println!(
            "  {:<46} {:>7.1} µs {:>7.1} µs {:>7.3} {:>16} {:>6.0} % {:>5.0} %",
            row.name,
            median(0, |cost| cost.micros),
            median(1, |cost| cost.micros),
            at(2),
            format!("{:.3} – {:.3}", at(1), at(3)),
            median(0, |cost| cost.user * 100.0),
            median(1, |cost| cost.user * 100.0),
        );
    }
    let resident = [stand.resident(Proxy::Tidegate)?, stand.resident(Proxy::Nginx)?];
    println!("  resident memory at the end: tidegate {:.1} MiB, nginx {:.1} MiB", resident[0], resident[1]);
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
