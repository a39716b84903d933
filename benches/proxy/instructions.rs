//! User-mode instructions and allocations per request, counted by callgrind: they do not depend on neighbours, CPU or clock.
//!
//! Counted is the thread that did most, a worker. Instructions are those of a plain CPU: SHA-256 counts 7,000 that a CPU with
//! extensions for it does in some 300, and a copy by `rep movsb` counts one for each byte.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::configs::Process;
use crate::process::Layout;
use crate::ratios::answers_as_its_row;
use crate::report::print_bar;
use crate::rows::{Kind, OURS, Row, Subject};
use crate::site::{Site, Start, find};

/// Requests before counting begins: every connection, pool and page is used for the first time.
const WARM_UP: usize = 400;

/// Requests that are counted.
const COUNTED: usize = 1_000;

const ROWS: [Row; 6] = [Row::Plain, Row::Limited, Row::Full, Row::Refused, Row::RefusedEach, Row::Http2];

/// What one request takes.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    instructions: f64,
    allocations: f64,
}

/// Counts, and prints the table with its bars.
/// `dumps`: where callgrind's files are kept, to be read by `callgrind_annotate`.
pub fn run(site: &Site, layout: Layout, rows: &[Row], kinds: &[Kind], dumps: Option<&Path>) -> io::Result<()> {
    let (Some(valgrind), Some(vgdb)) = (find("valgrind"), find("vgdb")) else {
        println!("\ninstructions: skipped, as valgrind is not installed");
        return Ok(());
    };
    println!(
        "\n| instructions (allocations) per request | tidegate | `direct: off` | nginx | HAProxy | bare Pingora |"
    );
    println!("|---|---|---|---|---|---|");
    let mut ours = HashMap::new();
    for row in ROWS.into_iter().filter(|row| rows.contains(row)) {
        print!("| {} |", row.word());
        for kind in Kind::ALL {
            let subject = Subject { row, kind };
            let wanted = kinds.contains(&kind) && kind.does(row);
            let count = if wanted { count(site, layout, subject, (&valgrind, &vgdb), dumps) } else { Ok(None) };
            match count? {
                Some(count) => {
                    print!(" {:.0} ({:.1}) |", count.instructions, count.allocations);
                    if kind == OURS {
                        ours.insert(row, count);
                    }
                }
                None => print!(" |"),
            }
        }
        println!();
    }
    println!();
    for (row, most) in [(Row::Limited, 22_000.0), (Row::Full, 30_000.0), (Row::Refused, 12_000.0)] {
        if let Some(count) = ours.get(&row) {
            print_bar(&format!("{}: instructions per request", row.word()), most, count.instructions, 0);
            print_bar(&format!("{}: allocations per request", row.word()), 2.0, count.allocations, 1);
        }
    }
    Ok(())
}

fn count(
    site: &Site,
    layout: Layout,
    subject: Subject,
    (valgrind, vgdb): (&Path, &Path),
    dumps: Option<&Path>,
) -> io::Result<Option<Count>> {
    let folder = std::env::temp_dir().join(format!("tidegate-callgrind-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let under = [
        valgrind.display().to_string(),
        "--tool=callgrind".to_owned(),
        "--separate-threads=yes".to_owned(),
        format!("--callgrind-out-file={}/out", folder.display()),
        format!("--log-file={}/log", folder.display()),
    ];
    let start = Start { layout, process: Process::ONE, under: &under };
    let Some(mut proxy) = site.start(subject, start)? else { return Ok(None) };
    let mut load = site.load(proxy.address, &site.plan(subject.row))?;
    let id = proxy.running.child().id();
    let tell = |word: &str| {
        let told = Command::new(vgdb).arg(format!("--pid={id}")).arg(word).output()?;
        let refused = || io::Error::other(format!("vgdb: {}", String::from_utf8_lossy(&told.stderr)));
        if told.status.success() { Ok(()) } else { Err(refused()) }
    };
    load.begin(&format!("requests {WARM_UP}"))?;
    load.end()?;
    tell("zero")?;
    load.begin(&format!("requests {COUNTED}"))?;
    let seen = load.end()?;
    tell("dump")?;
    if !answers_as_its_row(subject.row, &seen) {
        let (row, name, statuses) = (subject.row.word(), subject.kind.name(), &seen.statuses);
        return Err(io::Error::other(format!(
            "{row}, {name}: answered by {statuses:?}, so that its count means nothing"
        )));
    }
    drop((load, proxy));
    let mut most = Count::default();
    for file in fs::read_dir(&folder)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("out.1-") {
            let one = read(&String::from_utf8_lossy(&fs::read(file.path())?));
            if one.instructions > most.instructions {
                most = one;
                if let Some(dumps) = dumps {
                    fs::create_dir_all(dumps)?;
                    let name = format!("{}-{}", subject.row.word(), subject.kind.name().replace([' ', ',', ':'], ""));
                    fs::copy(file.path(), dumps.join(name))?;
                }
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    let each = |sum: f64| sum / COUNTED as f64;
    Ok(Some(Count { instructions: each(most.instructions), allocations: each(most.allocations) }))
}

/// The sums of one thread's dump: instructions, and calls of an allocator by what is none of its own functions.
fn read(dump: &str) -> Count {
    let mut names: HashMap<&str, &str> = HashMap::new();
    // `(12) name` the first time, `(12)` from then on
    fn name<'a>(names: &mut HashMap<&'a str, &'a str>, text: &'a str) -> &'a str {
        let (id, rest) = text.split_once(')').unwrap_or((text, ""));
        if rest.is_empty() {
            names.get(id).copied().unwrap_or_default()
        } else {
            names.entry(id).insert_entry(rest.trim()).get()
        }
    }
    let (mut caller, mut callee) = ("", "");
    let mut count = Count::default();
    for line in dump.lines() {
        if let Some(text) = line.strip_prefix("fn=") {
            caller = name(&mut names, text);
        } else if let Some(text) = line.strip_prefix("cfn=") {
            callee = name(&mut names, text);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            if allocates(callee) && !is_allocator(caller) {
                count.allocations += calls.split(' ').next().and_then(|calls| calls.parse().ok()).unwrap_or(0.0);
            }
        } else if let Some(sum) = line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: ")) {
            count.instructions = sum.trim().parse().unwrap_or(0.0);
        }
    }
    count
}

fn is_allocator(function: &str) -> bool {
    function.starts_with("mi_") || function.starts_with("_mi_") || allocates(function)
}

/// mimalloc's functions that allocate, and those of the C library.
fn allocates(function: &str) -> bool {
    let function = function.split(['\'', '@']).next().unwrap_or_default();
    let of_mimalloc = function.starts_with("mi_") && function.contains("alloc") && !function.contains("usable");
    of_mimalloc || ["malloc", "calloc", "realloc", "posix_memalign", "memalign", "aligned_alloc"].contains(&function)
}
