//! The dialog in which an order is written: to whom, for how long, why. It shows the same as a command.

use std::time::Duration;

use ratatui::crossterm::event::KeyCode;

use super::data::Model;
use crate::config::parse_duration;
use crate::human::estimated;
use crate::observe::state::{Network, Offender};

/// An order to the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Forget the debt of a client.
    Pardon {
        /// As lists name it.
        client: String,
    },
    /// Refuse a client or a network for a while.
    Ban {
        /// As lists name it.
        target: String,
        /// For how long.
        length: Duration,
        /// The reason.
        why: String,
    },
}

/// What a key did to the dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pressed {
    /// It stays open.
    Stays,
    /// It is left without an order.
    Leaves,
    /// The order is given.
    Gives(Order),
}

/// What is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Who,
    Length,
    Why,
}

/// An order in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// Whether it pardons; else it bans.
    pardons: bool,
    client: String,
    /// The network and how many of its clients are listed, where there are several.
    network: Option<(String, u64)>,
    /// Whether it is about the network.
    whole: bool,
    /// Which share of their requests passed lately: the client's, the network's.
    passed: [Option<String>; 2],
    length: String,
    why: String,
    field: Field,
    fault: Option<String>,
}

/// A word is no longer than this.
const LONGEST: usize = 60;

impl Dialog {
    /// To pardon a client.
    pub fn pardon(one: &Offender) -> Dialog {
        Dialog { pardons: true, ..Dialog::about(one) }
    }

    /// To ban a client or its network: the network, if its clients together are refused much more often.
    pub fn ban(one: &Offender, model: &Model) -> Dialog {
        let network = model.offenders.networks.iter().find(|network| network.network == one.network);
        let told = |share: Option<f64>| share.map(estimated);
        let passed = [told(one.passed_share), network.and_then(|network| told(network.passed_share))];
        let of = |Network { network, clients, .. }: &Network| (network.clone(), *clients);
        let whole = network.is_some_and(|network| network.count > one.count + one.count / 2);
        Dialog { network: network.map(of), whole, passed, ..Dialog::about(one) }
    }

    fn about(one: &Offender) -> Dialog {
        Dialog {
            pardons: false,
            client: one.client.clone(),
            network: None,
            whole: false,
            passed: [None, None],
            length: "1h".to_owned(),
            why: "flood".to_owned(),
            field: Field::Who,
            fault: None,
        }
    }

