//! Processes of a measurement: started on one CPU, ended with the benchmark, asked for what they have used.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to listen.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Where everything runs: one CPU for proxy, origin and load, so that no wake-up crosses CPUs inside a measured cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Pinned to this CPU by `taskset`.
    OneCpu(u32),
    /// Wherever the scheduler likes, because there is no `taskset`.
    Unpinned,
}

impl Layout {
    /// The layout for `cpu` if `taskset` can pin to it.
    pub fn find(cpu: u32) -> Layout {
        let pinned = Command::new("taskset").args(["-c", &cpu.to_string(), "true"]).output();
        if pinned.is_ok_and(|output| output.status.success()) { Layout::OneCpu(cpu) } else { Layout::Unpinned }
    }

    /// A command that will run in this layout.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Layout::OneCpu(cpu) => {
                let mut command = Command::new("taskset");
                command.arg("-c").arg(cpu.to_string()).arg(program);
                command
            }
            Layout::Unpinned => Command::new(program),
        }
    }
}

/// A running process, ended when dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts `command` with a standard input that closes when this process ends.
    pub fn start(command: &mut Command) -> io::Result<Running> {
        command.stdin(Stdio::piped()).spawn().map(Running)
    }

    /// The process, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Asks every 20 ms until there is an answer, the process has ended or [`START_DEADLINE`] is over.
    pub fn until<T>(&mut self, ask: impl Fn() -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + START_DEADLINE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            if let Some(answer) = ask() {
                return Some(answer);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// What it and its children have used so far.
    pub fn used(&self) -> io::Result<Used> {
        let mut used = Used::default();
        used.add(self.0.id())?;
        Ok(used)
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let kib =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS in the process's status"))
    }
}

/// How long a process may take to end by itself, as one must that writes a profile.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

impl Drop for Running {
    fn drop(&mut self) {
        // nothing to be done about any of it: the process has ended already or will not be told
        if let Some(id) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let deadline = Instant::now() + ENDS_WITHIN;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of one process from the scheduler's own accounting.
#[derive(Debug, Clone, Default)]
pub struct Used {
    /// Nanoseconds on a CPU, by thread.
    threads: BTreeMap<u32, u64>,
    ticks: Ticks,
}

/// CPU time in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

impl Used {
    /// Adds what a process and its children have used.
    fn add(&mut self, id: u32) -> io::Result<()> {
        for task in fs::read_dir(format!("/proc/{id}/task"))? {
            let task = task?;
            // a thread may end between being listed and being read
            let Ok(schedstat) = fs::read_to_string(task.path().join("schedstat")) else { continue };
            let nanos = schedstat.split_whitespace().next().and_then(|word| word.parse().ok());
            let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
            let (Some(nanos), Some(thread)) = (nanos, thread) else {
                return Err(io::Error::other("this kernel keeps no run time per thread in schedstat"));
            };
            self.threads.insert(thread, nanos);
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
                self.add(child)?;
            }
        }
        let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
        // the second field is the program's name in parentheses and may hold blanks; user and system time are 14th and 15th
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = after_name.split_whitespace().skip(11).map(|word| word.parse().unwrap_or(0));
        self.ticks.user += fields.next().unwrap_or(0);
        self.ticks.system += fields.next().unwrap_or(0);
        Ok(())
    }

    /// Nanoseconds of CPU time since `before`; threads that have ended in between take theirs with them.
    pub fn nanos_since(&self, before: &Used) -> u64 {
        let since = |(thread, nanos): (&u32, &u64)| nanos - before.threads.get(thread).unwrap_or(&0).min(nanos);
        self.threads.iter().map(since).sum()
    }

    /// The same in ticks.
    pub fn ticks_since(&self, before: &Used) -> Ticks {
        Ticks { user: self.ticks.user - before.ticks.user, system: self.ticks.system - before.ticks.system }
    }
}
