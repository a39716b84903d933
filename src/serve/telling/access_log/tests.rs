use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::target::Sink;
use super::*;
use crate::config::settings::{ClientInLog, LogTarget};

/// Longer than anything here takes, shorter than anybody's patience.
const LONG: Duration = Duration::from_secs(20);

fn settings(limited: f64, other: f64) -> settings::AccessLog {
    settings::AccessLog {
        to: LogTarget::Stdout,
        client: ClientInLog::Pseudonym,
        sample_limited: Share::new(limited).unwrap(),
        sample_other: Share::new(other).unwrap(),
    }
}

/// A target that says when it is asked to write, and then waits to be let.
struct Gated {
    asked: Sender<Vec<u8>>,
    /// Errs, and so lets everything pass, once the other end is dropped.
    pass: Arc<Mutex<Receiver<()>>>,
}

impl Sink for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.asked.send(bytes.to_vec()).unwrap();
        let _ = self.pass.lock().recv();
        Ok(bytes.len())
    }
}

/// A log on a gated target: the log, what it asked to write, and the gate, which opens for good when dropped.
fn gated(capacity: usize) -> (AccessLogWriter, Receiver<Vec<u8>>, Sender<()>) {
    let (asked, asks) = channel();
    let (gate, pass) = channel();
    let pass = Arc::new(Mutex::new(pass));
    let open = move || Ok(Box::new(Gated { asked: asked.clone(), pass: pass.clone() }) as Box<dyn Sink>);
    let target = Target::open(Box::new(open), Duration::ZERO).unwrap();
    (AccessLogWriter::start_with(target, &settings(1.0, 1.0), capacity).unwrap(), asks, gate)
}

fn put(log: &AccessLog, text: &str) {
    log.line(|line| {
        line.extend_from_slice(text.as_bytes());
        line.push(b'\n');
    });
}

