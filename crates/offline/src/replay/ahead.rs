//! Reads logs as [`read`](super::read()) does, with one thread more between the one that takes lines apart and the caller's: it
//! makes of every request what hangs on no state that the caller keeps. So three share the work, in the order of the log.

use std::sync::mpsc;
use std::thread;

use super::belt::{Ends, Logged, WAITING, belt};
use super::fault::Fault;
use super::order::Batch;
use super::read::{Options, Reader, Tally};
use super::record::Record;
use super::source::Sources;

/// The one between.
pub trait Ahead: Send {
    /// What it makes of a request.
    type Made: Send;

    /// Makes it. Requests come in the order in which they began.
    fn make(&mut self, record: &Record<'_>) -> Self::Made;

    /// Looks once more at those of the last batch, in the same order.
    fn complete(&mut self, made: &mut [Self::Made]);
}

/// The caller.
pub trait Visit<T> {
    /// One that will be approached soon, to be brought near itself: another thread has made it.
    fn expect(&mut self, coming: &T);

    /// One that will be visited soon. All are approached once, in the order in which they are visited.
    fn approach(&mut self, coming: &T);

    /// One request. They come in the order in which they began.
    fn visit(&mut self, logged: &Logged<'_>, made: &T);
}

/// So many requests ahead of the one that is visited, one is approached: time enough for what it will be judged by to come, and little
/// enough for it to be still there.
const AHEAD: usize = 12;

/// Gives every request of the logs to `visit`, with what `ahead` made of it.
///
/// # Errors
/// A log cannot be read to its end.
pub fn read_ahead<A: Ahead>(
    sources: Sources,
    options: &Options<'_>,
    ahead: &mut A,
    visit: &mut impl Visit<A::Made>,
) -> Result<Tally, Fault> {
    thread::scope(|scope| {
        let (belt, Ends { batches, spent }) = belt();
        let (send, receive) = mpsc::sync_channel::<(Batch, Vec<A::Made>)>(WAITING);
        let (empty, emptied) = mpsc::sync_channel::<Vec<A::Made>>(2 * WAITING);
        let reader = scope.spawn(move || Reader::new(options, belt).run(sources));
        let maker = scope.spawn(move || {
            for batch in batches {
                let mut made = emptied.try_recv().unwrap_or_default();
                made.reserve(batch.order.len());
                make(&batch, ahead, &mut made);
                ahead.complete(&mut made);
                if send.send((batch, made)).is_err() {
                    break;
                }
            }
        });
        for (batch, mut made) in receive {
            let (mut far, mut coming) = (made.iter(), made.iter());
            far.by_ref().take(2 * AHEAD).for_each(|far| visit.expect(far));
            coming.by_ref().take(AHEAD).for_each(|coming| visit.approach(coming));
            for (logged, made) in batch.requests().zip(&made) {
                // one for one: what many asked for at once would wait for each other
                if let Some(far) = far.next() {
                    visit.expect(far);
                }
                if let Some(coming) = coming.next() {
                    visit.approach(coming);
                }
                visit.visit(&logged, made);
            }
            spent.give_back(batch);
            made.clear();
            let _ = empty.try_send(made);
        }
        // whoever panicked has told so itself
        maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes something of every request of a batch.
fn make<A: Ahead>(batch: &Batch, ahead: &mut A, made: &mut Vec<A::Made>) {
    let (mut far, mut near) = (batch.requests(), batch.requests());
    far.by_ref().take(2 * AHEAD).for_each(|logged| logged.approach());
    near.by_ref().take(AHEAD).for_each(|logged| logged.approach_text());
    for logged in batch.requests() {
        if let Some(far) = far.next() {
            far.approach();
        }
        if let Some(near) = near.next() {
            near.approach_text();
        }
        made.push(ahead.make(&logged.record()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::source::Place;

    /// Makes the number of each request and what it counted of, and asks for nothing but their order.
    #[derive(Default)]
    struct Numbers {
        made: u64,
        completed: u64,
    }

    impl Ahead for Numbers {
        type Made = (u64, Vec<u8>, u64);

        fn make(&mut self, record: &Record<'_>) -> Self::Made {
            self.made += 1;
            (self.made, record.path.to_vec(), 0)
        }

        fn complete(&mut self, made: &mut [Self::Made]) {
            for (.., completed) in made {
                self.completed += 1;
                *completed = self.completed;
            }
        }
    }

    #[derive(Default)]
    struct Seen {
        approached: u64,
        visited: u64,
    }

    impl Visit<(u64, Vec<u8>, u64)> for Seen {
        fn expect(&mut self, _: &(u64, Vec<u8>, u64)) {}

        fn approach(&mut self, (made, ..): &(u64, Vec<u8>, u64)) {
            self.approached += 1;
            assert_eq!(*made, self.approached);
            assert!(self.approached - self.visited <= AHEAD as u64 + 1, "not long before it is visited");
        }

        fn visit(&mut self, logged: &Logged<'_>, (made, path, completed): &(u64, Vec<u8>, u64)) {
            self.visited += 1;
            assert!(self.visited <= self.approached);
            assert_eq!((*made, *completed, path.as_slice()), (self.visited, self.visited, logged.record().path));
        }
    }

    #[test]
    fn every_request_comes_with_what_was_made_of_it() {
        let line = |at: u32| {
            let (minute, second) = (at / 600 % 60, at / 10 % 60);
            format!(
                "192.0.2.{} - - [10/Oct/2023:11:{minute:02}:{second:02} +0000] \"GET /{at} HTTP/1.1\" 200 1\n",
                at % 250
            )
        };
        let file = std::env::temp_dir().join(format!("tidegate-ahead-{}.log", std::process::id()));
        std::fs::write(&file, (0..30_000).map(line).collect::<String>()).unwrap();
        let sources = Sources::open(&[Place::File(file.clone())], None).unwrap();
        let (mut numbers, mut seen) = (Numbers::default(), Seen::default());
        let tally = read_ahead(sources, &Options::default(), &mut numbers, &mut seen).unwrap();
        std::fs::remove_file(file).unwrap();
        assert_eq!((tally.requests, numbers.made, numbers.completed, seen.visited), (30_000, 30_000, 30_000, 30_000));
    }
}
