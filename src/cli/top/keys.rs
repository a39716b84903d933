//! What a key does: from the state of the view and a key to the next state, and what is to be asked of the process.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::data::{Limit, Model, Origin, Route};
use super::dialog::{Dialog, Order, Pressed};
use crate::observe::state::Offender;

/// How many rows a page key goes.
const PAGE: usize = 10;

/// A list that can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// `w`: whom the limits refused most.
    Clients,
    /// `l`
    Limits,
    /// `r`
    Routes,
    /// `o`
    Origins,
}

impl Pane {
    fn next(self) -> Pane {
        match self {
            Pane::Clients => Pane::Limits,
            Pane::Limits => Pane::Routes,
            Pane::Routes => Pane::Origins,
            Pane::Origins => Pane::Clients,
        }
    }
}

/// What lies over the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overlay {
    /// The keys.
    Help,
    /// An order that is being written.
    Dialog(Dialog),
    /// What the process says.
    Told {
        /// About what.
        title: String,
        /// Any number of lines.
        text: String,
        /// Lines above the first that is seen.
        above: usize,
    },
}

/// What the view is like, apart from the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Where arrows go.
    pub focus: Pane,
    /// The chosen row of each pane by its [name](rows), so that it stays chosen when rows move.
    chosen: [Option<String>; 4],
    /// Only rows with this in them.
    pub filter: String,
    /// The filter is being written.
    pub typing: bool,
    /// The numbers stand still.
    pub frozen: bool,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// What the last line says instead of the keys.
    pub hint: Option<String>,
}

impl Default for State {
    fn default() -> State {
        State {
            focus: Pane::Clients,
            chosen: [None, None, None, None],
            filter: String::new(),
            typing: false,
            frozen: false,
            overlay: None,
            hint: None,
        }
    }
}

/// What is to be done by whoever has the terminal and the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Only draw again.
    Draw,
    /// End.
    Quit,
    /// Ask why this client was limited.
    Explain(String),
    /// Give this order; its operator has pressed enter.
    Do(Order),
}

impl State {
    /// The limits that the filter leaves.
    pub fn limits<'a>(&self, model: &'a Model) -> Vec<&'a Limit> {
        model.limits.iter().filter(|limit| self.shows(&[&limit.name, &limit.kind, &limit.mode])).collect()
    }

    /// The origins that the filter leaves.
    pub fn origins<'a>(&self, model: &'a Model) -> Vec<&'a Origin> {
        model.origins.iter().filter(|origin| self.shows(&[&origin.name])).collect()
    }

    /// The routes that the filter leaves.
    pub fn routes<'a>(&self, model: &'a Model) -> Vec<&'a Route> {
        model.routes.iter().filter(|route| self.shows(&[&route.name])).collect()
    }

    /// The offenders that the filter leaves.
    pub fn clients<'a>(&self, model: &'a Model) -> Vec<&'a Offender> {
        model.offenders.clients.iter().filter(|one| self.shows(&[&one.client, &one.network, &one.limit])).collect()
    }

    /// Whether the filter leaves a row with these words.
    pub fn shows(&self, words: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        words.iter().any(|word| word.to_lowercase().contains(&wanted))
    }

    /// Which of a pane's rows is chosen: the first, if the chosen one is gone.
    pub fn chosen(&self, pane: Pane, model: &Model) -> Option<usize> {
        let rows = rows(self, pane, model);
        let chosen = self.chosen.get(pane as usize).and_then(Option::as_ref);
        let found = chosen.and_then(|chosen| rows.iter().position(|row| row == chosen));
        found.or((!rows.is_empty()).then_some(0))
    }

    /// Puts a text over the lists.
    pub fn tell(&mut self, title: &str, text: String) {
        self.overlay = Some(Overlay::Told { title: title.to_owned(), text, above: 0 });
    }

    fn go(&mut self, model: &Model, to: impl Fn(usize, usize) -> usize) {
        let rows = rows(self, self.focus, model);
        let Some(from) = self.chosen(self.focus, model) else { return };
        let last = rows.len().saturating_sub(1);
        if let (Some(place), Some(row)) =
            (self.chosen.get_mut(self.focus as usize), rows.into_iter().nth(to(from, last).min(last)))
        {
            *place = Some(row);
        }
    }

    /// The client that keys are about.
    fn client<'a>(&self, model: &'a Model) -> Option<&'a Offender> {
        let chosen = self.chosen(Pane::Clients, model)?;
        (self.focus == Pane::Clients).then(|| self.clients(model).get(chosen).copied())?
    }
}

