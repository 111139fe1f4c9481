//! The states in which a server may be at some moment of a history, and what it took to get there.

use std::collections::HashMap;

use crate::model::State;
use crate::mutant::{Mutant, Mutation};

/// How many lost calls of each class have had their effect.
pub(crate) type Used = Vec<u16>;

/// A state, and which calls that will come back have had their effect: bits by their seats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    pub(crate) done: u64,
    pub(crate) state: State,
}

/// All standings, each with the ways to it that use up the fewest lost calls.
///
/// Who has used up fewer lost calls can do whatever others can, since no lost call has to happen.
/// So a way that uses up as many of each class as another, or more, is left out.
#[derive(Debug)]
pub(crate) struct Frontier {
    ways: HashMap<Standing, Vec<Used>>,
    length: usize,
    mutation: Mutation,
}

impl Frontier {
    pub(crate) fn new(mutation: Mutation) -> Self {
        Self { ways: HashMap::new(), length: 0, mutation }
    }

    /// The number of ways.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Adds a way, and whether it leads further than those before.
    pub(crate) fn insert(&mut self, standing: &Standing, used: &Used) -> bool {
        let Some(ways) = self.ways.get_mut(standing) else {
            self.ways.insert(standing.clone(), vec![used.clone()]);
            self.length += 1;
            return true;
        };
        if self.mutation.is(Mutant::KeepsAnyWay) {
            return false;
        }
        let within = |one: &Used, other: &Used| one.iter().zip(other).all(|(one, it)| one <= it);
        if ways.iter().any(|way| within(way, used)) {
            return false;
        }
        let before = ways.len();
        ways.retain(|way| !within(used, way));
        ways.push(used.clone());
        self.length = self.length + ways.len() - before;
        true
    }

    /// Every standing with every way to it.
    pub(crate) fn into_ways(self) -> impl Iterator<Item = (Standing, Used)> {
        self.ways
            .into_iter()
            .flat_map(|(standing, ways)| ways.into_iter().map(move |used| (standing.clone(), used)))
    }
}
