//! Looks for an order that explains a history: just-in-time linearization.
//!
//! Sources: Wing and Gong, "Testing and verifying concurrent objects" (1993), the search; Lowe,
//! "Testing for linearizability" (2017), section 4: a call takes effect no earlier than another's
//! return demands it, and equal configurations are looked at once.
//!
//! The search walks over invocations and returns in the order of their times and keeps all states
//! in which the server may be. At a return the call must have had its effect, by itself or behind
//! others that are under way; where no state is left, no order explains the history up to there.
//! Memory is that of the states of one moment, not of the whole history.
//!
//! What keeps them few, without leaving out an order:
//! - A read under way that fits takes effect at once: it changes nothing, and is out of the way.
//! - A lost call need not happen, so fewer of them used up is better (`frontier.rs`).
//! - Lost calls of one text are one class: which of them happened, nobody can tell. They are used
//!   in the order of their invocations.
//! - Lost calls that nobody can have noticed are left out (`Model::matters`).
//!
//! Deviation: Lowe searches depth first and remembers all configurations; here a step at a time.

use std::collections::HashMap;

use crate::call::{Call, Reply};
use crate::frontier::{Frontier, Standing, Used};
use crate::history::Operation;
use crate::model::{Model, State, may_happen};
use crate::mutant::{Mutant, Mutation};

/// Calls of one group that come back and may be under way at once.
const SEATS: usize = 64;

/// How much a check may cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Calls tried in a state, for each group of keys.
    pub steps: u64,
    /// States kept at once.
    pub states: usize,
}

impl Default for Budget {
    /// Some seconds, some hundred megabytes.
    fn default() -> Self {
        Self { steps: 20_000_000, states: 400_000 }
    }
}

/// What a search through one group finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Order,
    /// The operation, by its index, at whose return no state was left.
    NoOrder {
        at: usize,
    },
    TooMuch(String),
}

/// A call that comes back.
struct Returning<'a> {
    call: &'a Call,
    replies: &'a [Reply],
    /// Gives these replies only where it changes nothing.
    reads: bool,
}

/// Lost calls of one text.
struct Class<'a> {
    call: &'a Call,
    invoked: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Invoked(usize),
    Returned(usize),
}

/// One walk through a history.
pub(crate) struct Search<'a> {
    model: Model,
    budget: Budget,
    mutation: Mutation,
    steps: u64,
    /// By seat: who is under way.
    seats: Vec<Option<(usize, Returning<'a>)>>,
    classes: Vec<Class<'a>>,
}

impl<'a> Search<'a> {
    /// Searches an order of `history`, the operations of one group of keys.
    pub(crate) fn run(history: &'a [Operation], budget: Budget, mutation: Mutation) -> Found {
        let model = Model::new(history, mutation);
        let (seats, classes) = (Vec::new(), Vec::new());
        let mut search = Self { model, budget, mutation, steps: 0, seats, classes };
        let lost = search.classify(history);
        let mut frontier = Frontier::new(mutation);
        let start = Standing { done: 0, state: search.model.initial() };
        frontier.insert(&start, &vec![0; search.classes.len()]);
        for (_, event) in events(history, mutation) {
            match event {
                Event::Invoked(index) if lost.contains_key(&index) => {
                    search.classes[lost[&index]].invoked += 1;
                }
                Event::Invoked(index) => {
                    if let Err(why) = search.seat(index, &history[index]) {
                        return Found::TooMuch(why);
                    }
                }
                Event::Returned(index) => match search.close(frontier, index) {
                    Err(why) => return Found::TooMuch(why),
                    Ok(next) if next.len() == 0 => return Found::NoOrder { at: index },
                    Ok(next) => frontier = next,
                },
            }
        }
        Found::Order
    }

    /// Makes the classes of lost calls; the class of each, by its index.
    fn classify(&mut self, history: &'a [Operation]) -> HashMap<usize, usize> {
        let (mut by_call, mut lost) = (HashMap::new(), HashMap::new());
        for (index, operation) in history.iter().enumerate() {
            let call = &operation.call;
            if may_happen(operation, self.mutation) && self.model.matters(call) {
                let class = *by_call.entry(call).or_insert_with(|| {
                    self.classes.push(Class { call, invoked: 0 });
                    self.classes.len() - 1
                });
                lost.insert(index, class);
            }
        }
        lost
    }