/// The rows of a pane by names that tell each from the others.
fn rows(state: &State, pane: Pane, model: &Model) -> Vec<String> {
    match pane {
        Pane::Limits => state.limits(model).into_iter().map(|limit| limit.name.clone()).collect(),
        Pane::Routes => state.routes(model).into_iter().map(|route| route.name.clone()).collect(),
        Pane::Origins => state.origins(model).into_iter().map(|origin| origin.name.clone()).collect(),
        Pane::Clients => state.clients(model).into_iter().map(|one| format!("{} {}", one.client, one.limit)).collect(),
    }
}

/// Does what a key means.
pub fn press(state: &mut State, model: &Model, key: KeyEvent) -> Action {
    state.hint = None;
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        // the terminal is raw: what else were a signal is a key
        return if matches!(key.code, KeyCode::Char('c' | 'd')) { Action::Quit } else { Action::Draw };
    }
    if state.overlay.is_some() {
        return over(state, key.code);
    }
    if state.typing {
        typed(state, key.code);
        return Action::Draw;
    }
    match key.code {
        KeyCode::Char('q') => return Action::Quit,
        KeyCode::Char('w') => state.focus = Pane::Clients,
        KeyCode::Char('l') => state.focus = Pane::Limits,
        KeyCode::Char('r') => state.focus = Pane::Routes,
        KeyCode::Char('o') => state.focus = Pane::Origins,
        KeyCode::Tab => state.focus = state.focus.next(),
        KeyCode::Char(' ') => state.frozen = !state.frozen,
        KeyCode::Char('?') => state.overlay = Some(Overlay::Help),
        KeyCode::Char('/') => state.typing = true,
        KeyCode::Esc => state.filter.clear(),
        KeyCode::Enter | KeyCode::Char('e' | 'p' | 'b') => match (state.client(model), key.code) {
            (Some(one), KeyCode::Char('p')) => state.overlay = Some(Overlay::Dialog(Dialog::pardon(one))),
            (Some(one), KeyCode::Char('b')) => state.overlay = Some(Overlay::Dialog(Dialog::ban(one, model))),
            (Some(one), _) => return Action::Explain(one.client.clone()),
            (None, _) if state.focus == Pane::Clients => state.hint = Some("no client is chosen".to_owned()),
            (None, _) => state.hint = Some("w goes to the clients; then choose one with the arrows".to_owned()),
        },
        KeyCode::Down => state.go(model, |row, _| row + 1),
        KeyCode::Up => state.go(model, |row, _| row.saturating_sub(1)),
        KeyCode::PageDown => state.go(model, |row, _| row + PAGE),
        KeyCode::PageUp => state.go(model, |row, _| row.saturating_sub(PAGE)),
        KeyCode::Home => state.go(model, |_, _| 0),
        KeyCode::End => state.go(model, |_, last| last),
        _ => {}
    }
    Action::Draw
}

/// With something over the lists.
fn over(state: &mut State, key: KeyCode) -> Action {
    match (&mut state.overlay, key) {
        (Some(Overlay::Dialog(dialog)), key) => match dialog.press(key) {
            Pressed::Stays => {}
            Pressed::Leaves => state.overlay = None,
            Pressed::Gives(order) => {
                state.overlay = None;
                return Action::Do(order);
            }
        },
        (Some(Overlay::Told { text, above, .. }), KeyCode::Down | KeyCode::PageDown) => {
            let step = if key == KeyCode::Down { 1 } else { PAGE };
            *above = (*above + step).min(text.lines().count().saturating_sub(1));
        }
        (Some(Overlay::Told { above, .. }), KeyCode::Up) => *above = above.saturating_sub(1),
        (Some(Overlay::Told { above, .. }), KeyCode::PageUp) => *above = above.saturating_sub(PAGE),
        // any other key closes it
        _ => state.overlay = None,
    }
    Action::Draw
}

