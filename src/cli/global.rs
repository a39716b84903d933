//! What verbs share: flags, and the process's environment.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};

use super::output::say;
use crate::config::render::{Format, render};
use crate::config::{self, Loaded};

/// The policy file where none is named.
const DEFAULT: &str = "/etc/tidegate/tidegate.yaml";

/// Flags that several verbs take. [`command`](super::command) says which verb takes which.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The policy file, or a directory whose *.yaml files are one configuration [default: /etc/tidegate/tidegate.yaml]
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// The admin socket: where `run` has it, and where other verbs ask [default: private/admin.sock in systemd's runtime
    /// folder, tidegate/admin.sock in $XDG_RUNTIME_DIR, or for root /run/tidegate/private/admin.sock]
    #[arg(long, alias = "control", value_name = "SOCKET", env = "TIDEGATE_ADMIN", hide_env_values = true)]
    pub admin: Option<PathBuf>,
    /// When to use colors
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// More detail
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also in pipes and files
    Always,
    /// Not at all
    Never,
}

impl Global {
    /// Loads the configuration with the process's environment.
    pub fn load(&self) -> Loaded {
        config::load(self.policy(), &environment)
    }

    /// Returns the path of the policy file.
    pub fn policy(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(DEFAULT))
    }

    /// Returns the policy file that was named, as a server in another folder finds it.
    pub fn file_at_server(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()))
    }

    /// Whether to colour what goes to this stream.
    pub fn colored(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: set and not empty
            Color::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Diagnostics as talk, for verbs whose data is something else.
    pub fn tell(&self, loaded: &Loaded) {
        say(&render(loaded, Format::Text, self.colored(&std::io::stderr())));
    }
}

/// Loads a configuration that is to be served: refuses what this build cannot do.
pub fn load_to_serve(path: &Path) -> Loaded {
    let mut loaded = config::load(path, &environment);
    if cfg!(not(feature = "store")) {
        loaded.refuse_stores();
    }
    loaded
}

/// A variable of the process's environment; one that is not UTF-8 counts as not set.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
