//! Runs the tests that should notice a change: the narrowest first, until one fails.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::find::Change;

/// A program of tests and what it is told.
type Step = (&'static str, &'static [&'static str]);

/// For each folder the tests that know it best, the cheapest first. The first folder that fits counts.
const NARROWEST: [(&str, &[Step]); 6] = [
    ("crates/policy/src/client", &[("policy", &["client::"]), ("client", &[]), LAWS]),
    ("crates/policy/src/engine", &[("policy", &["engine::"]), LAWS, SOURCES]),
    ("crates/limits/src/limiter/sharing", &[("limits", &["limiter::"]), LAWS, ("leases", &[])]),
    ("crates/limits/src/door", &[("limits", &["door::"]), DOOR, LAWS]),
    ("crates/limits/src/limiter", &[("limits", &["limiter::"]), LAWS, SOURCES, ("leases", &[])]),
    ("crates/limits/src/sketch", &[("limits", &["sketch::", "limiter::"]), SKETCH, LAWS, SOURCES]),
];
const LAWS: Step = ("laws", &[]);
const SOURCES: Step = ("sources", &[]);
const DOOR: Step = ("door", &[]);
/// Without what these changes cannot reach: a search for orderings that are too weak, and a model that runs none of this code.
const SKETCH: Step = ("sketch", &["--skip", "races::", "--skip", "promotion_model::"]);

/// Processor time that the tests of one step may take with a change; without one they must do with a third of it.
const CPU_SECONDS: u32 = 90;
/// For those that wait for ever. A busy machine must not make a timeout.
const WAITS_FOR_EVER: Duration = Duration::from_secs(1_200);
/// Seeds the inputs that property tests draw, so that two runs of one sample draw the same.
const DRAWS: &str = "1";
/// Kibibytes of memory: some changes ask for all of it.
const MEMORY: u32 = 8 << 20;

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// By this test.
    Killed(String),
    TimedOut(String),
    Survived,
}

impl Display for Fate {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Killed(by) => write!(out, "killed by {by}"),
            Fate::TimedOut(step) => write!(out, "timed out in {step}"),
            Fate::Survived => write!(out, "SURVIVED"),
        }
    }
}

pub struct Bench {
    tree: PathBuf,
    programs: BTreeMap<&'static str, PathBuf>,
}

impl Bench {
    pub fn new(work: &Path, programs: BTreeMap<&'static str, PathBuf>) -> Bench {
        Bench { tree: work.join("tree"), programs }
    }

    /// # Errors
    /// A step that fails, or takes too long to be sure of a timeout later.
    pub fn passes_unchanged(&self) -> Result<(), String> {
        let mut steps: Vec<_> = NARROWEST.iter().flat_map(|(_, steps)| steps.iter()).collect();
        steps.sort();
        steps.dedup();
        for step in steps {
            match self.run(step, None, CPU_SECONDS / 3) {
                Fate::Survived => {}
                fate => return Err(format!("{} {:?}: {fate}", step.0, step.1)),
            }
        }
        Ok(())
    }

    pub fn fate(&self, number: usize, change: &Change) -> Fate {
        let steps =
            NARROWEST.iter().find(|(folder, _)| change.file.starts_with(folder)).map_or(&[][..], |(_, steps)| *steps);
        let fates = steps.iter().map(|step| self.run(step, Some(number), CPU_SECONDS));
        fates.into_iter().find(|fate| *fate != Fate::Survived).unwrap_or(Fate::Survived)
    }

    fn run(&self, (program, arguments): &Step, number: Option<usize>, seconds: u32) -> Fate {
        let limits = format!("ulimit -t {seconds}; ulimit -v {MEMORY}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limits, "sh"]).arg(&self.programs[program]).args(*arguments).current_dir(&self.tree);
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        command.env("PROPTEST_RNG_SEED", DRAWS);
        command.env("CARGO_MANIFEST_DIR", self.tree.canonicalize().unwrap());
        if let Some(number) = number {
            command.env("TIDEGATE_MUTANT", number.to_string());
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        watch(child, program)
    }
}

/// Waits for the end, or for the first test that fails.
fn watch(mut child: Child, program: &str) -> Fate {
    let (tell, told) = mpsc::channel();
    let output = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let fate = loop {
        match told.recv_timeout(WAITS_FOR_EVER) {
            // test kinds::a_law ... FAILED
            Ok(line) => match line.strip_suffix(" ... FAILED") {
                Some(test) => break Fate::Killed(format!("{program} {}", test.trim_start_matches("test "))),
                None => continue,
            },
            Err(mpsc::RecvTimeoutError::Timeout) => break Fate::TimedOut(program.to_owned()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait().unwrap();
                break match (status.success(), signal(status)) {
                    (true, _) => Fate::Survived,
                    // SIGXCPU, or SIGKILL a second later
                    (false, Some(24 | 9)) => Fate::TimedOut(program.to_owned()),
                    (false, _) => Fate::Killed(format!("{program}, which ended with {status}")),
                };
            }
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    fate
}

fn signal(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}