/// With the filter being written.
fn typed(state: &mut State, key: KeyCode) {
    match key {
        KeyCode::Enter => state.typing = false,
        KeyCode::Esc => {
            state.typing = false;
            state.filter.clear();
        }
        KeyCode::Backspace => drop(state.filter.pop()),
        KeyCode::Char(letter) => state.filter.push(letter),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::model;
    use super::*;

    fn pressed(state: &mut State, keys: &[KeyCode]) -> Action {
        let model = model();
        let mut last = Action::Draw;
        for key in keys {
            last = press(state, &model, KeyEvent::from(*key));
        }
        last
    }

    fn letters(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    const SECOND: &str = "09abWc1mZt0wJ2T9uXvHq3";

    #[test]
    fn q_and_control_c_quit_even_while_something_is_open() {
        let mut state = State::default();
        assert_eq!(pressed(&mut state, &letters("q")), Action::Quit);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for keys in ["", "?", "/a", "p"] {
            let mut state = State::default();
            pressed(&mut state, &letters(keys));
            assert_eq!(press(&mut state, &model(), control_c), Action::Quit, "{keys}");
        }
    }

    #[test]
    fn letters_and_tab_move_the_focus() {
        for (key, pane) in [('l', Pane::Limits), ('o', Pane::Origins), ('r', Pane::Routes), ('w', Pane::Clients)] {
            let mut state = State::default();
            pressed(&mut state, &letters(&key.to_string()));
            assert_eq!(state.focus, pane);
        }
        let mut state = State::default();
        for pane in [Pane::Limits, Pane::Routes, Pane::Origins, Pane::Clients] {
            pressed(&mut state, &[KeyCode::Tab]);
            assert_eq!(state.focus, pane);
        }
    }

    #[test]
    fn arrows_stay_within_the_rows_and_enter_explains_the_chosen_client() {
        let mut state = State::default();
        assert_eq!(pressed(&mut state, &[KeyCode::Enter]), Action::Explain("c7f1Kc1mZt0wJ2T9uXvHq3".to_owned()));
        let down = [KeyCode::Down, KeyCode::Down, KeyCode::PageDown, KeyCode::Enter];
        assert_eq!(pressed(&mut state, &down), Action::Explain(SECOND.to_owned()));
        pressed(&mut state, &[KeyCode::Up, KeyCode::Up]);
        assert_eq!(state.chosen(Pane::Clients, &model()), Some(0));
        pressed(&mut state, &[KeyCode::End]);
        assert_eq!(state.chosen(Pane::Clients, &model()), Some(1));
    }

    #[test]
    fn a_client_stays_chosen_when_the_list_is_in_another_order() {
        let mut state = State::default();
        pressed(&mut state, &[KeyCode::Down]);
        let mut later = model();
        later.offenders.clients.swap(0, 1);
        assert_eq!(state.chosen(Pane::Clients, &later), Some(0));
        assert_eq!(press(&mut state, &later, KeyCode::Enter.into()), Action::Explain(SECOND.to_owned()));
        later.offenders.clients.clear();
        assert_eq!(press(&mut state, &later, KeyCode::Enter.into()), Action::Draw);
        assert!(state.hint.is_some());
    }

    #[test]
    fn nobody_is_pardoned_or_banned_without_enter_in_the_dialog() {
        for key in ['p', 'b'] {
            let mut state = State::default();
            assert_eq!(pressed(&mut state, &[KeyCode::Char(key), KeyCode::Esc]), Action::Draw);
            assert_eq!(state.overlay, None);
            assert_eq!(pressed(&mut state, &[KeyCode::Enter]), Action::Explain("c7f1Kc1mZt0wJ2T9uXvHq3".to_owned()));
        }
        let mut state = State::default();
        let given = pressed(&mut state, &[KeyCode::Down, KeyCode::Char('p'), KeyCode::Enter]);
        assert_eq!(given, Action::Do(Order::Pardon { client: SECOND.to_owned() }));
        let given = pressed(&mut state, &[KeyCode::Char('b'), KeyCode::Enter]);
        let hour = std::time::Duration::from_secs(3_600);
        let order = Order::Ban { target: SECOND.to_owned(), length: hour, why: "flood".to_owned() };
        assert_eq!((given, state.overlay), (Action::Do(order), None));
    }

    #[test]
    fn keys_for_clients_do_nothing_elsewhere() {
        let mut state = State::default();
        assert_eq!(pressed(&mut state, &[KeyCode::Char('l'), KeyCode::Enter]), Action::Draw);
        pressed(&mut state, &letters("p"));
        assert_eq!(state.overlay, None);
        assert!(state.hint.as_ref().is_some_and(|hint| hint.starts_with("w goes")));
    }

    #[test]
    fn a_filter_is_written_kept_and_cleared() {
        let mut state = State::default();
        pressed(&mut state, &letters("/LOGINq"));
        assert_eq!((state.filter.as_str(), state.typing), ("LOGINq", true));
        pressed(&mut state, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((state.limits(&model()).len(), state.clients(&model()).len(), state.typing), (1, 1, false));
        assert_eq!(
            pressed(&mut state, &[KeyCode::Enter]),
            Action::Explain(SECOND.to_owned()),
            "what is seen is chosen"
        );
        pressed(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.limits(&model()).len(), 3);
    }

    #[test]
    fn a_text_is_scrolled_and_closed() {
        let mut state = State::default();
        state.tell("why", "a\nb\nc".to_owned());
        pressed(&mut state, &[KeyCode::Up, KeyCode::Down, KeyCode::PageDown]);
        assert!(matches!(state.overlay, Some(Overlay::Told { above: 2, .. })), "{:?}", state.overlay);
        pressed(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.overlay, None);
    }

    #[test]
    fn space_freezes_and_thaws() {
        let mut state = State::default();
        pressed(&mut state, &letters(" "));
        assert!(state.frozen);
        pressed(&mut state, &letters(" "));
        assert!(!state.frozen);
    }
}
