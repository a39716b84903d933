//! Pingora's proxy around the gate, with our way to origins in the place of its own.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use pingora::proxy::{HttpProxy, ProcessCustomSession, ProxyServiceBuilder};
use pingora::server::configuration::ServerConf;
use pingora::services::listening::Service;

use super::direct::DirectLane;
use super::gate::Gate;
use crate::config::settings::Direct;
use crate::edge::requests::{self as edge, Servers};
use crate::edge::transport::Transport;
use crate::origins::connector::Origins;
use crate::running::process::Process;

/// Connections kept open to origins, per worker thread.
const POOL: usize = 256;

/// Who serves the requests of all listeners, so that they share the connections to origins.
pub fn servers(process: &Arc<Process>, threads: usize) -> Servers<HttpProxy<Gate, Origins>> {
    let direct: Option<Arc<dyn edge::Direct<Transport>>> = match process.settings.direct {
        Direct::On => Some(Arc::new(DirectLane::new(Arc::clone(process)))),
        Direct::Off => None,
    };
    Servers { framework: Arc::new(proxy(process, threads)), direct }
}

/// Pingora's proxy around the gate.
fn proxy(process: &Arc<Process>, threads: usize) -> HttpProxy<Gate, Origins> {
    let conf = ServerConf {
        threads,
        upstream_keepalive_pool_size: POOL,
        // the gate decides about each attempt; this is the framework's own net above the five that a policy may ask for
        max_retries: 8,
        ..ServerConf::default()
    };
    let gate = Gate::new(Arc::clone(process));
    // what Pingora would do with a client that speaks a protocol of ours; there is none
    let nobody: ProcessCustomSession<Gate, Origins> = Arc::new(|_, _, _| Box::pin(async { None }));
    taken_out(ProxyServiceBuilder::new(&Arc::new(conf), gate).custom(Origins, nobody).build())
}

/// The proxy without the service around it. Pingora makes one with a connector of ours only inside of a service, which lends
/// it but does not give it away.
#[expect(unsafe_code, reason = "the other ways in cost each request a connection of its own, or a copy of every byte")]
fn taken_out(service: Service<HttpProxy<Gate, Origins>>) -> HttpProxy<Gate, Origins> {
    // never dropped from here on, whatever happens
    let mut service = ManuallyDrop::new(service);
    match service.app_logic_mut() {
        // SAFETY: `proxy` is a reference, so it may be read. The value is then in two places, but the one inside `service` is
        // neither used nor dropped again: `service` ends here without its destructor. What else it owned, a name and
        // an empty list of listeners, is lost, once per process.
        Some(proxy) => unsafe { ptr::read(proxy) },
        None => unreachable!("the service was built around a proxy a moment ago"),
    }
}
