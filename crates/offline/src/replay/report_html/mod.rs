//! The report of a replay as one self-contained page, or as single pictures.
//!
//! * [`ledger`]: gathers the numbers, request by request, in memory that does not grow with time. `bins`: counts over time.
//!   `heavy`: the heaviest client.
//! * `draw`: turns the numbers into pictures and tables. `dates`: what stands along a time axis.
//!
//! Paths and clients from a log stand in the page as escaped text (`picture::page`). The caller gives the names of clients:
//! pseudonyms, unless the operator asked for addresses.

mod bins;
mod dates;
mod draw;
mod heavy;
pub mod ledger;
#[cfg(test)]
mod tests;

pub use draw::About;
pub use ledger::{Asked, Heard, Ledger};

use crate::human::percent_of;
use crate::picture::{Block, Page, Picture as _};

/// One picture, with the name of a file for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Such as `login-trade-off.svg`: letters, digits, `_`, `-` and `.` only.
    pub file: String,
    /// An SVG document.
    pub svg: String,
}

/// The alert that a page must show when one client makes most of the log: its limits then judge a proxy. `None`: none does.
pub fn alarm(ledger: &Ledger) -> Option<String> {
    const FEWEST: u64 = 20;
    let (name, requests) = ledger.heavy.most()?;
    (ledger.requests >= FEWEST && requests * 5 > ledger.requests * 4).then(|| {
        let share = percent_of(requests, ledger.requests);
        format!("One client, {name}, makes {share} of the requests: is a proxy missing from trusted_proxies?")
    })
}

/// A self-contained HTML page: no script, nothing from elsewhere; the same text for the same replay on every machine.
pub fn html(ledger: &Ledger, about: &About) -> String {
    let mut page = Page { title: "tidegate replay".into(), ..Page::default() };
    page.subtitle = format!("{} judged by {}", about.source, about.policy);
    page.blocks.extend(alarm(ledger).into_iter().chain(about.alerts.iter().cloned()).map(Block::Alert));
    page.blocks.push(draw::facts(ledger));
    page.blocks.extend(about.then.as_ref().map(draw::then_and_now));
    page.blocks.push(draw::overview(ledger, about));
    page.blocks.push(Block::Figure(draw::flow(ledger).inline()));
    for limit in about.shown(ledger) {
        let chart = draw::trade_off(limit).map(|chart| Block::Figure(chart.inline()));
        let blocks: Vec<Block> = chart.into_iter().chain(draw::touched(limit)).collect();
        if !blocks.is_empty() {
            page.blocks.push(Block::Heading(draw::heading(limit)));
            page.blocks.extend(blocks);
        }
    }
    page.blocks.push(Block::Heading("What to know before you trust it".into()));
    page.blocks.push(Block::Notes(notes(ledger, about)));
    page.html()
}

/// Each picture of the report as a file of its own.
pub fn pictures(ledger: &Ledger, about: &About) -> Vec<Picture> {
    let picture = |file: String, svg: String| Picture { file, svg };
    let mut pictures = vec![picture("flow.svg".into(), draw::flow(ledger).svg())];
    for limit in about.shown(ledger) {
        let name = file_name(&limit.name);
        pictures.extend(draw::trade_off(limit).map(|chart| picture(format!("{name}-trade-off.svg"), chart.svg())));
    }
    pictures
}

/// A limit's name as a part of a file's: names of limits may hold a slash or worse.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    name.chars().map(safe).collect()
}

fn notes(ledger: &Ledger, about: &About) -> Vec<String> {
    let mut notes = about.notes.clone();
    notes.push(
        "Clients are taken not to change their behaviour when limited: retries would add load, backing off would take \
         some away."
            .into(),
    );
    if ledger.limits.iter().any(|limit| limit.frontier.is_some()) {
        notes.push(
            "Trade-offs are exact, and look at each limit alone: what another limit refuses first is not \
             charged to it, and can only make it touch fewer."
                .into(),
        );
    }
    for limit in ledger.limits.iter().filter(|limit| limit.untold > 0) {
        notes.push(format!("`{}` touched more clients than are told apart here.", limit.name));
    }
    notes
}
