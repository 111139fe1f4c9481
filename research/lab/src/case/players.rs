//! An online game by chance, after Cao et al. 2011, section 5.1: each player is an object of
//! 100 KB, which five state machines update that are nearly independent. The paper has no
//! probabilities; those here keep what it says of the outcome: most attributes are almost never
//! updated, 80 % in response to what a human does alone, and the load of a tick is quite variable.
//!
//! - A machine owns a fifth of its player's attributes and rests or is active. While it is active
//!   it updates its few hot attributes (a place, a direction, health) in each tick, now and then
//!   one of the fifth that the game keeps, and, when the player does something, any one.
//! - Players live in zones. While a zone has a battle, its players fight more, and a player who
//!   begins to fight moves.
//! - Rates are shared out so that a tick has, on average, as many updates as are asked for.

use stillframe_measure::draw::Rng;

/// Players of a zone.
const ZONE: usize = 100;
/// In a thousand updates of a machine, those that what a player does makes: half an action a second
/// at the paper's rate.
const ACTIONS: u64 = 2;
/// And those of what the game keeps of a player beside what is hot.
const KEPT: u64 = 30;
/// Of a machine's attributes, one in so many is kept by the game.
const KEPT_SHARE: u64 = 5;

/// A thing that a player does or does not. Chances are of a tick.
struct Machine {
    /// Its share of all updates.
    share: f64,
    starts: f64,
    ends: f64,
    /// Attributes that it updates in each tick while it is active.
    hot: u64,
}

const MOVING: usize = 0;
const FIGHTING: usize = 1;
const MACHINES: [Machine; 5] = [
    // Moving: place, direction, speed, animation.
    Machine { share: 0.55, starts: 0.05, ends: 0.05, hot: 12 },
    // Fighting: health, target, cooldowns.
    Machine { share: 0.20, starts: 0.004, ends: 0.036, hot: 40 },
    // Recovering: effects that fade.
    Machine { share: 0.15, starts: 0.02, ends: 0.047, hot: 24 },
    // Making and trading: what is carried.
    Machine { share: 0.07, starts: 0.002, ends: 0.038, hot: 200 },
    // Talking.
    Machine { share: 0.03, starts: 0.02, ends: 0.18, hot: 10 },
];

/// By how much more players begin to fight while their zone has a battle, which is a tenth of time.
const BATTLE: f64 = 10.0;
const BATTLE_STARTS: f64 = 0.01;
const BATTLE_ENDS: f64 = 0.09;

/// All players at one tick.
#[derive(Debug)]
pub(crate) struct Players {
    /// Attributes of a player, all told.
    attributes: u64,
    /// Updates of each machine in a tick while it is active.
    rates: [f64; MACHINES.len()],
    active: Vec<[bool; MACHINES.len()]>,
    battles: Vec<bool>,
}

impl Players {
    /// As many as have room in so many items, with so many updates a tick on average.
    pub(crate) fn new(items: u64, attributes: u64, updates: u64, seed: u64) -> Self {
        let attributes = attributes.clamp(1, items.max(1));
        let count = (items / attributes).max(1) as usize;
        let rates = std::array::from_fn(|machine| {
            let Machine { share, starts, ends, .. } = MACHINES[machine];
            // Battles make a tenth of the time what begins ten times as often: found by
            // simulation, as the other machines hang on it too.
            let active = match machine {
                MOVING => 0.53,
                FIGHTING => 0.13,
                _ => starts / (starts + ends),
            };
            updates as f64 * share / count as f64 / active
        });
        let mut players = Self {
            attributes,
            rates,
            active: vec![[false; MACHINES.len()]; count],
            battles: vec![false; count.div_ceil(ZONE)],
        };
        // Until they no longer show that all of them began at rest.
        let mut rng = Rng(seed);
        for _ in 0..200 {
            players.live(&mut rng);
        }
        players
    }

    /// One tick of every machine.
    fn live(&mut self, rng: &mut Rng) {
        for (zone, players) in self.active.chunks_mut(ZONE).enumerate() {
            let battle = &mut self.battles[zone];
            *battle = turn(*battle, BATTLE_STARTS, BATTLE_ENDS, rng);
            for active in players {
                let fought = active[FIGHTING];
                for (number, machine) in MACHINES.iter().enumerate() {
                    let more = if *battle && number == FIGHTING { BATTLE } else { 1.0 };
                    active[number] = turn(active[number], machine.starts * more, machine.ends, rng);
                }
                active[MOVING] |= active[FIGHTING] && !fought;
            }
        }
    }

    /// The items that the next tick updates.
    pub(crate) fn tick(&mut self, rng: &mut Rng, updates: &mut Vec<u32>) {
        self.live(rng);
        let owned = (self.attributes / MACHINES.len() as u64).max(1);
        for (player, active) in self.active.iter().enumerate() {
            for (number, machine) in MACHINES.iter().enumerate() {
                if !active[number] {
                    continue;
                }
                let rate = self.rates[number];
                let count = rate as u64 + u64::from(rng.unit() < rate.fract());
                let first = player as u64 * self.attributes
                    + (number as u64 * owned).min(self.attributes - owned);
                for _ in 0..count {
                    let span = match rng.below(1000) {
                        ..ACTIONS => owned,
                        kind if kind < ACTIONS + KEPT => owned.div_ceil(KEPT_SHARE),
                        _ => machine.hot.min(owned),
                    };
                    updates.push((first + rng.below(span)) as u32);
                }
            }
        }
    }
}

/// Whether something goes on in the next tick.
fn turn(active: bool, starts: f64, ends: f64, rng: &mut Rng) -> bool {
    if active { rng.unit() >= ends } else { rng.unit() < starts }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's game: 2,000 players of 25,000 attributes, 531,530 updates a second.
    #[test]
    fn most_attributes_are_almost_never_updated_and_ticks_differ() {
        let (items, attributes, wanted) = (50_000_000, 25_000, 53_153);
        let mut players = Players::new(items, attributes, wanted, 1);
        let (mut rng, mut counts, mut updates) = (Rng(2), Vec::new(), Vec::new());
        for _ in 0..400 {
            let before = updates.len();
            players.tick(&mut rng, &mut updates);
            counts.push((updates.len() - before) as u64);
        }
        let mean = counts.iter().sum::<u64>() / counts.len() as u64;
        assert!(mean.abs_diff(wanted) < wanted / 20, "{mean} updates a tick");
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most * 10 > least * 11), "{counts:?}");
        assert!(updates.iter().all(|&item| u64::from(item) < items));
        // A period of 4 s has 40 ticks.
        updates.truncate(counts[..40].iter().sum::<u64>() as usize);
        updates.sort_unstable();
        updates.dedup();
        assert!(updates.len() < items as usize / 50, "{} items in a period", updates.len());
    }

    #[test]
    fn a_state_may_be_smaller_than_a_player() {
        for (items, attributes) in [(1, 25_000), (3, 1), (1000, 7), (24_999, 25_000)] {
            let mut players = Players::new(items, attributes, 500, 1);
            let mut updates = Vec::new();
            for _ in 0..50 {
                players.tick(&mut Rng(3), &mut updates);
            }
            assert!(!updates.is_empty() && updates.iter().all(|&it| u64::from(it) < items));
        }
    }
}
