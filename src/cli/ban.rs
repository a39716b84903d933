//! `tidegate ban`: shuts somebody out of the running process for a while.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::global::Global;
use super::output::{print, say};
use super::running;
use super::status::Format;
use crate::admin::client;
use crate::config::parse_duration;
use crate::human::span;
use crate::observe::state::Banned;

/// Refuse a client, a network or a key of a limit for a while
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate ban 203.0.113.7 --for 2h --why 'scrapes the shop'\n  \
    tidegate ban 2001:db8::/32 --for 7d\n  \
    tidegate ban c7f1Kc1m --for 30m                    # the first characters of a name in top or the log\n  \
    tidegate ban per_key=abc123 --for 10m              # a key of a limit: here an API key\n\n\
    Each request of it is refused with 403 before any limit is asked, behind trusted proxies too. The ban ends by itself, or by\n\
    `tidegate unban`. Reload and upgrade keep it; restart and crash do where the policy has `server.state`. All gates that share\n\
    a store hear of it within two seconds.\n\n\
    Exit codes: 0 banned, 1 not banned, 69 no server answers.")]
pub struct Arguments {
    /// An address, a network, `unix`, a client's name in log and lists or its first 8 characters, or LIMIT=VALUE
    #[arg(value_name = "TARGET", allow_hyphen_values = true)]
    target: String,
    /// How long, such as `2h` or `7d` (at most 365d)
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    length: Duration,
    /// The reason, for `bans`, `explain` and the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    /// Ban even your own address, a trusted proxy, this machine or a large part of the Internet
    #[arg(long)]
    force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Asks for it, and prints the outcome.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let Arguments { target, length, why, force, format } = arguments;
    let wanted = wanted(target, *length, why, *force);
    match running::told::<Banned>(global, |socket| client::post(socket, "/api/v1/ban", &wanted)) {
        Ok((body, _)) if *format == Format::Json => print(&format!("{}\n", body.trim_end())),
        Ok((_, banned)) if !global.quiet => {
            print(&text(target, &banned));
            not_kept(banned.on_disk, banned.has_directory);
            not_shared(&banned.waiting_for);
        }
        Ok(_) => {}
        Err(code) => return code,
    }
    ExitCode::SUCCESS
}

/// The order as the admin API takes it, with what this machine knows of whoever gives it.
pub fn wanted(target: &str, length: Duration, why: &str, force: bool) -> serde_json::Value {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    // sshd's: the client's address is its first word
    let from = variable("SSH_CONNECTION").and_then(|text| text.split(' ').next()?.parse::<IpAddr>().ok());
    let by = variable("SUDO_USER").or_else(|| variable("USER")).unwrap_or_default();
    let seconds = length.as_secs() + u64::from(length.subsec_nanos() > 0);
    json!({ "target": target, "for_seconds": seconds, "why": why, "by": by, "force": force, "from": from })
}

/// Says the outcome of a ban in words, with the target as it was typed.
pub fn text(typed: &str, Banned { ban, .. }: &Banned) -> String {
    format!("ban {}: {} is refused for {}\n", ban.number, echoed(typed, &ban.target), span(ban.ends_in_seconds))
}

/// Returns a target as it was typed, and behind it the name that lists and logs have for it, if that is another.
pub fn echoed(typed: &str, name: &str) -> String {
    // the beginning of a name says nothing that the name does not
    if name.starts_with(typed) { name.to_owned() } else { format!("{typed} ({name})") }
}

/// Says so if other gates hear of an order later.
pub fn not_shared(waiting_for: &[String]) {
    for store in waiting_for {
        say(&format!("tidegate: the store `{store}` does not answer: other gates hear of this order when it does\n"));
    }
}

/// Says so if a restart forgets an order.
pub fn not_kept(on_disk: bool, has_directory: bool) {
    let why = match (on_disk, has_directory) {
        (true, _) => return,
        (false, false) => "the policy has no `server.state`, or its directory cannot be used",
        (false, true) => "it is not on disk yet, see the process's log",
    };
    say(&format!("tidegate: a restart forgets this order: {why}\n"));
}
