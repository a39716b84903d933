//! `tidegate pardon`: forgives one client, in the running process.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::global::Global;
use super::output::print;
use super::running;
use super::status::Format;
use crate::admin::client;
use crate::config::parse_duration;

/// Forget a client's debt now, in every limit that counts it by its address or network
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidegate pardon 203.0.113.7\n  tidegate pardon 203.0.113.7 --for 10m\n  \
    tidegate pardon --list\n\n\
    A client that is known by its pseudonym can be pardoned while it is among those whom the limits refused lately.\n\n\
    Exit codes: 0 pardoned, 1 it cannot be, 69 no server answers.")]
pub struct Arguments {
    /// An address, a network, `unix`, or the client's name in log and lists
    #[arg(value_name = "CLIENT", required_unless_present_any = ["list", "revoke"], conflicts_with_all = ["list", "revoke"])]
    client: Option<String>,
    /// In this limit only
    #[arg(long, value_name = "NAME", requires = "client")]
    limit: Option<String>,
    /// Leave the client alone for so long, such as `10m`; 31 days at most
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, requires = "client")]
    exempt: Option<Duration>,
    /// Show who is pardoned
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// End the pardon of this client: its old debt counts again, as far as it has not faded
    #[arg(long, value_name = "CLIENT", allow_hyphen_values = true)]
    revoke: Option<String>,
    /// How to write what came of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Asks for it, and prints what came of it.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let Arguments { client, limit, exempt, revoke, .. } = arguments;
    let told = running::told(global, |socket| match (client, revoke) {
        (Some(client), _) => {
            let wanted = json!({ "client": client, "limit": limit, "exempt_seconds": exempt.map_or(0, seconds) });
            client::post(socket, "/api/v1/pardon", &wanted)
        }
        (None, Some(client)) => client::post(socket, "/api/v1/pardon/revoke", &json!({ "client": client })),
        (None, None) => client::get(socket, "/api/v1/pardons"),
    });
    let (body, told) = match told {
        Ok(told) => told,
        Err(code) => return code,
    };
    if arguments.format == Format::Json {
        print(&format!("{}\n", body.trim_end()));
    } else if arguments.list {
        print(&list(&told));
    } else if !global.quiet {
        print(&text(&told));
    }
    ExitCode::SUCCESS
}

/// In whole seconds: less than one is one.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// What came of a pardon, or of its end, in words.
pub fn text(told: &Value) -> String {
    let client = word(told, "client");
    if told.get("revoked").is_some() {
        return format!("the pardon of {client} is revoked\n");
    }
    let is_pardoned = |limit: &&Value| limit.get("pardoned") == Some(&Value::Bool(true));
    let (pardoned, others): (Vec<&Value>, Vec<&Value>) = items(told, "limits").iter().partition(is_pardoned);
    let names: Vec<&str> = pardoned.into_iter().map(|limit| word(limit, "limit")).collect();
    let exempt = match number(told, "exempt_seconds") {
        0 => String::new(),
        seconds => format!(", and exempt for {seconds} s"),
    };
    let mut text = format!("{client} is pardoned in {}{exempt}\n", names.join(", "));
    for limit in others {
        text.push_str(&format!("  not in {}: it {}\n", word(limit, "limit"), word(limit, "reason")));
    }
    text
}

fn list(told: &Value) -> String {
    let line = |pardon: &Value| {
        let limits: Vec<&str> = items(pardon, "limits").iter().filter_map(Value::as_str).collect();
        let exempt = match number(pardon, "exempt_for_seconds") {
            0 => String::new(),
            seconds => format!(", exempt for {seconds} s more"),
        };
        let ago = number(pardon, "given_seconds_ago");
        format!("{}   {ago} s ago in {}{exempt}\n", word(pardon, "client"), limits.join(", "))
    };
    items(told, "pardons").iter().map(line).collect()
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}
