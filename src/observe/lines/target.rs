//! Where lines end up, and what is done when it fails.
//!
//! A failed write is tried again for as long as it takes: lines wait in the buffers meanwhile, and those that find no room
//! are dropped and counted there. No line is written half and half: after a failure in the middle of one it is written
//! again as a whole, on a line of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memrchr;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::config::settings::LogTarget;

/// How long to wait after a failure; also, how often a file is looked at for having been moved away.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
const SHORT_PAUSE: Duration = Duration::from_millis(10);

/// The most that one call hands over, so that it shows in between whether a slow target takes anything.
const PIECE: usize = 64 << 10;

/// Counts of a log's lines and writes. Relaxed: nothing is published by them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Lines not written.
    pub(super) dropped: AtomicU64,
    /// Failed attempts to open or write.
    pub(super) errors: AtomicU64,
    /// Attempts that wrote something.
    pub(super) writes: AtomicU64,
}

/// Opens the target, at start and again after a failure or when [`Sink::moved`].
pub(super) type Open = Box<dyn FnMut() -> io::Result<Box<dyn Sink>> + Send>;

/// Something that takes bytes.
pub(super) trait Sink: Send {
    /// As [`Write::write`]: some of them, or why none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether it is no longer what opening it again would give, as after a log rotation.
    fn moved(&self) -> bool {
        false
    }
}

/// The sink in use and how to get another.
pub(super) struct Target {
    open: Open,
    sink: Option<Box<dyn Sink>>,
    pause: Duration,
    looked: Instant,
}

impl Target {
    /// # Errors
    /// It cannot be opened at the first attempt: better said at start than found out later. A FIFO that nobody reads yet is
    /// opened later instead.
    pub fn open(mut open: Open, pause: Duration) -> io::Result<Target> {
        let sink = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            opened => Some(opened?),
        };
        Ok(Target { open, sink, pause, looked: Instant::now() })
    }

    /// Opens it anew. If that fails, the next write tries again.
    pub(super) fn reopen(&mut self, counts: &Counts) {
        self.sink = (self.open)().inspect_err(|_| _ = counts.errors.fetch_add(1, Ordering::Relaxed)).ok();
    }

    /// Writes whole lines, in as few calls as the sink allows. Gives up only when an attempt failed and `stop` is set;
    /// what could not be written then is the result, and otherwise nothing.
    pub(super) fn write<'l>(&mut self, lines: &'l [u8], counts: &Counts, stop: &AtomicBool) -> &'l [u8] {
        if self.looked.elapsed() >= self.pause {
            self.looked = Instant::now();
            if self.sink.as_ref().is_some_and(|sink| sink.moved()) {
                self.sink = None;
            }
        }
        let mut rest = lines;
        let mut torn = false;
        while !rest.is_empty() {
            let attempt = self.attempt(rest, torn);
            counts.writes.fetch_add(u64::from(attempt.is_ok()), Ordering::Relaxed);
            match attempt {
                Ok(Written::Lines(bytes)) => rest = rest.get(bytes..).unwrap_or_default(),
                Ok(Written::Break) => torn = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // a pipe that somebody else made non-blocking and that is full
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::park_timeout(SHORT_PAUSE),
                Err(_) => {
                    counts.errors.fetch_add(1, Ordering::Relaxed);
                    let begun = lines.len() - rest.len();
                    let whole = lines.iter().take(begun).rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                    torn |= begun > whole;
                    rest = lines.get(whole..).unwrap_or_default();
                    self.sink = None;
                    if stop.load(Ordering::Acquire) {
                        return rest;
                    }
                    // a stop cuts this short
                    thread::park_timeout(self.pause);
                }
            }
        }
        rest
    }

    fn attempt(&mut self, rest: &[u8], torn: bool) -> io::Result<Written> {
        let sink = match &mut self.sink {
            Some(sink) => sink,
            none => none.insert((self.open)()?),
        };
        match sink.write(if torn { b"\n" } else { piece(rest) })? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            _ if torn => Ok(Written::Break),
            bytes => Ok(Written::Lines(bytes)),
        }
    }
}

/// As many whole lines as fit into a [`PIECE`]; one that is longer as a whole.
fn piece(lines: &[u8]) -> &[u8] {
    let Some(first) = lines.get(..PIECE) else { return lines };
    let end = memrchr(b'\n', first).or_else(|| memchr::memchr(b'\n', lines));
    end.and_then(|end| lines.get(..=end)).unwrap_or(lines)
}

/// What one attempt came to.
enum Written {
    /// So many bytes of the lines.
    Lines(usize),
    /// The line break after a torn line.
    Break,
}

/// How to open what the settings name.
pub(super) fn of(to: &LogTarget) -> Open {
    match to {
        LogTarget::Stdout => Box::new(|| stream(io::stdout().as_fd())),
        LogTarget::Stderr => Box::new(|| stream(io::stderr().as_fd())),
        LogTarget::File(path) => {
            let path = path.clone();
            Box::new(move || Ok(Box::new(LogFile::open(&path)?)))
        }
    }
}

/// The descriptor itself: the standard library's own streams gather lines once more.
fn stream(descriptor: BorrowedFd<'_>) -> io::Result<Box<dyn Sink>> {
    Ok(Box::new(File::from(descriptor.try_clone_to_owned()?)))
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }
}

/// A file that is appended to, so that truncating it (`copytruncate`) works. It is left when it was moved away, so that renaming it
/// works too, without any signal.
struct LogFile {
    file: File,
    path: PathBuf,
}

