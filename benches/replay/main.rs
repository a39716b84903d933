//! How fast a log is replayed: the combined format, a policy with two limits per client, everything that `tidegate replay` does.
//!
//! `cargo bench --bench replay -- [LINES] [FOLDER]` makes a log of ten million lines in the folder (`/tmp`), replays it and
//! removes it. Beside it, on the same file: counting line breaks (`wc -l`), and splitting lines at blanks, which is the least that
//! any reader of logs does.

mod generate;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tidegate::config;
use tidegate::replay::ledger::Wanted;
use tidegate::replay::{Options, Place, Question, Replayed, Sources, simulate};
use tidegate_http::path::EscapedSlash;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const POLICY: &str = "
listen: \"127.0.0.1:8080\"
limits:
  per_client: { key: client_ip, rate: 5/s, burst: 50 }
  hourly: { type: quota, key: client_ip, max: 2000, window: 1h, mode: shadow }
routes:
  - { name: all, origin: 127.0.0.1:3000, limits: [per_client, hourly] }
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let lines = arguments.first().map_or(10_000_000, |lines| lines.parse().expect("a number of lines"));
    let folder = arguments.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let log = folder.join(format!("tidegate-bench-{}.log", std::process::id()));
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&log).expect("the log can be made"));
    let lines = generate::write(lines, &mut out).expect("the log is written");
    out.flush().expect("the log is written");
    drop(out);
    let bytes = std::fs::metadata(&log).expect("the log is there").len();
    println!("{lines} lines, {:.1} MB, {} clients at most", bytes as f64 / 1e6, generate::CLIENTS);
    // once, so that all find it in memory
    count(&log);
    let counted = measure("count line breaks (wc -l)", lines, || count(&log));
    assert_eq!(counted, lines);
    let split = measure("split lines at blanks", lines, || split(&log));
    assert!(split > 10 * lines);
    let before = peak();
    let replayed = measure("tidegate replay", lines, || replay(&log, false));
    let outcome = &replayed.outcome;
    assert_eq!((outcome.judged, outcome.tally.unreadable), (lines, 0));
    println!(
        "    {} clients; per_client limits {} requests of {} clients; peak memory {:.0} MB, {:.0} MB before it",
        outcome.clients,
        outcome.limits[0].limited,
        outcome.limits[0].clients,
        peak() as f64 / 1e3,
        before as f64 / 1e3
    );
    let replayed = measure("tidegate replay --exact", lines, || replay(&log, true));
    println!(
        "    error of the sketches: {:?}",
        replayed.outcome.limits.iter().map(|limit| limit.error).collect::<Vec<_>>()
    );
    let _ = std::fs::remove_file(&log);
}

fn measure<T>(what: &str, lines: u64, work: impl FnOnce() -> T) -> T {
    let (began, used) = (Instant::now(), processor_seconds());
    let result = work();
    let (took, used) = (began.elapsed().as_secs_f64(), processor_seconds() - used);
    println!(
        "{what:<28} {took:7.2} s  {:6.2} M lines/s  {used:7.2} s of processor, {:5.0} ns a line",
        lines as f64 / took / 1e6,
        used / lines as f64 * 1e9
    );
    result
}

fn count(log: &Path) -> u64 {
    let mut file = File::open(log).expect("the log opens");
    let (mut buffer, mut lines) = (vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut buffer).expect("the log is read");
        if read == 0 {
            return lines;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
    }
}

fn split(log: &Path) -> u64 {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(log).expect("the log opens"));
    let (mut line, mut words) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut line).expect("the log is read") > 0 {
        words += line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).count() as u64;
        line.clear();
    }
    words
}

fn replay(log: &Path, exact: bool) -> Replayed {
    let loaded = config::load_text("bench.yaml", POLICY, &|_| None, Path::new("."));
    let policy = loaded.outcome.expect("the policy is valid").policy;
    let sources = Sources::open(&[Place::File(log.to_owned())], None).expect("the log opens");
    let question = Question {
        options: Options::default(),
        host: None,
        since: 0,
        until: u64::MAX,
        wanted: Wanted { route: None, exact },
        escaped_slash: EscapedSlash::Keep,
        name: &|_, client| client.network.to_string(),
    };
    match simulate(sources, &question, policy, None, |_, _| {}) {
        Ok(replayed) => replayed,
        Err(failed) => panic!("{failed:?}"),
    }
}

/// Of all threads of this process.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after = stat.rsplit_once(')').expect("a name in brackets").1;
    let ticks = |field: usize| after.split_whitespace().nth(field).and_then(|ticks| ticks.parse::<f64>().ok());
    // fields 14 and 15 of proc(5), in ticks of a hundredth of a second
    (ticks(11).expect("utime") + ticks(12).expect("stime")) / 100.0
}

/// The most memory this process ever held, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}
