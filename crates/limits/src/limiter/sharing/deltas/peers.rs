//! The other gates: which of their messages are replays or were missed, and how old the knowledge of them is.
//!
//! Adding is not idempotent, so a message counts once: by its sender's sequence numbers. A number that was seen is a
//! replay, and dropped. A number beyond the next means that messages were missed: they are not asked for again, as their
//! sender keeps nothing. What was in them is never known here, so for that time this gate knew nothing: of each sender whose
//! messages were missed, it admits up to what that sender admitted meanwhile, which is the promise's term for knowledge of that age.

use std::time::Duration;

use super::message::NodeId;
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

/// The most gates that are kept; of more, the gate whose last message is oldest is forgotten.
const MOST_PEERS: usize = 256;

/// After so long without a message a gate has ended, unless the store was away.
pub const LIFE: Duration = Duration::from_secs(5);

/// What a message is, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A new one.
    Next {
        /// How many messages of the sender before it were missed.
        missed: u64,
    },
    /// One that was received before, or an older one.
    Replay,
}

/// The other gates; see the module.
#[derive(Debug, Default)]
pub struct Peers(Vec<Peer>);

#[derive(Debug, Clone, Copy)]
struct Peer {
    node: NodeId,
    sequence: u64,
    /// When its last sums were taken: all that it admitted until then is known.
    known_until: Timestamp,
    heard: Timestamp,
}

impl Peers {
    /// Takes note of a message received at `now`, whose sums were taken at `taken`.
    pub fn receive(&mut self, node: NodeId, sequence: u64, taken: Timestamp, now: Timestamp) -> Received {
        if let Some(peer) = self.0.iter_mut().find(|peer| peer.node == node) {
            if sequence <= peer.sequence {
                return Received::Replay;
            }
            let missed = sequence - peer.sequence - 1;
            let known_until = peer.known_until.max(taken);
            *peer = Peer { node, sequence, known_until, heard: now };
            return Received::Next { missed };
        }
        if self.0.len() >= MOST_PEERS
            && let Some((longest, _)) = self.0.iter().enumerate().min_by_key(|(_, peer)| peer.heard)
        {
            self.0.swap_remove(longest);
        }
        self.0.push(Peer { node, sequence, known_until: taken, heard: now });
        // earlier messages are of no more use than what the gate admitted before it had any
        Received::Next { missed: 0 }
    }

    /// Returns up to when this gate, which last read the store's messages at `listened`, knows what each other gate admitted. What a
    /// gate admitted in its last moments is never known; after [`LIFE`] without a message it no longer counts.
    pub fn known_until(&self, listened: Timestamp) -> Timestamp {
        self.live(listened).map(|peer| peer.known_until).fold(listened, Timestamp::min)
    }

    fn live(&self, listened: Timestamp) -> impl Iterator<Item = &Peer> {
        let since = listened.nanos().saturating_sub(saturating_nanos(LIFE));
        self.0.iter().filter(move |peer| peer.heard.nanos() >= since)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * SECOND)
    }

    #[test]
    fn a_number_counts_once_and_a_gap_is_seen() {
        let mut peers = Peers::default();
        let mut receive = |node, sequence| peers.receive(node, sequence, at(10), at(10));
        assert_eq!(receive(node(1), 7), Received::Next { missed: 0 }, "whoever begins to listen missed nothing");
        assert_eq!(receive(node(1), 7), Received::Replay);
        assert_eq!(receive(node(1), 6), Received::Replay);
        assert_eq!(receive(node(1), 8), Received::Next { missed: 0 });
        assert_eq!(receive(node(1), 12), Received::Next { missed: 3 });
        assert_eq!(receive(node(2), 1), Received::Next { missed: 0 });
    }

    #[test]
    fn what_is_known_is_as_old_as_the_oldest_word_of_a_gate_that_lives() {
        let mut peers = Peers::default();
        assert_eq!(peers.known_until(at(100)), at(100), "of no other gate: since the store could be read");
        peers.receive(node(1), 1, at(99), at(100));
        peers.receive(node(2), 1, at(97), at(98));
        assert_eq!((peers.known_until(at(100)), peers.live(at(100)).count()), (at(97), 2));
        assert_eq!((peers.known_until(at(104)), peers.live(at(104)).count()), (at(99), 1));
        assert_eq!(peers.known_until(at(106)), at(106), "both have ended");
    }

    #[test]
    fn of_more_gates_than_there_is_room_for_the_most_silent_are_forgotten() {
        let mut peers = Peers::default();
        for number in 0..MOST_PEERS as u64 + 10 {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&number.to_le_bytes());
            peers.receive(NodeId(name), 1, at(number), at(number));
        }
        assert_eq!(peers.0.len(), MOST_PEERS);
        assert_eq!(peers.0.iter().map(|peer| peer.heard).min(), Some(at(10)));
    }

    proptest! {
        /// Messages of three gates, each sent once or more, in their senders' order but mixed at will.
        #[test]
        fn each_message_counts_once_in_whatever_order_gates_are_heard(
            turns in proptest::collection::vec((0_u8..3, any::<bool>()), 0..200),
        ) {
            let (mut peers, mut sent, mut counted) = (Peers::default(), [0_u64; 3], [0_u64; 3]);
            for (gate, again) in turns {
                let index = usize::from(gate);
                sent[index] += u64::from(!again || sent[index] == 0);
                if peers.receive(node(gate), sent[index], at(1), at(1)) == (Received::Next { missed: 0 }) {
                    counted[index] += 1;
                }
            }
            prop_assert_eq!(counted, sent);
        }
    }
}
