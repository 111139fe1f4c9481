//! A small game world: creatures that move, meet and breed, saved while they do.
//!
//! ```text
//! cargo run --release -p stillframe-state --example game_world -- DIRECTORY [TICKS]
//! ```
//!
//! Runs so many ticks (1000), from where the last run ended or was killed. A tick is an action: it
//! is saved whole or not at all, and its record is in the log before the next one begins.

use std::error::Error;

use stillframe_state::{
    ActStore, Column, LogOptions, Slab, Slot, Source, State, Str, Table, Target, Value, record,
};

const SIDE: usize = 32;
const CREATURES_MAX: usize = 500;

#[record]
struct Creature {
    name: Str,
    x: u32,
    y: u32,
    energy: i64,
}

#[derive(Clone, Copy, State)]
struct World {
    tick: Value<u64>,
    chance: Value<u64>,
    born: Value<u64>,
    /// What each field has to eat.
    grass: Column<u32, { SIDE * SIDE }>,
    creatures: Table<Creature>,
    names: Slab,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

impl World {
    /// The next number of chance, which the state holds: a replay draws the same.
    fn draw(&self, words: &mut impl Target, below: u64) -> u64 {
        self.chance.update(words, |chance| {
            *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*chance >> 33) % below
        })
    }

    fn bear(&self, words: &mut impl Target, x: u32, y: u32, energy: i64) -> Outcome {
        let number = self.born.update(words, |born| {
            *born += 1;
            *born
        });
        let name = self.names.put_str(words, &format!("creature {number}"))?;
        self.creatures.insert(words, Creature { name, x, y, energy })?;
        Ok(())
    }

    fn tick(&self, words: &mut impl Target) -> Outcome {
        for _ in 0..SIDE {
            let field = self.draw(words, (SIDE * SIDE) as u64) as usize;
            self.grass.update(words, field, |grass| *grass = (*grass + 10).min(50));
        }
        let slots: Vec<Slot<Creature>> = self.creatures.iter(words).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.live(words, slot)?;
        }
        if self.creatures.is_empty(words) {
            self.bear(words, 0, 0, 100)?;
        }
        self.tick.update(words, |tick| *tick += 1);
        Ok(())
    }

    /// Moves, eats, then dies or breeds.
    fn live(&self, words: &mut impl Target, slot: Slot<Creature>) -> Outcome {
        let Some(mut creature) = self.creatures.get(words, slot) else { return Ok(()) };
        let step = self.draw(words, 4) as u32;
        let side = SIDE as u32;
        creature.x = (creature.x + [1, side - 1, 0, 0][step as usize]) % side;
        creature.y = (creature.y + [0, 0, 1, side - 1][step as usize]) % side;
        let field = creature.y as usize * SIDE + creature.x as usize;
        let eaten = self.grass.update(words, field, |grass| {
            let eaten = (*grass).min(20);
            *grass -= eaten;
            eaten
        });
        creature.energy += i64::from(eaten) - 5;
        if creature.energy <= 0 {
            self.names.remove(words, creature.name);
            self.creatures.remove(words, slot);
            return Ok(());
        }
        if creature.energy > 100 && self.creatures.len(words) < CREATURES_MAX {
            creature.energy /= 2;
            self.bear(words, creature.x, creature.y, creature.energy)?;
        }
        self.creatures.set(words, slot, creature);
        Ok(())
    }

    /// What must hold at every point.
    fn check(&self, words: &impl Source) -> Outcome {
        let mut count = 0;
        for (slot, creature) in self.creatures.iter(words) {
            let name = self.names.get_str(words, creature.name);
            if creature.energy <= 0 || name.is_none_or(|name| !name.starts_with("creature ")) {
                return Err(format!("{slot:?} is wrong").into());
            }
            count += 1;
        }
        if count != self.creatures.len(words) || count != self.names.len(words) {
            return Err(format!("{count} creatures, {} names", self.names.len(words)).into());
        }
        Ok(())
    }
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: game_world DIRECTORY [TICKS]")?;
    let ticks = arguments.next().map_or(Ok(1000), |count| count.parse::<u64>())?;
    let options = World::options("game-world", 1 << 22).log(LogOptions::default());
    let mut store = ActStore::open(directory, options)?;
    let world = World::attach(&mut store)?;
    world.check(&store)?;
    println!("going on from tick {}", world.tick.get(&store));
    for tick in 0..ticks {
        store.act(|words| world.tick(words))?;
        if tick % 100 == 99 {
            store.checkpoint(); // begins after the next tick, while the world goes on
        }
    }
    world.check(&store)?;
    store.wait_durable(store.logged())?;
    let (tick, born) = (world.tick.get(&store), world.born.get(&store));
    println!("tick {tick}: {} creatures of {born}", world.creatures.len(&store));
    store.close()?;
    Ok(())
}
