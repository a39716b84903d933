//! Shares the bans of this gate with all gates that share a store.
//!
//! The store keeps one text: what gates know of bans, sealed under a key that follows from the operator's secret. One task per store asks
//! each second whether it is the text that this gate knows, and at once when this gate gives or lifts a ban. A text that is another is
//! merged ([`Bans::merge`]). If this gate knows more, it puts the merged text in the place of that which it read, unless another gate was
//! quicker: then it merges again.
//!
//! So an order reaches every gate that is connected within [`EVERY`], a tenth more at most, and two exchanges with the store. A store that
//! is silent changes nothing: gates keep what they know. One that was emptied is filled again by the first gate that asks. No request waits
//! for any of it.
//!
//! Gates with two secrets, while the operator changes it, do this at the places of both, so bans pass from gates with the old one to gates
//! with the new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{sleep, timeout};

use super::bounds::MOST_ANSWER;
use super::client::StoreClient;
use super::script::{self, KeptBans};
use super::sealed::{MARK, Seal};
use crate::bans::{Bans, LONGEST_SHARED, Merged, decode, encode};
use crate::client::Trust;
use crate::client::store_names::of_bans;
use crate::limiter::sharing::StoreError;
use crate::policy::Store;
use crate::system::clock::{self, Clock, wall_nanos};
use crate::units::{Prefix, Timestamp};

/// How often the store is asked, a tenth less or more.
pub const EVERY: Duration = Duration::from_secs(1);

/// How often in a row a gate merges whose text was not taken, because others were quicker.
const MOST_IN_A_ROW: usize = 8;

/// How long the store keeps a text beyond the last ban in it: clocks of gates differ.
const BEYOND: Duration = Duration::from_secs(60);

/// What a text takes, sealed, comes back in one answer.
const _: () = assert!(LONGEST_SHARED + 1_024 < MOST_ANSWER);

/// What a task shares.
pub struct SharedBans {
    /// The bans.
    pub bans: Arc<Bans>,
    /// Whom other gates' penalties do not ban here.
    pub trust: Trust,
    /// What they are sealed under, at one place for each secret.
    seals: Vec<Seal>,
}

impl SharedBans {
    /// The bans of gates that have this secret, or the one before it.
    pub fn new(bans: Arc<Bans>, trust: Trust, secrets: (&[u8], Option<&[u8]>), store: &Store) -> SharedBans {
        let seal = |secret| {
            let (place, key) = of_bans(secret);
            Seal::new(&key, script::bans_key(&store.prefix, &URL_SAFE_NO_PAD.encode(place.0)))
        };
        let seals = [Some(secrets.0), secrets.1].into_iter().flatten().filter_map(seal).collect();
        SharedBans { bans, trust, seals }
    }

    /// Merges a text of a place. Returns the text that is to take its place and how long it is to be kept, `None` if this gate knows no more,
    /// and the revision of this gate's bans that are in it.
    fn merge(&self, place: usize, text: &[u8], clock: Clock) -> (u64, Option<(Vec<u8>, Duration)>) {
        let seal = self.seals.get(place);
        // a text that is none of ours says nothing, and is replaced
        let received = seal.and_then(|seal| seal.open(text)).and_then(|text| decode(&text)).unwrap_or_default();
        let (now, wall) = (clock.now(), wall_nanos());
        let spared = |network: Prefix| network.address().is_loopback() || self.trust.names(network);
        let Merged { records, differs, revision } = self.bans.merge(received, spared, now, wall);
        let sealed = seal.filter(|_| differs).and_then(|seal| seal.seal(encode(&records)));
        let last = records.iter().map(|record| record.known_until).max().unwrap_or(0);
        let keep = Duration::from_nanos(last.saturating_sub(wall)).saturating_add(BEYOND);
        (revision, sealed.map(|sealed| (sealed, keep)))
    }
}

/// Shares bans through one store; see the module.
pub struct BanSync {
    shared: ArcSwapOption<SharedBans>,
    wake: Notify,
    /// One task at a time holds it: of each place the first bytes of the text that is known.
    known: Mutex<Vec<(String, Known)>>,
    /// The revision of the bans that the store is known to have.
    agreed: watch::Sender<Option<u64>>,
    /// When gate and store last agreed, in nanoseconds of the clock.
    agreed_at: AtomicU64,
}

/// What a task knows of a place.
#[derive(Default)]
struct Known {
    /// The first bytes of its text.
    mark: Vec<u8>,
    /// The revision of this gate's bans that are in it.
    revision: Option<u64>,
}

