//! Names of origins become addresses here, in the background, never on the request path.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::origin::{Located, OriginState};
use super::way::unix_address;
use crate::policy::OriginAddress;

/// A name server that needs longer than this is not answering.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(5);

/// How soon a failed look-up is tried again, however long the operator's own interval is.
const RETRY: Duration = Duration::from_secs(2);

/// Looks all names of the origin up once and installs what was found. Literals need no look-up and always work.
pub async fn resolve_once(origin: &OriginState) {
    let mut memory = Memory::of(origin);
    look_up(&origin.spec().addresses, &mut memory).await.install(origin);
}

/// Installs, of an origin that takes the place of another, the addresses that are known from that one, so that a name server that is
/// down at that moment takes nothing away.
pub fn carry_over(origin: &OriginState, before: &OriginState) {
    let same = |one: &OriginAddress, other: &OriginAddress| one.host == other.host && one.port == other.port;
    let (old, new) = (&before.spec().addresses, &origin.spec().addresses);
    let ring = before.ring();
    let located = ring.endpoints.iter().filter_map(|endpoint| {
        let known = old.get(endpoint.entry)?;
        let entry = new.iter().position(|address| same(address, known))?;
        Some(Located { address: endpoint.address, weight: new.get(entry)?.weight, entry })
    });
    Found { addresses: located.collect(), failing: false }.install(origin);
}

/// Keeps the addresses fresh until shutdown. Returns at once if there is nothing but literals.
pub async fn keep_fresh(origin: Arc<OriginState>, mut shutdown: watch::Receiver<bool>) {
    let is_name = |address: &&OriginAddress| address.host.parse::<IpAddr>().is_err() && address.unix_path().is_none();
    let named = origin.spec().addresses.iter().filter(is_name);
    let Some(interval) = named.map(|address| address.resolve).min() else { return };
    let mut memory = Memory::of(&origin);
    let mut generation = Vec::new();
    let mut was_failing = false;
    loop {
        let found = look_up(&origin.spec().addresses, &mut memory).await;
        if found.addresses != generation {
            found.install(&origin);
            generation = found.addresses;
        }
        if found.failing != was_failing {
            was_failing = found.failing;
            // one event per change of state, however long an outage lasts
            if was_failing {
                tracing::warn!(
                    origin = origin.spec().name,
                    "a name of this origin does not resolve; its last addresses stay in use"
                );
            } else {
                tracing::info!(origin = origin.spec().name, "all names of this origin resolve again");
            }
        }
        let pause = if was_failing { interval.min(RETRY) } else { interval };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() { return },
        }
    }
}

/// The last good answer for each entry, so that an outage of the name service changes nothing.
#[derive(Default)]
struct Memory(Vec<Vec<SocketAddr>>);

impl Memory {
    /// What is in use already.
    fn of(origin: &OriginState) -> Memory {
        let ring = origin.ring();
        let of_entry = |entry: usize| {
            ring.endpoints.iter().filter(|known| known.entry == entry).map(|known| known.address).collect()
        };
        Memory((0..origin.spec().addresses.len()).map(of_entry).collect())
    }
}

struct Found {
    addresses: Vec<Located>,
    failing: bool,
}

impl Found {
    fn install(&self, origin: &OriginState) {
        // the names first: whoever takes a new address must find the name that its certificate carries
        let entries = self.addresses.iter().map(|found| (found.address, found.entry));
        origin.way().name_addresses(entries.collect());
        origin.install(&self.addresses);
    }
}

async fn look_up(entries: &[OriginAddress], memory: &mut Memory) -> Found {
    memory.0.resize(entries.len(), Vec::new());
    let mut found = Found { addresses: Vec::new(), failing: false };
    for (position, (entry, last)) in entries.iter().zip(&mut memory.0).enumerate() {
        if entry.unix_path().is_some() {
            *last = unix_address(position).into_iter().collect();
        } else if let Ok(literal) = entry.host.parse::<IpAddr>() {
            *last = vec![SocketAddr::new(literal, entry.port)];
        } else {
            match timeout(LOOKUP_DEADLINE, tokio::net::lookup_host((entry.host.as_str(), entry.port))).await {
                Ok(Ok(answer)) => {
                    let mut answer: Vec<SocketAddr> = answer.collect();
                    // name servers shuffle their answers; the same set must be the same list
                    answer.sort_unstable();
                    answer.dedup();
                    *last = answer;
                }
                Ok(Err(_)) | Err(_) => found.failing = true,
            }
        }
        found.failing |= last.is_empty();
        for &address in last.iter() {
            if !found.addresses.iter().any(|known| known.address == address) {
                found.addresses.push(Located { address, weight: entry.weight, entry: position });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(address: &str, entry: usize) -> Located {
        Located { address: address.parse().unwrap(), weight: 2, entry }
    }

    fn entry(host: &str, port: u16) -> OriginAddress {
        OriginAddress { host: host.into(), port, weight: 2, resolve: Duration::from_secs(30) }
    }

    #[tokio::test]
    async fn literals_need_no_name_server() {
        let entries = [entry("127.0.0.1", 80), entry("::1", 81)];
        let found = look_up(&entries, &mut Memory::default()).await;
        assert!(!found.failing);
        assert_eq!(found.addresses, [located("127.0.0.1:80", 0), located("[::1]:81", 1)]);
    }

    #[tokio::test]
    async fn a_failing_name_keeps_its_last_addresses_and_spoils_nobody_elses() {
        let entries = [entry("no-such-host.invalid", 80), entry("127.0.0.1", 80)];
        let mut memory = Memory(vec![vec!["192.0.2.7:80".parse().unwrap()], vec![]]);
        let found = look_up(&entries, &mut memory).await;
        assert!(found.failing);
        assert_eq!(found.addresses, [located("192.0.2.7:80", 0), located("127.0.0.1:80", 1)]);
    }
}
