//! The clients of one proxy: the process of `load`, from outside.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::load::Seen;
use crate::process::Running;

/// Clients that are connected.
pub struct Load {
    running: Running,
    said: BufReader<ChildStdout>,
}

impl Load {
    /// Starts `ours load PROXY CLIENTS` and waits until it has connected. `ours` starts this benchmark's own executable.
    pub fn start(mut ours: Command, proxy: SocketAddr, clients: usize) -> io::Result<Load> {
        ours.args(["load", &proxy.to_string(), &clients.to_string()]);
        let mut running = Running::start(ours.stdout(Stdio::piped()))?;
        let stdout = running.child().stdout.take().ok_or_else(|| io::Error::other("the load has no output"))?;
        let mut load = Load { running, said: BufReader::new(stdout) };
        let ready = load.line()?;
        if ready == "ready" { Ok(load) } else { Err(io::Error::other("the load could not connect")) }
    }

    /// Asks for so long; what the clients saw.
    pub fn ask(&mut self, slice: Duration) -> io::Result<Seen> {
        let stopped = || io::Error::other("the load stopped: see its message above");
        writeln!(self.running.child().stdin.as_mut().ok_or_else(stopped)?, "{}", slice.as_millis())?;
        Seen::parse(&self.line()?).filter(|seen| seen.requests() > 0).ok_or_else(stopped)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
