//! `--html` and `--svg`: a replay as pictures.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::stop::{Stop, system};
use crate::client::Client;
use crate::engine::Evaluation;
use crate::policy::Policy;
use crate::replay::report::Head;
use crate::replay::report_html::{self, About, Ledger};
use crate::replay::{Outcome, Record};

/// Where pictures go.
#[derive(Debug, Args)]
pub struct Pictures {
    /// Write a page of pictures into this file: one file without scripts, in light and dark
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write each picture of it into this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// The pictures in the making; nothing is kept when nobody asked for any.
pub struct Drawing<'a> {
    asked: &'a Pictures,
    ledger: Option<Ledger>,
    /// Only requests of this route, which the policy may not have.
    route: Option<Option<usize>>,
}

impl<'a> Drawing<'a> {
    /// Before the first request.
    pub fn new(asked: &'a Pictures, policy: &Policy, route: Option<&str>) -> Drawing<'a> {
        let wanted = asked.html.is_some() || asked.svg.is_some();
        let route = route.map(|name| policy.routes.iter().position(|route| route.name == *name));
        Drawing { asked, ledger: wanted.then(|| Ledger::new(policy)), route }
    }

    /// Counts a decision.
    pub fn note(
        &mut self,
        record: &Record<'_>,
        evaluation: &Evaluation,
        name: &dyn Fn(&Record<'_>, &Client) -> String,
    ) {
        let Some(ledger) = &mut self.ledger else { return };
        if self.route.is_some_and(|route| evaluation.decision.route != route) {
            return;
        }
        let Some(client) = evaluation.decision.client else { return };
        ledger.note(record, evaluation, &|| name(record, &client));
    }

    /// Draws what was asked for. `logs`, `policy`: where each stands.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(self, outcome: &Outcome, head: &Head<'_>, logs: &[PathBuf], policy: &Path) -> Result<(), Stop> {
        let Some(ledger) = self.ledger else { return Ok(()) };
        let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
        let mut notes = outcome.notes.clone();
        if head.resolution >= 1_000_000_000 {
            notes.push(
                "Stamps are whole seconds: all requests of a second are judged at one instant, which over-states bursts \
                 by up to a second's worth."
                    .to_owned(),
            );
        }
        if outcome.tally.unreadable > 0 {
            notes.push(format!("{} of {} lines could not be read.", outcome.tally.unreadable, outcome.tally.lines));
        }
        let missing = outcome.limits.iter().filter_map(|limit| Some((limit.name.clone(), limit.missing.clone()?)));
        let (left_out, why): (Vec<_>, Vec<_>) =
            missing.map(|(name, why)| (name.clone(), format!("{name} is not replayable: {why}"))).unzip();
        notes.extend(why);
        let about = About {
            source: format!("{} ({})", names.join(", "), head.log),
            policy: policy.display().to_string(),
            only: head.limit.map(str::to_owned),
            left_out,
            alerts: Vec::new(),
            then: outcome.then,
            notes,
        };
        if let Some(file) = &self.asked.html {
            fs::write(file, report_html::html(&ledger, &about)).map_err(system(file))?;
        }
        if let Some(directory) = &self.asked.svg {
            fs::create_dir_all(directory).map_err(system(directory))?;
            for picture in report_html::pictures(&ledger, &about) {
                let file = Path::new(directory).join(&picture.file);
                fs::write(&file, picture.svg).map_err(system(&file))?;
            }
        }
        Ok(())
    }
}
