//! The loop's part in a group: what has happened there, between two requests.
//!
//! - All that requests did so far is proposed first: then the loop stands at a point of
//!   consistency.
//! - Events are handled before requests, so that a turn's requests see who leads.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use stillframe_commands::Consumer;
use stillframe_storage::dump::Loaded;
use stillframe_storage::load_dump;
use stillframe_storage::replay::Records;

use super::{Server, paced};
use crate::ServeError;
use crate::commands::{Alone, Replay, replay_units};
use crate::connections::client::Kind;
use crate::connections::hub::Delivery;
use crate::consensus::{
    Applied, Begin, Begun, Content, Entry, Event, GiveUp, Message, Reply, Start, View,
};
use crate::peers::group::{DOWN, Member, Whose};
use crate::state::ServerState;
use crate::state::persistence;

/// The reply to requests of which nobody knows what became.
const LEAD_LOST: &[u8] =
    b"ERR this member no longer leads its group: what was asked last may have \
    been done, or not";
/// The reply to what was asked when a request turned out to change too much.
const TOO_LARGE: &[u8] = b"ERR a request changes more than raft-write-max-size: it was not done, \
    and what was asked beside it may have been, or not";
/// How long the end of a server waits for what it has proposed.
const LAST_BATCHES: Duration = Duration::from_secs(2);

impl Server {
    /// Takes part in a group from now on.
    pub(crate) fn join(&mut self, start: Start) -> Result<(), ServeError> {
        let Some(settings) = self.state.config.raft.of_member() else { return Ok(()) };
        let id = settings.id;
        let saves = &mut self.state.storage.saves;
        let begin = Begin {
            settings,
            files: saves.directory().files().clone(),
            dump: self.state.config.dbfilename.clone(),
            label: saves.loaded.label.take(),
            wake: saves.wake(),
        };
        let wake = saves.wake();
        let consensus = start(begin).map_err(ServeError::Group)?;
        let most = usize::try_from(self.state.config.raft.write_bytes_max).unwrap_or(usize::MAX);
        self.state.group.join(Member::new(id, most, consensus, wake));
        self.state.group.set_name(&self.state.config.raft.group);
        self.state.group.serve_reads(self.state.config.raft.reads);
        self.state.group.forward(self.state.config.raft.forward);
        self.show_group();
        Ok(())
    }

    /// Handles what has happened in the group.
    pub(super) fn attend_group(&mut self) -> Result<(), ServeError> {
        if self.state.group.member().is_none() {
            return Ok(());
        }
        persistence::hand_on(&mut self.keyspace, &mut self.state);
        while let Some(event) = self.state.group.member_mut().and_then(Member::next_event) {
            match event {
                Event::Apply(entries, reply) => reply(self.apply(entries)),
                Event::Image { label, give_up, begun, done } => {
                    self.begin_image(label, give_up, begun, done);
                }
                Event::Reload { install, done } => {
                    let loaded = self.reload(install);
                    done(loaded);
                }
                Event::Messages(messages, reply) => {
                    self.deliver(&messages);
                    reply(());
                }
                Event::View(view) => {
                    if let Some(member) = self.state.group.member_mut() {
                        member.see(view);
                    }
                    self.show_group();
                }
                Event::Confirmed { stamp, reign } => {
                    let member = self.state.group.member_mut();
                    if !member.is_some_and(|member| member.confirmed(stamp, reign)) {
                        self.give_up_waiting();
                    }
                }
                Event::Failed(why) => {
                    self.give_up_waiting();
                    return Err(ServeError::Group(why));
                }
            }
        }
        while let Some((client, outcome)) =
            self.state.group.member_mut().and_then(Member::next_answer)
        {
            self.keyspace.spare_expired(self.state.spares_expired());
            self.state.unblock(client, |out| match outcome {
                Ok(()) => {
                    out.ok();
                    Ok(())
                }
                Err(why) => Err(format!("ERR {why}").into()),
            });
        }
        self.answer_waits();
        self.attend_image();
        Ok(())
    }

