//! What lies over the lists: the last line, help, questions, and what the process says.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, Widget};

use super::super::keys::{Overlay, State};
use super::look::Look;
use crate::human::width;

/// The keys, in one line of 80 columns.
const KEYS: &str = "b ban  p pardon  e explain  / find  w l r o lists  space freeze  ? keys  q quit";

/// The keys, each in its own.
const HELP: &str = "\
w l r o, tab   go to clients, limits, routes, origins
arrows         choose a row; also page up and down, home, end
e, enter       why was the chosen client refused? its latest decisions
p              pardon the chosen client: forget its debt now (asks first)
b              ban the chosen client or its network (asks first)
/              only rows with these words; enter keeps it, esc ends it
space          freeze and thaw the numbers
q, ctrl-c      quit

recently       refusals, halved every minute; a count is never too low
10 s           rates, shares and times of the last ten seconds
10 min         refusals, 30 s a column; the row's highest fills it
*              would be refused: shadow limits, and limits that only tag

Clients have the names of the access log. `client: address` in the policy
file shows their addresses here.";

/// No panel is narrower, if there is room.
const EDGE: usize = 30;

/// The last line.
pub fn foot(state: &State, look: &Look<'_>, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let (text, style) = match (&state.hint, state.typing) {
        (_, true) => (format!("/{}▏  enter keeps it, esc ends it", state.filter), Style::new()),
        (Some(hint), false) => (hint.clone(), look.color(Color::Yellow)),
        (None, false) => (KEYS.to_owned(), Style::new().add_modifier(Modifier::DIM)),
    };
    buffer.set_stringn(area.x, area.y, text, usize::from(area.width), style);
}

/// What is open, if anything is.
pub fn overlay(state: &State, area: Rect, buffer: &mut Buffer) {
    match &state.overlay {
        None => {}
        Some(Overlay::Help) => panel("Keys", HELP, 0, area, buffer),
        Some(Overlay::Dialog(dialog)) => panel(dialog.title(), &dialog.text(), 0, area, buffer),
        Some(Overlay::Told { title, text, above }) => panel(title, text, *above, area, buffer),
    }
}

/// A text in a border, in the middle of the area.
fn panel(title: &str, text: &str, above: usize, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width.saturating_sub(4)).max(1);
    let lines: Vec<String> = text.lines().flat_map(|line| pieces(line, room)).collect();
    // an edge has room for what it says
    let widest = lines.iter().map(|line| width(line)).max().unwrap_or(0).max(EDGE);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let outer = Rect { x, y, width, height };
    let inside = usize::from(height.saturating_sub(2));
    let last = lines.len().saturating_sub(inside);
    let mut block = Block::bordered().title(format!(" {title} "));
    if last > 0 {
        block = block.title_bottom(format!(
            " {}–{} of {}, arrows ",
            above.min(last) + 1,
            above.min(last) + inside,
            lines.len()
        ));
    }
    Clear.render(outer, buffer);
    let inner = block.inner(outer);
    block.render(outer, buffer);
    for (line, y) in lines.iter().skip(above.min(last)).zip(inner.top()..inner.bottom()) {
        buffer.set_stringn(inner.x + 1, y, line, usize::from(inner.width.saturating_sub(2)), Style::new());
    }
}

/// A line in pieces that fit, broken at words where it has some; an empty one is one.
fn pieces(line: &str, room: usize) -> Vec<String> {
    let mut letters: Vec<char> = line.chars().collect();
    let mut pieces = Vec::new();
    while letters.len() > room {
        let first = letters.iter().position(|letter| *letter != ' ').unwrap_or(0);
        let blank = letters.iter().take(room + 1).rposition(|letter| *letter == ' ').filter(|blank| *blank > first);
        let rest = letters.split_off(blank.unwrap_or(room));
        pieces.push(letters.iter().collect());
        // the blank is the end of the line
        letters = rest.into_iter().skip(usize::from(blank.is_some())).collect();
    }
    pieces.push(letters.iter().collect());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_terminal_of_80_columns_and_24_lines() {
        assert!(HELP.lines().all(|line| line.chars().count() <= 76), "{HELP}");
        assert!(HELP.lines().count() <= 22);
    }

    #[test]
    fn long_lines_break_at_words() {
        assert_eq!(pieces("one two three", 7), ["one two", "three"]);
        assert_eq!(pieces("one two three", 6), ["one", "two", "three"]);
        assert_eq!(pieces("  abcdefgh", 6), ["  abcd", "efgh"]);
        assert_eq!(pieces("", 6), [""]);
    }
}