impl LogFile {
    /// A FIFO that nobody reads is [not connected](io::ErrorKind::NotConnected): waiting for a reader would hold up the start,
    /// and later the end.
    fn open(path: &Path) -> io::Result<LogFile> {
        let no_waiting = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().append(true).create(true).custom_flags(no_waiting).open(path);
        let unread = |error: &io::Error| {
            error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
                && fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
        };
        let file = opened.map_err(|error| if unread(&error) { io::ErrorKind::NotConnected.into() } else { error })?;
        // the thread that writes may wait
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(LogFile { file, path: path.to_owned() })
    }
}

impl Sink for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut self.file, bytes)
    }

    fn moved(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(ours), Ok(theirs)) => identity(ours) != identity(theirs),
            (_, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What attempts come to: some bytes, or a fault. After these, all bytes.
    type Script = Arc<Mutex<Vec<io::Result<usize>>>>;

    struct Scripted {
        script: Script,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Sink for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut script = self.script.lock().unwrap();
            let bytes = if script.is_empty() { bytes } else { &bytes[..script.remove(0)?] };
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    /// What is written, what is given up, and how many faults were counted, of three lines under a script.
    fn written(script: Vec<io::Result<usize>>, stop: bool) -> (String, String, u64) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (script, sink) = (Arc::new(Mutex::new(script)), written.clone());
        let open = move || Ok(Box::new(Scripted { script: script.clone(), written: sink.clone() }) as Box<dyn Sink>);
        let mut target = Target::open(Box::new(open), Duration::ZERO).unwrap();
        let counts = Counts::default();
        let lost = target.write(b"one\ntwo\nthree\n", &counts, &AtomicBool::new(stop));
        let lost = String::from_utf8(lost.to_vec()).unwrap();
        let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        (written, lost, counts.errors.into_inner())
    }

    fn fault() -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn what_the_target_does_not_take_at_once_is_offered_again() {
        let interrupted = Err(io::ErrorKind::Interrupted.into());
        let blocked = Err(io::ErrorKind::WouldBlock.into());
        let outcome = written(vec![Ok(1), interrupted, Ok(5), blocked], false);
        assert_eq!(outcome, ("one\ntwo\nthree\n".into(), String::new(), 0));
    }

    #[test]
    fn no_line_is_lost_to_a_fault_that_passes() {
        let outcome = written(vec![Ok(4), fault(), fault()], false);
        assert_eq!(outcome, ("one\ntwo\nthree\n".into(), String::new(), 2));
    }

    #[test]
    fn a_line_torn_by_a_fault_is_written_again_on_a_line_of_its_own() {
        // the line break itself fails once, too
        let outcome = written(vec![Ok(6), fault(), fault()], false);
        assert_eq!(outcome, ("one\ntw\ntwo\nthree\n".into(), String::new(), 2));
    }

    #[test]
    fn a_target_that_takes_nothing_is_a_fault() {
        let outcome = written(vec![Ok(0)], false);
        assert_eq!(outcome, ("one\ntwo\nthree\n".into(), String::new(), 1));
    }

    #[test]
    fn a_fault_while_stopping_gives_up_what_is_left() {
        let outcome = written(vec![Ok(6), fault()], true);
        assert_eq!(outcome, ("one\ntw".into(), "two\nthree\n".into(), 1));
    }

    #[test]
    fn what_is_handed_over_at_once_ends_with_a_line() {
        let short = b"one\ntwo\n";
        assert_eq!(piece(short), short);
        let many = b"0123456\n".repeat(PIECE / 8 + 100);
        assert_eq!(piece(&many).len(), PIECE);
        let many = b"012345\n".repeat(PIECE / 7 + 100);
        assert_eq!(piece(&many).len(), PIECE / 7 * 7);
        let long = [vec![b'x'; 2 * PIECE], b"\nshort\n".to_vec()].concat();
        assert_eq!(piece(&long).len(), 2 * PIECE + 1);
    }

    #[test]
    fn a_fifo_is_opened_when_somebody_reads_it_and_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("tidegate-fifo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut target = Target::open(of(&LogTarget::File(path.clone())), Duration::ZERO).unwrap();
        let counts = Counts::default();
        assert_eq!(target.write(b"lost\n", &counts, &AtomicBool::new(true)), b"lost\n", "nobody reads");
        assert_eq!(counts.errors.load(Ordering::Relaxed), 1);
        let reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
        assert_eq!(target.write(b"read\n", &counts, &AtomicBool::new(false)), b"");
        let mut text = [0; 16];
        assert_eq!(io::Read::read(&mut reader.unwrap(), &mut text).unwrap(), 5);
        assert_eq!(&text[..5], b"read\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_away_or_removed_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("tidegate-moved-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, rotated) = (folder.join("log"), folder.join("log.1"));
        fs::write(&path, "zero\n").unwrap();
        let mut target = Target::open(of(&LogTarget::File(path.clone())), Duration::ZERO).unwrap();
        let mut write = |line: &str| {
            assert_eq!(target.write(line.as_bytes(), &Counts::default(), &AtomicBool::new(false)), b"");
        };
        write("one\n");
        fs::rename(&path, &rotated).unwrap();
        write("two\n");
        assert_eq!(fs::read_to_string(&rotated).unwrap(), "zero\none\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        fs::remove_file(&path).unwrap();
        write("three\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}