    /// Replies to clients in WAIT whose writes enough members have.
    fn answer_waits(&mut self) {
        let Some(member) = self.state.group.member_mut() else { return };
        let waits = member.take_waits();
        if waits.is_empty() {
            return;
        }
        let mut rest = Vec::new();
        for id in waits {
            let Some(acks) = self.state.ledger.waiters.acks(id) else { continue };
            let acked = self.state.acked(acks);
            if !acked.suffices(acks) {
                rest.push(id);
                continue;
            }
            self.state.unblock_with_data(id, |out| {
                acked.answer(acks, out);
                Ok(())
            });
        }
        if let Some(member) = self.state.group.member_mut() {
            member.put_waits(rest);
        }
    }

    /// Delivers messages that clients of another member have published.
    fn deliver(&mut self, messages: &[Message]) {
        let ServerState { hub, clients, config, clock, .. } = &mut self.state;
        let to = &mut Delivery::new(clients, config, clock);
        for Message { is_sharded, channel, payload } in messages {
            let kind = if *is_sharded { Kind::Shard } else { Kind::Channel };
            hub.publish(to, kind, channel, payload);
        }
    }

    /// Applies committed entries, but for what is in memory already.
    fn apply(&mut self, entries: Vec<Entry>) -> Applied {
        let mut records = Records::<Replay>::default();
        let mut entries = entries.into_iter();
        while let Some(entry) = entries.next() {
            if self.state.group.member_mut().is_some_and(|it| it.note_reign(entry.reign)) {
                self.show_group();
            }
            let Some(member) = self.state.group.member_mut() else { break };
            if member.is_behind(entry.reign) || member.is_overfull() {
                self.give_up_waiting();
                return Applied::Diverged(1 + entries.len());
            }
            match entry.content {
                Content::First => {
                    member.open(entry.reign);
                    self.show_group();
                }
                Content::Batch(batch) => match member.commit(&batch, entry.index) {
                    Whose::Own => {}
                    Whose::Mark => self.show_group(),
                    Whose::Another => {
                        debug_assert!(!member.leads(), "a leader has run what is committed");
                        let units = member.complete(batch).map_err(str::to_owned);
                        let applied = units.and_then(|it| self.replay(&mut records, &it));
                        if let Err(why) = applied {
                            return Applied::Refused(format!("entry {}: {why}", entry.index));
                        }
                    }
                    Whose::Gap => {
                        let why = "it is not the next one that this member proposed";
                        return Applied::Refused(format!("entry {}: {why}", entry.index));
                    }
                },
                Content::Other => {}
            }
            if let Some(member) = self.state.group.member_mut() {
                member.pass(entry.index);
            }
        }
        Applied::All
    }

    fn replay(&mut self, records: &mut Records<Replay>, units: &[u8]) -> Result<(), String> {
        let Self { keyspace, state, table, .. } = self;
        replay_units(records, &mut Alone { keyspace, state, table }, units)
    }

    /// Shows clients what is known of the group, and collects effects while this member leads.
    fn show_group(&mut self) {
        let Some(member) = self.state.group.member() else { return };
        let (leads, serves) = (member.leads(), member.serves());
        let seen = member.view();
        let leader = seen.leader.filter(|&id| id != seen.id).or(serves.then_some(seen.id));
        let view = View { leader, ..seen.clone() };
        if !serves {
            self.give_up_waiting();
            if !self.state.group.follows() {
                self.give_up_early();
            }
        }
        let ServerState { ledger, .. } = &mut self.state;
        ledger.effects.want(&mut self.keyspace, Consumer::Log, leads);
        self.state.see_group(&mut self.keyspace, Some(view));
        self.at_turn().end_forwarding();
    }

    /// Ends the connections with replies that may show what cannot be proposed; nobody is served
    /// until memory is loaded anew.
    pub(super) fn refuse_overfull(&mut self) {
        let Some(member) = self.state.group.member_mut() else { return };
        if !member.is_overfull() || !member.leads() {
            return;
        }
        member.give_up_waiting();
        let mut places = self.take_withheld();
        places.extend(self.state.clients.told_of_data());
        self.refuse_replies(places, |_| TOO_LARGE);
        self.show_group();
    }

    /// Replies that wait get none.
    fn give_up_waiting(&mut self) {
        if self.state.group.member_mut().is_some_and(Member::give_up_waiting) {
            let down = DOWN;
            let places = self.take_withheld();
            self.refuse_replies(places, |client| match client.session.in_doubt {
                true => LEAD_LOST,
                false => down.text(),
            });
        }
    }

