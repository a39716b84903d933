//! The old process's side.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::frame::{ATTEMPT, CHARGED, EVENTS, Frame, Kind, LAST, NEVER, PLACE, Unread};
use crate::engine::{Admitted, Asked};
use crate::limiter::{HoldElsewhere, Judgement};
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::successor::{HeldThere, HeldTold, Successor, Told};
use crate::sketch::NextUnit;
use crate::units::Cost;

/// How long what happened may wait to be told.
const STEP: Duration = Duration::from_millis(1);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Questions that wait for their answers.
type Open = Arc<Mutex<HashMap<u32, Question>>>;

/// A question, and the answers to it that have come.
#[derive(Debug)]
struct Question {
    costs: Vec<Cost>,
    answers: Vec<Admitted<Box<dyn HoldElsewhere>>>,
    answer: oneshot::Sender<Vec<Admitted<Box<dyn HoldElsewhere>>>>,
}

/// The old process's side. Dropped, this process has its state for itself again.
pub struct Giving {
    process: Arc<Process>,
    generation: Arc<Generation>,
    tell: mpsc::UnboundedSender<Told>,
    caught_up: watch::Receiver<bool>,
    broken: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
    reader: JoinHandle<()>,
}

impl Giving {
    /// Begins to tell what happens to the limits of a generation whose state was just handed over.
    ///
    /// # Errors
    /// The runtime cannot watch the stream.
    pub fn begin(stream: StdUnixStream, process: Arc<Process>, generation: Arc<Generation>) -> io::Result<Giving> {
        // no thread ever waits for it
        stream.set_write_timeout(Some(LAST_WORDS))?;
        stream.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(stream)?.into_split();
        let (tell, told) = mpsc::unbounded_channel();
        let (caught, caught_up) = watch::channel(false);
        let (open, broken): (Open, _) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let reader = tokio::spawn(hear(read, Arc::clone(&open), caught, tell.clone()));
        let writer = tokio::spawn(give(write, Arc::clone(&generation), told, open, Arc::clone(&broken)));
        Ok(Giving { process, generation, tell, caught_up, broken, writer: Some(writer), reader })
    }

    /// Waits until the new process has all that was told so far.
    ///
    /// # Errors
    /// It has gone, or more happened than could be told.
    pub async fn caught_up(&mut self) -> Result<(), String> {
        let caught_up = self.caught_up.wait_for(|caught_up| *caught_up).await;
        if self.broken.load(Ordering::Relaxed) {
            return Err("more requests came than could be told to the new process".to_owned());
        }
        caught_up.map(|_| ()).map_err(|_| "the new process ended".to_owned())
    }

    /// From now on the new process is asked.
    pub fn move_admissions(&self) {
        self.process.set_successor(Some(Arc::new(Successor::new(self.tell.clone()))));
        self.generation.engine().move_admissions();
        // one that has gone is silent
        let _ = self.tell.send(Told::Moved);
    }

    /// Tells the last of it: nothing is charged here any more.
    pub async fn finish(mut self) {
        // one that has gone needs no last words
        let _ = self.tell.send(Told::Over);
        if let Some(mut writer) = self.writer.take()
            && timeout(LAST_WORDS, &mut writer).await.is_err()
        {
            writer.abort();
        }
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        self.process.set_successor(None);
        self.generation.engine().end_journals();
        self.reader.abort();
        self.writer.iter().for_each(JoinHandle::abort);
    }
}

/// Tells what happens, until nobody can tell more or the other side has gone.
async fn give(
    mut to: OwnedWriteHalf,
    generation: Arc<Generation>,
    mut told: mpsc::UnboundedReceiver<Told>,
    open: Open,
    broken: Arc<AtomicBool>,
) {
    let mut bytes = Vec::new();
    let mut ended = false;
    while !ended {
        let first = tokio::select! {
            first = told.recv() => {
                ended = first.is_none();
                first
            }
            () = sleep(STEP) => None,
        };
        // what was told by then is behind what happened by then
        let words: Vec<Told> = first.into_iter().chain(std::iter::from_fn(|| told.try_recv().ok())).collect();
        let happened = generation.engine().take_journals(|limit, event| {
            let kind = EVENTS.iter().find(|(what, _)| *what == event.what);
            kind.iter().for_each(|(_, kind)| {
                Frame::of_charge(*kind, limit, &event.place, event.at, event.cost).write(&mut bytes);
            });
        });
        if happened.is_err() {
            broken.store(true, Ordering::Relaxed);
            return;
        }
        ended |= words.iter().any(|word| matches!(word, Told::Over));
        words.into_iter().for_each(|word| write_word(word, &mut bytes, &open));
        if !bytes.is_empty() && to.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
    }
}

