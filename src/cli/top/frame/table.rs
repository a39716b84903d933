//! A list with a heading: columns as wide as they need to be, rows that follow the chosen one.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::human::{shortened, width};

/// Between two columns.
const GAP: usize = 2;

/// The first column, which gives way when there is no room, keeps this width.
const LEAST: usize = 8;

/// A text in a row.
#[derive(Debug, Clone)]
pub struct Cell<'a> {
    text: Cow<'a, str>,
    style: Style,
}

impl<'a> From<Cow<'a, str>> for Cell<'a> {
    fn from(text: Cow<'a, str>) -> Cell<'a> {
        Cell { text, style: Style::new() }
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::from(Cow::from(text))
    }
}

impl Cell<'_> {
    /// In this style.
    pub fn styled(self, style: Style) -> Self {
        Cell { style, ..self }
    }
}

/// A list with a heading.
#[derive(Debug)]
pub struct Table<'a> {
    /// What the columns are; the first is what the list is.
    pub head: &'static [&'static str],
    /// The columns that stand to the left; all others stand to the right.
    pub left: &'static [usize],
    /// As many cells in each as the head has.
    pub rows: Vec<Vec<Cell<'a>>>,
    /// The row that keys are about, if the list has the focus.
    pub chosen: Option<usize>,
    /// What is said where there is no row.
    pub empty: &'static str,
}

impl Table<'_> {
    /// With its heading and all rows.
    pub fn height(&self) -> usize {
        1 + self.rows.len().max(1)
    }

    /// Draws what fits; the chosen row is among it.
    pub fn draw(&self, heading: Style, area: Rect, buffer: &mut Buffer) {
        let Some(room) = usize::from(area.height).checked_sub(1) else { return };
        let cut = self.rows.len() > room;
        let above = self.chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(room));
        let mut head: Vec<Cell<'_>> = self.head.iter().map(|head| Cell::from(Cow::from(*head))).collect();
        if let Some(title) = head.first_mut().filter(|_| cut) {
            // which of them are seen
            title.text = format!("{} {}–{}/{}", title.text, above + 1, above + room, self.rows.len()).into();
        }
        let widths = self.widths(&head, usize::from(area.width));
        let mut heading = heading.add_modifier(Modifier::BOLD);
        if self.chosen.is_some() {
            heading = heading.add_modifier(Modifier::UNDERLINED);
        }
        self.line(&head, &widths, heading, Rect { height: 1, ..area }, buffer);
        if self.rows.is_empty() && room > 0 {
            buffer.set_stringn(area.x, area.y + 1, self.empty, usize::from(area.width), Style::new());
        }
        for (number, row) in self.rows.iter().enumerate().skip(above).take(room) {
            let line = Rect { y: area.y + 1 + u16::try_from(number - above).unwrap_or(0), height: 1, ..area };
            self.line(row, &widths, Style::new(), line, buffer);
            if self.chosen == Some(number) {
                buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }

    fn widths(&self, head: &[Cell<'_>], room: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = head.iter().map(|cell| width(&cell.text)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(&cell.text));
            }
        }
        let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(room.saturating_sub(others)).max(LEAST);
        }
        widths
    }

    fn line(&self, cells: &[Cell<'_>], widths: &[usize], style: Style, area: Rect, buffer: &mut Buffer) {
        let mut x = 0;
        for (column, (cell, wide)) in cells.iter().zip(widths).enumerate() {
            let text = shortened(&cell.text, *wide);
            let spare = if self.left.contains(&column) { 0 } else { wide.saturating_sub(width(&text)) };
            let (from, room) = (x + spare, usize::from(area.width).saturating_sub(x + spare));
            if room > 0 {
                let at = area.x + u16::try_from(from).unwrap_or(u16::MAX);
                buffer.set_stringn(at, area.y, &text, room, style.patch(cell.style));
            }
            x += wide + GAP;
        }
    }
}

/// Who gets how many lines when not all get what they want: nobody more than wanted, and the small ones first.
pub fn shares(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut shares = vec![0; wanted.len()];
    let (mut left, mut open) = (room, wanted.iter().sum::<usize>());
    while left > 0 && open > 0 {
        for (share, _) in shares.iter_mut().zip(wanted).filter(|(share, wanted)| **share < **wanted) {
            if left == 0 {
                break;
            }
            *share += 1;
            left -= 1;
            open -= 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_get_all_and_long_ones_share_the_rest() {
        assert_eq!(shares(&[3, 100, 50], 203), [3, 100, 50]);
        assert_eq!(shares(&[3, 100, 50], 23), [3, 10, 10]);
        assert_eq!(shares(&[5, 5], 3), [2, 1]);
        assert_eq!(shares(&[5, 5], 0), [0, 0]);
        assert_eq!(shares(&[], 9), [0; 0]);
    }
}