    /// The reign is over: what this turn has told of the data, as to a client whose time is over,
    /// is not sent. It waits for nothing yet, and nobody could confirm it any more.
    fn give_up_early(&mut self) {
        let (places, down) = (self.state.clients.told_of_data(), DOWN);
        self.refuse_replies(places, |_| down.text());
    }

    /// Begins an image of memory as it is now, batches in flight included.
    fn begin_image(
        &mut self,
        label: Receiver<Vec<u8>>,
        give_up: GiveUp,
        begun: Begun,
        done: Reply<Result<(), String>>,
    ) {
        let ServerState { storage, ledger, group, clock, .. } = &mut self.state;
        let Some(member) = group.member_mut() else { return };
        if storage.saves.running().is_some() {
            return begun(Err("an image is under way".into()));
        }
        if member.is_overfull() {
            return begun(Err("memory has what was refused, and is loaded anew".into()));
        }
        let sync_time = storage.saves.directory().files().sync_time();
        let (label, paced) = paced::label(label, sync_time, clock.turn());
        match storage.begin_labelled(&mut self.keyspace, ledger, label) {
            Ok(()) => {
                begun(Ok(member.last_in_flight()));
                member.note_image(done, give_up);
                self.paced = paced.filter(|paced| paced.await_capture(&mut self.keyspace));
            }
            Err(error) => begun(Err(error.to_string())),
        }
    }

    /// Notes the end of an image, and asks for one when the log has grown.
    fn attend_image(&mut self) {
        let ServerState { storage, ledger, group, config, clock, .. } = &mut self.state;
        let Some(member) = group.member_mut() else { return };
        if let Some(paced) = self.paced.take_if(|paced| paced.has_ended(clock.turn())) {
            drop(paced);
            storage.wait(&mut self.keyspace, ledger);
        }
        if storage.saves.running().is_some() {
            return;
        }
        if member.takes_image() {
            let failed = || Err("it could not be saved; see the log".to_owned());
            member.end_image(if storage.saves.ended_well { Ok(()) } else { failed() });
        }
        let log_bytes = config.raft.log_min_bytes.max(storage.saves.dump_bytes);
        member.ask_for_image(log_bytes, clock.turn());
    }

    /// Drops the data and loads the dump.
    fn reload(
        &mut self,
        install: Option<Box<dyn FnOnce() -> Result<(), String> + Send>>,
    ) -> Result<Option<Vec<u8>>, String> {
        if let Some(member) = self.state.group.member_mut() {
            member.forget();
            member.give_up_label();
        }
        self.paced = None;
        self.show_group();
        let ServerState { storage, ledger, .. } = &mut self.state;
        storage.cancel(&self.keyspace);
        storage.wait(&mut self.keyspace, ledger);
        if let Some(member) = self.state.group.member_mut() {
            member.end_image(Err("other data has come".into()));
        }
        if let Some(install) = install {
            install()?;
        }
        self.state.ledger.watches.touch_everyone();
        let ServerState { clients, config, clock, hub, storage, .. } = &mut self.state;
        hub.invalidate_all(&mut Delivery::new(clients, config, clock));
        self.keyspace.reset();
        storage.saves.loaded = Loaded::default();
        let loaded = load_dump(self, true).map_err(|error| error.to_string())?;
        self.state.storage.end_load();
        if loaded {
            Ok(self.state.storage.saves.loaded.label.take())
        } else {
            Err("it ends".into())
        }
    }

    /// At the end: waits a while for what was proposed, and takes part no more.
    pub(super) fn leave_group(&mut self) {
        if self.state.group.member().is_none() {
            return;
        }
        let end = Instant::now() + LAST_BATCHES;
        while self.state.group.member().is_some_and(|member| member.awaited().is_some())
            && Instant::now() < end
        {
            let waited =
                self.poll_events(Duration::from_millis(10)).and_then(|()| self.attend_group());
            if waited.is_err() {
                break;
            }
            self.release(self.state.settled());
        }
        self.give_up_waiting();
        if let Some(member) = self.state.group.member_mut() {
            member.stop();
        }
    }
}
