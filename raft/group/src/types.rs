//! What openraft keeps for a group of servers, and how it becomes what the loop knows.

use std::collections::BTreeMap;

use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, StoredMembership};
use serde::{Deserialize, Serialize};
use stillframe_openraft::{SnapshotData, is_of_another_history};
use stillframe_raft_net::{Bound, Id, Member};
use stillframe_server::consensus::{self, Batch, Content, Reign};

use crate::error::Error;
use crate::mutant::{Mutant, Mutation};

openraft::declare_raft_types!(
    /// Types of a group.
    pub Types: D = Wire, R = (), Node = Member, SnapshotData = SnapshotData
);

/// The bit of a stamp that says that a unit goes on in the next batch. Where it stands a member of
/// before finds a stamp that no leader has proposed.
const SPLITS_UNIT: u64 = 1 << 63;

/// A batch of effects in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    term: u64,
    leader: u64,
    stamp: u64,
    #[serde(with = "serde_bytes")]
    units: Vec<u8>,
}

impl Wire {
    /// Says something of the group itself. Nobody leads in term 0, so it is a batch that counts for
    /// nobody, also for members of an older version.
    fn of_group(units: Vec<u8>) -> Self {
        Self { term: 0, leader: 0, stamp: 0, units }
    }

    /// Whether it says something of the group itself.
    pub(crate) fn is_of_group(&self) -> bool {
        self.term == 0
    }

    /// Names the group.
    pub(crate) fn identity(group: Id) -> Self {
        Self::of_group(group.to_bytes().to_vec())
    }

    /// The id of the group that this names.
    pub(crate) fn names_group(&self) -> Option<Id> {
        let bytes = self.is_of_group().then_some(&self.units[..])?;
        Id::from_bytes(bytes.try_into().ok()?)
    }

    /// Binds a member to its certificate.
    pub(crate) fn binding(id: u64, bound: Bound) -> Self {
        Self::of_group(encode_binding(id, bound).to_vec())
    }

    /// The member that this binds, and to what.
    fn binds(&self) -> Option<(u64, Bound)> {
        let bytes = self.is_of_group().then_some(&self.units[..])?;
        decode_binding(bytes.try_into().ok()?)
    }

    /// Which batch it is.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp & !SPLITS_UNIT
    }

    /// Whether a unit goes on in the next batch.
    pub(crate) fn splits_unit(&self) -> bool {
        self.stamp & SPLITS_UNIT != 0
    }

    /// Whether it counts in an entry of this reign.
    pub(crate) fn counts_in(&self, reign: Reign) -> bool {
        reign == Reign { term: self.term, leader: self.leader }
    }

    /// The same batch, empty.
    pub(crate) fn without_units(&self) -> Self {
        Self { units: Vec::new(), ..*self }
    }
}

impl From<Batch> for Wire {
    fn from(batch: Batch) -> Self {
        let Batch { reign: Reign { term, leader }, stamp, splits_unit, units } = batch;
        let stamp = if splits_unit { stamp | SPLITS_UNIT } else { stamp };
        Self { term, leader, stamp, units }
    }
}

/// Bytes of a binding: of another length than the id of a group.
const BINDING_BYTES: usize = 41;

/// The number of the member, 0 or 1 for name or key, and the key or zeros.
fn encode_binding(id: u64, bound: Bound) -> [u8; BINDING_BYTES] {
    let mut bytes = [0; BINDING_BYTES];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    if let Bound::Key(key) = bound {
        bytes[8] = 1;
        bytes[9..].copy_from_slice(&key);
    }
    bytes
}

fn decode_binding(bytes: &[u8; BINDING_BYTES]) -> Option<(u64, Bound)> {
    let (id, rest) = bytes.split_first_chunk()?;
    let (&[kind], key) = rest.split_first_chunk()?;
    let key: [u8; 32] = key.try_into().ok()?;
    let bound = match kind {
        0 if key == [0; 32] => Bound::Name,
        1 => Bound::Key(key),
        _ => return None,
    };
    Some((u64::from_le_bytes(*id), bound))
}

