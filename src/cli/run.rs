//! `run`: serve, by a policy file or by three flags.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::exit;
use super::global::{Global, environment, load_to_serve};
use crate::config::render::{Format, render};
use crate::config::{self, Config, Loaded};
use crate::observe::standard_error::{UntilEnd, say};
use crate::process::control;
use crate::process::given::{Given, Tag};
use crate::process::handover::{self, Predecessor};
use crate::process::reload::Loader;
use crate::process::upgrade::Program;
use crate::process::{self, Start};

/// Start the proxy
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
    let _said = UntilEnd;
    match handover::go_between() {
        None => {}
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => {
            say(&format!("error: the new process cannot be started: {error}\n"));
            return ExitCode::from(exit::SYSTEM);
        }
    }
    // both must come before anything opens or replaces a file
    let program = Program::current();
    let (given, predecessor) = match inherited() {
        Ok(inherited) => inherited,
        Err(error) => {
            say(&format!("error: {error}\n"));
            return ExitCode::from(exit::SYSTEM);
        }
    };
    let (loaded, file) = match (&args.listen, &args.origin) {
        (Some(listen), Some(origin)) => {
            let policy = policy_of(listen, origin, args.limit.as_deref());
            (config::load_text("command line", &policy, &environment, Path::new(".")), None)
        }
        _ => {
            let path = global.policy();
            (load_to_serve(path), Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
        }
    };
    let load = args.listen.is_none().then(|| {
        let path = global.policy().to_owned();
        let load: Loader = Arc::new(move || load_to_serve(&path));
        load
    });
    // one that cannot serve needs none
    let admin = if loaded.outcome.is_ok() { global.admin.clone().or_else(free_default) } else { None };
    start(loaded, Start { program, file, load, admin, given, predecessor }, global)
}

/// The process that this one follows, and the order in which it offered its sockets.
type Before = (Predecessor, Vec<Tag>);

/// Sockets that this process was given, and the process that it follows.
fn inherited() -> Result<(Given, Option<Before>), String> {
    let Some(predecessor) = Predecessor::from_environment() else {
        return Ok((Given::from_systemd()?, None));
    };
    let (predecessor, offered) = predecessor?;
    let tags = offered.iter().map(|(tag, _)| tag.clone()).collect();
    match handover::given(offered) {
        Ok(given) => Ok((given, Some((predecessor, tags)))),
        Err(error) => {
            predecessor.fail(&error);
            Err(error)
        }
    }
}

/// The default admin socket, unless it cannot be had or another process has it: several of one user can run side by side.
fn free_default() -> Option<PathBuf> {
    let Some(path) = control::default_path() else {
        say(
            "warning: no admin socket: neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set; verbs such as `tidegate reload` cannot \
             reach this process: give it one by `run --admin PATH` (or TIDEGATE_ADMIN=PATH), in a folder that only this user may enter\n",
        );
        return None;
    };
    if std::env::var_os(handover::MARK).is_some() {
        // it is handed over
        return Some(path);
    }
    let hindrance = match std::os::unix::net::UnixStream::connect(&path) {
        Ok(_) => Some("another tidegate has it".to_owned()),
        Err(_) => control::prepare(&path).err(),
    };
    match hindrance {
        None => Some(path),
        Some(cause) => {
            say(&format!(
                "warning: no admin socket {}: {cause}; verbs such as `tidegate reload` cannot reach this process: give it another by `run --admin PATH` (or \
                 TIDEGATE_ADMIN=PATH)\n",
                path.display()
            ));
            None
        }
    }
}

/// Serves by a policy that is written in the program, and answers verbs at `admin`; there is no upgrade for it.
pub fn serve_text(name: &str, policy: &str, admin: Option<PathBuf>, global: &Global) -> ExitCode {
    let _said = UntilEnd;
    let start_alone = Start {
        program: Program::current(),
        file: None,
        load: None,
        admin,
        given: Given::default(),
        predecessor: None,
    };
    start(config::load_text(name, policy, &environment, Path::new(".")), start_alone, global)
}

fn start(loaded: Loaded, start: Start, global: &Global) -> ExitCode {
    // not by `Global::tell`: standard error that takes nothing must not keep the gate from starting
    say(&render(&loaded, Format::Text, global.colored(&std::io::stderr())));
    let config: Config = match loaded.outcome {
        Ok(config) => config,
        Err(_) => {
            if let Some((predecessor, _)) = start.predecessor {
                predecessor.fail(&render(&loaded, Format::Text, false));
            }
            return ExitCode::from(exit::INVALID);
        }
    };
    match process::run(config, start) {
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
