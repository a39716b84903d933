//! A network namespace with two cables to this machine: one for what is outside to reach what is inside, and one, which can be
//! cut, for what is inside to reach a store. Needs root and `ip`.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::gate::binary;

/// A namespace, gone with its cables when it is dropped.
pub struct Apart {
    name: String,
    /// Of the cable for clients, the end inside.
    pub inside: Ipv4Addr,
    /// The network of both cables, to be trusted.
    pub network: String,
    /// Of the cable to the store, the end outside.
    pub store: Ipv4Addr,
}

impl Apart {
    /// A new one.
    ///
    /// # Errors
    /// Why this machine has none to give.
    pub fn new() -> Result<Apart, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = std::process::id();
        let name = format!("tg{id}x{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // kept for measurements between networks (RFC 2544), so nobody's own; four addresses for each cable
        let base = [198, 18 + (id >> 8 & 1) as u8, id as u8, 0];
        let at = |last: u8| Ipv4Addr::new(base[0], base[1], base[2], last);
        let apart = Apart { inside: at(2), store: at(5), network: format!("{}/29", at(0)), name };
        ip(&["netns", "add", &apart.name])?;
        // from here on dropping it takes back what was done
        for (cable, outside, inside) in [("c", at(1), at(2)), ("s", at(5), at(6))] {
            let near = apart.end(cable);
            let far = format!("{near}i");
            ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &apart.name])?;
            ip(&["address", "add", &format!("{outside}/30"), "dev", &near])?;
            ip(&["link", "set", &near, "up"])?;
            ip(&["-n", &apart.name, "address", "add", &format!("{inside}/30"), "dev", &far])?;
            ip(&["-n", &apart.name, "link", "set", &far, "up"])?;
        }
        ip(&["-n", &apart.name, "link", "set", "lo", "up"])?;
        Ok(apart)
    }

    fn end(&self, cable: &str) -> String {
        // at most fifteen letters
        format!("{}{cable}", self.name)
    }

    /// The gate's binary, inside.
    pub fn binary(&self) -> Command {
        let gate = binary();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(gate.get_program());
        for (name, value) in gate.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Cuts the cable to the store: packets are lost, and nobody is told.
    pub fn cut(&self) {
        ip(&["link", "set", &self.end("s"), "down"]).unwrap();
    }

    /// Mends it.
    pub fn mend(&self) {
        ip(&["link", "set", &self.end("s"), "up"]).unwrap();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for cable in ["c", "s"] {
            let _ = ip(&["link", "delete", &self.end(cable)]);
        }
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("no `ip` here ({error}): `./dev setup test` installs it"))?;
    let said = || format!("`ip {}`: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}