fn lines(asks: &Receiver<Vec<u8>>) -> Vec<String> {
    let bytes: Vec<u8> = asks.try_iter().flatten().collect();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn lines_of_one_thread_keep_their_order() {
    let (writer, asks, gate) = gated(CAPACITY);
    let log = writer.log();
    put(&log, "plug");
    // the writer is busy and cannot hold a buffer while ours come
    assert_eq!(asks.recv_timeout(LONG).unwrap(), b"plug\n");
    let expected: Vec<String> = (0..10_000).map(|number| format!("line {number}")).collect();
    expected.iter().for_each(|line| put(&log, line));
    drop(gate);
    assert!(writer.finish(LONG));
    assert_eq!(lines(&asks), expected);
    assert_eq!(log.state(), LogState { dropped: 0, errors: Some(0) });
}

#[test]
fn nothing_is_lost_while_there_is_room() {
    let (writer, asks, gate) = gated(CAPACITY);
    drop(gate);
    let log = writer.log();
    let mut expected: Vec<String> = (0..80_000).map(|number| format!("line {number}")).collect();
    thread::scope(|scope| {
        for part in expected.chunks(20_000) {
            let log = &log;
            scope.spawn(move || part.iter().for_each(|line| put(log, line)));
        }
    });
    assert!(writer.finish(LONG));
    let mut written = lines(&asks);
    written.sort_unstable();
    expected.sort_unstable();
    assert_eq!(log.state().dropped, 0);
    assert_eq!(written, expected);
}

#[test]
fn lines_without_room_are_dropped_and_counted_and_nobody_waits() {
    let (writer, asks, gate) = gated(2 << 20);
    let log = writer.log();
    put(&log, "plug");
    asks.recv_timeout(LONG).unwrap();
    // the target stands still, so a request that waited for it would never come back
    (0..200_000).for_each(|number| put(&log, &format!("line {number:20}")));
    let dropped = log.state().dropped;
    drop(gate);
    assert!(writer.finish(LONG));
    let written = lines(&asks).len() as u64;
    assert_eq!(written + dropped, 200_000);
    // all room is used but for 4 KiB in each of 8 to 64 buffers, and one line is 26 bytes
    assert!((69_000..=80_660).contains(&written), "{written}");
}

#[test]
fn a_line_longer_than_the_room_is_dropped_whole() {
    let (writer, asks, gate) = gated(2 << 20);
    drop(gate);
    let log = writer.log();
    put(&log, &"x".repeat(2 << 20));
    put(&log, "short");
    assert!(writer.finish(LONG));
    assert_eq!(lines(&asks), ["short"]);
    assert_eq!(log.state().dropped, 1);
}

#[test]
fn lines_appear_by_themselves_after_every_silence() {
    let (writer, asks, gate) = gated(CAPACITY);
    drop(gate);
    let log = writer.log();
    for number in 0..4 {
        put(&log, &number.to_string());
        assert_eq!(asks.recv_timeout(LONG).unwrap(), format!("{number}\n").as_bytes());
    }
}

#[test]
fn finishing_writes_everything_that_was_accepted() {
    let (writer, asks, gate) = gated(CAPACITY);
    drop(gate);
    let log = writer.log();
    (0..1_000).for_each(|number| put(&log, &number.to_string()));
    assert!(writer.finish(LONG));
    assert_eq!(lines(&asks).len(), 1_000);
}

#[test]
fn finishing_does_not_wait_for_a_target_that_stands_still() {
    let (writer, asks, gate) = gated(CAPACITY);
    let log = writer.log();
    put(&log, "stuck");
    asks.recv_timeout(LONG).unwrap();
    assert!(!writer.finish(Duration::from_millis(1)));
    drop(gate);
}

#[test]
fn lines_after_the_end_are_dropped_and_counted() {
    let (writer, asks, gate) = gated(CAPACITY);
    drop(gate);
    let log = writer.log();
    assert!(writer.finish(LONG));
    put(&log, "late");
    assert_eq!(lines(&asks), Vec::<String>::new());
    assert_eq!(log.state().dropped, 1);
}

#[test]
fn half_a_line_is_never_written() {
    let (writer, asks, gate) = gated(CAPACITY);
    drop(gate);
    let log = writer.log();
    put(&log, "before");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        log.line(|line| {
            line.extend_from_slice(b"half");
            panic!("a fault in the line's writer, on purpose");
        });
    }));
    assert!(panicked.is_err());
    put(&log, "after");
    assert!(writer.finish(LONG));
    let mut written = lines(&asks);
    written.sort_unstable();
    assert_eq!(written, ["after", "before"]);
}

#[test]
fn dropping_the_writer_leaves_a_complete_file() {
    let path: PathBuf = std::env::temp_dir().join(format!("tidegate-access-{}.log", std::process::id()));
    std::fs::write(&path, "before\n").unwrap();
    let to = LogTarget::File(path.clone());
    let writer = AccessLogWriter::start(&settings::AccessLog { to, ..settings(1.0, 1.0) }).unwrap();
    (0..100).for_each(|number| put(&writer.log(), &number.to_string()));
    drop(writer);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut numbers: Vec<u32> =
        text.strip_prefix("before\n").unwrap().lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100), "{text}");
}

#[test]
fn a_file_that_cannot_be_opened_is_said_at_once() {
    let to = LogTarget::File("/nonexistent/folder/access.log".into());
    let error = AccessLogWriter::start(&settings::AccessLog { to, ..settings(1.0, 1.0) }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn shares_are_kept_and_apart_for_limited_requests() {
    let sample = |limited, other| {
        let (limited, other) = (threshold(Share::new(limited).unwrap()), threshold(Share::new(other).unwrap()));
        // dice as poor as a counter must do
        (0..100_000)
            .fold((0, 0), |(l, o), dice| (l + u64::from(takes(limited, dice)), o + u64::from(takes(other, dice))))
    };
    assert_eq!(sample(1.0, 0.0), (100_000, 0));
    let (quarter, tenth) = sample(0.25, 0.1);
    assert!((24_500..25_500).contains(&quarter), "{quarter}");
    assert!((9_600..10_400).contains(&tenth), "{tenth}");
    let (writer, ..) = gated(CAPACITY);
    assert!(writer.log().wants(true, u64::MAX) && writer.log().wants(false, u64::MAX));
}
