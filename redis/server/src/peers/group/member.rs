//! This server as a member of a group: what it has proposed, and what of it has come to count.
//!
//! - A leader's memory has batches that the group has not agreed to yet. They are *in flight* until
//!   their entries come back, in their order. An entry of a later reign shows that those still in
//!   flight are lost: then memory must be loaded anew before it is applied.
//! - Replies wait for *stamps*: that of the batch which has the effects, or, when a turn only read,
//!   one of a question to the group whether this member still leads. Stamps are settled in their
//!   order, so that nobody reads what may be lost.
//! - What one request, transaction or script changes is one unit. A batch is small; a larger unit
//!   has parts in several, which those who follow keep until the last has come.
//! - A unit above `raft-write-max-size` is not proposed, though it is in memory: the member serves
//!   nobody, proposes an empty batch as a *mark*, loads memory anew, and goes on when the mark is
//!   applied. Most such requests are refused before they run.
//! - A member leads from the moment at which the first entry of its reign is applied: its memory is
//!   then all that came before.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use stillframe_commands::Effects;
use stillframe_storage::wake::Wake;

use crate::consensus::{Batch, Change, Consensus, Event, GiveUp, Message, Reign, Reply, View};
use crate::mutant::{Mutant, Mutation};

/// Bytes of batches in flight; beyond, no requests on data are served.
const IN_FLIGHT_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Bytes of a batch: a fraction of what a link of 1 MB/s carries in the time for an append, which
/// is 200 ms unless set.
const BATCH_BYTES: usize = 64 << 10;

/// Bytes before the requests of a unit.
const HEAD_BYTES: usize = 5;
/// Committed batches whose indices are kept: for older ones a later index counts.
const COMMITTED_MAX: usize = 1024;
/// So long an image that was asked for may take to begin.
const IMAGE_PATIENCE: Duration = Duration::from_secs(5);

/// See the head of this file.
pub(crate) struct Member {
    consensus: Box<dyn Consensus>,
    id: u64,
    view: View,
    reigns: Reigns,
    proposed: Proposed,
    /// The parts of a unit of another member, until the last has come.
    parts: Option<Parts>,
    replies: Replies,
    /// The last entry that was applied.
    applied: u64,
    /// Clients that wait for more members than most.
    waits: Vec<u64>,
    images: Images,
    changes: Changes,
    counts: Counts,
    mutation: Mutation,
}

/// Who leads when.
#[derive(Default)]
struct Reigns {
    /// The reign of this member, while it leads.
    held: Option<Reign>,
    /// The last reign of this member whose first entry was applied.
    opened: Option<Reign>,
    /// The latest reign of which an entry was committed: those before it are over, whatever the
    /// view says, which may be older.
    latest: Option<Reign>,
}

/// What this member has proposed.
struct Proposed {
    in_flight: VecDeque<InFlight>,
    /// Bytes of these.
    in_flight_bytes: usize,
    /// Most bytes of a unit.
    unit_bytes_max: usize,
    /// Memory has a unit that is too large to be proposed.
    is_overfull: bool,
    /// The mark behind which this member leads again.
    mark: Option<(Reign, u64)>,
    /// Stamps of own batches that were committed last, and the indices of their entries.
    committed: VecDeque<(u64, u64)>,
}

/// What replies wait for.
#[derive(Default)]
struct Replies {
    awaited: VecDeque<Awaited>,
    /// The last stamp.
    stamp: u64,
    /// A request has seen or changed data since the last batch.
    accessed: bool,
}

/// Images of the group.
#[derive(Default)]
struct Images {
    /// Takes the outcome of the image under way.
    done: Option<Reply<Result<(), String>>>,
    /// Ends its wait for its label.
    give_up: Option<GiveUp>,
    /// Bytes of batches since the last image began.
    log_bytes: u64,
    /// A client, or the schedule, wants one.
    is_wanted: bool,
    /// When openraft was asked for one that has not begun.
    asked: Option<Instant>,
}

