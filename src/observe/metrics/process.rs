//! What the process uses, as the kernel accounts for it: proc(5), Linux only. Elsewhere nothing is known, nothing is shown.

use std::fs;

/// One reading; what could not be read is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Process {
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub open_files: Option<u64>,
    pub max_files: Option<u64>,
    pub start_seconds: Option<f64>,
    pub threads: Option<u64>,
}

/// Clock ticks per second in what the kernel shows of times: 100 on every architecture that Rust's standard library is
/// built for on Linux (`USER_HZ`), whatever the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    pub fn read() -> Process {
        let status = text("/proc/self/status");
        let stat = text("/proc/self/stat");
        let ticks = |field| stat_field(&stat, field).map(|ticks| ticks as f64 / TICKS_PER_SECOND);
        let boot = named(&text("/proc/stat"), "btime ");
        Process {
            resident_bytes: named(&status, "VmRSS:").map(|kib| kib * 1024),
            virtual_bytes: named(&status, "VmSize:").map(|kib| kib * 1024),
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| user + system),
            // the directory is open itself while it is read
            open_files: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1)),
            max_files: named(&text("/proc/self/limits"), "Max open files"),
            start_seconds: boot.zip(ticks(22)).map(|(boot, since)| boot as f64 + since),
            threads: named(&status, "Threads:"),
        }
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The first number of the line that starts with `name`.
fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Field `number`, counted from 1 as proc_pid_stat(5) does. The second is a name that may hold spaces and brackets.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 4 5 6 7 8 9 10 11 12 13 1400 1500 16";
        assert_eq!(stat_field(stat, 4), Some(4));
        assert_eq!(stat_field(stat, 14), Some(1400));
        assert_eq!(stat_field(stat, 99), None);
        assert_eq!(stat_field("nonsense", 14), None);
    }

    #[test]
    fn lines_are_found_by_name() {
        assert_eq!(named("VmSize:\t 12 kB\nVmRSS:\t 34 kB\n", "VmRSS:"), Some(34));
        assert_eq!(
            named("Max open files            1024                 524288               files\n", "Max open files"),
            Some(1024)
        );
        assert_eq!(named("Max open files unlimited unlimited files\n", "Max open files"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_exists() {
        let process = Process::read();
        assert!(process.resident_bytes.unwrap() > 100_000);
        assert!(process.virtual_bytes.unwrap() >= process.resident_bytes.unwrap());
        assert!(process.threads.unwrap() >= 1);
        assert!(process.open_files.unwrap() >= 3);
        assert!(process.cpu_seconds.unwrap() >= 0.0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - process.start_seconds.unwrap();
        assert!((-5.0..86_400.0).contains(&age), "started {age} s ago");
    }
}
