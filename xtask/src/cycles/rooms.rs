//! Rooms: whether the folders of a crate can be read one after the other.
//!
//! - A room is a module below one parent, with everything below it: a file, or a folder.
//! - An import draws an arrow between the rooms of the lowest common parent, and at no other level.
//! - An import through a re-export is one of the module that defines the name, so a room cannot
//!   hide behind the `pub use` of its parent.

use std::collections::{BTreeMap, BTreeSet};

use super::{Crate, Name, components};

/// The files that draw each arrow between sibling rooms.
type Arrows<'c> = BTreeMap<[&'c str; 2], BTreeSet<&'c str>>;

/// Rooms below one parent that import each other.
#[derive(Debug)]
pub(crate) struct Knot<'c> {
    /// The parent, as a path below the crate's root; empty for the root.
    pub(crate) parent: String,
    /// The rooms from the top down, in an order with few arrows back up.
    pub(crate) rooms: Vec<String>,
    /// Arrows against that order: from, to, and the files that draw it.
    pub(crate) back: Vec<([&'c str; 2], Vec<&'c str>)>,
}

impl Crate {
    /// The knots of each level.
    pub(crate) fn knots(&self) -> Vec<Knot<'_>> {
        let mut knots = Vec::new();
        for (parent, arrows) in self.arrows() {
            let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for [from, to] in arrows.keys() {
                edges.entry(from).or_default().insert(to);
            }
            for rooms in components(&edges) {
                knots.push(knot(parent.join("/"), rooms, &arrows));
            }
        }
        knots
    }

    /// The arrows between rooms, by their parent.
    fn arrows(&self) -> BTreeMap<&[String], Arrows<'_>> {
        let mut levels: BTreeMap<&[String], Arrows<'_>> = BTreeMap::new();
        for (name, module) in &self.modules {
            for target in self.imports(name, module) {
                let common = name.iter().zip(target).take_while(|(a, b)| a == b).count();
                let (parent, below) = name.split_at(common);
                let ([from, ..], [to, ..]) = (below, &target[common..]) else { continue };
                if self.is_room(parent, from) && self.is_room(parent, to) {
                    let arrows = levels.entry(parent).or_default();
                    arrows.entry([from, to]).or_default().insert(&module.file);
                }
            }
        }
        levels
    }

    /// Whether a module has a file of its own.
    fn is_room(&self, parent: &[String], word: &String) -> bool {
        let name: Name = [parent, std::slice::from_ref(word)].concat();
        let file = |name: &[String]| self.modules.get(name).map(|module| &module.file);
        file(&name) != file(parent)
    }
}

/// Puts rooms that import each other in order.
fn knot<'c>(parent: String, rooms: Vec<String>, arrows: &Arrows<'c>) -> Knot<'c> {
    let inner: Vec<_> = arrows
        .iter()
        .filter(|([from, to], _)| {
            [from, to].iter().all(|end| rooms.iter().any(|room| room == *end))
        })
        .collect();
    let pairs: Vec<[&str; 2]> = inner.iter().map(|(ends, _)| **ends).collect();
    let rooms = in_order(rooms, &pairs);
    let back = inner.into_iter().filter(|(ends, _)| runs_up(&rooms, **ends));
    let back = back.map(|(ends, files)| (*ends, files.iter().copied().collect())).collect();
    Knot { parent, rooms, back }
}

/// Moves one room after the other to its best place, until none has a better one. The fewest arrows
/// back up are hard to find (a minimum feedback arc set); a local optimum is enough here, and zero
/// is found whenever there is no cycle.
fn in_order(mut rooms: Vec<String>, arrows: &[[&str; 2]]) -> Vec<String> {
    let count = |rooms: &[String]| arrows.iter().filter(|ends| runs_up(rooms, **ends)).count();
    let mut fewest = count(&rooms);
    loop {
        let before = fewest;
        for from in 0..rooms.len() {
            for to in 0..rooms.len() {
                let mut moved = rooms.clone();
                let room = moved.remove(from);
                moved.insert(to, room);
                let found = count(&moved);
                if found < fewest {
                    (rooms, fewest) = (moved, found);
                }
            }
        }
        if fewest == before {
            return rooms;
        }
    }
}

/// Whether an arrow leads from a lower room to an upper one.
fn runs_up(rooms: &[String], [from, to]: [&str; 2]) -> bool {
    let place = |name: &str| rooms.iter().position(|room| room == name);
    place(from) > place(to)
}