/// Changes of the group that clients have asked for.
struct Changes {
    /// How they went.
    answers: (mpsc::Sender<Answer>, mpsc::Receiver<Answer>),
    /// The clients that wait for those.
    asked: BTreeSet<u64>,
    /// The client that asked this member to hand on the lead, which has not ended.
    handing_over: Option<u64>,
    wake: Wake,
}

/// How a change of the group went, and which client asked for it.
type Answer = (u64, Result<(), String>);

/// Counters for INFO.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Batches proposed.
    pub(crate) proposed: u64,
    /// Batches of others applied.
    pub(crate) applied: u64,
    /// Questions whether this member still leads.
    pub(crate) confirmed: u64,
    /// Times that memory was loaded anew because what was proposed was lost.
    pub(crate) reloads: u64,
    /// Images that were begun.
    pub(crate) images: u64,
}

/// A batch that was proposed.
struct InFlight {
    reign: Reign,
    stamp: u64,
    bytes: usize,
}

/// The first parts of a unit, and where they come from.
struct Parts {
    reign: Reign,
    /// Of the last batch of them.
    stamp: u64,
    bytes: Vec<u8>,
}

/// Something that replies wait for.
struct Awaited {
    stamp: u64,
    is_batch: bool,
    done: bool,
}

/// What an entry with a batch is.
pub(crate) enum Whose {
    /// Of this member, and in memory.
    Own,
    /// To be applied.
    Another,
    /// Not the next one that this member proposed, though some are in flight.
    Gap,
    /// The mark of this member.
    Mark,
}

impl Member {
    /// A member that has proposed nothing yet. `unit_bytes_max`: most bytes that one request may
    /// change.
    pub(crate) fn new(
        id: u64,
        unit_bytes_max: usize,
        consensus: Box<dyn Consensus>,
        wake: Wake,
    ) -> Self {
        let proposed = Proposed {
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            unit_bytes_max,
            is_overfull: false,
            mark: None,
            committed: VecDeque::new(),
        };
        let changes =
            Changes { answers: mpsc::channel(), asked: BTreeSet::new(), handing_over: None, wake };
        Self {
            consensus,
            id,
            view: View { id, role: "follower", ..View::default() },
            reigns: Reigns::default(),
            proposed,
            parts: None,
            replies: Replies::default(),
            applied: 0,
            waits: Vec::new(),
            images: Images::default(),
            changes,
            counts: Counts::default(),
            mutation: Mutation::of_process(),
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.consensus.next_event()
    }

    /// What the member last heard of its group.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Bytes of the log in memory, and of what is on its way into it or from it.
    pub(crate) fn log_memory(&self) -> u64 {
        let parts = self.parts.as_ref().map_or(0, |parts| parts.bytes.capacity());
        self.consensus.log_memory() + parts as u64
    }

    /// How many other members have a write once its reply is sent: most of those that vote.
    pub(crate) fn others_with_writes(&self) -> usize {
        self.view.members.iter().filter(|member| member.votes).count() / 2
    }

    /// The stamp of the batch that gets what is written now.
    pub(crate) fn next_stamp(&self) -> u64 {
        self.replies.stamp + 1
    }

    /// How many other members have all that this one wrote up to a stamp, as far as is known.
    pub(crate) fn others_with(&self, stamp: u64) -> usize {
        let is_under_way = || {
            stamp > self.replies.stamp
                || self.proposed.in_flight.back().is_some_and(|last| last.stamp >= stamp)
        };
        let index = match self.proposed.committed.iter().find(|(committed, _)| *committed >= stamp)
        {
            _ if stamp == 0 => 0,
            Some(&(_, index)) => index,
            None if is_under_way() => return 0,
            None => self.applied,
        };
        let others = self.view.members.iter().filter(|member| member.peer.id != self.id);
        others.filter(|member| member.matched.is_some_and(|has| has >= index)).count()
    }

    /// A client waits for other members to have its writes.
    pub(crate) fn await_others(&mut self, client: u64) {
        self.waits.push(client);
        self.consensus.report_progress(true);
    }

    /// The clients that do, to be put back if they wait on.
    pub(crate) fn take_waits(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.waits)
    }

