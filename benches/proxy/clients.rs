//! The clients of one proxy: the process of `load`, from outside.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::load::Seen;
use crate::plan::Plan;
use crate::process::Running;

/// Clients that are connected.
pub struct Load {
    running: Running,
    said: BufReader<ChildStdout>,
}

impl Load {
    /// Starts `ours load PROXY PLAN` and waits until it has connected. `ours` starts this benchmark's own executable.
    pub fn start(mut ours: Command, proxy: SocketAddr, plan: &Plan) -> io::Result<Load> {
        ours.args(["load", &proxy.to_string()]).args(plan.words());
        let mut running = Running::start(ours.stdout(Stdio::piped()))?;
        let stdout = running.child().stdout.take().ok_or_else(|| io::Error::other("the load has no output"))?;
        let mut load = Load { running, said: BufReader::new(stdout) };
        let ready = load.line()?;
        if ready == "ready" { Ok(load) } else { Err(io::Error::other("the load could not connect")) }
    }

    /// Asks for so long; what the clients saw.
    pub fn ask(&mut self, slice: Duration) -> io::Result<Seen> {
        self.begin(&format!("for {}", slice.as_millis()))?;
        self.end()
    }

    /// Tells the clients what to do, in a word of [`drive`](crate::load::drive).
    pub fn begin(&mut self, what: &str) -> io::Result<()> {
        writeln!(self.running.child().stdin.as_mut().ok_or_else(stopped)?, "{what}")
    }

    /// Waits until they have done it; what they saw.
    pub fn end(&mut self) -> io::Result<Seen> {
        Seen::parse(&self.line()?).filter(|seen| seen.requests() > 0).ok_or_else(stopped)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

fn stopped() -> io::Error {
    io::Error::other("the load stopped: see its message above")
}
