//! `tidegate top`: the traffic of the running process and the clients it refuses, live in a terminal.
//!
//! [`data`] joins the process's answers, [`frame`] draws them, [`keys`] says what a key does, [`dialog`] how an order is written. None of them knows a terminal, a
//! socket or a clock. [`answers`] has the socket; [`live`] has all three.

mod answers;
mod data;
mod dialog;
mod frame;
mod keys;
mod live;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::data::Model;
use self::frame::Look;
use super::global::{Global, environment};
use super::output::{print, say};
use super::status::Format;
use super::{exit, running};
use crate::config::parse_duration;

/// How wide a text is if nobody says.
const WIDTH: u16 = 100;

/// Nothing is narrower.
const NARROWEST: u16 = 40;

/// The process is not asked more often.
const SHORTEST: Duration = Duration::from_millis(100);

/// Watch the running process live
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate top\n  tidegate top --once --format json\n\n\
    Keys: w l r o go to clients, limits, routes, origins; arrows choose; e explains the chosen client, p pardons it, b bans it or its\n\
    network (both ask first and show the command); / filters, space freezes, ? shows all keys, q quits.\n\n\
    Exit codes: 0 done, 2 there is no terminal, 69 no server answers.")]
pub struct Arguments {
    /// Print one frame and end; needs no terminal
    #[arg(long)]
    once: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "once")]
    format: Format,
    /// How wide the text is [default: $COLUMNS, or 100]
    #[arg(long, value_name = "COLUMNS", requires = "once", value_parser = clap::value_parser!(u16).range(NARROWEST as i64..=1_000))]
    width: Option<u16>,
    /// How often the process is asked, such as `2s`; at least 100 ms
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Show clients by their addresses, not as pseudonyms
    #[arg(long)]
    show_clients: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < SHORTEST { Err("must be at least 100ms".to_owned()) } else { Ok(interval) }
}

/// Shows it, once or until it is told to end.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !(arguments.once || is_terminal) {
        say("tidegate: `top` needs a terminal; `tidegate top --once` prints one frame anywhere\n");
        return ExitCode::from(exit::USAGE);
    }
    // also before the terminal is taken: whoever does not answer now is told of where talk belongs
    let model = match running::ask(global, |socket| answers::model(socket, arguments.show_clients)) {
        Ok(Ok(model)) => model,
        Ok(Err(refusal)) => {
            say(&format!("tidegate: {refusal}\n"));
            return ExitCode::from(exit::UNAVAILABLE);
        }
        Err(code) => return code,
    };
    if !arguments.once {
        return match live::run(model, (arguments.interval, arguments.show_clients), global) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("tidegate: the terminal: {error}\n"));
                ExitCode::from(exit::SYSTEM)
            }
        };
    }
    print(&match arguments.format {
        Format::Text => text(&model, width(arguments.width)),
        // texts and numbers only: nothing in it can fail
        Format::Json => serde_json::to_string_pretty(&model).unwrap_or_default() + "\n",
    });
    ExitCode::SUCCESS
}

fn width(asked: Option<u16>) -> u16 {
    let of_terminal = || environment("COLUMNS")?.parse().ok();
    asked.or_else(of_terminal).unwrap_or(WIDTH).max(NARROWEST)
}

/// One frame as text.
fn text(model: &Model, width: u16) -> String {
    let look = Look { colored: false, live: None, trouble: None };
    let area = Rect::new(0, 0, width, frame::height(model, width, &look));
    let mut buffer = Buffer::empty(area);
    frame::draw(model, &look, area, &mut buffer);
    let mut text = String::new();
    for y in area.top()..area.bottom() {
        let symbols = (area.left()..area.right()).filter_map(|x| buffer.cell((x, y)));
        let line: String = symbols.map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    // what is blank below a short frame
    text.truncate(text.trim_end().len());
    text + "\n"
}
