//! Who asks when, and what became of it, bin by bin.

use std::net::Ipv4Addr;

use tidegate::units::Dice;

use crate::world::World;

/// Clients that behave alike.
pub struct Crowd {
    /// Their addresses.
    pub clients: Vec<Ipv4Addr>,
    /// Stretches of time, in seconds, with the rate of each client in it.
    pub sends: Vec<(f64, f64, f64)>,
    /// At one instant each of them sends so many at once.
    pub bursts: Vec<(f64, u32)>,
}

impl Crowd {
    /// One client.
    pub fn one() -> Crowd {
        Crowd { clients: vec![Ipv4Addr::new(203, 0, 113, 9)], sends: Vec::new(), bursts: Vec::new() }
    }

    /// So many clients, no two of one /16.
    pub fn scattered(count: u8) -> Crowd {
        let clients = (0..count).map(|index| Ipv4Addr::new(20 + index, index, 7, 1)).collect();
        Crowd { clients, sends: Vec::new(), bursts: Vec::new() }
    }

    /// So many clients of one /24.
    pub fn network(count: u8) -> Crowd {
        let clients = (1..=count).map(|index| Ipv4Addr::new(198, 51, 100, index)).collect();
        Crowd { clients, sends: Vec::new(), bursts: Vec::new() }
    }

    /// Each sends evenly, so many per second.
    pub fn sending(mut self, from: f64, until: f64, per_second: f64) -> Crowd {
        self.sends.push((from, until, per_second));
        self
    }

    /// Each sends so many at once.
    pub fn bursting(mut self, at: f64, count: u32) -> Crowd {
        self.bursts.push((at, count));
        self
    }

    /// Every request as (time, client). Clients start at random within their first interval, so that they do not march
    /// in step.
    fn requests(&self, dice: &mut Dice) -> Vec<(f64, Ipv4Addr)> {
        let mut requests = Vec::new();
        for &client in &self.clients {
            for &(from, until, per_second) in &self.sends {
                let phase = if self.clients.len() == 1 { 0.0 } else { dice.unit() };
                let times = (0_u32..).map(|index| from + (f64::from(index) + phase) / per_second);
                requests.extend(times.take_while(|at| *at < until).map(|at| (at, client)));
            }
            for &(at, count) in &self.bursts {
                requests.extend((0..count).map(|_| (at, client)));
            }
        }
        requests
    }
}

/// One request to come: when, of which crowd, of whom.
#[derive(Debug, Clone, Copy)]
pub struct Coming {
    pub at: f64,
    pub crowd: usize,
    pub client: Ipv4Addr,
}

/// The requests of all crowds in the order of their times.
pub fn requests(crowds: &[Crowd]) -> Vec<Coming> {
    let mut dice = Dice(11);
    let mut coming = Vec::new();
    for (crowd, of) in crowds.iter().enumerate() {
        coming.extend(of.requests(&mut dice).into_iter().map(|(at, client)| Coming { at, crowd, client }));
    }
    coming.sort_by(|a, b| a.at.total_cmp(&b.at));
    coming
}

/// What became of one crowd's requests.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Seconds per bin.
    pub bin: f64,
    pub admitted: Vec<u32>,
    pub refused: Vec<u32>,
}

impl Tally {
    pub fn new(length: f64, bin: f64) -> Tally {
        let bins = (length / bin).round() as usize;
        Tally { bin, admitted: vec![0; bins], refused: vec![0; bins] }
    }

    pub fn count(&mut self, at: f64, admitted: bool) {
        let bin = ((at / self.bin + 1e-9) as usize).min(self.admitted.len() - 1);
        if admitted { self.admitted[bin] += 1 } else { self.refused[bin] += 1 }
    }

    /// Admitted from one time to another, on bounds of bins.
    pub fn admitted_in(&self, from: f64, until: f64) -> u32 {
        self.part(&self.admitted, from, until)
    }

    /// Refused from one time to another, on bounds of bins.
    pub fn refused_in(&self, from: f64, until: f64) -> u32 {
        self.part(&self.refused, from, until)
    }

    pub fn all_admitted(&self) -> u32 {
        self.admitted.iter().sum()
    }

    pub fn all_refused(&self) -> u32 {
        self.refused.iter().sum()
    }

    fn part(&self, of: &[u32], from: f64, until: f64) -> u32 {
        let bin = |at: f64| (at / self.bin).round() as usize;
        of[bin(from)..bin(until).min(of.len())].iter().sum()
    }
}

/// Lets the crowds at a gate, each client without a login name; one tally per crowd.
pub fn run(world: &mut World, crowds: &[Crowd], length: f64, bin: f64) -> Vec<Tally> {
    let mut tallies = vec![Tally::new(length, bin); crowds.len()];
    for coming in requests(crowds) {
        let told = world.ask(coming.at, coming.client, None);
        tallies[coming.crowd].count(coming.at, told.admitted);
    }
    tallies
}
