//! Goodput under overload: `cargo bench --bench overload`, some six minutes. tidegate with its overload protection and without,
//! nginx and HAProxy, each on a CPU of its own, under 0.5 to 5 times what it can serve.
//!
//! Each arrival is a new connection with a full TLS handshake (RSA, 3,072 bits) and one request, at a time planned before: an open
//! loop. **Goodput** is what is answered 200 within a second of the planned time. The load is 100 light clients in networks of
//! their own; in the last row one heavy client offers the rest of five times the peak beside half of the peak by the light ones.
//!
//! After `--`: `--only NAME` for some subjects, `--before PROGRAM` for another build of tidegate, `--seconds N` for each level (8 by
//! default), `--picture FILE` to write the chart.

mod load;
#[path = "../proxy/origin.rs"]
mod origin;
#[path = "../proxy/parent.rs"]
mod parent;
mod picture;
#[path = "../proxy/process.rs"]
mod process;
mod stand;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use stand::{Stand, Subject};

/// What is offered, in peaks of the same proxy.
const LEVELS: [f64; 8] = [0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0];

/// Until what is left of one level is over: longer than its clients wait.
const REST: Duration = Duration::from_secs(2);

/// One proxy's goodput by level, in shares of its peak.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["origin"] => origin::serve(),
        ["load", proxy] => proxy.parse().map_err(io::Error::other).and_then(load::drive),
        _ => match Options::parse(&arguments) {
            Ok(Some(options)) => run(&options),
            // cargo runs benchmarks as tests too; this one shows nothing in a moment
            Ok(None) => {
                println!("measures only under `cargo bench --bench overload`");
                Ok(())
            }
            Err(message) => Err(io::Error::other(message)),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    only: Option<String>,
    before: Option<PathBuf>,
    picture: Option<PathBuf>,
    span: Duration,
}

impl Options {
    /// `None` if cargo does not say that this is a benchmark.
    fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
        let mut options = Options { only: None, before: None, picture: None, span: Duration::from_secs(8) };
        let mut bench = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument}: needs a value"));
            match argument.as_str() {
                "--bench" => bench = true,
                "--only" => options.only = Some(value()?.clone()),
                "--before" => options.before = Some(value()?.into()),
                "--picture" => options.picture = Some(value()?.into()),
                "--seconds" => {
                    let seconds: u64 = value()?.parse().map_err(|_| format!("{argument}: needs a number"))?;
                    options.span = Duration::from_secs(seconds.max(3));
                }
                _ => return Err(format!("{argument}: unknown; there are --only, --before, --seconds, --picture")),
            }
        }
        Ok(bench.then_some(options))
    }

    fn subjects(&self) -> Vec<(String, Subject)> {
        let ours = |name: &str, overload| {
            let program = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
            (name.to_owned(), Subject::Tidegate { program, overload })
        };
        let mut subjects = vec![ours("tidegate", Some(true)), ours("tidegate, overload: off", Some(false))];
        if let Some(program) = self.before.clone() {
            subjects.push(("tidegate before".to_owned(), Subject::Tidegate { program, overload: None }));
        }
        subjects.push(("nginx".to_owned(), Subject::Nginx));
        subjects.push(("haproxy".to_owned(), Subject::Haproxy));
        subjects.retain(|(name, _)| self.only.as_ref().is_none_or(|only| only.split(';').any(|only| only == name)));
        subjects
    }
}

fn run(options: &Options) -> io::Result<()> {
    let stand = Stand::new()?;
    let mut curves = Vec::new();
    for (name, subject) in options.subjects() {
        match measure(&stand, &name, &subject, options.span)? {
            Some(curve) => curves.push(curve),
            None => println!("{name} is not installed: without it"),
        }
    }
    if let Some(file) = &options.picture {
        std::fs::write(file, picture::draw(&curves))?;
        println!("written to {}", file.display());
    }
    Ok(())
}

fn measure(stand: &Stand, name: &str, subject: &Subject, span: Duration) -> io::Result<Option<Curve>> {
    let Some(mut loaded) = stand.start(subject)? else { return Ok(None) };
    loaded.capacity()?;
    let peak = loaded.capacity()?;
    thread::sleep(REST);
    println!("{name}: {peak:.0} handshakes and requests per second at its peak");
    println!(
        "  offered  goodput   late  refused  closed  given up   p50 ms   p99 ms  load late ms  CPU µs each  in kernel"
    );
    let counted = (span - load::SETTLING).as_secs_f64();
    let mut curve = Curve { name: name.to_owned(), points: Vec::new() };
    for level in LEVELS {
        let before = loaded.used()?;
        let seen = loaded.offer(span, level * peak, 0.0)?;
        let after = loaded.used()?;
        let (cpu, ticks) = (after.nanos_since(&before) as f64 / 1000.0, after.ticks_since(&before));
        let kernel = 100.0 * ticks.system as f64 / (ticks.system + ticks.user).max(1) as f64;
        let share = |count: u64| 100.0 * count as f64 / seen.planned[0].max(1) as f64;
        let goodput = seen.good[0] as f64 / counted / peak;
        curve.points.push((level, goodput));
        println!(
            "  {level:>6.1}×  {:>5.1} %  {:>4.1} %  {:>5.1} %  {:>4.1} %    {:>4.1} %  {:>7.1}  {:>7.1}  {:>12.1}  {:>11.1}  {kernel:>7.0} %",
            100.0 * goodput,
            share(seen.late),
            share(seen.refused),
            share(seen.closed),
            share(seen.given_up),
            seen.median as f64 / 1000.0,
            seen.p99 as f64 / 1000.0,
            seen.lag as f64 / 1000.0,
            cpu / (level * peak * span.as_secs_f64()),
        );
        thread::sleep(REST);
    }
    let seen = loaded.offer(span, 0.5 * peak, 4.5 * peak)?;
    let share = |who: usize| 100.0 * seen.good[who] as f64 / seen.planned[who].max(1) as f64;
    let mib = loaded.resident()? as f64 / f64::from(1 << 20);
    println!("  {mib:.0} MiB resident at the end");
    println!(
        "  0.5× by 100 light clients beside 4.5× by one heavy client: light {:.1} % served, heavy {:.1} %\n",
        share(0),
        share(1)
    );
    Ok(Some(curve))
}
