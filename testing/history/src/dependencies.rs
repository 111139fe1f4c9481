//! Which calls certainly precede which, as their replies show.
//!
//! Sources: Adya, "Weak Consistency" (1999), chapter 3: a call precedes another that shows what it
//! wrote, that overwrites it, or that overwrites what it has read. Kingsbury and Alvaro, "Elle"
//! (2020): versions that calls show by themselves. A list that only grows shows its version by its
//! length and its elements. A string whose values are written once shows it by its value; which
//! value comes behind which, a write tells that returns the one before (`SET .. GET`), or that
//! comes behind a read in its transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Display, Formatter};

use crate::call::{Command, Key, Reply};
use crate::history::{Operation, Outcome};
use crate::mutant::{Mutant, Mutation};

/// Why a call precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The other overwrites what it wrote, or appends behind it.
    Overwritten(Key),
    /// The other shows what it wrote.
    Seen(Key),
    /// The other overwrites what it has read, or appends behind it.
    Missed(Key),
    /// It came back before the other was invoked.
    Before,
}

impl Display for Why {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overwritten(key) => write!(f, "writes {key} behind it"),
            Self::Seen(key) => write!(f, "shows what it wrote to {key}"),
            Self::Missed(key) => write!(f, "writes {key}, and it does not show that"),
            Self::Before => write!(f, "was invoked after it had come back"),
        }
    }
}

/// A node precedes another.
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) why: Why,
}

/// All that is certain: between calls, by their places in the history, and nodes behind them that
/// stand for no call.
pub(crate) struct Dependencies {
    pub(crate) edges: Vec<Edge>,
    pub(crate) nodes: usize,
}

/// A command on a key, and its reply if it came back.
#[derive(Clone, Copy)]
struct Use<'h> {
    call: usize,
    command: &'h Command,
    reply: Option<&'h Reply>,
}

impl Dependencies {
    /// What the calls of a history show; an error if they contradict one another at once.
    pub(crate) fn find(history: &[Operation], mutation: Mutation) -> Result<Self, String> {
        let mut uses = BTreeMap::<Key, Vec<Use>>::new();
        for (call, operation) in history.iter().enumerate() {
            for (index, command) in operation.call.commands().iter().enumerate() {
                let reply = operation.replies().and_then(|replies| replies.get(index));
                for key in command.keys() {
                    uses.entry(key).or_default().push(Use { call, command, reply });
                }
            }
        }
        uses.retain(|_, uses| of_lists(uses) || of_strings(uses));
        uses.retain(|_, uses| writes_once(uses));
        let happened = happened(history, &uses, mutation);
        let mut finder = Finder { history, happened, mutation, edges: Vec::new(), extra: 0 };
        for (&key, uses) in &uses {
            if of_lists(uses) { finder.list(key, uses)? } else { finder.string(key, uses)? }
        }
        Ok(Self { edges: finder.edges, nodes: history.len() + finder.extra })
    }
}

/// The value that a command writes, whatever it finds.
fn written(command: &Command) -> Option<i64> {
    match *command {
        Command::Append(_, value)
        | Command::Log(_, value)
        | Command::Set(_, value)
        | Command::Exchange(_, value)
        | Command::Large { value, .. } => Some(value),
        _ => None,
    }
}

/// Nothing but what makes a list grow and reads it.
fn of_lists(uses: &[Use]) -> bool {
    let fits = |it: &Use| {
        use Command::{Append, List, Log, Tail};
        matches!(it.command, Append(..) | List(_) | Log(..) | Tail { .. })
    };
    uses.iter().all(fits)
}

/// Nothing but what sets a string and reads it.
fn of_strings(uses: &[Use]) -> bool {
    let fits = |it: &Use| {
        use Command::{Exchange, Get, Large, Set};
        matches!(it.command, Set(..) | Get(_) | Exchange(..) | Large { .. })
    };
    uses.iter().all(fits)
}

fn writes_once(uses: &[Use]) -> bool {
    let mut values = HashSet::new();
    uses.iter().filter_map(|it| written(it.command)).all(|value| values.insert(value))
}

/// By call, whether it certainly had its effect: it came back, or another shows what it wrote.
fn happened(
    history: &[Operation],
    uses: &BTreeMap<Key, Vec<Use>>,
    mutation: Mutation,
) -> Vec<bool> {
    let mut happened: Vec<bool> = history.iter().map(|it| it.replies().is_some()).collect();
    if mutation.is(Mutant::LeavesOutLostThatShow) {
        return happened;
    }
    for uses in uses.values() {
        let shown: HashSet<i64> = uses.iter().flat_map(shown).collect();
        for it in uses.iter().filter(|it| history[it.call].outcome == Outcome::Unknown) {
            happened[it.call] |= written(it.command).is_some_and(|value| shown.contains(&value));
        }
    }
    happened
}

