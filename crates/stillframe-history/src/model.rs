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
                let fresh = Facts { plain: true, grows: true, ..Facts::default() };
                let facts = facts.entry(command.key()).or_insert(fresh);
                facts.note(command, replies.and_then(|all| all.get(index)), mutation);
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
            Command::Set(_, to) => set_if(value, true, to, set),
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
            Command::Append(_, element) => {
                let length = append(value, guide, element)?;
                is(&Reply::Number(i64::try_from(length).ok()?))
            }
            Command::List(_) => {
                let Some(seen) = seen else { return Some(()) };
                let Reply::List(seen) = seen else { return None };
                holds(value, guide, seen).then_some(())
            }
        }
    }

    /// Whether a lost call can matter: whether any call that came back can tell that it happened.
    /// To leave out one that does not matter is exact: it may never have happened.
    pub(crate) fn matters(&self, call: &Call) -> bool {
        call.commands().iter().any(|command| {
            let facts = &self.facts[&command.key()];
            match command {
                Command::Get(_) | Command::List(_) => false,
                Command::Set(_, value) if facts.plain => {
                    facts.seen.contains(value) && !self.mutation.is(Mutant::LeavesOutWhatWasSeen)
                }
                Command::Append(_, element) if facts.grows => {
                    facts.longest.contains(element) || facts.length > facts.longest.len()
                }
                _ => true,
            }
        })
    }
}

impl Facts {
    fn note(&mut self, command: &Command, reply: Option<&Reply>, mutation: Mutation) {
        self.plain &= matches!(command, Command::Set(..) | Command::Get(_));
        self.grows &= matches!(command, Command::Append(..) | Command::List(_));
        match (command, reply) {
            (Command::Get(_), Some(Reply::Number(number))) => {
                self.seen.insert(*number);
            }
            (Command::Append(..), Some(Reply::Number(length))) => {
                self.length = self.length.max(usize::try_from(*length).unwrap_or(0));
            }
            (Command::List(_), Some(Reply::List(elements))) => {
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

/// Whether a list holds just what was `seen`.
fn holds(value: &Value, guide: &[i64], seen: &[i64]) -> bool {
    match value {
        Value::Absent => seen.is_empty(),
        Value::Number(_) => false,
        Value::List { shown, behind } => {
            seen.len() == shown + behind.len()
                && seen[..*shown] == guide[..*shown]
                && seen[*shown..] == behind[..]
        }
    }
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