/// The reign in which an entry came into the log.
pub(crate) fn reign_of(id: &CommittedLeaderId<u64>) -> Reign {
    Reign { term: id.term, leader: id.node_id }
}

/// An entry as the loop knows it. A batch of another reign counts for nobody.
pub(crate) fn entry_of(entry: Entry<Types>) -> consensus::Entry {
    let reign = reign_of(&entry.log_id.leader_id);
    let content = match entry.payload {
        EntryPayload::Blank => Content::First,
        EntryPayload::Normal(wire) if wire.counts_in(reign) => {
            let (stamp, splits_unit) = (wire.stamp(), wire.splits_unit());
            Content::Batch(Batch { reign, stamp, splits_unit, units: wire.units })
        }
        EntryPayload::Normal(_) => Content::Other,
        EntryPayload::Membership(_) => Content::Other,
    };
    consensus::Entry { reign, index: entry.log_id.index, content }
}

/// What a state has applied: its name in the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) applied: Option<LogId<u64>>,
    pub(crate) membership: StoredMembership<u64, Member>,
    /// The id of the group, if an entry up to that one has named it, or the dump of its beginning.
    #[serde(skip)]
    pub(crate) group: Option<Id>,
    /// The certificates to which members are bound; none before the group has an id.
    #[serde(skip)]
    pub(crate) bound: BTreeMap<u64, Bound>,
}

impl Label {
    /// The label once this entry is applied, too.
    pub(crate) fn pass(&mut self, entry: &Entry<Types>) {
        self.applied = Some(entry.log_id);
        if let EntryPayload::Membership(membership) = &entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
            // One that comes back is bound anew.
            self.bound.retain(|id, _| membership.get_node(id).is_some());
        }
        if let EntryPayload::Normal(wire) = &entry.payload {
            // The first that does counts.
            self.group = self.group.or_else(|| wire.names_group());
            let is_member = |id: &u64| self.membership.membership().get_node(id).is_some();
            let binds = wire.binds().filter(|(id, _)| self.group.is_some() && is_member(id));
            self.bound.extend(binds.filter(|_| !Mutation::current().is(Mutant::ForgetsBindings)));
        }
    }

    pub(crate) fn index(&self) -> u64 {
        self.applied.map_or(0, |id| id.index)
    }

    /// The index of the entry to be applied next. That of the first entry of a group, which names
    /// its members, is 0.
    pub(crate) fn next(&self) -> u64 {
        self.applied.map_or(0, |id| id.index + 1)
    }

    /// That of an image names the members: else a group that starts from it would have none.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.membership.membership().voter_ids().next() {
            Some(_) => Ok(()),
            None => Err(Error::label("its label names no members")),
        }
    }

    /// Whether a state of this label may take the place of one of label `before`.
    pub(crate) fn check_follows(&self, before: &Self) -> Result<(), Error> {
        match (self.applied, before.applied) {
            (Some(theirs), Some(own)) if is_of_another_history(&theirs, &own) => {
                Err(Error::label(format!(
                    "it ends with entry {theirs}, and entry {own} was applied here: the data is of \
                     another history of this group. Remove this member, and add it again with an \
                     empty directory, if that is the right one"
                )))
            }
            _ => Ok(()),
        }
    }

    /// As text, which `stillframe inspect` shows: hexadecimal.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = postcard::to_allocvec(self)?;
        bytes.extend(self.group.into_iter().flat_map(Id::to_bytes));
        if !Mutation::current().is(Mutant::LabelsNoBindings) {
            bytes.extend(self.bound.iter().flat_map(|(&id, &bound)| encode_binding(id, bound)));
        }
        Ok(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
    }

    pub(crate) fn decode(text: &[u8]) -> Result<Self, Error> {
        let digit = |&digit: &u8| char::from(digit).to_digit(16);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.chunks(2).map(byte).collect();
        let bytes = bytes.ok_or_else(|| Error::label("its label is not hexadecimal"))?;
        let named = |rest: &[u8]| {
            let (id, rest) = rest.split_first_chunk()?;
            let (bound, []) = rest.as_chunks() else { return None };
            let bound: Option<BTreeMap<u64, Bound>> = bound.iter().map(decode_binding).collect();
            Some((Id::from_bytes(*id)?, bound?))
        };
        match postcard::take_from_bytes::<Self>(&bytes) {
            Ok((label, [])) => Ok(label),
            Ok((label, rest)) => match named(rest) {
                Some((group, bound)) => Ok(Self { group: Some(group), bound, ..label }),
                None => Err(Error::label(format!("its label has {} bytes too many", rest.len()))),
            },
            Err(error) => Err(Error::label(format!("its label cannot be read: {error}"))),
        }
    }
}

