//! The decision table: which conditions hold by these numbers.

use crate::human::{percent, rate};
use crate::observe::notices::notice::{Kind as NoticeKind, Notice};
use crate::observe::state::{ConditionKind, FAILS, Overload};

/// From this pressure on the process is overloaded.
pub const OVERLOADED: f64 = 0.8;

/// From this share of refused requests on, much is refused. In the replayed days of real traffic under limits that fit it, the share
/// stays below 2 %.
pub const REFUSED: f64 = 0.05;

/// Fewer refusals a second are no matter of the whole: somebody who guesses one password is an offender, not a flood.
const REFUSALS_A_SECOND: f64 = 2.0;

/// From this share of the refusals on, one network makes a flood of a crowd.
const ONE_NETWORK: f64 = 0.30;

/// A network with this share of the refusals is counted among those that make the flood.
const HEAVY: f64 = 0.10;

/// Networks that the sentence counts at most.
const MOST_HEAVY: usize = 3;

/// An origin's share of errors is told from so many answers on, in the last ten seconds.
const ENOUGH_ANSWERS: f64 = 20.0;

/// The numbers that the table is about. Rates are means of the last ten seconds.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// Whether it takes no new connections.
    pub stopping: bool,
    /// How near it is to what it can serve, if it is watched.
    pub overload: Option<Overload>,
    /// The origins.
    pub origins: Vec<OriginSight>,
    /// Requests per second.
    pub requests: f64,
    /// Of these, the ones refused by limits or for lack of room.
    pub refused: f64,
    /// Who was refused; read only while much is.
    pub refusals: Option<Refusals>,
    /// Stores that do not answer.
    pub silent_stores: Vec<String>,
    /// What the process noticed.
    pub notices: Vec<Notice>,
    /// Whether there was a request since the start.
    pub any_request: bool,
}

/// An origin's addresses and what it answered in the last ten seconds.
#[derive(Debug, Clone, Default)]
pub struct OriginSight {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: usize,
    /// Of these, the ones in use.
    pub usable: usize,
    /// Requests that ended.
    pub ended: f64,
    /// Of these, the ones answered 5xx.
    pub server_errors: f64,
    /// Of these, the ones that got no whole answer.
    pub unanswered: f64,
}

/// Who was refused lately, by network: IPv4 /24, IPv6 /48.
#[derive(Debug, Clone, Default)]
pub struct Refusals {
    /// Shares of all refusals, 0 to 1, the greatest first; each is a lower bound.
    pub networks: Vec<f64>,
}

/// A condition that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub kind: ConditionKind,
    /// The origin, store or notice concerned.
    pub subject: String,
    /// One sentence without its full stop.
    pub head: String,
    /// What was measured.
    pub text: String,
}

impl Finding {
    fn of(kind: ConditionKind, head: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding { kind, subject: String::new(), head: head.into(), text: text.into() }
    }

    /// Returns whether both are about the same kind and subject.
    pub fn is_about(&self, other: &Finding) -> bool {
        self.kind == other.kind && self.subject == other.subject
    }
}

/// Returns whether so much is refused that it has to be known who causes it.
pub fn is_much_refused(requests: f64, refused: f64) -> bool {
    refused >= REFUSALS_A_SECOND && refused >= REFUSED * requests
}

/// Returns the conditions that hold, the most urgent first. `pressed`: the pressure has been high for long enough.
pub fn judge(sight: &Sight, pressed: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if sight.stopping {
        let text = "It takes no new connections and finishes the requests that are under way.";
        found.push(Finding::of(ConditionKind::Stopping, "The gate is stopping", text));
    }
    found.extend(sight.overload.as_ref().filter(|_| pressed).map(overloaded));
    found.extend(sight.origins.iter().filter_map(failing));
    found.extend(sight.refusals.as_ref().and_then(|refusals| refused(sight, refusals)));
    let silent = |store: &String| {
        let text = "Shared limits decide without it, each as its `on_store_error` says.";
        let head = format!("The store `{store}` does not answer");
        Finding { subject: store.clone(), ..Finding::of(ConditionKind::Trouble, head, text) }
    };
    found.extend(sight.silent_stores.iter().map(silent));
    // what origins fail is judged here by the same numbers
    let told =
        |notice: &&Notice| notice.urgent && !matches!(notice.kind, NoticeKind::OriginDown | NoticeKind::OriginFails);
    let trouble = |notice: &Notice| Finding {
        subject: format!("{} {}", notice.kind.word(), notice.subject),
        ..Finding::of(ConditionKind::Trouble, capital(&notice.text), sentence(&notice.hint))
    };
    found.extend(sight.notices.iter().filter(told).map(trouble));
    found
}

