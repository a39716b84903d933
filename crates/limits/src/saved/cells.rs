//! Tables of cells, most of which are zero.

use super::{Fault, Reader, Writer};

/// The most cells in one run of those that are not zero.
const RUN: usize = 1_024;

/// Writes cells, in runs: how many are zero, how many follow that are not, and those.
///
/// # Errors
/// What the target refuses.
pub fn save_cells(to: &mut Writer<'_>, cells: impl Iterator<Item = u64>) -> std::io::Result<()> {
    let (mut zeros, mut run, mut seen) = (0_u64, Vec::with_capacity(RUN), 0_usize);
    for cell in cells {
        seen += 1;
        if seen.is_multiple_of(RUN) {
            to.looked_at(RUN * size_of::<u64>());
        }
        if cell == 0 || run.len() == RUN {
            if !run.is_empty() {
                save_run(to, zeros, &run)?;
                zeros = 0;
                run.clear();
            }
            zeros += u64::from(cell == 0);
        }
        if cell != 0 {
            run.push(cell);
        }
    }
    // the last has the zeros at the end, and says that it is the last by having no other cells
    if !run.is_empty() {
        save_run(to, zeros, &run)?;
        zeros = 0;
    }
    save_run(to, zeros, &[])
}

fn save_run(to: &mut Writer<'_>, zeros: u64, run: &[u64]) -> std::io::Result<()> {
    to.number(zeros)?;
    to.number(run.len() as u64)?;
    run.iter().try_for_each(|cell| to.number(*cell))
}

/// Reads as many cells as were written, which must be `count`; `put` gets the position of each that is not zero, and the cell.
///
/// # Errors
/// A damaged stream, and another number of cells.
pub fn restore_cells(from: &mut Reader<'_>, count: usize, mut put: impl FnMut(usize, u64)) -> Result<(), Fault> {
    const OTHER: Fault = Fault::Unfit("a table has another size");
    let mut at = 0_usize;
    loop {
        let (zeros, run) = (from.number()?, from.number_up_to(RUN as u64)?);
        let begin = usize::try_from(zeros).ok().and_then(|zeros| at.checked_add(zeros)).filter(|at| *at <= count);
        at = begin.ok_or(OTHER)?;
        if run == 0 {
            return if at == count { Ok(()) } else { Err(OTHER) };
        }
        for _ in 0..run {
            if at == count {
                return Err(OTHER);
            }
            put(at, from.number()?);
            at += 1;
        }
    }
}