/// What is applied, and what of it an image names.
pub(crate) struct Applied {
    label: Label,
    /// The unit of which the first parts were applied, and the last was not.
    split: Option<Split>,
    mutation: Mutation,
}

struct Split {
    reign: Reign,
    /// What was applied before its first part.
    before: Label,
}

impl From<Label> for Applied {
    fn from(label: Label) -> Self {
        Self { label, split: None, mutation: Mutation::current() }
    }
}

impl Applied {
    /// An entry is applied.
    pub(crate) fn pass(&mut self, entry: &Entry<Types>) {
        let reign = reign_of(&entry.log_id.leader_id);
        self.split.take_if(|split| split.reign != reign);
        if let EntryPayload::Normal(wire) = &entry.payload
            && wire.counts_in(reign)
        {
            if !wire.splits_unit() {
                self.split = None;
            } else if self.split.is_none() {
                self.split = Some(Split { reign, before: self.label.clone() });
            }
        }
        self.label.pass(entry);
    }

    /// All that is applied.
    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// What memory has: all but a unit whose last part is not applied.
    pub(crate) fn whole(&self) -> &Label {
        let split = self.split.as_ref().filter(|_| !self.mutation.is(Mutant::LabelsParts));
        split.map_or(&self.label, |split| &split.before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::Membership;

    use super::*;
    use crate::mutant::with_mutant;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let member = |n| Member { raft: format!("host{n}:7000"), client: format!("host{n}:6379") };
        let members: BTreeMap<u64, Member> = (1..=3).map(|n| (n, member(n))).collect();
        let voters: BTreeSet<u64> = members.keys().copied().collect();
        let applied = Some(LogId::new(CommittedLeaderId::new(3, 2), 41));
        let membership = Membership::new(vec![voters], members);
        let membership = StoredMembership::new(applied, membership);
        let label = Label { applied, membership, ..Label::default() };
        let text = label.encode().expect("it is encoded");
        let decoded = |text: &[u8]| Label::decode(text).expect("it was encoded");
        assert_eq!(decoded(&text), label);
        let group = Some(Id::draw().expect("random bytes"));
        let named = Label { group, ..label };
        let named_text = named.encode().expect("it is encoded");
        assert_eq!(decoded(&named_text), named);
        Label::decode(&named_text[..named_text.len() - 2]).expect_err("it is cut");
        let bound = BTreeMap::from([(1, Bound::Key([7; 32])), (3, Bound::Name)]);
        let bound = Label { bound, ..named };
        let bound_text = bound.encode().expect("it is encoded");
        assert_eq!(decoded(&bound_text), bound);
        for at in named_text.len() + 1..bound_text.len() {
            let cut = Label::decode(&bound_text[..at]);
            assert!(cut.is_err() || at == named_text.len() + 2 * BINDING_BYTES, "at {at}");
        }
        assert_eq!(decoded(&Label::default().encode().expect("so is none")), Label::default());
        for at in 0..text.len() {
            Label::decode(&text[..at]).expect_err("it is cut");
        }
        Label::decode(&[&text[..], b"00"].concat()).expect_err("more follows");
    }

    /// Who joins by an image at any place of the log, and reads on, has the same bindings.
    fn bindings_come_by_log_and_image() -> Result<(), String> {
        let group = Id::draw().expect("random bytes");
        let (key, next) = (Bound::Key([1; 32]), Bound::Key([2; 32]));
        let members = |ids: &[u64]| {
            let nodes: BTreeMap<u64, Member> =
                ids.iter().map(|&it| (it, Member::default())).collect();
            EntryPayload::Membership(Membership::new(vec![ids.iter().copied().collect()], nodes))
        };
        let binds = |id, bound| EntryPayload::Normal(Wire::binding(id, bound));
        let payloads = [
            members(&[1, 2]),
            binds(1, key), // without an id nobody is a member by it
            EntryPayload::Normal(Wire::identity(group)),
            binds(1, key),
            binds(2, key),
            binds(3, key), // no member
            binds(1, next),
            binds(2, Bound::Name),
            members(&[1, 3]),
            binds(3, key),
            members(&[1, 2, 3]),
        ];
        let entry = |(index, payload): (usize, &EntryPayload<Types>)| {
            let log_id = LogId::new(CommittedLeaderId::new(1, 1), index as u64);
            Entry::<Types> { log_id, payload: payload.clone() }
        };
        let expected = BTreeMap::from([(1, next), (3, key)]);
        for image in 0..payloads.len() {
            let mut label = Label::default();
            for (at, entry) in payloads.iter().enumerate().map(entry).enumerate() {
                if at == image {
                    let text = label.encode().expect("it is encoded");
                    label = Label::decode(&text).expect("it was encoded");
                }
                label.pass(&entry);
            }
            if label.bound != expected {
                return Err(format!("image before {image}: {:?}", label.bound));
            }
        }
        Ok(())
    }

    #[test]
    fn bindings_are_the_same_for_all_that_have_applied_the_same() {
        bindings_come_by_log_and_image().expect("they are");
        for mutant in [Mutant::ForgetsBindings, Mutant::LabelsNoBindings] {
            with_mutant(mutant, || {
                bindings_come_by_log_and_image().expect_err("the mistake is found")
            });
        }
    }

    #[test]
    fn data_of_another_history_is_refused() {
        let label = |term, index| {
            let applied = Some(LogId::new(CommittedLeaderId::new(term, 2), index));
            Label { applied, ..Label::default() }
        };
        let own = label(3, 41);
        for (term, index) in [(3, 42), (4, 42), (3, 41), (2, 41), (3, 7)] {
            label(term, index).check_follows(&own).expect("it follows, or was there before");
        }
        own.check_follows(&Label::default()).expect("nothing was applied");
        for (term, index) in [(4, 41), (4, 40), (9, 0)] {
            let error = label(term, index).check_follows(&own).expect_err("two at one index");
            assert!(error.to_string().contains("another history"), "{error}");
        }
    }

    /// Whether an image in the middle of a unit names what was applied before it.
    fn images_name_what_is_whole() -> bool {
        let mut applied = Applied::from(Label::default());
        let mut pass = |index, term, proposed, splits_unit| {
            let reign = Reign { term: proposed, leader: 2 };
            let batch = Batch { reign, stamp: index, splits_unit, units: Vec::new() };
            let log_id = LogId::new(CommittedLeaderId::new(term, 2), index);
            applied.pass(&Entry { log_id, payload: EntryPayload::Normal(Wire::from(batch)) });
            assert_eq!(applied.label().index(), index);
            applied.whole().index()
        };
        assert_eq!(pass(1, 3, 3, false), 1);
        if (pass(2, 3, 3, true), pass(3, 3, 3, true)) != (1, 1) {
            return false;
        }
        assert_eq!(pass(4, 3, 2, false), 1, "it counts for nobody");
        assert_eq!(pass(5, 3, 3, false), 5);
        assert_eq!((pass(6, 3, 3, true), pass(7, 4, 4, true)), (5, 6), "those are lost");
        assert_eq!(pass(8, 5, 5, false), 8);
        true
    }

    #[test]
    fn an_image_in_the_middle_of_a_unit_names_what_was_before() {
        assert!(images_name_what_is_whole());
        with_mutant(Mutant::LabelsParts, || {
            assert!(!images_name_what_is_whole(), "the mistake is found");
        });
    }
}
