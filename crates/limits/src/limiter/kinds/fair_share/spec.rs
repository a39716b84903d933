//! What the operator says of a fair share, and what of it is refused.

use std::time::Duration;

use crate::limiter::MAX_NODES;
use crate::units::{Bytes, OutOfRange, Rate};

/// The half-life at which λ is one per second: an average over about the last second, as rakelimit's paper has it.
///
/// A longer one would take a flood for a crowd for longer, a shorter one would take a browser that opens six connections
/// at once for a flood.
pub const DEFAULT_HALF_LIFE: Duration = Duration::from_nanos(693_147_181);

/// The memory of a limit unless the operator says otherwise: 65,536 columns of offered rates and 32,768 of caps, and as
/// many again for re-keying, which is 6 MiB.
pub const DEFAULT_MEMORY: Bytes = Bytes(4 << 20);

/// How much may pass in all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    /// This rate.
    Rate(Rate),
    /// What [`FairShare::set_capacity`](super::share::FairShare::set_capacity) said last. Before it has said anything there is
    /// no limit: a guess would refuse requests for no reason anybody could give.
    Follows,
}

/// One node of the lattice: a way to group requests, such as by client, by /24 or by client and route. What it groups
/// by is the caller's: he hands over a key for every node of each request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeSpec {
    /// From the most specific, 0, to the most general. Nodes of one level are compared with each other, and the heaviest
    /// stands for all.
    pub level: u8,
    /// How many base shares a value of this node may take, 1 to 1,000,000: about how many honest clients it stands for.
    pub multiplier: f64,
}

/// What traffic that is limited in one node, and passes, means to the more general ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Parents {
    /// It is counted there apart from traffic that is not limited, and held to the same share: a limited client never
    /// counts against its neighbours, and a network of limited clients still takes one network's share, or two with its
    /// unlimited ones.
    #[default]
    Apart,
    /// It is counted there like all other traffic (`charge_parents: true`): a network never takes more than its share,
    /// at the price that a network of many limited clients is thinned as a whole, neighbours included.
    Charged,
    /// It is not counted there at all, as in rakelimit, and for comparison with it: a network whose hosts are all
    /// limited is never seen as one, so that hosts that send more get more in sum.
    Spared,
}

/// The numbers of one fair share.
#[derive(Debug, Clone, PartialEq)]
pub struct FairShareSpec {
    /// How much may pass in all.
    pub capacity: Capacity,
    /// The nodes, most specific first: at least one, at most [`MAX_NODES`], levels never descending. The total is no
    /// node; it is always charged.
    pub nodes: Vec<NodeSpec>,
    /// Half-life of the offered rates, 1 ms to 1 h; [`DEFAULT_HALF_LIFE`] unless there is a reason.
    pub half_life: Duration,
    /// A base share per second that stays as it is instead of being steered by the total. For comparison with
    /// rakelimit, whose limit is one number for all nodes.
    pub alpha_fixed: Option<f64>,
    /// What limited traffic that passes means to the more general nodes.
    pub parents: Parents,
    /// Whether a limited node has, beside thinning, a cap that holds while its rate is still being learned. `false`
    /// only for comparison with rakelimit, which has none.
    pub caps: bool,
    /// 4 KiB to 512 MiB: a table of rates fills half of it, one of caps a quarter, each rounded down to a power of two;
    /// and there are two of each, which take turns. So at most one and a half times this in all.
    pub memory: Bytes,
}

impl FairShareSpec {
    /// The chain that §2.4 of the design settles on, without routes: client ×1, /24 or /48 ×16, /16 or /32 ×64.
    pub fn new(capacity: Capacity) -> FairShareSpec {
        let node = |level, multiplier| NodeSpec { level, multiplier };
        FairShareSpec {
            capacity,
            nodes: vec![node(0, 1.0), node(1, 16.0), node(2, 64.0)],
            half_life: DEFAULT_HALF_LIFE,
            alpha_fixed: None,
            parents: Parents::Apart,
            caps: true,
            memory: DEFAULT_MEMORY,
        }
    }

    /// # Errors
    /// The first number outside its range, in the order of the fields.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let refused = |allowed| Err(OutOfRange { allowed });
        if self.nodes.is_empty() || self.nodes.len() > MAX_NODES {
            return refused("1 to 12 nodes");
        }
        if !self.nodes.is_sorted_by_key(|node| node.level) {
            return refused("nodes from the most specific level to the most general");
        }
        if !self.nodes.iter().all(|node| (1.0..=1e6).contains(&node.multiplier)) {
            return refused("multipliers of 1 to 1000000");
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(3_600)).contains(&self.half_life) {
            return refused("a half-life of 1ms to 1h");
        }
        if self.alpha_fixed.is_some_and(|alpha| !(1e-3..=1e7).contains(&alpha)) {
            return refused("a fixed share of 0.001 to 10000000 per second");
        }
        if !(4 << 10..=512 << 20).contains(&self.memory.0) {
            return refused("a memory of 4KiB to 512MiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_ranges_are_named() {
        let valid = FairShareSpec::new(Capacity::Follows);
        assert_eq!(valid.validate(), Ok(()));
        let node = |level, multiplier| NodeSpec { level, multiplier };
        let broken = |change: fn(&mut FairShareSpec)| {
            let mut spec = FairShareSpec::new(Capacity::Follows);
            change(&mut spec);
            spec.validate().unwrap_err().allowed
        };
        assert_eq!(broken(|spec| spec.nodes.clear()), "1 to 12 nodes");
        assert_eq!(broken(|spec| spec.nodes = vec![spec.nodes[0]; 13]), "1 to 12 nodes");
        let most = FairShareSpec { nodes: vec![node(0, 1.0); 12], ..valid.clone() };
        assert_eq!(most.validate(), Ok(()));
        assert!(broken(|spec| spec.nodes.reverse()).contains("most specific"));
        for multiplier in [0.99, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            let nodes = vec![node(0, multiplier)];
            assert!(FairShareSpec { nodes, ..valid.clone() }.validate().is_err(), "{multiplier}");
        }
        assert!(broken(|spec| spec.half_life = Duration::ZERO).contains("half-life"));
        assert!(broken(|spec| spec.alpha_fixed = Some(f64::NAN)).contains("fixed share"));
        assert!(broken(|spec| spec.memory = Bytes(4095)).contains("memory"));
    }
}