    /// Those of them that wait on.
    pub(crate) fn put_waits(&mut self, waits: Vec<u64>) {
        if waits.is_empty() {
            self.consensus.report_progress(false);
        }
        self.waits = waits;
    }

    /// Whether it leads, and has heard of most others of late.
    pub(crate) fn serves(&self) -> bool {
        self.reigns.held.is_some() && self.view.has_quorum && !self.proposed.is_overfull
    }

    /// Whether so much waits for the group that requests on data must wait, too. They do not once
    /// this member serves nobody: then they are refused.
    #[inline]
    pub(crate) fn lags(&self) -> bool {
        self.proposed.in_flight_bytes > IN_FLIGHT_BYTES_MAX && self.serves()
    }

    /// Whether memory has what may be lost: no read of it is true that the group does not confirm.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.proposed.in_flight.is_empty() || self.proposed.is_overfull
    }

    /// Whether it makes the mistake of that name.
    pub(crate) fn expires_by_own_clock(&self) -> bool {
        self.mutation.is(Mutant::ExpiresByOwnClock)
    }

    /// Whether it makes the mistake of that name.
    pub(crate) fn holds_all(&self) -> bool {
        self.mutation.is(Mutant::HoldsAll)
    }

    /// Whether it makes the mistake of that name.
    pub(crate) fn answers_late_unasked(&self) -> bool {
        self.mutation.is(Mutant::AnswersLateUnasked)
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        self.reigns.held.is_some()
    }

    /// Notes what is known of the group. It may be older than the last entry applied.
    pub(crate) fn see(&mut self, view: View) {
        self.view = view;
        self.note_applied();
        self.decide_who_leads();
    }

    /// The first entry of a reign was applied.
    pub(crate) fn open(&mut self, reign: Reign) {
        if reign.leader == self.id {
            self.reigns.opened = Some(reign);
        }
        self.decide_who_leads();
    }

    fn decide_who_leads(&mut self) {
        let View { role, term, .. } = self.view;
        let goes_on = |reign: &Reign| {
            role == "leader"
                && term == reign.term
                && self.reigns.latest.is_none_or(|it| it <= *reign)
        };
        // One that leads already has batches of its reign in flight. Loaded anew, memory lacks what
        // comes before the mark.
        let lacks = |reign| self.proposed.mark.is_some_and(|(marked, _)| marked == reign);
        let opened =
            self.reigns.opened.filter(|&reign| self.proposed.in_flight.is_empty() && !lacks(reign));
        self.reigns.held = self.reigns.held.filter(goes_on).or(opened.filter(goes_on));
    }

    /// An entry of this reign is committed. Returns whether that ends the reign of this member.
    pub(crate) fn note_reign(&mut self, reign: Reign) -> bool {
        let led = self.reigns.held.is_some();
        let keeps = self.mutation.is(Mutant::KeepsParts);
        self.parts.take_if(|parts| parts.reign != reign && !keeps);
        self.reigns.latest = self.reigns.latest.max(Some(reign));
        self.decide_who_leads();
        led && self.reigns.held.is_none()
    }

    /// A request has seen or changed data: its reply waits for the group.
    #[inline]
    pub(crate) fn note_access(&mut self) {
        self.replies.accessed = true;
    }

    /// Proposes the units of `effects`, up to one that is too large.
    pub(crate) fn propose(&mut self, effects: &Effects) {
        let Some(reign) = self.reigns.held else { return };
        let mut units = Vec::new();
        for (db, requests) in effects.units() {
            if self.proposed.is_overfull {
                break;
            }
            let bytes = HEAD_BYTES + requests.len();
            if units.len() + bytes > BATCH_BYTES {
                self.propose_batch(reign, std::mem::take(&mut units), false);
            }
            if bytes > self.proposed.unit_bytes_max {
                tracing::error!(
                    "a request has changed {bytes} bytes, and may change {} (raft-write-max-size): \
                     it is refused, and memory is loaded anew without it",
                    self.proposed.unit_bytes_max
                );
                self.proposed.is_overfull = true;
                self.proposed.mark = Some((reign, self.replies.stamp + 1));
                break;
            }
            let length = requests.len() as u32 + 1; // the largest unit is smaller
            units.extend_from_slice(&length.to_le_bytes());
            units.push(db as u8); // below DATABASES
            let mut rest = requests;
            while units.len() + rest.len() > BATCH_BYTES {
                let (part, behind) = rest.split_at(BATCH_BYTES - units.len());
                units.extend_from_slice(part);
                self.propose_batch(reign, std::mem::take(&mut units), true);
                rest = behind;
            }
            units.extend_from_slice(rest);
        }
        let units = self.mutation.cut(units);
        if !units.is_empty() || self.proposed.mark == Some((reign, self.replies.stamp + 1)) {
            self.propose_batch(reign, units, false);
        }
    }

    /// Whether a unit of so many bytes can be proposed.
    #[inline]
    pub(crate) fn takes_unit(&self, bytes: usize) -> bool {
        bytes <= self.proposed.unit_bytes_max
    }

    /// Most bytes of a unit.
    pub(crate) fn unit_bytes_max(&self) -> usize {
        self.proposed.unit_bytes_max
    }

    /// Whether memory has what was refused, so that it must be loaded anew.
    pub(crate) fn is_overfull(&self) -> bool {
        self.proposed.is_overfull
    }

    /// Proposes a batch. Without units it is a mark.
    fn propose_batch(&mut self, reign: Reign, units: Vec<u8>, splits_unit: bool) {
        if units.is_empty() && !self.proposed.is_overfull {
            return;
        }
        self.replies.stamp += 1;
        let stamp = self.replies.stamp;
        self.images.log_bytes += units.len() as u64;
        self.counts.proposed += 1;
        let bytes = units.len();
        self.proposed.in_flight.push_back(InFlight { reign, stamp, bytes });
        self.proposed.in_flight_bytes += bytes;
        let done = self.mutation.is(Mutant::AcknowledgesEarly);
        self.replies.awaited.push_back(Awaited { stamp, is_batch: true, done });
        self.settle();
        self.replies.accessed = false;
        self.consensus.propose(Batch { reign, stamp, splits_unit, units });
    }

    /// At the end of a turn: if a request has read what is not covered by a batch behind it, asks
    /// whether this member still leads.
    pub(crate) fn cover_reads(&mut self) {
        if self.mutation.is(Mutant::ReadsUnasked) {
            return;
        }
        if std::mem::take(&mut self.replies.accessed) && self.reigns.held.is_some() {
            self.replies.stamp += 1;
            self.replies.awaited.push_back(Awaited {
                stamp: self.replies.stamp,
                is_batch: false,
                done: false,
            });
            self.counts.confirmed += 1;
            self.consensus.confirm(self.replies.stamp);
        }
    }

    /// Reads wait for nothing but the batches before them.
    pub(crate) fn leave_reads(&mut self) {
        self.replies.accessed = false;
    }

    /// The stamp for which new replies wait.
    pub(crate) fn awaited(&self) -> Option<u64> {
        self.replies.awaited.back().map(|last| last.stamp)
    }

    /// The last stamp that is settled, as all before it are.
    pub(crate) fn settled(&self) -> u64 {
        self.replies.awaited.front().map_or(self.replies.stamp, |first| first.stamp - 1)
    }

    /// This member led in `reign` when it was asked for this stamp. Returns whether that is the
    /// reign in which it has read.
    pub(crate) fn confirmed(&mut self, stamp: u64, reign: Option<Reign>) -> bool {
        if reign.is_none() || reign != self.reigns.held {
            return false;
        }
        let asked = self.replies.awaited.iter_mut().filter(|it| !it.is_batch && it.stamp <= stamp);
        asked.for_each(|it| it.done = true);
        self.settle();
        true
    }

    fn settle(&mut self) {
        while self.replies.awaited.front().is_some_and(|first| first.done) {
            self.replies.awaited.pop_front();
        }
    }

    /// Whether an entry of this reign shows that what is in flight is lost.
    pub(crate) fn is_behind(&self, reign: Reign) -> bool {
        let keeps = self.mutation.is(Mutant::KeepsWhatWasLost);
        !keeps && self.proposed.in_flight.front().is_some_and(|first| first.reign < reign)
    }

    /// An entry is applied.
    pub(crate) fn pass(&mut self, index: u64) {
        self.applied = index;
        self.note_applied();
    }

    /// The view knows the last entry applied at once: openraft tells of it in intervals, and a
    /// client whose write was answered finds that write counted.
    fn note_applied(&mut self) {
        self.view.applied = self.view.applied.max(self.applied);
        self.view.last = self.view.last.max(self.applied);
    }

    /// A batch is committed, by the entry with this index.
    pub(crate) fn commit(&mut self, batch: &Batch, index: u64) -> Whose {
        if self.mutation.is(Mutant::KeepsWhatWasLost) {
            self.proposed.in_flight.retain(|it| it.reign >= batch.reign);
        }
        let Some(&InFlight { reign, stamp, bytes }) = self.proposed.in_flight.front() else {
            if self.proposed.mark.take_if(|mark| *mark == (batch.reign, batch.stamp)).is_some() {
                self.open(batch.reign);
                return Whose::Mark;
            }
            self.images.log_bytes += batch.units.len() as u64;
            self.counts.applied += 1;
            return Whose::Another;
        };
        // All of earlier reigns was applied before this member led, and a later one is behind.
        if (reign, stamp) != (batch.reign, batch.stamp) {
            return Whose::Gap;
        }
        self.proposed.in_flight.pop_front();
        self.proposed.in_flight_bytes -= bytes;
        self.proposed.committed.push_back((stamp, index));
        if self.proposed.committed.len() > COMMITTED_MAX {
            self.proposed.committed.pop_front();
        }
        if let Some(own) = self.replies.awaited.iter_mut().find(|it| it.stamp == stamp) {
            own.done = true;
        }
        self.settle();
        Whose::Own
    }

    /// The units that a batch of another member completes.
    ///
    /// # Errors
    /// A part is missing.
    pub(crate) fn complete(&mut self, batch: Batch) -> Result<Vec<u8>, &'static str> {
        let Batch { reign, stamp, splits_unit, mut units } = batch;
        if let Some(parts) = self.parts.take() {
            if parts.stamp + 1 != stamp && !self.mutation.is(Mutant::KeepsParts) {
                return Err("it is not the next part of a unit");
            }
            let rest = std::mem::replace(&mut units, parts.bytes);
            units.extend_from_slice(&rest);
        }
        if splits_unit {
            self.parts = Some(Parts { reign, stamp, bytes: units });
            return Ok(Vec::new());
        }
        Ok(units)
    }

    /// The last batch in memory that is not committed.
    pub(crate) fn last_in_flight(&self) -> Option<(Reign, u64)> {
        let last =
            self.proposed.in_flight.back().filter(|_| !self.mutation.is(Mutant::LabelsEarly));
        last.map(|last| (last.reign, last.stamp))
    }

    /// Replies that wait get none: their requests may come to count, or not. What is in flight is
    /// in memory all the same: as long as this member leads, each reader waits for it.
    pub(crate) fn give_up_waiting(&mut self) -> bool {
        let any = !self.replies.awaited.is_empty();
        let keeps = self.reigns.held.is_some() && !self.mutation.is(Mutant::ReadsWhatIsInFlight);
        self.replies.awaited.retain(|it| keeps && it.is_batch);
        self.settle();
        any
    }

    /// Memory is loaded anew: nothing is in flight any more. The reign begins again with its first
    /// entry.
    pub(crate) fn forget(&mut self) {
        self.counts.reloads +=
            u64::from(!self.proposed.in_flight.is_empty() || self.proposed.is_overfull);
        self.proposed.is_overfull = false;
        self.parts = None;
        self.proposed.in_flight.clear();
        self.proposed.in_flight_bytes = 0;
        (self.reigns.held, self.reigns.opened) = (None, None);
    }

    /// An image has begun.
    pub(crate) fn note_image(&mut self, done: Reply<Result<(), String>>, give_up: GiveUp) {
        self.images.log_bytes = 0;
        self.images.is_wanted = false;
        self.images.asked = None;
        self.counts.images += 1;
        self.images.done = Some(done);
        self.images.give_up = Some(give_up);
    }

    /// The image under way gets no label. To be called before the loop waits for the end of that
    /// image: the label would come from entries that the loop has yet to apply.
    pub(crate) fn give_up_label(&mut self) {
        if let Some(give_up) = self.images.give_up.take() {
            give_up();
        }
    }

    /// The image under way has ended.
    pub(crate) fn end_image(&mut self, outcome: Result<(), String>) {
        self.images.give_up = None;
        if let Some(done) = self.images.done.take() {
            done(outcome);
        }
    }

    /// Whether an image of the group is under way.
    pub(crate) fn takes_image(&self) -> bool {
        self.images.done.is_some()
    }

    /// Passes a message of a client on to the other members.
    pub(crate) fn publish(&mut self, message: Message) {
        self.consensus.publish(message);
    }

    /// The next turn asks for an image, whenever one was asked for last.
    pub(crate) fn want_image(&mut self) {
        self.images.is_wanted = true;
        self.images.asked = None;
    }

    /// Asks for an image if one is wanted, or the log has grown by so many bytes since the last one
    /// began. openraft forgets that if it has not heard yet that the image before has ended: so it
    /// is asked again.
    pub(crate) fn ask_for_image(&mut self, log_bytes: u64, now: Instant) {
        let is_due = self.images.is_wanted || self.images.log_bytes >= log_bytes;
        let is_patient = |asked| now.duration_since(asked) < IMAGE_PATIENCE;
        if is_due && !self.images.asked.is_some_and(is_patient) {
            self.images.asked = Some(now);
            self.consensus.take_image();
        }
    }

    /// Changes the group; `client` is to get the answer.
    pub(crate) fn change(&mut self, change: Change, client: u64) {
        let (answers, wake) = (self.changes.answers.0.clone(), Arc::clone(&self.changes.wake));
        let what = format!("{change:?}");
        self.changes.asked.insert(client);
        if matches!(change, Change::Transfer(_)) {
            self.changes.handing_over = Some(client);
        }
        let answer = Box::new(move |outcome: Result<(), String>| {
            match &outcome {
                Ok(()) => tracing::info!("the group has changed: {what}"),
                Err(why) => tracing::warn!("the group has not changed: {what}: {why}"),
            }
            if answers.send((client, outcome)).is_ok() {
                wake();
            }
        });
        self.consensus.change(change, answer);
    }

    /// How a change went that a client has asked for.
    pub(crate) fn next_answer(&mut self) -> Option<(u64, Result<(), String>)> {
        let (client, outcome) = self.changes.answers.1.try_recv().ok()?;
        self.changes.asked.remove(&client);
        self.changes.handing_over.take_if(|asked| *asked == client);
        Some((client, outcome))
    }

    /// Whether a client waits for the answer to a change, which comes from any leader.
    pub(crate) fn owes_answer(&self, client: u64) -> bool {
        self.changes.asked.contains(&client)
    }

    /// Whether this member hands on the lead, so that requests on data wait: as long as it serves.
    pub(crate) fn hands_over(&self) -> bool {
        self.changes.handing_over.is_some() && self.serves()
    }

    pub(crate) fn stop(&mut self) {
        self.consensus.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A consensus that only listens, and counts how often an image was asked for.
    #[derive(Default)]
    struct Silent(Arc<AtomicUsize>);

    impl Consensus for Silent {
        fn propose(&mut self, _: Batch) {}
        fn confirm(&mut self, _: u64) {}
        fn next_event(&mut self) -> Option<Event> {
            None
        }
        fn publish(&mut self, _: Message) {}
        fn report_progress(&mut self, _: bool) {}
        fn take_image(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn log_memory(&self) -> u64 {
            0
        }
        fn change(&mut self, _: Change, _: Reply<Result<(), String>>) {}
        fn stop(&mut self) {}
    }

    fn leader(term: u64) -> Member {
        let mut member = Member::new(
            1,
            1 << 20,
            Box::new(Silent::default()),
            stillframe_storage::wake::nobody(),
        );
        let view = View { id: 1, term, role: "leader", has_quorum: true, ..View::default() };
        member.see(view);
        assert!(!member.leads(), "the first entry of its reign is not applied");
        member.open(Reign { term, leader: 1 });
        assert!(member.serves());
        member
    }

    #[test]
    fn an_entry_counts_as_applied_at_once_and_for_good() {
        let mut member = leader(3);
        member.pass(7);
        assert_eq!((member.view().applied, member.view().last), (7, 7));
        for (told, last, expected) in [(5, 6, (7, 7)), (7, 9, (7, 9)), (8, 9, (8, 9))] {
            member.see(View { applied: told, last, ..View::default() });
            assert_eq!((member.view().applied, member.view().last), expected);
        }
    }

    #[test]
    fn an_image_that_was_asked_for_and_does_not_begin_is_asked_for_again() {
        let asked = Silent::default();
        let count = Arc::clone(&asked.0);
        let mut member =
            Member::new(1, 1 << 20, Box::new(asked), stillframe_storage::wake::nobody());
        let start = Instant::now();
        let ask = |member: &mut Member, seconds| {
            member.ask_for_image(100, start + Duration::from_secs(seconds));
            count.load(Ordering::Relaxed)
        };
        member.images.log_bytes = 99;
        assert_eq!(ask(&mut member, 0), 0, "the log is short");
        member.images.log_bytes = 100;
        assert_eq!((ask(&mut member, 1), ask(&mut member, 2)), (1, 1), "it may be on its way");
        assert_eq!(ask(&mut member, 6), 2, "it was forgotten");
        member.note_image(Box::new(|_| {}), Box::new(|| {}));
        assert_eq!(ask(&mut member, 60), 2, "it has begun");
        member.images.log_bytes = 100;
        assert_eq!(ask(&mut member, 60), 3, "the next one");
        member.note_image(Box::new(|_| {}), Box::new(|| {}));
        member.want_image();
        assert_eq!((ask(&mut member, 61), ask(&mut member, 66)), (4, 5), "a client asked");
        member.want_image();
        assert_eq!((ask(&mut member, 67), ask(&mut member, 68)), (6, 6), "and once more");
        member.note_image(Box::new(|_| {}), Box::new(|| {}));
        assert_eq!(ask(&mut member, 90), 6, "it has begun");
    }

    #[test]
    fn a_read_is_confirmed_by_the_reign_in_which_it_was() {
        let reign = |term| Some(Reign { term, leader: 1 });
        let mut member = leader(3);
        member.note_access();
        member.cover_reads();
        let stamp = member.awaited().expect("a read waits");
        for other in [None, reign(2), reign(5), Some(Reign { term: 3, leader: 2 })] {
            assert!(!member.confirmed(stamp, other), "{other:?}");
            assert_eq!(member.awaited(), Some(stamp), "{other:?}");
        }
        assert!(member.confirmed(stamp, reign(3)));
        assert_eq!((member.awaited(), member.settled()), (None, stamp));
    }

    /// Whether a read of a leader waits until the group is asked.
    fn a_read_waits_for_the_group() -> bool {
        let mut member = leader(3);
        member.note_access();
        member.cover_reads();
        member.awaited().is_some()
    }

    #[test]
    fn a_read_waits_until_most_confirm_that_its_member_leads() {
        assert!(a_read_waits_for_the_group());
        #[cfg(feature = "mutants")]
        crate::mutant::with_mutant(Mutant::ReadsUnasked, || {
            assert!(!a_read_waits_for_the_group(), "the mistake is found");
        });
    }

    /// Whether a read waits for a write in flight whose own client was given up.
    fn a_read_waits_for_a_write_whose_client_was_given_up() -> bool {
        let mut member = leader(3);
        let reign = Reign { term: 3, leader: 1 };
        let bytes = 1;
        member.replies.stamp += 1;
        member.proposed.in_flight.push_back(InFlight { reign, stamp: member.replies.stamp, bytes });
        member.replies.awaited.push_back(Awaited {
            stamp: member.replies.stamp,
            is_batch: true,
            done: false,
        });
        member.proposed.in_flight_bytes += bytes;
        let written = member.replies.stamp;
        assert!(!member.confirmed(written, None));
        assert!(member.give_up_waiting());
        member.note_access();
        member.cover_reads();
        let read = member.awaited().expect("a read waits");
        assert!(member.confirmed(read, Some(reign)));
        if member.settled() >= written {
            return false;
        }
        let batch = Batch { reign, stamp: written, splits_unit: false, units: Vec::new() };
        assert!(matches!(member.commit(&batch, 1), Whose::Own));
        assert_eq!(member.settled(), read);
        true
    }

    #[test]
    fn a_read_waits_for_what_is_in_flight_though_its_writer_was_given_up() {
        assert!(a_read_waits_for_a_write_whose_client_was_given_up());
        #[cfg(feature = "mutants")]
        crate::mutant::with_mutant(Mutant::ReadsWhatIsInFlight, || {
            assert!(!a_read_waits_for_a_write_whose_client_was_given_up(), "the mistake is found");
        });
    }

    /// Whether parts of a unit count with the last, and for nothing when a reign has ended before.
    fn parts_count_with_the_last() -> bool {
        let mut member = leader(3);
        let part = |term, stamp, splits_unit, units: &[u8]| {
            let reign = Reign { term, leader: 2 };
            Batch { reign, stamp, splits_unit, units: units.to_vec() }
        };
        let mut complete = |batch: Batch| {
            member.note_reign(batch.reign);
            member.complete(batch)
        };
        assert_eq!(complete(part(4, 1, false, b"whole")), Ok(b"whole".to_vec()));
        assert_eq!(complete(part(4, 2, true, b"a")), Ok(Vec::new()));
        assert_eq!(complete(part(4, 3, true, b"b")), Ok(Vec::new()));
        assert_eq!(complete(part(4, 4, false, b"c")), Ok(b"abc".to_vec()));
        assert_eq!(complete(part(4, 5, true, b"lost")), Ok(Vec::new()));
        if complete(part(5, 1, false, b"next")) != Ok(b"next".to_vec()) {
            return false;
        }
        assert_eq!(complete(part(5, 2, true, b"a")), Ok(Vec::new()));
        complete(part(5, 4, false, b"c")).expect_err("a part is missing");
        true
    }

    #[test]
    fn the_parts_of_a_unit_count_with_the_last_one() {
        assert!(parts_count_with_the_last());
        #[cfg(feature = "mutants")]
        crate::mutant::with_mutant(Mutant::KeepsParts, || {
            assert!(!parts_count_with_the_last(), "the mistake is found");
        });
    }

    #[test]
    fn an_entry_of_a_later_reign_ends_the_lead_whatever_the_view_says() {
        let reign = |term, leader| Reign { term, leader };
        let mut member = leader(3);
        assert!(!member.note_reign(reign(3, 1)), "its own");
        assert!(member.note_reign(reign(3, 2)), "the view is older than this entry");
        assert!(!member.leads() && !member.note_reign(reign(3, 2)));
        // Loaded anew, it gets the entries of its reign once more.
        member.forget();
        assert!(!member.note_reign(reign(3, 1)));
        member.open(reign(3, 1));
        assert!(!member.leads());
        let view = View { id: 1, term: 4, role: "leader", has_quorum: true, ..View::default() };
        member.see(view);
        member.note_reign(reign(4, 1));
        member.open(reign(4, 1));
        assert!(member.serves());
    }
}
