//! `run`: serve, by a policy file or by three flags.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::{Global, environment, exit, say};
use crate::config::{self, Config, Loaded};
use crate::serve;

/// Serve, by a policy file or by three flags
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidegate run -c /etc/tidegate/tidegate.yaml
  tidegate run --listen :8080 --origin 127.0.0.1:3000 --limit '10/s burst 20'")]
pub struct Run {
    /// Without a policy file: where to listen, such as `:8080` or `127.0.0.1:8080`
    #[arg(long, value_name = "ADDRESS", requires = "origin")]
    listen: Option<String>,
    /// Without a policy file: where to send requests, such as `127.0.0.1:3000`
    #[arg(long, value_name = "HOST:PORT", requires = "listen")]
    origin: Option<String>,
    /// Without a policy file: the limit per client, such as `10/s burst 20`
    #[arg(long, value_name = "LIMIT", requires = "listen")]
    limit: Option<String>,
}

/// Serves until a signal ends it.
pub fn run(args: &Run, global: &Global) -> ExitCode {
    match (&args.listen, &args.origin) {
        (Some(listen), Some(origin)) => {
            serve_text("command line", &policy_of(listen, origin, args.limit.as_deref()), global)
        }
        _ => start(global.load(), global),
    }
}

/// Serves by a policy that is written in the program.
pub fn serve_text(name: &str, policy: &str, global: &Global) -> ExitCode {
    start(config::load_text(name, policy, &environment, Path::new(".")), global)
}

fn start(loaded: Loaded, global: &Global) -> ExitCode {
    global.tell(&loaded);
    let config: Config = match loaded.outcome {
        Ok(config) => config,
        Err(_) => return ExitCode::from(exit::INVALID),
    };
    match serve::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}\n"));
            ExitCode::from(exit::SYSTEM)
        }
    }
}

/// The policy file that the flags stand for. JSON strings are YAML strings, so nothing in a flag can become structure.
fn policy_of(listen: &str, origin: &str, limit: Option<&str>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let limit = limit.map(|limit| format!("\n    limit: {}", quoted(limit))).unwrap_or_default();
    format!("listen: {}\nroutes:\n  - origin: {}{limit}\n", quoted(listen), quoted(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_a_small_policy_file() {
        let policy = policy_of(":8080", "127.0.0.1:3000", Some("10/s burst 20"));
        assert_eq!(
            policy,
            "listen: \":8080\"\nroutes:\n  - origin: \"127.0.0.1:3000\"\n    limit: \"10/s burst 20\"\n"
        );
        assert_eq!(policy_of("a\"\nb: c", "x", None), "listen: \"a\\\"\\nb: c\"\nroutes:\n  - origin: \"x\"\n");
    }
}
