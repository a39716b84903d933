//! What the process has seen, for the one that takes its place: decisions, who was refused most, the history, and the list of pardons.
//!
//! It stays in memory, as it names clients. Nothing is decided by it: what cannot be read begins anew.
//!
//! Sections, each for itself: decisions by the policy in force, who was refused by the limits that there were, the history, pardons.

use std::fs::File;
use std::io::{self, BufReader};

use super::saved::{BUFFER, memory};
use crate::running::process::Process;
use crate::saved::{Fault, Reader, Writer};

/// Of this form.
const VERSION: u32 = 1;

const DECISIONS: &str = "decisions";
const REFUSED: &str = "refused";
const HISTORY: &str = "history";
const PARDONS: &str = "pardons";

/// The longest name of a limit, and the longest fingerprint.
const LONGEST: usize = 1_024;

/// Writes it into memory. Requests go on.
///
/// # Errors
/// The system has none.
pub fn in_memory(process: &Process) -> io::Result<File> {
    memory("tidegate seen", |to| save(process, to))
}

fn save(process: &Process, to: &mut dyn io::Write) -> io::Result<()> {
    let generation = process.generation();
    let (engine, now) = (generation.engine(), process.clock.now());
    let mut writer = Writer::of_version(to, &engine.seed().saved_key(), VERSION)?;
    writer.begin(DECISIONS)?;
    let fingerprint = &generation.source().fingerprint;
    writer.text(fingerprint)?;
    process.decisions.save(fingerprint, &mut writer)?;
    writer.end()?;
    writer.begin(REFUSED)?;
    writer.number(engine.policy().rules.len() as u64)?;
    engine.policy().rules.iter().try_for_each(|rule| writer.text(&rule.name))?;
    generation.refused().save(&mut writer, now)?;
    writer.end()?;
    writer.begin(HISTORY)?;
    process.history.save(&mut writer)?;
    writer.end()?;
    writer.begin(PARDONS)?;
    process.pardons.save(&mut writer, now)?;
    writer.end()?;
    writer.finish().map(|_| ())
}

/// Goes on from what [`in_memory`] wrote. For a process whose policy is in force and that has served nobody yet.
///
/// # Errors
/// A damaged stream, or one of another secret or version; what was read before stays.
pub fn restore(process: &Process, file: File) -> Result<(), Fault> {
    let generation = process.generation();
    let policy = generation.engine().policy();
    let mut from = BufReader::with_capacity(BUFFER, file);
    let mut reader = Reader::of_version(&mut from, &generation.engine().seed().saved_key(), VERSION)?;
    while let Some(name) = reader.begin()? {
        match name.as_str() {
            // it knows limits and routes by their positions
            DECISIONS if reader.text(LONGEST)? == generation.source().fingerprint => {
                let decisions = process.decisions.restore(&mut reader)?;
                tracing::info!(decisions, "decisions taken over");
            }
            REFUSED if same_limits(&mut reader, &mut policy.rules.iter().map(|rule| rule.name.as_str()))? => {
                generation.refused().restore(&mut reader, &policy.clients)?;
            }
            HISTORY => process.history.restore(&mut reader)?,
            PARDONS => process.pardons.restore(&mut reader, &policy.clients)?,
            _ => {
                reader.skip()?;
                continue;
            }
        }
        reader.end()?;
    }
    Ok(())
}

/// Whether the section's limits are these, in their order.
fn same_limits(reader: &mut Reader<'_>, names: &mut dyn Iterator<Item = &str>) -> Result<bool, Fault> {
    let mut same = true;
    for _ in 0..reader.number_up_to(u64::from(u16::MAX))? {
        let name = reader.text(LONGEST)?;
        same &= names.next() == Some(&name);
    }
    Ok(same && names.next().is_none())
}
