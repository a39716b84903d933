//! What the gate needs of others: origins and stores that answer. All are asked at once, each within seconds.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::finding::{Finding, Verdict};
use crate::config::Config;
use crate::origins::tls::Tls;
use crate::policy::{Origin, OriginAddress};
use crate::store::StoreInUse;
use crate::system::clock::Clock;
use crate::system::socket::Socket;

/// For a name, a connection and a handshake together.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connects to each address of each origin, and asks each store.
pub fn reached(config: &Config) -> Vec<Finding> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            let origins = join_all(config.policy.origins.iter().map(|origin| reached_origin(origin)));
            let (mut findings, stores) = tokio::join!(origins, stores(config));
            findings.extend(stores);
            findings
        }),
        Err(error) => vec![Finding::new("network", Verdict::Fail, format!("no runtime: {error}"))],
    }
}

async fn reached_origin(origin: &Origin) -> Finding {
    let check = format!("origin {}", origin.name);
    let tls = origin.tls.clone().map(|spec| Tls::load(spec, origin.protocol)).transpose();
    let tls = match tls {
        Ok(tls) => tls,
        Err(fault) => {
            return Finding::new(check, Verdict::Fail, fault.to_string()).advise("mend the files of its `tls:`");
        }
    };
    let asked = join_all(origin.addresses.iter().map(|address| reached_address(address, tls.as_ref()))).await;
    let faults: Vec<String> = asked.into_iter().filter_map(Result::err).collect();
    let (all, failed) = (origin.addresses.len(), faults.len());
    if failed == 0 {
        let by = if tls.is_some() { " by TLS" } else { "" };
        return Finding::ok(check, format!("{all} of {all} addresses connected{by}"));
    }
    let verdict = if failed == all { Verdict::Fail } else { Verdict::Warn };
    Finding::new(check, verdict, format!("{failed} of {all} not reached: {}", faults.join("; ")))
        .advise("start it, or mend its `addresses`: requests to it get 502 until it answers")
}

/// # Errors
/// What keeps it from being reached, with its address.
async fn reached_address(address: &OriginAddress, tls: Option<&Tls>) -> Result<(), String> {
    let connect = async {
        let socket = match address.unix_path() {
            Some(path) => Socket::unix(path).await?,
            None => any(tokio::net::lookup_host((address.host.as_str(), address.port)).await?.collect()).await?,
        };
        let Some(tls) = tls else { return Ok(()) };
        let name = tls.spec().sni.as_deref().unwrap_or(&address.host);
        tls.handshake(socket, name).await.map(drop)
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", PATIENCE.as_secs()));
    let ended = timeout(PATIENCE, connect).await.unwrap_or_else(|_| Err(late()));
    ended.map_err(|error| format!("{}: {error}", address.authority()))
}

/// The first of these that takes a connection.
async fn any(addresses: Vec<SocketAddr>) -> io::Result<Socket> {
    let mut fault = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match Socket::tcp(address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

/// Connects as a start does, and waits as long as one.
async fn stores(config: &Config) -> Vec<Finding> {
    let settings = &config.settings;
    let stores = match StoreInUse::all(&config.policy.stores, &settings.store_passwords, &[], Clock::start()) {
        Ok(stores) => stores,
        Err((name, fault)) => return vec![Finding::new(format!("store {name}"), Verdict::Fail, fault)],
    };
    stores.iter().for_each(|store| store.tend());
    let answered = StoreInUse::first_answers(&stores).await;
    answered.into_iter().map(|(store, answered)| finding(&store, answered)).collect()
}

fn finding(store: &Arc<StoreInUse>, answered: bool) -> Finding {
    let state = store.state();
    let check = format!("store {}", state.name);
    if answered {
        return Finding::ok(check, "answers");
    }
    let cause = state.last_fault.unwrap_or_else(|| "no answer within its `ready_within`".to_owned());
    Finding::new(check, Verdict::Fail, cause)
        .advise("mend its `url`, user or password: until it answers, its limits go by their `on_store_error`")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::Path;

    use super::*;
    use crate::config::load_text;

    fn found(addresses: &[SocketAddr]) -> Finding {
        let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        let text = format!(
            "listen: \"127.0.0.1:0\"\norigins: {{ app: {{ addresses: [{}] }} }}\nroutes: [{{ origin: app }}]\n",
            addresses.join(", ")
        );
        let config = load_text("t.yaml", &text, &|_| None, Path::new(".")).outcome.unwrap();
        reached(&config).remove(0)
    }

    #[test]
    fn an_origin_fails_when_none_of_its_addresses_answers_and_warns_when_some_do() {
        let listening = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second) = (listening(), listening());
        let (up, down) = (first.local_addr().unwrap(), second.local_addr().unwrap());
        assert_eq!(found(&[up, down]), Finding::ok("origin app", "2 of 2 addresses connected"));
        drop(second);
        let some = found(&[up, down]);
        assert_eq!(some.verdict, Verdict::Warn);
        assert!(some.found.starts_with(&format!("1 of 2 not reached: {down}: ")), "{some:?}");
        assert_eq!(found(&[down]).verdict, Verdict::Fail);
    }
}
