//! What a decision names is true: the node that it blames is over its share, of the level that is told, and nothing narrower is.

use proptest::prelude::*;
use tidegate_limits::limiter::kinds::fair_share::share::{FairShareSpec, NodeSpec, Parents};
use tidegate_limits::units::{Bytes, Timestamp};

use crate::simulation::*;

/// How far an estimate of a steady rate may be off, and one more event of it.
const DOUBT: f64 = 1.4;

#[derive(Debug, Clone)]
struct World {
    /// The levels of the nodes, narrowest first, and their multipliers.
    nodes: Vec<(u8, f64)>,
    /// Requests per second of each client, and which key of few it has at each node.
    clients: Vec<(f64, Vec<u8>)>,
    alpha: f64,
}

impl World {
    /// How heavy a client's key is at a node: the rate of those of `counted` that have it, over the multiplier.
    fn weight(&self, client: usize, node: usize, counted: impl Fn(usize) -> bool) -> f64 {
        let key = self.clients[client].1[node];
        let others = (0..self.clients.len()).filter(|other| self.clients[*other].1[node] == key && counted(*other));
        others.map(|other| self.clients[other].0).sum::<f64>() / self.nodes[node].1
    }

    /// The most that the nodes of a level can weigh for a client.
    fn most(&self, client: usize, level: u8) -> f64 {
        self.nodes_of(level).map(|node| self.weight(client, node, |_| true)).fold(0.0, f64::max)
    }

    /// The least: what narrower levels may have limited is not counted.
    fn least(&self, client: usize, level: u8) -> f64 {
        let reaches = |other: usize| self.first_perhaps(other).is_none_or(|first| first >= level);
        self.nodes_of(level).map(|node| self.weight(client, node, reaches)).fold(0.0, f64::max)
    }

    /// The narrowest level that may limit a client.
    fn first_perhaps(&self, client: usize) -> Option<u8> {
        self.levels().find(|level| self.most(client, *level) > self.alpha / DOUBT)
    }

    fn nodes_of(&self, level: u8) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |node| self.nodes[*node].0 == level)
    }

    fn levels(&self) -> impl Iterator<Item = u8> {
        0..=self.nodes.last().unwrap().0
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let node = (any::<bool>(), prop::sample::select(vec![1.0, 2.0, 8.0, 32.0]));
    let nodes = prop::collection::vec(node, 1..6).prop_map(|nodes| {
        let mut level = 0;
        let levels = nodes.into_iter().enumerate().map(|(index, (next, multiplier))| {
            level += u8::from(next && index > 0);
            (level, multiplier)
        });
        levels.collect::<Vec<_>>()
    });
    nodes.prop_flat_map(|nodes| {
        let client = (prop::sample::select(vec![10.0, 30.0, 90.0, 270.0]), prop::collection::vec(0_u8..3, nodes.len()));
        let clients = prop::collection::vec(client, 1..6);
        (clients, 5.0..200.0_f64).prop_map(move |(clients, alpha)| World { nodes: nodes.clone(), clients, alpha })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_node_and_the_level_that_are_named_are_the_narrowest_over_their_share(world in worlds()) {
        let spec = FairShareSpec {
            nodes: world.nodes.iter().map(|(level, multiplier)| NodeSpec { level: *level, multiplier: *multiplier }).collect(),
            // the first that is over its share is named, and none after it is asked
            parents: Parents::Spared,
            memory: Bytes(1 << 20),
            ..compatible(world.alpha, CODE, &[0])
        };
        let limit = limiter(&spec);
        let sources: Vec<Source> = (0..world.clients.len())
            .map(|client| {
                let keys = world.clients[client].1.iter().enumerate();
                source("all", world.clients[client].0, keys.map(|(node, id)| Some(key(&[&[node as u8, *id]]))).collect())
            })
            .collect();
        let mut faults = Vec::new();
        let decide = |keys: &[_], now: Timestamp, dice| {
            let offered = limit.offer(keys, now, dice);
            let passed = offered.admitted() && limit.admit(keys, &offered, now).is_ok();
            // rates are known after a while
            if now.nanos() < START + 3 * SECOND {
                return passed;
            }
            let client = sources.iter().position(|source| source.keys == keys).unwrap();
            let surely = world.levels().find(|level| world.least(client, *level) > DOUBT * world.alpha);
            let perhaps = world.first_perhaps(client);
            let fault = match offered.node {
                None => surely.map(|level| format!("level {level} is not named")),
                Some(node) => {
                    let (level, weight) = (world.nodes[node].0, world.weight(client, node, |_| true));
                    let heaviest = world.least(client, level);
                    if offered.level != Some(level) {
                        Some(format!("level {:?}", offered.level))
                    } else if perhaps.is_none_or(|least| level < least) || surely.is_some_and(|most| level > most) {
                        Some(format!("from {perhaps:?} to {surely:?} explain it"))
                    } else if weight * DOUBT < heaviest || weight * DOUBT < world.alpha {
                        Some(format!("{weight} of {heaviest}"))
                    } else {
                        None
                    }
                }
            };
            if let Some(fault) = fault {
                faults.push(format!("{fault}: client {client}, {offered:?}"));
            }
            passed
        };
        drive(&sources, 5, 7, decide, || f64::NAN);
        prop_assert!(faults.is_empty(), "{}", faults[0]);
    }
}