    /// Notes that a call is under way.
    fn seat(&mut self, index: usize, operation: &'a Operation) -> Result<(), String> {
        let Some(replies) = operation.replies() else { return Ok(()) };
        let (call, reads) = (&operation.call, operation.call.only_reads());
        let seated = Some((index, Returning { call, replies, reads }));
        match self.seats.iter().position(Option::is_none) {
            Some(seat) => self.seats[seat] = seated,
            None if self.seats.len() < SEATS => self.seats.push(seated),
            None => return Err(format!("more than {SEATS} calls under way at once")),
        }
        Ok(())
    }

    /// The frontier once the call `index` has come back and must have had its effect.
    fn close(&mut self, frontier: Frontier, index: usize) -> Result<Frontier, String> {
        let is_it =
            |seat: &Option<(usize, Returning)>| seat.as_ref().is_some_and(|it| it.0 == index);
        let seat = self.seats.iter().position(is_it).expect("a call is invoked before it returns");
        let mut next = Frontier::new(self.mutation);
        let mut looked_at = Frontier::new(self.mutation);
        let mut waiting = Vec::new();
        for (mut standing, used) in frontier.into_ways() {
            self.read_all(&mut standing);
            if looked_at.insert(&standing, &used) {
                waiting.push((standing, used));
            }
        }
        while let Some((standing, used)) = waiting.pop() {
            if standing.done & 1 << seat != 0 {
                let done = standing.done & !(1 << seat);
                next.insert(&Standing { done, state: standing.state }, &used);
                continue;
            }
            self.each_step(seat, &standing, &used, |after, used| {
                if looked_at.insert(&after, &used) {
                    waiting.push((after, used));
                }
            });
            if self.steps > self.budget.steps {
                return Err(format!("more than {} steps", self.budget.steps));
            }
            if looked_at.len() > self.budget.states {
                return Err(format!("more than {} states at once", self.budget.states));
            }
        }
        self.seats[seat] = None;
        Ok(next)
    }

    /// Every standing that one more call leads to; `due` is the seat of the one that must happen.
    fn each_step(
        &mut self,
        due: usize,
        standing: &Standing,
        used: &Used,
        mut found: impl FnMut(Standing, Used),
    ) {
        let only_due = self.mutation.is(Mutant::OrdersByReturns);
        for seat in 0..self.seats.len() {
            let Some((_, it)) = &self.seats[seat] else { continue };
            // Reads that fit have been read.
            if it.reads || standing.done & 1 << seat != 0 || only_due && seat != due {
                continue;
            }
            self.steps += 1;
            if let Some(state) = self.model.step(&standing.state, it.call, Some(it.replies)) {
                found(self.settled(standing.done | 1 << seat, state), used.clone());
            }
        }
        for class in 0..self.classes.len() {
            let Class { call, invoked } = self.classes[class];
            if used[class] >= invoked {
                continue;
            }
            self.steps += 1;
            if let Some(state) = self.model.step(&standing.state, call, None) {
                let mut used = used.clone();
                used[class] += 1;
                found(self.settled(standing.done, state), used);
            }
        }
    }

    fn settled(&self, done: u64, state: State) -> Standing {
        let mut standing = Standing { done, state };
        self.read_all(&mut standing);
        standing
    }

    /// Lets every read under way that fits take effect.
    fn read_all(&self, standing: &mut Standing) {
        for (seat, seated) in self.seats.iter().enumerate() {
            let Some((_, it)) = seated else { continue };
            if it.reads && standing.done & 1 << seat == 0 {
                let fits = self.model.step(&standing.state, it.call, Some(it.replies)).is_some();
                standing.done |= u64::from(fits) << seat;
            }
        }
    }
}

/// Invocations and returns in the order of their times. Where times are equal, invocations come
/// first: those calls overlap.
fn events(history: &[Operation], mutation: Mutation) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for (index, operation) in history.iter().enumerate() {
        let early = mutation.is(Mutant::TakesEffectBeforeItsInvocation);
        events.push((if early { 0 } else { operation.invoked }, Event::Invoked(index)));
        events.extend(operation.returned().map(|at| (at, Event::Returned(index))));
    }
    events.sort_unstable();
    events
}
