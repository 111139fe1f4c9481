//! Looks for calls that depend on one another in a circle: no order explains them.
//!
//! What depends on what, `dependencies.rs` knows; here the real time comes to it. The cost is by
//! the length of the history, with any number of lost calls, where the search of `search.rs` gives
//! up.
//! No circle is no proof that an order exists: keys and writes of which nothing shows the version
//! are left out.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Display, Formatter};

use crate::dependencies::{Dependencies, Edge, Why};
use crate::history::Operation;
use crate::mutant::{Mutant, Mutation};

/// Calls from which a shortest circle is looked for.
const STARTS: usize = 500;

/// What cannot be in the history of a server that does one call after the other.
#[derive(Clone, Debug)]
pub enum Anomaly {
    /// Calls, each of which precedes the next one for the reason beside it, and the last the first.
    Circle(Vec<(Operation, Why)>),
    /// What few calls show by themselves.
    Shown(String),
}

impl Display for Anomaly {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown(what) => write!(f, "{what}"),
            Self::Circle(calls) => {
                writeln!(f, "each of these calls precedes the next, and the last the first:")?;
                for (operation, why) in calls {
                    writeln!(f, "  {operation}\n      the next {why}")?;
                }
                Ok(())
            }
        }
    }
}

/// Looks for an anomaly in a history, in any order, of keys that were not there before.
#[must_use]
pub fn find_anomaly(history: &[Operation]) -> Option<Anomaly> {
    let mutation = Mutation::current();
    let found = match Dependencies::find(history, mutation) {
        Ok(found) => found,
        Err(what) => return Some(Anomaly::Shown(what)),
    };
    let mut graph = Graph::new(history.len(), found);
    // A circle without the real time says more: that not even another order explains it.
    if let Some(circle) = graph.circle(history) {
        return Some(circle);
    }
    if mutation.is(Mutant::ForgetsTheTime) {
        return None;
    }
    graph.add_time(history, mutation);
    graph.circle(history)
}

/// Calls, and behind them nodes that stand for no call: what precedes such a node precedes all
/// that it leads to.
struct Graph {
    calls: usize,
    edges: Vec<Vec<(usize, Why)>>,
}

impl Graph {
    fn new(calls: usize, Dependencies { edges, nodes }: Dependencies) -> Self {
        let mut graph = Self { calls, edges: vec![Vec::new(); nodes] };
        for Edge { from, to, why } in edges {
            graph.edges[from].push((to, why));
        }
        graph
    }

    /// A node for each return, in the order of time: it precedes the next one, and each call that
    /// was invoked between the two.
    fn add_time(&mut self, history: &[Operation], mutation: Mutation) {
        let returned = |(call, it): (usize, &Operation)| it.returned().map(|at| (at, call));
        let mut returns: Vec<_> = history.iter().enumerate().filter_map(returned).collect();
        returns.sort_unstable();
        let first = self.edges.len();
        for (index, &(_, call)) in returns.iter().enumerate() {
            self.edges[call].push((first + index, Why::Before));
            let next = (index + 1 < returns.len()).then_some((first + index + 1, Why::Before));
            self.edges.push(next.into_iter().collect());
        }
        for (call, operation) in history.iter().enumerate() {
            let invoked = match mutation.is(Mutant::OrdersWhatOverlaps) {
                true => operation.returned().unwrap_or(operation.invoked),
                false => operation.invoked,
            };
            let before = returns.partition_point(|&(at, _)| at < invoked);
            if before > 0 {
                self.edges[first + before - 1].push((call, Why::Before));
            }
        }
    }

    /// A short circle, if there is any.
    fn circle(&self, history: &[Operation]) -> Option<Anomaly> {
        let left = self.trimmed();
        let starts = (0..self.calls).filter(|&call| left[call]).take(STARTS);
        let circles = starts.filter_map(|start| self.circle_of(start, &left));
        let shortest = circles.min_by_key(Vec::len)?;
        let named = shortest.into_iter().map(|(call, why)| (history[call].clone(), why));
        Some(Anomaly::Circle(named.collect()))
    }

    /// By node, whether it may be in a circle: what nothing precedes is not, nor what only such
    /// nodes precede.
    fn trimmed(&self) -> Vec<bool> {
        let mut before = vec![0_usize; self.edges.len()];
        self.edges.iter().flatten().for_each(|&(to, _)| before[to] += 1);
        let mut free: Vec<usize> = (0..before.len()).filter(|&node| before[node] == 0).collect();
        let mut left = vec![true; before.len()];
        while let Some(node) = free.pop() {
            left[node] = false;
            for &(to, _) in &self.edges[node] {
                before[to] -= 1;
                if before[to] == 0 {
                    free.push(to);
                }
            }
        }
        left
    }

    /// The shortest circle through a call, in calls.
    fn circle_of(&self, start: usize, left: &[bool]) -> Option<Vec<(usize, Why)>> {
        let mut from = HashMap::<usize, (usize, Why)>::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            for &(to, why) in self.edges[node].iter().filter(|edge| left[edge.0]) {
                if from.contains_key(&to) {
                    continue;
                }
                from.insert(to, (node, why));
                if to == start {
                    return Some(self.way_back(start, &from));
                }
                // Nodes that stand for no call cost nothing.
                if to < self.calls { waiting.push_back(to) } else { waiting.push_front(to) }
            }
        }
        None
    }

    fn way_back(&self, start: usize, from: &HashMap<usize, (usize, Why)>) -> Vec<(usize, Why)> {
        let mut circle = Vec::new();
        let mut at = start;
        loop {
            let (before, why) = from[&at];
            if before < self.calls {
                circle.push((before, why));
            }
            at = before;
            if at == start {
                circle.reverse();
                return circle;
            }
        }
    }
}
