//! `tidegate pardon`: forgives one client, in the running process.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::ban::echoed;
use super::global::Global;
use super::output::print;
use super::running;
use super::status::Format;
use crate::admin::client::{self, Reply};
use crate::config::parse_duration;
use crate::human::span;
use crate::observe::state::{Pardon, Pardoned, PardonedLimit, Pardons, Revoked};

/// Reset a client's counts
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate pardon 203.0.113.7\n  tidegate pardon 203.0.113.7 --for 10m\n  \
    tidegate pardon --list\n\n\
    A client that is known by its pseudonym can be pardoned while it is among those whom the limits refused lately.\n\n\
    Exit codes: 0 pardoned, 1 it cannot be, 69 no server answers.")]
pub struct Arguments {
    /// An address, a network, `unix`, or the client's name in log and lists or its first 8 characters
    #[arg(value_name = "CLIENT", allow_hyphen_values = true)]
    #[arg(required_unless_present_any = ["list", "revoke"], conflicts_with_all = ["list", "revoke"])]
    client: Option<String>,
    /// In this limit only
    #[arg(long, value_name = "NAME", requires = "client")]
    limit: Option<String>,
    /// Also exempt the client for this time: `10m` (at most 31d)
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, requires = "client")]
    exempt: Option<Duration>,
    /// Show who is pardoned
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// End the pardon of this client: its old debt counts again, as far as it has not faded
    #[arg(long, value_name = "CLIENT", allow_hyphen_values = true)]
    revoke: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Asks for it, and prints the outcome.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let Arguments { client, limit, exempt, revoke, format, list, .. } = arguments;
    let outcome = match (client, revoke) {
        (Some(client), _) => {
            let wanted = json!({ "client": client, "limit": limit, "exempt_seconds": exempt.map_or(0, seconds) });
            ask(global, |socket| client::post(socket, "/api/v1/pardon", &wanted), |told| text(client, told))
        }
        (None, Some(client)) => {
            let wanted = json!({ "client": client });
            ask(
                global,
                |socket| client::post(socket, "/api/v1/pardon/revoke", &wanted),
                |Revoked { client, .. }| format!("the pardon of {client} is revoked\n"),
            )
        }
        (None, None) => ask(global, |socket| client::get(socket, "/api/v1/pardons"), lines),
    };
    match outcome {
        Ok((body, _)) if *format == Format::Json => print(&format!("{}\n", body.trim_end())),
        Ok((_, text)) if *list || !global.quiet => print(&text),
        Ok(_) => {}
        Err(code) => return code,
    }
    ExitCode::SUCCESS
}

/// Asks the process; returns its answer as JSON and in words.
fn ask<T: DeserializeOwned>(
    global: &Global,
    question: impl Fn(&Path) -> io::Result<Reply>,
    words: impl FnOnce(&T) -> String,
) -> Result<(String, String), ExitCode> {
    let (body, told) = running::told(global, question)?;
    Ok((body, words(&told)))
}

/// In whole seconds: less than one is one.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Says the outcome of a pardon in words, with the client as it was typed.
pub fn text(typed: &str, Pardoned { client, exempt_seconds, limits, .. }: &Pardoned) -> String {
    let client = echoed(typed, client);
    let (pardoned, others): (Vec<&PardonedLimit>, Vec<_>) = limits.iter().partition(|limit| limit.pardoned);
    let names: Vec<&str> = pardoned.into_iter().map(|limit| limit.limit.as_str()).collect();
    let names = names.join(", ");
    let mut text = match exempt_seconds {
        0 => format!("pardoned {client}: counts reset in {names}\n"),
        // the count of a store stays
        seconds => format!("pardoned {client}: exempt for {} in {names}; counts of this gate reset\n", span(*seconds)),
    };
    for PardonedLimit { limit, reason, .. } in others {
        text.push_str(&format!("  unchanged: {limit} ({})\n", reason.as_deref().unwrap_or_default()));
    }
    text
}

fn lines(Pardons { pardons, .. }: &Pardons) -> String {
    let line = |Pardon { client, exempt_for_seconds, given_seconds_ago, limits }: &Pardon| {
        let exempt = match exempt_for_seconds {
            0 => String::new(),
            seconds => format!(", exempt for {} more", span(*seconds)),
        };
        format!("{client}   {} ago in {}{exempt}\n", span(*given_seconds_ago), limits.join(", "))
    };
    pardons.iter().map(line).collect()
}