fn write_word(word: Told, bytes: &mut Vec<u8>, open: &Open) {
    match word {
        Told::Over => {}
        Told::Moved => Frame::new(Kind::Moved).write(bytes),
        Told::Ask { number, asked, at, answer } => {
            let mut ask = Frame { number, ..Frame::new(Kind::Ask) };
            ask.words[0] = asked.len() as u64;
            ask.write(bytes);
            for Asked { rule, place, cost, enforced, .. } in &asked {
                let charge = Frame::of_charge(Kind::Charge, *rule, place, at, *cost);
                Frame { number: u32::from(*enforced), ..charge }.write(bytes);
            }
            let costs = asked.iter().map(|asked| asked.cost).collect();
            open.lock().insert(number, Question { costs, answers: Vec::new(), answer });
        }
        Told::Held { number, position, what } => {
            let mut frame = Frame { number, small: position, ..Frame::new(Kind::Dropped) };
            match what {
                HeldTold::Dropped => {}
                HeldTold::Sent => frame.kind = Kind::Sent,
                HeldTold::Failed => frame.kind = Kind::Failed,
                HeldTold::Settled(at, cost) => {
                    frame.kind = Kind::Settled;
                    frame.words[0] = at.nanos();
                    frame.words[1] = cost.map_or(0, |cost| u64::from(cost.get()));
                }
            }
            frame.write(bytes);
        }
    }
}

/// Hears answers, until the other side has gone: then nobody is told any.
async fn hear(mut from: OwnedReadHalf, open: Open, caught_up: watch::Sender<bool>, tell: mpsc::UnboundedSender<Told>) {
    let mut unread = Unread::default();
    while from.read_buf(&mut unread.bytes).await.is_ok_and(|bytes| bytes > 0) {
        while let Ok(Some(frame)) = unread.next() {
            match frame.kind {
                Kind::CaughtUp => {
                    caught_up.send_replace(true);
                }
                Kind::Answer => answered(&frame, &open, &tell),
                _ => {}
            }
        }
    }
    // those who wait go by their own state
    open.lock().clear();
}

fn answered(frame: &Frame, open: &Open, tell: &mpsc::UnboundedSender<Told>) {
    let (flags, position) = (frame.position, frame.small);
    let mut open = open.lock();
    let Some(question) = open.get_mut(&frame.number) else { return };
    let [numbers, retry, standing, reset, ..] = frame.words;
    let known = |nanos: u64| (nanos != NEVER).then_some(nanos);
    let judgement = Judgement {
        admitted: flags & CHARGED != 0,
        remaining: numbers as u32,
        quota: (numbers >> 32) as u32,
        retry_nanos: known(retry),
        next_unit: NextUnit::Known(known(reset)),
        standing,
    };
    let cost = question.costs.get(question.answers.len()).copied().unwrap_or(Cost::ONE);
    let hold = (flags & (PLACE | ATTEMPT) != 0).then(|| {
        let of = (frame.number, position);
        Box::new(HeldThere { is_place: flags & PLACE != 0, cost, of, tell: tell.clone() }) as Box<dyn HoldElsewhere>
    });
    question.answers.push(Admitted { judgement, charged: judgement.admitted, hold });
    if flags & LAST != 0
        && let Some(Question { answers, answer, .. }) = open.remove(&frame.number)
    {
        drop(open);
        // of one that has left, what it would hold is given back as it is dropped
        let _ = answer.send(answers);
    }
}
