//! TLS towards clients: which certificate, what origins and limits learn of it, renewal under load, client certificates,
//! redirects, and handshakes that come to nothing.

mod certificates;
mod clients;
mod handshakes;
mod hostile;
mod redirect;
mod renewal;

use crate::harness::tls::{Authority, Client, Files};
use crate::harness::{Gate, Origin};

/// A gate that does TLS for `a.test` and `*.wild.test`, and who is around it.
struct Site {
    gate: Gate,
    authority: Authority,
    client: Client,
    files: Files,
}

/// The policy of a listener `main` with this `tls:`, in front of an origin; more sections may follow.
fn policy(tls: &str, origin: &Origin, more: &str) -> String {
    let address = origin.address();
    format!(
        "listeners:\n  main: {{ address: \"127.0.0.1:0\", tls: {tls} }}\nroutes:\n  - {{ name: site, origin: \"{address}\" }}\n{more}"
    )
}

impl Site {
    fn start(origin: &Origin, more: &str) -> Site {
        let (authority, files) = (Authority::new("of the site"), Files::new());
        let first = files.put_pair("a", &authority.sign(&["a.test", "b.test"]));
        let wild = files.put_pair("wild", &authority.sign(&["*.wild.test"]));
        let gate = Gate::start(&policy(&format!("{{ certificates: [{first}, {wild}] }}"), origin, more));
        Site { gate, client: authority.client(), authority, files }
    }

    fn connect(&self, name: &str) -> crate::harness::Connection {
        self.client.connect(self.gate.address("main"), name)
    }
}
