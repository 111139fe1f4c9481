//! A server that does one call after the other: what may come back, and the state behind it.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{Call, Command, Key, Reply};
use crate::history::{Operation, Outcome};
use crate::mutant::{Mutant, Mutation};

/// What the keys of a group hold, by their places in the model.
pub(crate) type State = Vec<Value>;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Absent,
    Number(i64),
    /// The first `shown` elements of the key's longest read, and what came behind the whole of it.
    List {
        shown: usize,
        behind: Vec<i64>,
    },
}

/// The keys of one group, and what a history says about them beforehand.
#[derive(Debug)]
pub(crate) struct Model {
    places: BTreeMap<Key, usize>,
    /// By place: the longest read of a list that only ever grows. Every state of such a list is a
    /// prefix of it, or begins with it, in any order of the calls: an RPUSH of another element
    /// leads nowhere.
    guides: Vec<Vec<i64>>,
    facts: BTreeMap<Key, Facts>,
    mutation: Mutation,
}

/// How the calls of a history use a key.
#[derive(Debug, Default)]
struct Facts {
    /// Nothing but SET and GET.
    plain: bool,
    /// Nothing but RPUSH and LRANGE.
    grows: bool,
    /// Numbers that reads have shown.
    seen: BTreeSet<i64>,
    /// The longest read.
    longest: Vec<i64>,
    /// The largest length that an RPUSH gave back.
    length: usize,
}

impl Model {
    /// The model of the keys of `history`.
    pub(crate) fn new(history: &[Operation], mutation: Mutation) -> Self {
        let mut facts = BTreeMap::<Key, Facts>::new();
        for operation in history {
            let replies = operation.replies();
            for (index, command) in operation.call.commands().iter().enumerate() {
                for key in command.keys() {
                    let fresh = Facts { plain: true, grows: true, ..Facts::default() };
                    let facts = facts.entry(key).or_insert(fresh);
                    facts.note(command, replies.and_then(|all| all.get(index)), mutation);
                }
            }
        }
        let places = facts.keys().copied().zip(0..).collect();
        let guide = |facts: &Facts| facts.longest.clone();
        let guides = facts.values().map(|it| if it.grows { guide(it) } else { Vec::new() });
        Self { places, guides: guides.collect(), facts, mutation }
    }

    /// No key is there.
    pub(crate) fn initial(&self) -> State {
        vec![Value::Absent; self.places.len()]
    }

    /// The state after `call` in `state`; `None` if it cannot give `replies` back there, or leads
    /// nowhere. Of a call that did not come back, nobody knows the replies.
    pub(crate) fn step(
        &self,
        state: &State,
        call: &Call,
        replies: Option<&[Reply]>,
    ) -> Option<State> {
        let mut after = state.clone();
        for (index, command) in call.commands().iter().enumerate() {
            let place = self.places[&command.key()];
            let guide = &self.guides[place];
            let seen = match replies {
                Some(replies) => Some(replies.get(index)?),
                None => None,
            };
            if let Command::Move { to, .. } = command {
                let moved = take_first(&mut after[place])?;
                gave(moved, seen)?;
                if let Some(element) = moved {
                    append(&mut after[self.places[to]], &[], element)?;
                }
                continue;
            }
            self.run(&mut after[place], guide, command, seen)?;
        }
        Some(after)
    }

    fn run(
        &self,
        value: &mut Value,
        guide: &[i64],
        command: &Command,
        seen: Option<&Reply>,
    ) -> Option<()> {
        let is = |reply: &Reply| seen.is_none_or(|seen| seen == reply).then_some(());
        let set_if = |value: &mut Value, holds: bool, to: i64, replies: [Reply; 2]| {
            let [done, not] = replies;
            if holds {
                *value = Value::Number(to);
            }
            is(if holds { &done } else { &not })
        };
        let set = [Reply::Done, Reply::Nothing];
        match *command {
            Command::Set(_, to) | Command::Large { value: to, .. } => set_if(value, true, to, set),
            Command::Exchange(_, to) => {
                let before = match std::mem::replace(value, Value::Number(to)) {
                    Value::Absent => None,
                    Value::Number(number) => Some(number),
                    Value::List { .. } => return None,
                };
                gave(before, seen)
            }
            Command::SetAbsent(_, to) => set_if(value, *value == Value::Absent, to, set),
            Command::SetPresent(_, to) => set_if(value, *value != Value::Absent, to, set),
            Command::Swap { from, to, .. } => {
                let holds = *value == Value::Number(from);
                if !holds && self.mutation.is(Mutant::TrustsSwaps) {
                    return Some(());
                }
                set_if(value, holds, to, [Reply::Number(1), Reply::Number(0)])
            }
            Command::Get(_) => match value {
                Value::Absent => is(&Reply::Nothing),
                Value::Number(number) => is(&Reply::Number(*number)),
                Value::List { .. } => None,
            },
            Command::Add(_, by) => {
                let before = match value {
                    Value::Absent => 0,
                    Value::Number(number) => *number,
                    Value::List { .. } => return None,
                };
                let sum = before.checked_add(by)?;
                *value = Value::Number(sum);
                is(&Reply::Number(sum))
            }
            Command::Append(_, element) | Command::Log(_, element) => {
                let length = append(value, guide, element)?;
                is(&Reply::Number(i64::try_from(length).ok()?))
            }
            Command::List(_) => {
                let Some(seen) = seen else { return Some(()) };
                let Reply::List(seen) = seen else { return None };
                holds(value, guide, 0, seen).then_some(())
            }
            Command::Tail { after, .. } => match seen {
                None => Some(()),
                Some(Reply::List(seen)) => holds(value, guide, after, seen).then_some(()),
                Some(Reply::Nothing) => (length(value)? <= after).then_some(()),
                Some(_) => None,
            },
            Command::Pop { .. } => gave(take_first(value)?, seen),
            Command::Move { .. } => unreachable!("`step` moves"),
        }
    }