/// What is said when no condition holds.
pub(super) fn quiet(sight: &Sight) -> Finding {
    if !sight.any_request {
        return Finding::of(
            ConditionKind::NoRequest,
            "No request yet",
            "The gate is ready and waits for the first one.",
        );
    }
    let origins = if sight.origins.is_empty() { "" } else { "No origin fails. " };
    let text = match sight.requests {
        requests if requests > 0.0 => {
            format!("{origins}{} of the requests of the last 10 s were refused.", percent(sight.refused / requests))
        }
        _ => format!("{origins}There was no request in the last 10 s."),
    };
    Finding::of(ConditionKind::Well, "All is well", text)
}

fn overloaded(overload: &Overload) -> Finding {
    let Overload { pressure, resource, refusing, .. } = overload;
    let refusing = match refusing {
        true => " The heaviest and least important requests are refused first.",
        false => "",
    };
    let text = format!("The pressure is {pressure:.2}; the scarcest resource is {resource}.{refusing}");
    Finding::of(ConditionKind::Overloaded, "The gate itself is overloaded", text)
}

fn failing(origin: &OriginSight) -> Option<Finding> {
    let OriginSight { name, addresses, usable, ended, server_errors, unanswered } = origin;
    let out = match addresses.saturating_sub(*usable) {
        0 => String::new(),
        out => format!(" {out} of its {addresses} addresses {} out of use.", if out == 1 { "is" } else { "are" }),
    };
    let enough = *ended >= ENOUGH_ANSWERS;
    let (head, text) = if *addresses > 0 && *usable == 0 {
        let text = "Its requests are refused, or sent to an address that failed its checks.";
        (format!("Origin `{name}` is down: no address of it is in use"), text.to_owned())
    } else if enough && (server_errors + unanswered) / ended >= FAILS {
        let share = |part: f64| percent(part / ended);
        let cut =
            if *unanswered > 0.0 { format!(", {} got no whole answer", share(*unanswered)) } else { String::new() };
        let text = format!("In the last 10 s it answered 5xx to {} of its requests{cut}.{out}", share(*server_errors));
        (format!("Origin `{name}` fails: {} of its answers are errors", share(server_errors + unanswered)), text)
    } else {
        return None;
    };
    Some(Finding { subject: name.clone(), ..Finding::of(ConditionKind::OriginFails, head, text) })
}

fn refused(sight: &Sight, refusals: &Refusals) -> Option<Finding> {
    if !is_much_refused(sight.requests, sight.refused) {
        return None;
    }
    let (share, a_second) = (percent(sight.refused / sight.requests.max(1e-9)), rate(sight.refused));
    let worst = refusals.networks.first().copied().unwrap_or(0.0);
    if worst < ONE_NETWORK {
        let head = format!("A crowd: {share} of the requests are refused");
        let text = format!(
            "{a_second} requests a second are refused. No network stands out: the worst causes {} of the refusals.",
            percent(worst)
        );
        return Some(Finding::of(ConditionKind::Crowd, head, text));
    }
    let heavy: Vec<f64> = refusals.networks.iter().copied().filter(|share| *share >= HEAVY).take(MOST_HEAVY).collect();
    let theirs: f64 = heavy.iter().sum();
    let who = match heavy.len() {
        0 | 1 => "One network causes".to_owned(),
        more => format!("{more} networks cause"),
    };
    let text = format!(
        "{who} {} of the refusals; {} hit other clients. {share} of all requests are refused.",
        percent(theirs),
        percent((1.0 - theirs).max(0.0))
    );
    Some(Finding::of(ConditionKind::Flood, "A flood is being held off", text))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn sentence(text: &str) -> String {
    let text = capital(text);
    if text.ends_with(['.', '?', '!']) { text } else { format!("{text}.") }
}
