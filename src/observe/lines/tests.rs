use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::target::Sink;
use super::*;

/// Longer than anything here takes, shorter than anybody's patience.
const LONG: Duration = Duration::from_secs(20);

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
fn gated_as(plan: Plan) -> (LineWriter, Receiver<Vec<u8>>, Sender<()>) {
    let (asked, asks) = channel();
    let (gate, pass) = channel();
    let pass = Arc::new(Mutex::new(pass));
    let open = move || Ok(Box::new(Gated { asked: asked.clone(), pass: pass.clone() }) as Box<dyn Sink>);
    let target = Target::open(Box::new(open), Duration::ZERO).unwrap();
    (LineWriter::start_with(plan, target).unwrap(), asks, gate)
}

fn gated(capacity: usize) -> (LineWriter, Receiver<Vec<u8>>, Sender<()>) {
    gated_as(Plan { capacity, ..Plan::access_log() })
}

fn put(log: &Lines, text: &str) {
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
    let (writer, asks, gate) = gated(8 << 20);
    let log = writer.lines();
    put(&log, "plug");
    // the writer is busy and cannot hold a buffer while ours come
    assert_eq!(asks.recv_timeout(LONG).unwrap(), b"plug\n");
    let expected: Vec<String> = (0..10_000).map(|number| format!("line {number}")).collect();
    expected.iter().for_each(|line| put(&log, line));
    drop(gate);
    assert!(writer.end(LONG));
    assert_eq!(lines(&asks), expected);
    assert_eq!(log.state(), LogState { dropped: 0, errors: Some(0) });
}

#[test]
fn nothing_is_lost_while_there_is_room() {
    let (writer, asks, gate) = gated(8 << 20);
    drop(gate);
    let log = writer.lines();
    let mut expected: Vec<String> = (0..80_000).map(|number| format!("line {number}")).collect();
    thread::scope(|scope| {
        for part in expected.chunks(20_000) {
            let log = &log;
            scope.spawn(move || part.iter().for_each(|line| put(log, line)));
        }
    });
    assert!(writer.end(LONG));
    let mut written = lines(&asks);
    written.sort_unstable();
    expected.sort_unstable();
    assert_eq!(log.state().dropped, 0);
    assert_eq!(written, expected);
}

#[test]
fn lines_without_room_are_dropped_and_counted_and_nobody_waits() {
    let (writer, asks, gate) = gated(2 << 20);
    let log = writer.lines();
    put(&log, "plug");
    asks.recv_timeout(LONG).unwrap();
    // the target stands still, so a request that waited for it would never come back
    (0..200_000).for_each(|number| put(&log, &format!("line {number:20}")));
    let dropped = log.state().dropped;
    drop(gate);
    assert!(writer.end(LONG));
    let written = lines(&asks).len() as u64;
    assert_eq!(written + dropped, 200_000);
    // all room is used but for 4 KiB in each of 8 to 64 buffers, and one line is 26 bytes
    assert!((69_000..=80_660).contains(&written), "{written}");
}

#[test]
fn a_line_longer_than_the_room_is_dropped_whole() {
    let (writer, asks, gate) = gated(2 << 20);
    drop(gate);
    let log = writer.lines();
    put(&log, &"x".repeat(2 << 20));
    put(&log, "short");
    assert!(writer.end(LONG));
    assert_eq!(lines(&asks), ["short"]);
    assert_eq!(log.state().dropped, 1);
}

#[test]
fn lines_appear_by_themselves_after_every_silence() {
    let (writer, asks, gate) = gated(8 << 20);
    drop(gate);
    let log = writer.lines();
    for number in 0..4 {
        put(&log, &number.to_string());
        assert_eq!(asks.recv_timeout(LONG).unwrap(), format!("{number}\n").as_bytes());
    }
}

#[test]
fn finishing_writes_everything_that_was_accepted() {
    let (writer, asks, gate) = gated(8 << 20);
    drop(gate);
    let log = writer.lines();
    (0..1_000).for_each(|number| put(&log, &number.to_string()));
    assert!(writer.end(LONG));
    assert_eq!(lines(&asks).len(), 1_000);
}

#[test]
fn finishing_does_not_wait_for_a_target_that_stands_still() {
    let (writer, asks, gate) = gated(8 << 20);
    let log = writer.lines();
    put(&log, "stuck");
    asks.recv_timeout(LONG).unwrap();
    assert!(!writer.end(Duration::from_millis(1)));
    drop(gate);
}

#[test]
fn lines_after_the_end_are_dropped_and_counted() {
    let (writer, asks, gate) = gated(8 << 20);
    drop(gate);
    let log = writer.lines();
    assert!(writer.end(LONG));
    put(&log, "late");
    assert_eq!(lines(&asks), Vec::<String>::new());
    assert_eq!(log.state().dropped, 1);
}

#[test]
fn half_a_line_is_never_written() {
    let (writer, asks, gate) = gated(8 << 20);
    drop(gate);
    let log = writer.lines();
    put(&log, "before");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        log.line(|line| {
            line.extend_from_slice(b"half");
            panic!("a fault in the line's writer, on purpose");
        });
    }));
    assert!(panicked.is_err());
    put(&log, "after");
    assert!(writer.end(LONG));
    let mut written = lines(&asks);
    written.sort_unstable();
    assert_eq!(written, ["after", "before"]);
}

#[test]
fn one_buffer_keeps_the_order_of_all_threads_and_loses_nothing_to_their_meeting() {
    let (writer, asks, gate) = gated_as(Plan::in_order("test", 4 << 20));
    drop(gate);
    let log = writer.lines();
    let turn = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (log, turn) = (&log, &turn);
            scope.spawn(move || {
                for number in (thread..4_000).step_by(4) {
                    while turn.load(Ordering::Acquire) != number {
                        thread::yield_now();
                    }
                    put(log, &number.to_string());
                    turn.store(number + 1, Ordering::Release);
                }
            });
        }
        // these meet the others in the buffer
        scope.spawn(|| (0..4_000).for_each(|_| put(&log, "beside")));
    });
    assert!(writer.end(LONG));
    let mut written = lines(&asks);
    assert_eq!(written.len(), 8_000);
    written.retain(|line| line != "beside");
    assert!(written.iter().map(|line| line.parse::<usize>().unwrap()).eq(0..4_000), "out of order");
    assert_eq!(log.state(), LogState { dropped: 0, errors: Some(0) });
}

#[test]
fn a_slow_target_is_waited_for_as_long_as_it_takes_something_and_no_longer() {
    let (writer, asks, gate) = gated_as(Plan::in_order("test", 8 << 20));
    let log = writer.lines();
    (0..64).for_each(|_| put(&log, &"x".repeat(60 << 10)));
    thread::scope(|scope| {
        let end = scope.spawn(|| writer.end(LONG));
        // one piece after the other, then nothing more
        for _ in 0..8 {
            asks.recv_timeout(LONG).unwrap();
            gate.send(()).unwrap();
        }
        assert!(!end.join().unwrap(), "it stands still");
    });
    assert!(writer.end(LONG), "and is given up once");
    drop(gate);
}
