//! `tidegate unban`: lifts a ban of the running process.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::ban::{echoed, not_kept, not_shared};
use super::global::Global;
use super::output::print;
use super::running;
use super::status::Format;
use crate::admin::client;
use crate::observe::state::Unbanned;

/// Lift a ban
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tidegate unban 203.0.113.7\n  tidegate unban 17                                 # its number in `tidegate bans`\n\n\
    Exit codes: 0 lifted, 1 there is no such ban, 69 no server answers."
)]
pub struct Arguments {
    /// The ban's number, or its target as `tidegate ban` takes it
    #[arg(value_name = "TARGET", allow_hyphen_values = true)]
    target: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Asks for it, and prints the outcome.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let wanted = json!({ "target": arguments.target });
    match running::told::<Unbanned>(global, |socket| client::post(socket, "/api/v1/unban", &wanted)) {
        Ok((body, _)) if arguments.format == Format::Json => print(&format!("{}\n", body.trim_end())),
        Ok((_, Unbanned { lifted, on_disk, has_directory, waiting_for, .. })) if !global.quiet => {
            for ban in lifted {
                let typed = &arguments.target;
                // a number names no target
                let target = match typed.parse::<u32>() {
                    Ok(_) => ban.target.clone(),
                    Err(_) => echoed(typed, &ban.target),
                };
                print(&format!("ban {}: {target} is let in again\n", ban.number));
            }
            // without a directory a restart forgets the ban itself
            if has_directory {
                not_kept(on_disk, has_directory);
            }
            not_shared(&waiting_for);
        }
        Ok(_) => {}
        Err(code) => return code,
    }
    ExitCode::SUCCESS
}