impl BanSync {
    /// Shares nothing yet.
    pub fn new(now: Timestamp) -> BanSync {
        BanSync {
            shared: ArcSwapOption::empty(),
            wake: Notify::new(),
            known: Mutex::default(),
            agreed: watch::Sender::default(),
            agreed_at: AtomicU64::new(now.nanos()),
        }
    }

    /// Shares these from now on.
    pub fn share(&self, shared: Option<SharedBans>) {
        self.shared.store(shared.map(Arc::new));
        self.wake();
    }

    /// Has the bans shared at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Has the bans shared at once, and waits until the store has them, for so long at most. Returns whether it has.
    pub async fn shared_within(&self, patience: Duration) -> bool {
        let Some(shared) = self.shared.load_full() else { return true };
        let revision = shared.bans.revision();
        let mut agreed = self.agreed.subscribe();
        self.wake();
        let reached = agreed.wait_for(|agreed| agreed.is_some_and(|agreed| agreed >= revision));
        timeout(patience, reached).await.is_ok()
    }

    /// How long ago gate and store last agreed, in seconds; `None` where no bans are shared.
    pub fn age(&self, now: Timestamp) -> Option<f64> {
        let shared = self.shared.load().is_some();
        let age = || now.nanos().saturating_sub(self.agreed_at.load(Ordering::Relaxed));
        shared.then(|| Duration::from_nanos(age()).as_secs_f64())
    }

    /// Shares bans; never returns. To be spawned once.
    pub async fn tend(&self, client: &StoreClient, clock: Clock) {
        loop {
            if let Some(shared) = self.shared.load_full() {
                self.agree(&shared, client, clock).await;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = sleep(pause()) => {}
            }
        }
    }

    /// Brings gate and store to one knowledge, at each place.
    async fn agree(&self, shared: &Arc<SharedBans>, client: &StoreClient, clock: Clock) {
        let mut known = self.known.lock().await;
        known.retain(|(place, _)| shared.seals.iter().any(|seal| seal.place() == place));
        let mut least = Some(u64::MAX);
        for (number, seal) in shared.seals.iter().enumerate() {
            let at = known.iter().position(|(place, _)| place == seal.place()).unwrap_or_else(|| {
                known.push((seal.place().to_owned(), Known::default()));
                known.len() - 1
            });
            let Some((_, known)) = known.get_mut(at) else { continue };
            let agreed = agree_at(number, seal.place(), known, shared, client, clock).await;
            least = least.zip(agreed.ok().flatten()).map(|(least, revision)| least.min(revision));
        }
        if let Some(revision) = least {
            self.agreed.send_replace(Some(revision));
            self.agreed_at.store(clock.now().nanos(), Ordering::Relaxed);
        }
    }
}

/// Brings gate and store to one knowledge at a place. Returns the revision of the bans that are in it, `None` if others were quicker each
/// time.
async fn agree_at(
    number: usize,
    place: &str,
    known: &mut Known,
    shared: &Arc<SharedBans>,
    client: &StoreClient,
    clock: Clock,
) -> Result<Option<u64>, StoreError> {
    let revision = shared.bans.revision();
    // what is merged is put in the place of a text that was read, so a gate that has something new reads first
    let mark = if known.revision == Some(revision) { known.mark.as_slice() } else { &[] };
    let mut kept = client.keep_bans(place, mark, &[], Duration::ZERO).await?;
    for _ in 0..MOST_IN_A_ROW {
        let text = match kept {
            KeptBans::AsKnown if known.revision == Some(revision) => return Ok(Some(revision)),
            // there is no text
            KeptBans::AsKnown => Vec::new(),
            KeptBans::Other(text) => text,
        };
        known.mark = text.get(..MARK).unwrap_or(&text).to_vec();
        known.revision = None;
        let own = Arc::clone(shared);
        // thousands of bans take milliseconds: not on a thread that serves requests
        let merged = tokio::task::spawn_blocking(move || own.merge(number, &text, clock)).await;
        let Ok((revision, more)) = merged else { return Ok(None) };
        let Some((text, keep)) = more else {
            known.revision = Some(revision);
            return Ok(Some(revision));
        };
        kept = client.keep_bans(place, &known.mark, &text, keep).await?;
        if kept == KeptBans::AsKnown {
            known.mark = text.get(..MARK).unwrap_or_default().to_vec();
            known.revision = Some(revision);
            return Ok(Some(revision));
        }
    }
    Ok(None)
}

/// How long until the store is asked again: jittered, so that gates that were started together do not ask together.
fn pause() -> Duration {
    EVERY * (900 + u32::try_from(clock::roll() % 201).unwrap_or(0)) / 1_000
}
