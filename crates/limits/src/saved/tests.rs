use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const KEY: Key = Key::from_bytes(*b"a secret of ours");

/// Sections of a name and bytes, and a table.
type Told = (Vec<(String, Vec<u8>)>, Vec<u64>);

fn written((sections, cells): &Told) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &KEY).unwrap();
    for (name, bytes) in sections {
        writer.begin(name).unwrap();
        writer.number(bytes.len() as u64).unwrap();
        writer.bytes(bytes).unwrap();
        writer.end().unwrap();
    }
    writer.begin("cells").unwrap();
    writer.number(cells.len() as u64).unwrap();
    save_cells(&mut writer, cells.iter().copied()).unwrap();
    writer.end().unwrap();
    let length = writer.finish().unwrap();
    assert_eq!(length, stream.len() as u64);
    stream
}

fn read(mut stream: &[u8], key: &Key) -> Result<Told, Fault> {
    let mut reader = Reader::new(&mut stream, key)?;
    let (mut sections, mut cells) = (Vec::new(), Vec::new());
    while let Some(name) = reader.begin()? {
        let length = usize::try_from(reader.number_up_to(1 << 20)?).unwrap();
        if name == "cells" {
            cells = vec![0; length];
            restore_cells(&mut reader, length, |at, cell| cells[at] = cell)?;
        } else {
            let mut bytes = vec![0; length];
            reader.bytes(&mut bytes)?;
            sections.push((name, bytes));
        }
        reader.end()?;
    }
    Ok((sections, cells))
}

fn told() -> impl Strategy<Value = Told> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..50),
        (0..3 * CHUNK).prop_map(|length| (0..length).map(|at| (at % 251) as u8).collect()),
    ];
    let cell = prop_oneof![3 => Just(0_u64), 1 => any::<u64>()];
    let cells =
        prop_oneof![prop::collection::vec(cell, 0..300), (0..3_000_u64).prop_map(|length| (1..=length).collect())];
    (prop::collection::vec(("[a-b]{0,3}", bytes), 0..3), cells)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_written_is_read(told in told()) {
        prop_assert_eq!(read(&written(&told), &KEY).unwrap(), told);
    }

    #[test]
    fn a_stream_with_one_bit_turned_is_refused(told in told(), at: prop::sample::Index, bit in 0..8_u32) {
        let mut stream = written(&told);
        let at = at.index(stream.len());
        stream[at] ^= 1_u8 << bit;
        prop_assert!(read(&stream, &KEY).is_err(), "byte {at}");
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_refused(told in told(), at: prop::sample::Index) {
        let stream = written(&told);
        let at = at.index(stream.len());
        let fault = read(&stream[..at], &KEY).unwrap_err();
        prop_assert!(matches!(fault, Fault::Cut), "{fault}");
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused_and_reserve_no_more_than_a_chunk(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let head = written(&(Vec::new(), Vec::new()));
        let stream = [&head[..52], &noise].concat();
        let info = allocation_counter::measure(|| assert!(read(&stream, &KEY).is_err()));
        prop_assert!(info.bytes_max < 4 * CHUNK as u64, "{}", info.bytes_max);
    }
}

#[test]
fn each_kind_of_stranger_has_an_error_of_its_own() {
    let stream = written(&(vec![("a".into(), vec![1, 2, 3])], vec![0, 1]));
    let foreign = read(&stream, &Key::from_bytes(*b"another's secret")).unwrap_err();
    assert_eq!(foreign.to_string(), "was written with another secret");
    let mut newer = stream.clone();
    newer[16] += 1;
    let newer = read(&newer, &KEY).unwrap_err();
    assert_eq!(newer.to_string(), "was written by a newer tidegate (version 3, this one reads 2)");
    assert_eq!(read(&[b'x'; 100], &KEY).unwrap_err().to_string(), "is no saved state");
    assert_eq!(read(&[], &KEY).unwrap_err().to_string(), "is cut off");
}

#[test]
fn parts_of_two_streams_are_not_one() {
    let told = |byte| (vec![("a".into(), vec![byte; 10]), ("b".into(), vec![byte; 10])], Vec::new());
    let (one, other): (Vec<u8>, Vec<u8>) = (written(&told(1)), written(&told(2)));
    // the second section of the other in the place of the first one's
    let middle = 52 + (1 + 4 + 1 + 16) + (1 + 4 + 18 + 16) + (1 + 4 + 16);
    let joined = [&one[..middle], &other[middle..]].concat();
    assert!(matches!(read(&joined, &KEY), Err(Fault::Corrupt)));
    // a section that is left out
    let left_out = [&one[..52], &one[middle..]].concat();
    assert!(matches!(read(&left_out, &KEY), Err(Fault::Corrupt)));
}

#[test]
fn a_table_of_another_size_does_not_fit() {
    for (count, cells) in [(3, vec![1, 2]), (1, vec![1, 2]), (1, vec![0, 0]), (3, vec![0, 1])] {
        let mut stream = Vec::new();
        let mut writer = Writer::new(&mut stream, &KEY).unwrap();
        writer.begin("cells").unwrap();
        save_cells(&mut writer, cells.iter().copied()).unwrap();
        writer.end().unwrap();
        writer.finish().unwrap();
        let mut from = &*stream;
        let mut reader = Reader::new(&mut from, &KEY).unwrap();
        reader.begin().unwrap();
        let fault = restore_cells(&mut reader, count, |_, _| {}).unwrap_err();
        assert_eq!(fault.to_string(), "does not fit: a table has another size");
    }
}

/// Takes bytes, and tells how many.
struct Counted<'c>(&'c Cell<usize>);

impl std::io::Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_rests_after_a_chunk_that_it_read_or_wrote_whatever_is_in_a_table() {
    const CELLS: usize = 40 * CHUNK / 8;
    for one_in in [usize::MAX, CELLS / 2, 100, 2, 1] {
        let (read, sent) = (Cell::new(0), Cell::new(0));
        let (mut most_read, mut most_sent, mut rests) = (0, 0, 0);
        let mut rest = || {
            (most_read, most_sent) = (most_read.max(read.take()), most_sent.max(sent.take()));
            rests += 1;
        };
        let mut to = Counted(&sent);
        let mut writer = Writer::new(&mut to, &KEY).unwrap().with_rests(&mut rest);
        writer.begin("cells").unwrap();
        let cells = (0..CELLS).map(|at| u64::from(at % one_in == 0)).inspect(|_| read.set(read.get() + 1));
        save_cells(&mut writer, cells).unwrap();
        writer.end().unwrap();
        writer.finish().unwrap();
        assert!(rests >= 40, "1 in {one_in}: {rests}");
        // and what is behind the last one
        let (most_read, most_sent) = (most_read.max(read.take()), most_sent.max(sent.take()));
        assert!(8 * most_read <= CHUNK + 8 * 1_024, "1 in {one_in}: {most_read} cells");
        assert!(most_sent <= 2 * CHUNK, "1 in {one_in}: {most_sent} bytes");
    }
}
