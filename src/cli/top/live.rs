//! The live view: a terminal, the process that is asked, and who tells it to end.
//!
//! Three threads wait: for keys, for the process's answers, for signals; all tell the first, which alone draws. So a process
//! that takes its time does not hold up a key. The terminal is put back when the view ends, by a signal or a panic too.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use serde::Deserialize;
use serde_json::json;

use super::answers;
use super::data::Model;
use super::dialog::Order;
use super::frame::{self, Look};
use super::keys::{Action, State, press};
use crate::admin::client;
use crate::cli::global::Global;
use crate::cli::{ban, explain, pardon, running};
use crate::explain::Explanation;
use crate::process::lifecycle::Signals;

/// How many of a client's latest decisions are shown.
const DECISIONS: &str = "5";

/// What the view is told.
enum Told {
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// New numbers, or why there are none.
    Numbers(Result<Box<Model>, String>),
    /// What the process said to a question.
    Said {
        title: &'static str,
        text: String,
    },
    /// End. An error is the terminal's.
    End(io::Result<()>),
}

/// What is asked of the process beside its numbers.
enum Question {
    Explain(String),
    Do(Order),
}

/// Shows numbers, from these on, until somebody ends it: anew at each interval, and with the addresses of clients if they are wanted.
///
/// # Errors
/// The terminal's.
pub fn run(model: Model, wanted: (Duration, bool), global: &Global) -> io::Result<()> {
    let (tell, told) = channel();
    let (ask, questions) = channel();
    let colored = global.colored(&io::stdout());
    on_signals(tell.clone())?;
    // half of it may have been done
    let mut terminal = ratatui::try_init().inspect_err(|_| drop(ratatui::try_restore()))?;
    // nobody waits for these at the end, which is the process's: a read from a terminal cannot be called off, and a process
    // that hangs must not hold up whoever quits
    let (keys, global) = (tell.clone(), global.clone());
    thread::spawn(move || read_keys(&keys));
    thread::spawn(move || ask_for_numbers(wanted, &global, &tell, &questions));
    let ended = show(&mut terminal, model, colored, &told, &ask);
    let restored = ratatui::try_restore();
    ended.and(restored)
}

/// Draws, and does what it is told, until the end.
fn show(
    terminal: &mut DefaultTerminal,
    mut model: Model,
    colored: bool,
    told: &Receiver<Told>,
    ask: &Sender<Question>,
) -> io::Result<()> {
    let (mut state, mut trouble) = (State::default(), None);
    loop {
        let look = Look { colored, live: Some(&state), trouble: trouble.as_deref() };
        terminal.draw(|frame| frame::draw(&model, &look, frame.area(), frame.buffer_mut()))?;
        // all who tell are gone: nothing will come
        let Ok(what) = told.recv() else { return Ok(()) };
        let question = match what {
            Told::Key(key) => match press(&mut state, &model, key) {
                Action::Draw => continue,
                Action::Quit => return Ok(()),
                Action::Explain(client) => Question::Explain(client),
                Action::Do(order) => Question::Do(order),
            },
            Told::Resized => continue,
            Told::Numbers(numbers) => {
                match numbers {
                    Ok(numbers) if !state.frozen => (model, trouble) = (*numbers, None),
                    Ok(_) => trouble = None,
                    Err(why) => trouble = Some(why),
                }
                continue;
            }
            Told::Said { title, text } => {
                state.hint = None;
                state.tell(title, text);
                continue;
            }
            Told::End(ended) => return ended,
        };
        state.hint = Some("asking the process".to_owned());
        // if nobody asks any more, nobody will say anything either
        let _ = ask.send(question);
    }
}

fn read_keys(tell: &Sender<Told>) {
    loop {
        let what = match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Told::Key(key),
            Ok(Event::Resize(..)) => Told::Resized,
            Ok(_) => continue,
            Err(error) => Told::End(Err(error)),
        };
        let last = matches!(what, Told::End(_));
        if tell.send(what).is_err() || last {
            return;
        }
    }
}

/// Ends the view when the process is told to end, or its terminal is gone.
fn on_signals(tell: Sender<Told>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // caught from here on, not only when the thread gets to it
    let mut signals = {
        let _inside = runtime.enter();
        Signals::catch()?
    };
    thread::spawn(move || {
        runtime.block_on(signals.any());
        // the view has ended by itself if nobody listens
        let _ = tell.send(Told::End(Ok(())));
    });
    Ok(())
}

/// Asks for numbers at every interval, and for what else is wanted in between, until nobody wants anything.
fn ask_for_numbers(
    (interval, show_clients): (Duration, bool),
    global: &Global,
    tell: &Sender<Told>,
    questions: &Receiver<Question>,
) {
    let mut next = Instant::now() + interval;
    loop {
        let what = match questions.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Question::Explain(client)) => {
                let text = running::reach(global, |socket| explained(socket, &client)).unwrap_or_else(|why| why);
                Told::Said { title: "Why", text }
            }
            Ok(Question::Do(Order::Pardon { client })) => {
                let text = running::reach(global, |socket| pardoned(socket, &client)).unwrap_or_else(|why| why);
                Told::Said { title: "Pardon", text }
            }
            Ok(Question::Do(Order::Ban { target, length, why })) => {
                let ask = |socket: &Path| banned(socket, &ban::wanted(&target, length, &why, false));
                let text = running::reach(global, ask).unwrap_or_else(|why| why);
                Told::Said { title: "Ban", text }
            }
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + interval;
                let numbers = running::reach(global, |socket| answers::model(socket, show_clients))
                    .unwrap_or_else(|_| Err("no server answers; these numbers are old".to_owned()));
                Told::Numbers(numbers.map(Box::new))
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if tell.send(what).is_err() {
            return;
        }
    }
}

/// `GET /api/v1/decisions`.
#[derive(Deserialize)]
struct Decisions {
    decisions: Vec<Explanation>,
}

/// Why a client was limited lately, as `tidegate explain` says it.
fn explained(socket: &Path, client: &str) -> io::Result<String> {
    // a network as the log names it stands for all of its addresses, any of which is asked for
    let one = client.split('/').next().unwrap_or(client);
    let target = client::target("/api/v1/decisions", &[("client", one), ("latest", DECISIONS)]);
    let reply = client::get(socket, &target)?;
    Ok(match running::read::<Decisions>(&reply) {
        Err(why) => why,
        Ok(Decisions { decisions }) if decisions.is_empty() => {
            format!("no refusal of {client} in memory: {}", explain::FORGOTTEN)
        }
        Ok(Decisions { decisions }) => explain::pages(&decisions),
    })
}

/// Pardons a client; says what came of it, as `tidegate pardon` does.
fn pardoned(socket: &Path, client: &str) -> io::Result<String> {
    let wanted = json!({ "client": client, "limit": null, "exempt_seconds": 0 });
    let reply = client::post(socket, "/api/v1/pardon", &wanted)?;
    Ok(running::read(&reply).map_or_else(|why| why, |told| pardon::text(client, &told)))
}

/// Gives a ban; says what came of it, as `tidegate ban` does.
fn banned(socket: &Path, wanted: &serde_json::Value) -> io::Result<String> {
    let reply = client::post(socket, "/api/v1/ban", wanted)?;
    let typed = wanted["target"].as_str().unwrap_or_default();
    Ok(running::read(&reply).map_or_else(|why| why, |told| ban::text(typed, &told)))
}
