//! What now? At most three commands to copy, each with its reason, and what happens without any.

use super::super::state::{ConditionKind, Network, Offender, Offenders, State};
use crate::human::estimated;

/// What an operator can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Next {
    /// At most three, the most useful first.
    pub steps: Vec<Step>,
    /// What happens if nothing is done.
    pub otherwise: String,
}

/// A command and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Why, in a sentence.
    pub why: String,
    /// As it is typed.
    pub command: String,
}

impl Step {
    fn new(why: impl Into<String>, command: impl Into<String>) -> Step {
        Step { why: why.into(), command: command.into() }
    }
}

/// From this share of passed requests on, a ban of a network hits others than the flood.
const MUCH_PASSES: f64 = 0.2;

/// A network is named instead of its worst client if its clients together are refused this many times as often.
const TOGETHER: f64 = 1.5;

/// Returns what an operator can do in this state. Clients are named as in `offenders`; without any the commands name none.
pub fn next(state: &State, offenders: &Offenders) -> Next {
    let file = state.config.file.as_ref().map_or("tidegate.yaml".into(), |file| file.to_string_lossy());
    let log = state.access_log.as_deref();
    let suggest = |why: &str| log.map(|log| Step::new(why, format!("tidegate suggest {log}")));
    let status = |why: &str| Step::new(why, "sudo tidegate status");
    let top = |why: &str| Step::new(why, "sudo tidegate top");
    let (steps, otherwise): (Vec<Option<Step>>, String) = match state.condition.kind {
        ConditionKind::Stopping => (vec![], "the requests under way are finished, then the process ends".to_owned()),
        ConditionKind::Overloaded => (
            vec![
                Some(top("See who sends most and what is refused, live.")),
                Some(Step::new(
                    "Let what can wait go first: write `criticality: background` on its routes, then reload.",
                    "sudo tidegate reload",
                )),
                Some(Step::new(
                    "Raise what is scarce, such as `server.threads`, then replace the process without a gap.",
                    "sudo tidegate upgrade",
                )),
            ],
            "the gate goes on refusing the heaviest and least important requests first".to_owned(),
        ),
        ConditionKind::OriginFails => (
            vec![
                Some(Step::new("Does each address answer from here?", format!("tidegate doctor -c {file}"))),
                Some(status("See what each address and each route answered.")),
                Some(Step::new("What did the gate log about it?", "sudo journalctl -u tidegate -n 20")),
            ],
            "clients get these errors; an address that is out of use comes back by itself when it answers".to_owned(),
        ),
        ConditionKind::Flood => {
            let steps = match worst(offenders) {
                None => vec![Some(top("See which clients and networks it is.")), None],
                Some((ban, client)) => vec![
                    Some(ban),
                    Some(Step::new(
                        "See why the worst client is refused.",
                        format!("sudo tidegate explain --client {client}"),
                    )),
                ],
            };
            let suggest = suggest("Find a limit that stops this and spares the others.");
            let pressure =
                state.overload.as_ref().map(|overload| format!("; its pressure is {:.2}", overload.pressure));
            (
                steps.into_iter().chain([suggest]).collect(),
                format!("the gate goes on refusing them{}", pressure.unwrap_or_default()),
            )
        }
        ConditionKind::Crowd => (
            vec![
                suggest("Is a limit too tight for this traffic? See what would fit."),
                Some(top("See which limit refuses, and whom.")),
                Some(status("Is an origin full or slow?")),
            ],
            "the gate goes on refusing what does not fit, and serves the rest".to_owned(),
        ),
        ConditionKind::Trouble => (
            vec![
                Some(status("See the whole of it, with what to do.")),
                state.condition.subject.starts_with("reload_refused").then(|| {
                    Step::new("See every fault of the policy file, with its place.", format!("tidegate check {file}"))
                }),
                Some(Step::new("What did the gate log about it?", "sudo journalctl -u tidegate -n 20")),
            ],
            "the gate goes on as it does now".to_owned(),
        ),
        ConditionKind::NoRequest => (
            vec![
                state.listeners.first().map(|listener| {
                    let here = listener.address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "127.0.0.1");
                    Step::new("Send the first request.", format!("curl -i http://{here}/"))
                }),
                Some(Step::new(
                    "Check the ports, the origins, the clock and the rights of files.",
                    format!("tidegate doctor -c {file}"),
                )),
            ],
            String::new(),
        ),
        ConditionKind::Well => {
            let shadow = state.limits.iter().find(|limit| limit.is_shadow() && limit.shadowed() > 0);
            let replay = shadow.zip(log).map(|(limit, log)| {
                let why = format!("`{}` is in shadow. See whom it would refuse before you enforce it.", limit.name);
                Step::new(why, format!("tidegate replay -c {file} {log}"))
            });
            let steps =
                vec![replay, suggest("Are the limits still right for this traffic?"), Some(top("Watch it live."))];
            (steps, "nothing has to be done".to_owned())
        }
    };
    Next { steps: steps.into_iter().flatten().take(3).collect(), otherwise }
}

/// The ban that helps most, and the worst client's name.
fn worst(offenders: &Offenders) -> Option<(Step, &str)> {
    let client = offenders.clients.first()?;
    let network = offenders.networks.first().filter(|network| network.count as f64 > TOGETHER * client.count as f64);
    let (name, what, passed) = match network {
        Some(Network { network, passed_share, clients, .. }) => {
            (network, format!("this network of {clients} clients"), *passed_share)
        }
        None => {
            let Offender { client, passed_share, .. } = client;
            (client, "this client".to_owned(), *passed_share)
        }
    };
    let passed = match passed {
        Some(share) if share >= MUCH_PASSES => {
            format!("Careful: {} of its requests pass, and a ban refuses these, too.", estimated(share))
        }
        Some(share) => format!("Of its requests {} passed in the last minutes.", estimated(share)),
        None => "See below what it asks for.".to_owned(),
    };
    let why = format!("Block {what} for an hour. {passed}");
    Some((Step::new(why, format!("sudo tidegate ban {name} --for 1h --why flood")), &client.client))
}