/// The values that a command has shown.
fn shown(it: &Use) -> Vec<i64> {
    match (it.command, it.reply) {
        (Command::List(_) | Command::Tail { .. }, Some(Reply::List(elements))) => elements.clone(),
        (Command::Get(_) | Command::Exchange(..), Some(Reply::Number(number))) => vec![*number],
        _ => Vec::new(),
    }
}

struct Finder<'h> {
    history: &'h [Operation],
    happened: Vec<bool>,
    mutation: Mutation,
    edges: Vec<Edge>,
    /// Nodes that stand for no call.
    extra: usize,
}

/// The elements of a list by their places, which are counted from 1, and who has shown each there.
#[derive(Default)]
struct Places {
    elements: BTreeMap<usize, (i64, usize)>,
    by_element: HashMap<i64, (usize, usize)>,
}

impl Finder<'_> {
    fn add(&mut self, from: usize, to: usize, why: Why) {
        let forgotten = match why {
            Why::Overwritten(_) => Mutant::ForgetsWhatIsOverwritten,
            Why::Seen(_) => Mutant::ForgetsWhatIsSeen,
            Why::Missed(_) | Why::Before => Mutant::ForgetsWhatIsMissed,
        };
        if from != to && !self.mutation.is(forgotten) {
            self.edges.push(Edge { from, to, why });
        }
    }

    /// A contradiction of calls.
    fn wrong<T>(&self, what: &str, calls: &[usize]) -> Result<T, String> {
        let lines: Vec<_> = calls.iter().map(|&it| format!("\n  {}", self.history[it])).collect();
        Err(format!("{what}:{}", lines.concat()))
    }

    /// Who wrote a value that a call shows.
    fn writer(
        &self,
        key: Key,
        value: i64,
        writers: &HashMap<i64, usize>,
        shower: usize,
    ) -> Result<usize, String> {
        let Some(&writer) = writers.get(&value) else {
            return self.wrong(&format!("nobody wrote {value} to {key}"), &[shower]);
        };
        if self.history[writer].outcome == Outcome::Failed {
            return self.wrong("what failed has had its effect", &[writer, shower]);
        }
        Ok(writer)
    }

    fn list(&mut self, key: Key, uses: &[Use]) -> Result<(), String> {
        let writers = writers(uses);
        let mut places = Places::default();
        let mut reads: Vec<(usize, usize)> = Vec::new();
        // Those that show that nothing is behind a place.
        let mut ends: Vec<(usize, usize)> = Vec::new();
        let mut known: Option<(usize, usize)> = None;
        for it in uses {
            let (after, elements) = match (it.command, it.reply) {
                (_, None) => continue,
                (&(Command::Append(_, element) | Command::Log(_, element)), Some(reply)) => {
                    let Reply::Number(length @ 1..) = *reply else {
                        return self.wrong("no length of a list", &[it.call]);
                    };
                    (length as usize - 1, vec![element])
                }
                (Command::Tail { after, .. }, Some(Reply::Nothing)) => (*after, Vec::new()),
                (Command::Tail { after, .. }, Some(Reply::List(it))) => (*after, it.clone()),
                (_, Some(Reply::List(elements))) => (0, elements.clone()),
                _ => return self.wrong("no list", &[it.call]),
            };
            if elements.is_empty() && after > 0 {
                ends.push((it.call, after));
                continue;
            }
            let length = after + elements.len();
            let appends = written(it.command).is_some();
            // Within a transaction nobody else appends.
            let before = known.filter(|before| before.0 == it.call).map(|before| before.1);
            let fits = before.is_none_or(|before| before == if appends { after } else { length });
            if !fits && !self.mutation.is(Mutant::TrustsTransactions) {
                return self.wrong("its own commands contradict one another", &[it.call]);
            }
            for (place, &element) in (after + 1..).zip(&elements) {
                self.writer(key, element, &writers, it.call)?;
                self.put(key, &mut places, place, element, it.call)?;
            }
            known = Some((it.call, length));
            if !appends {
                reads.push((it.call, length));
            }
        }
        let most = writers.values().filter(|&&it| self.history[it].outcome != Outcome::Failed);
        if let Some((&place, &(_, shower))) = places.elements.last_key_value()
            && place > most.count()
        {
            return self.wrong("more elements than were ever appended", &[shower]);
        }
        self.list_edges(key, &writers, &places, &reads);
        for &(reader, after) in &ends {
            self.missed(key, reader, after, &writers, &places);
        }
        Ok(())
    }

    /// A call shows an element at a place.
    fn put(
        &self,
        key: Key,
        places: &mut Places,
        place: usize,
        element: i64,
        call: usize,
    ) -> Result<(), String> {
        if self.mutation.is(Mutant::TrustsPlaces) && places.elements.contains_key(&place) {
            return Ok(());
        }
        let at_place = *places.elements.entry(place).or_insert((element, call));
        if at_place.0 != element {
            let what = format!("{key} has {} and {element} at its place {place}", at_place.0);
            return self.wrong(&what, &[at_place.1, call]);
        }
        let of_element = *places.by_element.entry(element).or_insert((place, call));
        if of_element.0 != place {
            let what = format!("{key} has {element} at its places {} and {place}", of_element.0);
            return self.wrong(&what, &[of_element.1, call]);
        }
        Ok(())
    }

    fn list_edges(
        &mut self,
        key: Key,
        writers: &HashMap<i64, usize>,
        places: &Places,
        reads: &[(usize, usize)],
    ) {
        let order: Vec<usize> = places.elements.values().map(|(it, _)| writers[it]).collect();
        for pair in order.windows(2) {
            self.add(pair[0], pair[1], Why::Overwritten(key));
        }
        for &(reader, length) in reads {
            if let Some((element, _)) = places.elements.get(&length) {
                self.add(writers[element], reader, Why::Seen(key));
            }
            self.missed(key, reader, length, writers, places);
        }
        // What certainly was appended, and stands nowhere in a list that is known without gaps,
        // stands behind it.
        let longest = reads.iter().map(|it| it.1).max().unwrap_or(0);
        if places.elements.range(..=longest).count() < longest {
            return;
        }
        for (element, &writer) in writers {
            if !self.happened[writer] || places.by_element.contains_key(element) {
                continue;
            }
            if let Some((last, _)) = places.elements.get(&longest) {
                self.add(writers[last], writer, Why::Overwritten(key));
            }
            for &(reader, _) in reads.iter().filter(|it| it.1 == longest) {
                self.add(reader, writer, Why::Missed(key));
            }
        }
    }

    /// A call shows that a list has no more elements than so many.
    fn missed(
        &mut self,
        key: Key,
        reader: usize,
        length: usize,
        writers: &HashMap<i64, usize>,
        places: &Places,
    ) {
        if let Some((_, (element, _))) = places.elements.range(length + 1..).next() {
            self.add(reader, writers[element], Why::Missed(key));
        }
    }

    fn string(&mut self, key: Key, uses: &[Use]) -> Result<(), String> {
        let writers = writers(uses);
        // By value, or none: who writes the one behind it.
        let mut next = HashMap::<Option<i64>, usize>::new();
        let mut reads: Vec<(usize, Option<i64>)> = Vec::new();
        let mut known: Option<(usize, Option<i64>)> = None;
        for it in uses {
            let found = match (it.command, it.reply) {
                (Command::Get(_) | Command::Exchange(..), Some(Reply::Number(it))) => {
                    Some(Some(*it))
                }
                (Command::Get(_) | Command::Exchange(..), Some(Reply::Nothing)) => Some(None),
                (Command::Get(_) | Command::Exchange(..), Some(_)) => {
                    return self.wrong("no value of a string", &[it.call]);
                }
                _ => None,
            };
            let before = known.filter(|before| before.0 == it.call).map(|before| before.1);
            if let Some(value) = found {
                if before.is_some_and(|before| before != value)
                    && !self.mutation.is(Mutant::TrustsTransactions)
                {
                    return self.wrong("its own commands contradict one another", &[it.call]);
                }
                if let Some(value) = value
                    && self.writer(key, value, &writers, it.call)? == it.call
                    && before.is_none()
                {
                    return self.wrong("it shows what it writes later", &[it.call]);
                }
                reads.push((it.call, value));
                known = Some((it.call, value));
            }
            let Some(value) = written(it.command) else { continue };
            if let Some(before) = found.or(before) {
                let other = *next.entry(before).or_insert(it.call);
                if other != it.call {
                    return self.wrong("two writes come behind one value", &[other, it.call]);
                }
            }
            known = Some((it.call, Some(value)));
        }
        self.string_edges(key, &writers, &next, &reads);
        Ok(())
    }

    fn string_edges(
        &mut self,
        key: Key,
        writers: &HashMap<i64, usize>,
        next: &HashMap<Option<i64>, usize>,
        reads: &[(usize, Option<i64>)],
    ) {
        for (before, &writer) in next {
            if let Some(before) = before {
                self.add(writers[before], writer, Why::Overwritten(key));
            }
        }
        let all: Vec<usize> = writers.values().copied().filter(|&it| self.happened[it]).collect();
        // All calls that found nothing precede all that wrote, by way of one node.
        let start = self.history.len() + self.extra;
        self.extra += 1;
        for &writer in &all {
            self.add(start, writer, Why::Missed(key));
        }
        for &(reader, value) in reads {
            match value {
                Some(value) => self.add(writers[&value], reader, Why::Seen(key)),
                None if all.contains(&reader) => {
                    all.iter().for_each(|&it| self.add(reader, it, Why::Missed(key)));
                }
                None => self.add(reader, start, Why::Missed(key)),
            }
            if let Some(&writer) = next.get(&value) {
                self.add(reader, writer, Why::Missed(key));
            }
        }
    }
}

/// By value, who writes it.
fn writers(uses: &[Use]) -> HashMap<i64, usize> {
    uses.iter().filter_map(|it| Some((written(it.command)?, it.call))).collect()
}
