//! Clients that speak HTTP/2, honest ones by a library and others by bare frames.

mod both_ways;
mod crowded;
mod floods;
mod leaving;
mod memory;
mod passing;
pub mod raw;
mod respelled;
mod vectors;

use crate::harness::{Gate, Origin, talker};

/// A gate that speaks HTTP/2 without TLS, before this origin. `more` is added to the origin, each line with four blanks.
pub fn gate_before(origin: &Origin, more: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
origins:
  app:
    addresses: [\"{}\"]
{more}routes:
  - name: admin
    match: {{ path: /admin }}
    respond: {{ status: 403, body: no }}
  - name: rest
    origin: app
",
        origin.address()
    ))
}