    /// The heading.
    pub fn title(&self) -> &'static str {
        if self.pardons { "Pardon" } else { "Ban" }
    }

    fn target(&self) -> &str {
        match &self.network {
            Some((network, _)) if self.whole => network,
            _ => &self.client,
        }
    }

    /// The same as a command.
    fn command(&self) -> String {
        let target = self.target();
        if self.pardons {
            return format!("sudo tidegate pardon {target}");
        }
        let why = match &self.why {
            why if why.is_empty() => String::new(),
            why if why.chars().all(|letter| letter.is_ascii_alphanumeric()) => format!(" --why {why}"),
            why => format!(" --why '{}'", why.replace('\'', "'\\''")),
        };
        format!("sudo tidegate ban {target} --for {}{why}", self.length)
    }

    /// What it says, line by line.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let at = |field: Field| if self.field == field && !self.pardons { '>' } else { ' ' };
        let (who, length, why) = (at(Field::Who), at(Field::Length), at(Field::Why));
        match &self.network {
            Some((network, clients)) => {
                let [one, all] = if self.whole { ["( )", "(•)"] } else { ["(•)", "( )"] };
                lines.push(format!("{who} who  {one} client   {}", self.client));
                lines.push(format!("       {all} network  {network}   {clients} clients refused"));
            }
            None => lines.push(format!("{who} who  client   {}", self.client)),
        }
        if self.pardons {
            lines.push(String::new());
            lines.push("Its debt is forgotten now, in every limit that counts it.".to_owned());
        } else {
            lines.push(format!("{length} for  {}", self.length));
            lines.push(format!("{why} why  {}", self.why));
            lines.push(String::new());
            if let Some(share) = self.passed.get(usize::from(self.whole)).and_then(Option::as_ref) {
                lines.push(format!("Of its requests {share} passed in the last minutes."));
            }
        }
        lines.push("The same as a command:".to_owned());
        lines.push(format!("  {}", self.command()));
        lines.push(String::new());
        lines.extend(self.fault.as_ref().map(|fault| format!("! {fault}")));
        lines.push(self.foot());
        lines.join("\n")
    }

    /// The keys.
    fn foot(&self) -> String {
        match (self.pardons, &self.network) {
            (true, _) => "enter pardon    esc leave".to_owned(),
            (false, None) => "enter ban    tab next field    esc leave".to_owned(),
            (false, Some(_)) => "enter ban    tab next field    space client or network    esc leave".to_owned(),
        }
    }

    /// Does what a key means.
    pub fn press(&mut self, key: KeyCode) -> Pressed {
        self.fault = None;
        let text = match self.field {
            _ if self.pardons => None,
            Field::Who => None,
            Field::Length => Some(&mut self.length),
            Field::Why => Some(&mut self.why),
        };
        match (key, text) {
            (KeyCode::Esc, _) => return Pressed::Leaves,
            (KeyCode::Enter, _) => return self.give(),
            (KeyCode::Tab | KeyCode::Down, _) => {
                self.field = match self.field {
                    Field::Who => Field::Length,
                    Field::Length => Field::Why,
                    Field::Why => Field::Who,
                }
            }
            (KeyCode::Char(letter), Some(text)) if text.chars().count() < LONGEST => text.push(letter),
            (KeyCode::Backspace, Some(text)) => drop(text.pop()),
            (KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right, None) => {
                self.whole = self.network.is_some() && !self.whole;
            }
            _ => {}
        }
        Pressed::Stays
    }

    fn give(&mut self) -> Pressed {
        if self.pardons {
            return Pressed::Gives(Order::Pardon { client: self.client.clone() });
        }
        match parse_duration(&self.length) {
            Ok(length) => {
                Pressed::Gives(Order::Ban { target: self.target().to_owned(), length, why: self.why.clone() })
            }
            Err(fault) => {
                self.field = Field::Length;
                self.fault = Some(fault);
                Pressed::Stays
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::model;
    use super::*;

    fn typed(dialog: &mut Dialog, text: &str) {
        text.chars().for_each(|letter| assert_eq!(dialog.press(KeyCode::Char(letter)), Pressed::Stays));
    }

    #[test]
    fn it_names_client_network_time_and_reason_and_shows_the_command() {
        let model = model();
        let mut dialog = Dialog::ban(&model.offenders.clients[0], &model);
        assert!(dialog.text().contains("(•) client   c7f1Kc1mZt0wJ2T9uXvHq3"), "{}", dialog.text());
        dialog.press(KeyCode::Char(' '));
        dialog.press(KeyCode::Tab);
        (0..2).for_each(|_| drop(dialog.press(KeyCode::Backspace)));
        typed(&mut dialog, "2x");
        assert_eq!(dialog.press(KeyCode::Enter), Pressed::Stays);
        assert!(dialog.text().contains("\n! "), "{}", dialog.text());
        dialog.press(KeyCode::Backspace);
        typed(&mut dialog, "h");
        dialog.press(KeyCode::Tab);
        typed(&mut dialog, " of 9'");
        let text = dialog.text();
        assert!(text.contains("(•) network  Q2abWc1mZt0wJ2T9uXvHq3   2 clients refused"), "{text}");
        assert!(text.contains("Of its requests less than 5 % passed"), "{text}");
        let command = r"sudo tidegate ban Q2abWc1mZt0wJ2T9uXvHq3 --for 2h --why 'flood of 9'\'''";
        assert!(text.contains(command), "{text}");
        let order = Order::Ban {
            target: "Q2abWc1mZt0wJ2T9uXvHq3".to_owned(),
            length: Duration::from_secs(7_200),
            why: "flood of 9'".to_owned(),
        };
        assert_eq!(dialog.press(KeyCode::Enter), Pressed::Gives(order));
    }

    #[test]
    fn a_pardon_is_of_the_client() {
        let model = model();
        let mut dialog = Dialog::pardon(&model.offenders.clients[1]);
        typed(&mut dialog, "x ");
        assert!(dialog.text().contains("  sudo tidegate pardon 09abWc1mZt0wJ2T9uXvHq3\n"), "{}", dialog.text());
        assert_eq!(dialog.press(KeyCode::Esc), Pressed::Leaves);
    }
}
