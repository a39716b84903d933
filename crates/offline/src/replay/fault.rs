//! Why logs cannot be read.

use std::io;

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system does not give one: its name.
    #[error("{0}: {1}")]
    Read(String, #[source] io::Error),
    /// No format fits the first hundred lines of one: its name, and three of them.
    #[error("{0}: its first lines are in no log format that tidegate knows{lines}\n{known}", lines = lines(.1), known = KNOWN)]
    Unknown(String, Vec<String>),
}

/// What to write instead.
const KNOWN: &str = "  known: nginx and Apache combined, common, Caddy, Traefik, Envoy, HAProxy, CloudFront, ALB, tidegate
  give your own with the words of the server that wrote it:  --log-format '$remote_addr - $remote_user [$time_local] \"$request\" …'";

/// Each line on one of its own, indented.
fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n    {line}")).collect()
}
