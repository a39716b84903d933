//! Bans as lists show them: by the names that clients have in the access log.

use super::process::Process;
use crate::bans::{Ban, News, Target};
use crate::client::{ClientNetwork, Mark};
use crate::config::settings::ClientInLog;
use crate::observe::pseudonym::Pseudonym;
use crate::observe::state::BanState;
use crate::system::clock::wall_nanos;
use crate::units::time::{ceil_seconds, saturating_nanos};

/// Returns the bans in force, the one that ends first before the others.
pub fn all(process: &Process, clients: ClientInLog) -> Vec<BanState> {
    let bans = process.generation().engine().bans().list(process.clock.now());
    bans.iter().map(|ban| state_of(process, ban, clients)).collect()
}

/// Clears away bans that have ended, tells what other gates brought, and gives bans that penalties of limits have brought. Call it about once
/// a second.
pub fn settle(process: &Process) {
    process.clear_ended_bans();
    tell_news(process);
    // what changes now would not be handed over
    if process.handing_over() {
        return;
    }
    let generation = process.generation();
    let given = generation.engine().settle_bans(process.clock.now());
    for ban in &given {
        let BanState { number, target, by, why, ends_in_seconds, .. } =
            state_of(process, ban, process.clients_in_log());
        tracing::info!(ban = number, client = target, by, why, seconds = ends_in_seconds, "banned");
    }
    if !given.is_empty() {
        process.kept_bans.changed();
        generation.stores().iter().for_each(|store| store.has_new_bans());
    }
}

/// Writes into the log what other gates brought, and has it kept on disk.
fn tell_news(process: &Process) {
    let News { given, lifted, left_out } = process.generation().engine().bans().news();
    for ban in &given {
        let BanState { number, target, by, why, ends_in_seconds, .. } =
            state_of(process, ban, process.clients_in_log());
        tracing::info!(ban = number, client = target, by, why, seconds = ends_in_seconds, "banned on another gate");
    }
    for ban in &lifted {
        let target = name_of(process, &ban.target, process.clients_in_log());
        tracing::info!(ban = ban.number, client = target, "ban lifted on another gate");
    }
    if left_out > 0 {
        tracing::warn!(bans = left_out, "bans of other gates find no room here");
    }
    if !given.is_empty() || !lifted.is_empty() {
        process.kept_bans.changed();
    }
}

/// Returns a ban as lists show it.
pub fn state_of(process: &Process, ban: &Ban, clients: ClientInLog) -> BanState {
    let kind = match &ban.target {
        Target::Network(_) => "network",
        Target::Client { .. } => "client",
        Target::Key { .. } => "key",
    };
    BanState {
        number: ban.number,
        target: name_of(process, &ban.target, clients),
        kind: kind.into(),
        by: ban.by.clone(),
        why: ban.why.clone(),
        given_seconds_ago: wall_nanos().saturating_sub(ban.given) / 1_000_000_000,
        ends_in_seconds: ceil_seconds(saturating_nanos(ban.until.since(process.clock.now()))),
        refused: ban.refused(),
        automatic: ban.automatic,
        elsewhere: ban.elsewhere,
    }
}

/// Returns the name of a target: clients and networks in this form, keys by a pseudonym.
pub fn name_of(process: &Process, target: &Target, clients: ClientInLog) -> String {
    let (mark, network) = match target {
        Target::Network(network) => (Mark::Verified, ClientNetwork::Prefix(*network)),
        Target::Client { network, mark } => (*mark, *network),
        Target::Key { limit, hash, .. } => {
            let [low, high] = hash.halves();
            let name = Pseudonym::of_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes()).to_string();
            return format!("{limit}={}", name.get(..Pseudonym::SHORTEST).unwrap_or(&name));
        }
    };
    match clients {
        ClientInLog::Address => network.to_string(),
        ClientInLog::Pseudonym => {
            let mut names = process.pseudonyms.all_named(mark, network);
            names.next().map(|name| name.to_string()).unwrap_or_default()
        }
    }
}
