use std::io::{self, Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::replay::formats::{Custom, Format};
use crate::replay::source::Place;

/// A folder of its own for one test, with files in it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-replay-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Place {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        Place::File(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn line(second: u64, path: &str) -> String {
    format!(
        r#"203.0.113.7 - - [10/Oct/2023:{:02}:{:02}:{:02} +0000] "GET {path} HTTP/1.1" 200 5"#,
        second / 3_600,
        second / 60 % 60,
        second % 60
    ) + "\n"
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The paths in the order in which they are given, with their seconds of the day, and the tally.
fn paths(places: &[Place], format: Option<&Format>, reorder: u64) -> (Vec<(u64, String)>, Tally) {
    let mut seen = Vec::new();
    let options = Options { reorder: Duration::from_secs(reorder), progress: None };
    let tally = read(Sources::open(places, format).unwrap(), &options, |record| {
        seen.push((record.start / 1_000_000_000 % 86_400, String::from_utf8(record.path.to_vec()).unwrap()));
    })
    .unwrap();
    (seen, tally)
}

#[test]
fn files_are_read_by_their_first_stamp_plain_or_zipped() {
    let folder = Folder::new("first");
    let later = folder.file("access.log", (line(7_200, "/c") + &line(7_201, "/d")).as_bytes());
    let earlier = folder.file("access.log.1.gz", &zipped((line(3_600, "/a") + &line(3_601, "/b")).as_bytes()));
    let (seen, tally) = paths(&[later, earlier], None, 60);
    assert_eq!(seen.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/a", "/b", "/c", "/d"]);
    assert_eq!((tally.lines, tally.requests, tally.late), (4, 4, 0));
    assert_eq!(tally.last - tally.first, 3_601_000_000_000);
}

#[test]
fn logs_of_the_same_hours_are_woven_together() {
    let folder = Folder::new("woven");
    let mut places = Vec::new();
    for gate in 0..3_u64 {
        let text: String = (0..20_000).map(|at| line(at * 3 + gate, &format!("/{gate}"))).collect();
        places.push(folder.file(&format!("{gate}.log"), text.as_bytes()));
    }
    let (seen, tally) = paths(&places, None, 60);
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order");
    assert_eq!((seen.len(), tally.late), (60_000, 0));
}

#[test]
fn what_began_earlier_comes_earlier_although_it_ended_later() {
    let folder = Folder::new("durations");
    let format = Format::Custom(Custom::new("$remote_addr $msec \"$request\" $request_time").unwrap().into());
    let text = "1.2.3.4 1000010.500 \"GET /b HTTP/1.1\" 0.100\n1.2.3.4 1000020.000 \"GET /a HTTP/1.1\" 15.000\n";
    let (seen, tally) = paths(&[folder.file("x", text.as_bytes())], Some(&format), 60);
    assert_eq!(seen.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
    assert_eq!(tally.late, 0);
}

#[test]
fn a_line_beyond_the_window_is_counted_and_given_at_the_end_of_what_was_given() {
    let folder = Folder::new("late");
    // enough lines that the first seconds have been given when the late one is read
    let mut text: String = (0..20_000).map(|at| line(at, "/x")).collect();
    text += &line(5, "/late");
    let (seen, tally) = paths(&[folder.file("x", text.as_bytes())], None, 60);
    assert_eq!((tally.requests, tally.late), (20_001, 1));
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "time never goes back");
    let (seen, tally) = paths(&[folder.file("x", text.as_bytes())], None, 86_400);
    assert_eq!((tally.late, seen[6].1.as_str()), (0, "/late"), "a wider window puts it in order");
}

#[test]
fn lines_of_one_second_stay_as_they_are_in_the_log() {
    let folder = Folder::new("stable");
    let text: String = (0..30_000).map(|at| line(at / 500, &format!("/{at}"))).collect();
    let (seen, _) = paths(&[folder.file("x", text.as_bytes())], None, 60);
    assert!(seen.iter().enumerate().all(|(at, (_, path))| *path == format!("/{at}")));
}

#[test]
fn what_cannot_be_read_is_counted_and_three_are_shown() {
    let folder = Folder::new("broken");
    let mut text = String::new();
    for at in 0..95 {
        text += &line(at, "/x");
    }
    for at in 0..5 {
        text += &format!("broken\u{7} {at}\n");
    }
    let (seen, tally) = paths(&[folder.file("x", text.as_bytes())], None, 60);
    assert_eq!((seen.len(), tally.unreadable, tally.is_unreadable()), (95, 5, false));
    assert_eq!(
        tally.shown.iter().map(|shown| (shown.line, shown.text.as_str())).collect::<Vec<_>>(),
        [(96, "broken\\u{7} 0"), (97, "broken\\u{7} 1"), (98, "broken\\u{7} 2")]
    );
    text += "one more\n";
    let (_, tally) = paths(&[folder.file("x", text.as_bytes())], None, 60);
    assert!(tally.is_unreadable(), "more than one in twenty");
}

#[test]
fn a_log_that_no_format_fits_is_named_with_three_lines() {
    let folder = Folder::new("unknown");
    let place = folder.file("x", b"a\nb\nc\nd\n");
    let fault = Sources::open(std::slice::from_ref(&place), None).unwrap_err().to_string();
    assert!(fault.contains("tidegate knows\n    a\n    b\n    c\n  known: nginx"), "{fault}");
    assert!(matches!(Sources::open(&[Place::File("/nowhere/x".into())], None), Err(Fault::Read(..))));
    assert!(Sources::open(&[folder.file("empty", b"")], None).unwrap().is_empty());
}

#[test]
fn a_line_without_end_is_cut_and_the_next_one_read() {
    let folder = Folder::new("endless");
    let mut text = line(1, "/a").into_bytes();
    text.extend(vec![b'x'; 5 << 20]);
    text.push(b'\n');
    text.extend(line(2, "/b").into_bytes());
    let (seen, tally) = paths(&[folder.file("x", &text)], None, 60);
    assert_eq!(seen.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
    assert_eq!(tally.unreadable, 1);
}

/// Hands out its bytes a few at a time, as a pipe may.
struct Trickle(io::Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(7);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn a_stream_is_cut_at_whole_lines_however_it_comes() {
    let text: String = (0..20_000).map(|at| line(at, "/x")).collect();
    let mut lines = Lines::of(Box::new(Trickle(io::Cursor::new(zipped(text.as_bytes()))))).unwrap();
    let mut whole = Vec::new();
    let mut piece = Vec::new();
    while lines.next(&mut piece).unwrap() {
        assert_eq!(piece.last(), Some(&b'\n'));
        whole.append(&mut piece);
    }
    assert_eq!(whole, text.as_bytes());
}