    /// Whether a lost call can matter: whether any call that came back can tell that it happened.
    /// To leave out one that does not matter is exact: it may never have happened.
    pub(crate) fn matters(&self, call: &Call) -> bool {
        call.commands().iter().any(|command| {
            let facts = &self.facts[&command.key()];
            match command {
                Command::Get(_) | Command::List(_) | Command::Tail { .. } => false,
                Command::Set(_, value)
                | Command::Exchange(_, value)
                | Command::Large { value, .. }
                    if facts.plain =>
                {
                    facts.seen.contains(value) && !self.mutation.is(Mutant::LeavesOutWhatWasSeen)
                }
                Command::Append(_, element) | Command::Log(_, element) if facts.grows => {
                    facts.longest.contains(element) || facts.length > facts.longest.len()
                }
                _ => true,
            }
        })
    }
}

impl Facts {
    fn note(&mut self, command: &Command, reply: Option<&Reply>, mutation: Mutation) {
        use Command::{Append, Exchange, Get, Large, List, Log, Set, Tail};
        self.plain &= matches!(command, Set(..) | Get(_) | Exchange(..) | Large { .. });
        self.grows &= matches!(command, Append(..) | List(_) | Log(..) | Tail { .. });
        match (command, reply) {
            (Get(_) | Exchange(..), Some(Reply::Number(number))) => {
                self.seen.insert(*number);
            }
            (Append(..) | Log(..), Some(Reply::Number(length))) => {
                self.length = self.length.max(usize::try_from(*length).unwrap_or(0));
            }
            (Tail { after, .. }, Some(Reply::List(elements))) if *after > 0 => {
                self.length = self.length.max(after + elements.len());
            }
            (List(_) | Tail { .. }, Some(Reply::List(elements))) => {
                let longer = elements.len() > self.longest.len();
                if longer || mutation.is(Mutant::GuidedByTheLastRead) {
                    self.longest.clone_from(elements);
                }
            }
            _ => {}
        }
    }
}

/// Appends to a list that becomes what `guide` says; its length. `None` where it would not.
fn append(value: &mut Value, guide: &[i64], element: i64) -> Option<usize> {
    if *value == Value::Absent {
        *value = Value::List { shown: 0, behind: Vec::new() };
    }
    let Value::List { shown, behind } = value else { return None };
    if *shown < guide.len() {
        if guide[*shown] != element {
            return None;
        }
        *shown += 1;
    } else {
        behind.push(element);
    }
    Some(*shown + behind.len())
}

/// Whether a list holds just what was `seen` behind its first `after` elements.
fn holds(value: &Value, guide: &[i64], after: usize, seen: &[i64]) -> bool {
    if length(value) != Some(after + seen.len()) {
        return false;
    }
    let Value::List { shown, behind } = value else { return true };
    guide[..*shown].iter().chain(behind).skip(after).eq(seen)
}

/// The length of a list.
fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Absent => Some(0),
        Value::Number(_) => None,
        Value::List { shown, behind } => Some(shown + behind.len()),
    }
}

/// Takes the first element of a list that has no guide, since it does not only grow; `None` where
/// there is no list.
fn take_first(value: &mut Value) -> Option<Option<i64>> {
    match value {
        Value::Absent => Some(None),
        Value::Number(_) => None,
        Value::List { behind, .. } => {
            let first = behind.remove(0);
            if behind.is_empty() {
                *value = Value::Absent;
            }
            Some(Some(first))
        }
    }
}

/// Whether the reply is a number, or nothing.
fn gave(number: Option<i64>, seen: Option<&Reply>) -> Option<()> {
    let reply = number.map_or(Reply::Nothing, Reply::Number);
    seen.is_none_or(|seen| *seen == reply).then_some(())
}

/// What a lost call is for the checker: what failed, and what changes nothing, is no call at all.
pub(crate) fn may_happen(operation: &Operation, mutation: Mutation) -> bool {
    let lost = match operation.outcome {
        Outcome::Returned { .. } => return false,
        Outcome::Unknown => !mutation.is(Mutant::UnknownNeverHappens),
        Outcome::Failed => mutation.is(Mutant::FailedMayHappen),
    };
    lost && !operation.call.only_reads()
}
