//! How a frame is drawn.

use ratatui::style::{Color, Style};

use super::super::keys::State;

/// How it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Whether colours may be used.
    pub colored: bool,
    /// What somebody at the keys sees and a text has not: the chosen row, the last line.
    pub live: Option<&'a State>,
    /// Why the numbers are old.
    pub trouble: Option<&'a str>,
}

impl Look<'_> {
    /// In this colour, where colours may be used.
    pub fn color(&self, color: Color) -> Style {
        if self.colored { Style::new().fg(color) } else { Style::new() }
    }
}
