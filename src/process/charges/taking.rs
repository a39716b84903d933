//! The new process's side.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::frame::{ATTEMPT, CHARGED, EVENTS, FRAME, Frame, Kind, LAST, NEVER, PLACE, Unread};
use crate::engine::{Admitted, Asked, UnderWay};
use crate::limiter::journal::Event;
use crate::limiter::{Hold, Judgement};
use crate::running::process::Process;
use crate::units::{Cost, Timestamp};

/// How long the new process waits for a word while it does not serve yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most that requests of the old process hold by question.
const MOST_HELD: usize = 1 << 16;

/// The most charges of one request.
const MOST_ASKED: u64 = 64;

/// The new process's side. Dropped, nothing is held by requests of the old process any more.
#[derive(Debug)]
pub struct Taking {
    stream: StdUnixStream,
    unread: Unread,
    under_way: UnderWay,
    asking: Option<Asking>,
    held: HashMap<(u32, u8), Hold>,
}

/// A question of which not all has come.
#[derive(Debug)]
struct Asking {
    number: u32,
    wanted: usize,
    at: Timestamp,
    /// `None`: of a limit that this process does not have.
    asked: Vec<Option<Asked>>,
}

impl Taking {
    /// Has what requests of the old process hold.
    pub fn new(stream: StdUnixStream, under_way: UnderWay) -> Taking {
        Taking { stream, unread: Unread::default(), under_way, asking: None, held: HashMap::new() }
    }

    /// Says that all is here which was told so far, and does what is told until the old process asks. This one is to serve then.
    ///
    /// # Errors
    /// The old process has gone, or does not speak as agreed.
    pub fn catch_up(&mut self, process: &Process) -> io::Result<()> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let mut word = Vec::new();
        Frame::new(Kind::CaughtUp).write(&mut word);
        self.stream.write_all(&word)?;
        let mut answers = Vec::new();
        loop {
            while let Some(frame) = self.unread.next()? {
                if frame.kind == Kind::Moved {
                    return Ok(());
                }
                self.take(&frame, process, &mut answers)?;
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64 * FRAME];
        let count = self.stream.read(&mut bytes)?;
        self.unread.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default());
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Does what is told, and answers, until the old process has ended.
    ///
    /// # Errors
    /// The runtime cannot watch the stream.
    pub fn follow(mut self, process: Arc<Process>) -> io::Result<()> {
        let stream = self.stream.try_clone()?;
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream)?;
        tokio::spawn(async move {
            let mut answers = Vec::new();
            loop {
                while let Some(frame) = self.unread.next()? {
                    self.take(&frame, &process, &mut answers)?;
                }
                if !answers.is_empty() {
                    stream.write_all(&answers).await?;
                    answers.clear();
                }
                if stream.read_buf(&mut self.unread.bytes).await? == 0 {
                    return io::Result::Ok(());
                }
            }
        });
        Ok(())
    }

    fn take(&mut self, frame: &Frame, process: &Process, answers: &mut Vec<u8>) -> io::Result<()> {
        if let Some((what, _)) = EVENTS.iter().find(|(_, kind)| *kind == frame.kind) {
            if let Some((limit, place, at, cost)) = frame.charge() {
                self.under_way.apply(limit, &Event { what: *what, place, at, cost });
            }
            return Ok(());
        }
        match frame.kind {
            Kind::Ask => {
                let wanted = frame.words[0].clamp(1, MOST_ASKED) as usize;
                self.asking = Some(Asking { number: frame.number, wanted, at: Timestamp::ZERO, asked: Vec::new() });
            }
            Kind::Charge => {
                let Some(asking) = &mut self.asking else { return Err(io::Error::other("a charge nobody asked of")) };
                let charge = frame.charge();
                let here = charge.and_then(|(limit, place, at, cost)| {
                    asking.at = asking.at.max(at);
                    let (rule, found) = self.under_way.here(limit, &place)?;
                    let place = found.unwrap_or(place);
                    Some(Asked { slot: asking.asked.len(), rule, place, cost, enforced: frame.number != 0 })
                });
                asking.asked.push(here);
                if asking.asked.len() == asking.wanted
                    && let Some(asking) = self.asking.take()
                {
                    self.answer(asking, process, answers);
                }
            }
            Kind::Sent => self.held.get_mut(&(frame.number, frame.small)).into_iter().for_each(Hold::sent),
            Kind::Failed => self.held.get_mut(&(frame.number, frame.small)).into_iter().for_each(Hold::failed),
            Kind::Settled => {
                if let Some(hold) = self.held.remove(&(frame.number, frame.small)) {
                    let cost = u32::try_from(frame.words[1]).ok().and_then(|cost| Cost::new(cost).ok());
                    hold.settle(Timestamp::from_nanos(frame.words[0]), cost);
                }
            }
            Kind::Dropped => drop(self.held.remove(&(frame.number, frame.small))),
            _ => return Err(io::Error::other("a word out of turn")),
        }
        Ok(())
    }

    fn answer(&mut self, asking: Asking, process: &Process, answers: &mut Vec<u8>) {
        let Asking { number, at, asked, .. } = asking;
        let known: Vec<Asked> = asked.iter().flatten().copied().collect();
        let full = self.held.len() >= MOST_HELD;
        let generation = process.generation();
        let mut said = if full { Vec::new() } else { generation.engine().admit_for(&known, at) }.into_iter();
        let count = asked.len();
        for (position, asked) in (0_u8..).zip(&asked) {
            let admitted = match asked {
                // of a limit that is gone here nothing is asked
                None => Admitted { judgement: Judgement::admitted(u32::MAX, 0), charged: true, hold: None },
                Some(_) => match said.next() {
                    Some(admitted) => admitted,
                    // there is no room, or it was refused before
                    None => Admitted { judgement: Judgement::REFUSED, charged: false, hold: None },
                },
            };
            let ends = !admitted.charged && asked.is_some_and(|asked| asked.enforced);
            let last = if ends || usize::from(position) + 1 == count { LAST } else { 0 };
            let held = match &admitted.hold {
                None => 0,
                Some(hold) if hold.is_place() => PLACE,
                Some(_) => ATTEMPT,
            };
            let Judgement { remaining, quota, retry_nanos, standing, .. } = admitted.judgement;
            let reset = admitted.judgement.reset_nanos();
            let numbers = u64::from(remaining) | u64::from(quota) << 32;
            let mut frame = Frame { number, small: position, ..Frame::new(Kind::Answer) };
            let charged = if admitted.charged { CHARGED } else { 0 };
            frame.position = charged | held | last;
            let [first, second, third, fourth, ..] = &mut frame.words;
            (*first, *second, *third, *fourth) =
                (numbers, retry_nanos.unwrap_or(NEVER), standing, reset.unwrap_or(NEVER));
            frame.write(answers);
            if let Some(hold) = admitted.hold {
                self.held.insert((number, position), hold);
            }
            if ends {
                break;
            }
        }
    }
}
