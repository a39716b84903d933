//! `tidegate bans`: the bans of the running process.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::exit;
use super::global::Global;
use super::output::{print, say};
use super::running;
use crate::admin::client;
use crate::client::trust::parse_cidr_or_everyone;
use crate::human::{grouped, span};
use crate::observe::state::{BanState, Bans, NamedNetworks};
use crate::units::Prefix;

/// Show who is banned
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate bans\n  sudo sh /usr/share/tidegate/firewall/ban-list nftables\n\n\
    `plain` and `nftables` write the banned networks by their addresses, for a firewall; bans of keys have none and are left out.\n\n\
    Exit codes: 0 shown, 1 the server lists what is no network, 69 no server answers.")]
pub struct Arguments {
    /// How to print them
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// Show clients by their addresses, not as pseudonyms
    #[arg(long)]
    show_clients: bool,
}

/// How to write bans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// For programs
    Json,
    /// The networks, one a line
    Plain,
    /// The networks as sets of nftables, each with the rest of its time
    Nftables,
}

/// Asks for them, and prints them.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let ended = match arguments.format {
        Form::Text | Form::Json => {
            let told = running::told::<Bans>(global, |socket| {
                client::get(socket, &listed("/api/v1/bans", arguments.show_clients))
            });
            told.map(|(body, bans)| match arguments.format {
                Form::Json => format!("{}\n", body.trim_end()),
                _ => bans.bans.iter().map(line).collect(),
            })
        }
        Form::Plain | Form::Nftables => {
            let asked = |socket: &std::path::Path| client::post(socket, "/api/v1/bans/networks", &json!({}));
            running::told::<NamedNetworks>(global, asked).and_then(|(_, told)| {
                let networks = told.networks.iter().map(|(network, seconds)| Some((prefix(network)?, *seconds)));
                let Some(networks) = networks.collect::<Option<Vec<_>>>() else {
                    // root hands this to a firewall, and the process is not root's
                    say("tidegate: the running process lists what is no network; nothing is written\n");
                    return Err(ExitCode::from(exit::NO));
                };
                if told.left_out > 0 && !global.quiet {
                    say(&format!("tidegate: {} of no network left out\n", bans(told.left_out)));
                }
                Ok(match arguments.format {
                    Form::Nftables => nftables(&networks),
                    _ => networks.iter().map(|(network, _)| format!("{network}\n")).collect(),
                })
            })
        }
    };
    match ended {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// The target of a list, with clients by their addresses if they are to be shown.
pub fn listed(path: &str, show_clients: bool) -> String {
    let query: &[(&str, &str)] = if show_clients { &[("clients", "address")] } else { &[] };
    client::target(path, query)
}

fn prefix(text: &str) -> Option<Prefix> {
    parse_cidr_or_everyone(text).ok().map(|(network, _)| network)
}

fn bans(count: usize) -> String {
    crate::human::count(count as u64, "ban")
}

/// `17   c7f1Kc1mZt0wJ2T9uXvHq3   2 h left, 1,234 refused, 5 min ago by alice (user 0): scrapes`
fn line(ban: &BanState) -> String {
    let BanState { number, target, by, why, given_seconds_ago, ends_in_seconds, refused, elsewhere, .. } = ban;
    let place = if *elsewhere { " on another gate" } else { "" };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let (left, ago) = (span(*ends_in_seconds), span(*given_seconds_ago));
    format!("{number:<4} {target}   {left} left, {} refused, {ago} ago by {by}{place}{why}\n", grouped(*refused))
}

/// A table `inet tidegate` with the sets `banned4` and `banned6`, replaced as a whole, whose elements end with their bans.
fn nftables(networks: &[(Prefix, u64)]) -> String {
    // a set of intervals takes each address once
    let set = |name: &str, kind: &str, ipv4: bool| {
        let elements: Vec<String> = networks
            .iter()
            .filter(|(network, _)| network.address().is_ipv4() == ipv4)
            .map(|(network, seconds)| format!("{network} timeout {}s", (*seconds).max(1)))
            .collect();
        let elements = match elements.is_empty() {
            true => String::new(),
            false => format!("        elements = {{ {} }}\n", elements.join(", ")),
        };
        format!("    set {name} {{\n        type {kind}\n        flags interval, timeout\n{elements}    }}\n")
    };
    format!(
        "table inet tidegate\ndelete table inet tidegate\ntable inet tidegate {{\n{}{}    chain prerouting {{\n        \
         type filter hook prerouting priority raw; policy accept;\n        ip saddr @banned4 counter drop\n        \
         ip6 saddr @banned6 counter drop\n    }}\n}}\n",
        set("banned4", "ipv4_addr", true),
        set("banned6", "ipv6_addr", false),
    )
}
