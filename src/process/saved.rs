//! The state of the process in its [saved form](crate::saved): for a snapshot on disk, and for the process that takes this one's place.
//!
//! Sections: `CLOCK`, which the stamps of all others go by, then those of the engine. Others may follow.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use rustix::fs::MemfdFlags;

use crate::engine::{Engine, Restored};
use crate::policy::Policy;
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::Seed;
use crate::system::clock::{Clock, Shown};
use crate::units::Timestamp;

/// The section of the clock. It comes first.
const CLOCK: &str = "clock";

/// Writes the state that the engine has, and tells how many bytes that were. Requests go on; `rest` is called again and again, as
/// [`Writer::with_rests`] says.
///
/// # Errors
/// What the target refuses.
pub fn save(to: &mut dyn Write, engine: &Engine, clock: Clock, rest: &mut dyn FnMut()) -> io::Result<u64> {
    write(to, engine, clock, false, rest)
}

fn write(
    to: &mut dyn Write,
    engine: &Engine,
    clock: Clock,
    hands_over: bool,
    rest: &mut dyn FnMut(),
) -> io::Result<u64> {
    let mut writer = Writer::new(to, &engine.seed().saved_key())?.with_rests(rest);
    // what is admitted before this stamp is saved, so time counts from it on
    let shown = clock.shown();
    writer.begin(CLOCK)?;
    for number in [shown.stamp.nanos(), shown.wall_nanos, shown.unix_nanos_at_zero] {
        writer.number(number)?;
    }
    writer.end()?;
    match hands_over {
        true => engine.hand_over(&mut writer, shown.stamp)?,
        false => engine.save(&mut writer, shown.stamp)?,
    }
    writer.finish()
}

/// Reads what [`save`] wrote, for a policy whose engine is made with this seed, and for the clock that goes on from there: `clock`, if there is
/// one that does.
///
/// # Errors
/// A damaged stream, or one of another secret or version: nothing of it is to be used.
pub fn restore(
    from: &mut dyn Read,
    policy: &Policy,
    seed: &Seed,
    clock: Option<Clock>,
) -> Result<(Restored, Clock), Fault> {
    let mut from = BufReader::with_capacity(BUFFER, from);
    let mut reader = Reader::new(&mut from, &seed.saved_key())?;
    if reader.begin()?.as_deref() != Some(CLOCK) {
        return Err(Fault::Unfit("the clock is missing"));
    }
    let shown = Shown {
        stamp: Timestamp::from_nanos(reader.number()?),
        wall_nanos: reader.number()?,
        unix_nanos_at_zero: reader.number()?,
    };
    reader.end()?;
    let clock = clock.unwrap_or_else(|| Clock::resumed(&shown));
    let policy = (policy, seed, clock.unix_nanos_at_zero());
    let restored = Restored::read(&mut reader, policy, clock.now().max(shown.stamp), &mut |_, _| Ok(false))?;
    Ok((restored, clock))
}

/// Writes the state into memory for the process that takes this one's place, with what requests hold, and begins to note what happens to it.
///
/// # Errors
/// The system has none.
pub fn in_memory(engine: &Engine, clock: Clock) -> io::Result<File> {
    memory("tidegate state", |to| write(to, engine, clock, true, &mut || ()).map(|_| ()))
}

/// A file that no path leads to, with what is written into it.
///
/// # Errors
/// The system has no memory, or what the writer meets.
pub fn memory(name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    let mut to = BufWriter::with_capacity(BUFFER, &file);
    write(&mut to)?;
    to.flush()?;
    drop(to);
    file.rewind()?;
    Ok(file)
}

/// Of what is read and written at once.
pub const BUFFER: usize = 128 << 10;
