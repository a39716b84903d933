//! Builds `proxy_default_allocator` with the cargo, profile and target directory that built this benchmark.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

const NAME: &str = "proxy_default_allocator";

/// What cargo tells a benchmark about itself. Left in, build scripts that watch it would run again, and all that depends on them.
const ABOUT_US: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];

/// The executable, built now if it is not up to date. `None`: cargo said why on standard error.
pub fn build() -> Option<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--no-run", "--bench", NAME, "--message-format=json-render-diagnostics"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // this executable is TARGET/PROFILE/deps/proxy-HASH
    if let Some(target) = env::current_exe().ok().as_ref().and_then(|path| path.ancestors().nth(3)) {
        cargo.arg("--target-dir").arg(target);
    }
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| ABOUT_US.iter().any(|prefix| name.starts_with(prefix))) {
            cargo.env_remove(name);
        }
    }
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().ok()?;
    let messages = String::from_utf8(output.stdout).ok()?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours = message.pointer("/target/name")?.as_str()? == NAME;
        message.get("executable")?.as_str().filter(|_| ours).map(PathBuf::from)
    };
    messages.lines().find_map(executable)
}
