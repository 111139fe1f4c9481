//! The state of the server beside the data: owners that know nothing of each other. What changes
//! several of them at once stands below.

pub(crate) mod defragment;
pub(crate) mod eviction;
pub(crate) mod own_expiry;
pub(crate) mod persistence;
pub(crate) mod primary;
pub(crate) mod roles;
pub(crate) mod shutdown;

use stillframe_commands::{Acks, Ledger, Random, Refusal, flags};
use stillframe_keyspace::Keyspace;
use stillframe_resp::Out;
use stillframe_script::Engine;
use stillframe_storage::Storage;
use stillframe_storage::replay::Loading;

use crate::connections::client::Needs;
use crate::connections::clients::Clients;
use crate::connections::hub::{Delivery, Hub};
use crate::connections::net::Network;
use crate::consensus::View;
use crate::data::memory::Memory;
use crate::data::read_views::ReadViews;
use crate::data::scripts::Scripts;
use crate::data::views::Views;
use crate::node::acl::Users;
use crate::node::clock::Clock;
use crate::node::config::Config;
use crate::node::meter::Meter;
use crate::node::process::Process;
use crate::peers::group::{Group, NO_PRIMARY_ANY_MORE, slot};
use crate::peers::replication::logged::Mark;
use crate::peers::replication::transfers::Transfers;
use crate::peers::replication::{Replication, replicas_at};

/// The state of the server, which every command may see and change.
pub(crate) struct ServerState {
    /// Configuration.
    pub(crate) config: Config,
    /// Users and their rights.
    pub(crate) users: Users,
    /// The ledger of commands on data.
    pub(crate) ledger: Ledger,
    /// The clients.
    pub(crate) clients: Clients,
    /// Messages to clients, and their pause.
    pub(crate) hub: Hub,
    /// The files that keep the data.
    pub(crate) storage: Storage,
    /// Replicas, or the primary.
    pub(crate) replication: Replication,
    /// The group of servers that this one belongs to.
    pub(crate) group: Group,
    /// Counters and times.
    pub(crate) meter: Meter,
    /// The clock.
    pub(crate) clock: Clock,
    /// Eviction and free memory.
    pub(crate) memory: Memory,
    /// Sockets, TLS, and other servers.
    pub(crate) net: Network,
    /// The interpreter of scripts.
    pub(crate) scripts: Scripts,
    /// Views of the data.
    pub(crate) views: Views,
    /// Views for other threads.
    pub(crate) read_views: ReadViews,
    /// This process and its shutdown.
    pub(crate) process: Process,
}

/// Who has the writes of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    /// The log of this server has them on its disk.
    log: bool,
    /// How many other servers have them.
    servers: usize,
}

impl Acked {
    pub(crate) fn suffices(self, acks: Acks) -> bool {
        self.servers >= acks.wanted && acks.log.is_none_or(|log| self.log || !log.wanted)
    }

    /// The reply to WAIT or WAITAOF.
    pub(crate) fn answer(self, acks: Acks, out: &mut Out<'_>) {
        if acks.log.is_some() {
            out.array(2);
            out.integer(self.log.into());
        }
        out.integer(self.servers as i64);
    }
}

impl ServerState {
    /// State of a server that has no clients yet.
    pub(crate) fn new(config: Config, storage: Storage, users: Users) -> Self {
        let clock = Clock::new();
        let mut random = Random::seeded();
        let transfers = Transfers::new(storage.saves.wake());
        Self {
            replication: Replication::new(&mut random, transfers, clock.started()),
            meter: Meter::new(users.catalog().len(), clock.started()),
            process: Process::new(random.identifier()),
            ledger: Ledger::new(config.of_commands(), random),
            storage,
            clients: Clients::default(),
            hub: Hub::default(),
            group: Group::default(),
            memory: Memory::default(),
            net: Network::default(),
            scripts: Scripts::default(),
            views: Views::default(),
            read_views: ReadViews::default(),
            config,
            users,
            clock,
        }
    }

    /// Replaces the configuration, which storage obeys at once; returns the one before.
    pub(crate) fn configure(&mut self, config: Config) -> Config {
        self.storage.obey(config.of_storage());
        std::mem::replace(&mut self.config, config)
    }

    /// Ends a client's waiting with the reply that `answer` writes, or the refusal that it returns;
    /// false if the client does not wait.
    pub(crate) fn unblock(
        &mut self,
        id: u64,
        answer: impl FnOnce(&mut Out<'_>) -> Result<(), Refusal>,
    ) -> bool {
        self.end_wait(id, answer).is_some()
    }

    /// As [`unblock`](Self::unblock), with a reply that tells of the data: in a group it waits like
    /// that to a request which has just come, so that no member answers which leads no more.
    pub(crate) fn unblock_with_data(
        &mut self,
        id: u64,
        answer: impl FnOnce(&mut Out<'_>) -> Result<(), Refusal>,
    ) -> bool {
        let Some(place) = self.end_wait(id, answer) else { return false };
        if let (Some(member), Some(client)) = (self.group.member_mut(), self.clients.get_mut(place))
            && !member.answers_late_unasked()
        {
            client.session.shows_data = true;
            member.note_access();
        }
        true
    }

    /// Ends a client's waiting; returns its place.
    fn end_wait(
        &mut self,
        id: u64,
        answer: impl FnOnce(&mut Out<'_>) -> Result<(), Refusal>,
    ) -> Option<usize> {
        let waiter = self.ledger.waiters.leave(id)?;
        self.meter.ended_wait(waiter.command);
        let client = self.clients.get_mut(waiter.place)?;
        client.session.caller.waits = false;
        client.session.shows_data |= self.group.member().is_none();
        let start = client.output.len();
        let mut out = Out::new(&mut client.output, client.session.protocol);
        if let Err(refusal) = answer(&mut out) {
            out.error(&refusal);
            self.meter.failed(waiter.command);
            self.meter.answered_error(refusal.text());
        }
        if client.session.drops_reply() {
            client.output.truncate(start);
        }
        self.clients.wake(waiter.place);
        Some(waiter.place)
    }

    /// Who has the writes of a client up to an offset, or to a stamp of the group. The reply that
    /// tells it waits for the group, so most members count, and all they have is on their disks.
    pub(crate) fn acked(&self, acks: Acks) -> Acked {
        match self.group.member() {
            Some(member) => Acked {
                log: true,
                servers: member.others_with(acks.offset).max(member.others_with_writes()),
            },
            None => Acked {
                log: acks.log.is_some_and(|log| self.storage.journal.has_durable(log.record)),
                servers: replicas_at(&self.clients, acks.offset, acks.log.is_some()),
            },
        }
    }

    /// Ends a client's waiting as its timeout does; false if it does not wait.
    pub(crate) fn give_up(&mut self, id: u64) -> bool {
        let acked = self.ledger.waiters.acks(id).map(|acks| (acks, self.acked(acks)));
        self.unblock_with_data(id, |out| {
            match acked {
                Some((acks, acked)) => acked.answer(acks, out),
                None => out.null_array(),
            }
            Ok(())
        })
    }

    /// Replaces what is known of the group. If the server leads no longer, nobody may rely on its
    /// data any more: clients that wait are sent to the leader, and transactions fail.
    pub(crate) fn see_group(&mut self, keyspace: &mut Keyspace, view: Option<View>) {
        let lost = self.group.see(view);
        keyspace.spare_expired(self.spares_expired());
        if !lost {
            return;
        }
        self.ledger.watches.touch_everyone();
        for (_, client) in self.clients.others_mut() {
            if let Some(transaction) = &mut client.session.caller.transaction {
                transaction.failed = true;
            }
        }
        for id in self.ledger.waiters.all() {
            if self.group.member().is_some_and(|member| member.owes_answer(id)) {
                continue;
            }
            let key = self.ledger.waiters.key(id).map(slot);
            let refusal = key.map_or(NO_PRIMARY_ANY_MORE, |slot| self.group.moved(slot));
            self.unblock(id, |_| Err(refusal));
        }
    }

    /// Notifies clients of the events collected since the last call.
    #[inline]
    pub(crate) fn send_events(&mut self) {
        let to = &mut Delivery::new(&mut self.clients, &self.config, &self.clock);
        self.hub.send_events(to, &mut self.ledger.events);
    }

    /// Sends the invalidations gathered for prefixes, at the end of a turn.
    pub(crate) fn broadcast_changes(&mut self) {
        let to = &mut Delivery::new(&mut self.clients, &self.config, &self.clock);
        self.hub.broadcast_changes(to);
    }

    /// Propagates the keys that expired since the last call to log and replicas, and notifies
    /// clients.
    pub(crate) fn note_expired(&mut self, keyspace: &mut Keyspace) {
        self.ledger.note_expired(keyspace);
        self.send_events();
    }

    /// The interpreter of scripts.
    ///
    /// # Errors
    /// There is none, or a script is running.
    pub(crate) fn engine_of_scripts(&mut self) -> Result<&mut Engine, Refusal> {
        self.scripts.engine(&self.config)
    }

    /// What new replies wait for: a record of the log, or a stamp of the group.
    #[inline]
    pub(crate) fn awaited(&self) -> Option<u64> {
        match self.group.member() {
            None => self.storage.journal.awaited(),
            Some(member) => member.awaited(),
        }
    }

    /// Whether nothing has changed that is not handed on yet, and no group must confirm a reply.
    pub(crate) fn has_handed_on(&self) -> bool {
        self.ledger.effects.is_empty() && self.group.member().is_none()
    }

    /// Up to where replies wait no more.
    #[inline]
    pub(crate) fn settled(&self) -> u64 {
        match self.group.member() {
            None => self.storage.journal.durable(),
            Some(member) => member.settled(),
        }
    }

    /// Whether data is being loaded, at start or from a primary.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.storage.loading().is_some() || self.replication.is_loading()
    }

    /// The progress of the load.
    pub(crate) fn progress_of_loading(&self) -> Option<Loading> {
        let following = self.replication.following();
        let load = following.and_then(|following| following.load());
        self.storage.loading().or_else(|| load.map(|load| load.progress()))
    }

    /// Whether requests are postponed now, all or some.
    #[inline]
    pub(crate) fn postpones(&self) -> bool {
        self.hub.is_paused()
            || self.postpones_writes()
            || self.awaits_log()
            || self.group.holds_data()
    }

    /// Whether the server itself postpones writes.
    fn postpones_writes(&self) -> bool {
        let replication = &self.replication;
        replication.writes_wait()
            || self.process.ending().is_some()
            || replication.failover().is_some()
    }

    /// Whether writes are postponed because no log counts.
    #[inline]
    fn awaits_log(&self) -> bool {
        self.storage.holds_writes(self.clock.turn())
    }

    /// Whether a request must wait because it, or the transaction that it executes, may write.
    pub(crate) fn postpones_request(&self, needs: Needs) -> bool {
        let changes = needs.has(flags::WRITE | flags::SCRIPT);
        let may_write = changes || needs.has(flags::MAY_REPLICATE);
        let on_data = may_write || needs.has(flags::READONLY);
        self.group.holds_data() && on_data
            || self.hub.pause_stops(may_write)
            || may_write && self.postpones_writes()
            || changes && self.awaits_log()
    }

    /// Ends a pause of clients: expired keys may be deleted again.
    pub(crate) fn unpause(&mut self, keyspace: &mut Keyspace) {
        self.hub.unpause();
        keyspace.spare_expired(self.spares_expired());
    }

    /// Whether the data is another server's: that of a primary, or of the leader of a group.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.replication.is_replica() || self.group.follows()
    }

    /// Notes that the stream of the primary, as far as it was applied, was handed to the log.
    #[inline]
    pub(crate) fn note_logged(&mut self) {
        let offset = self.replication.stream().end();
        if let Some(following) = self.replication.following_mut()
            && self.storage.journal.is_open()
        {
            following.note_logged(Mark { record: self.storage.journal.last(), offset });
        }
    }

    /// The offset up to which the stream of the primary is on the disk of this server.
    pub(crate) fn logged_offset(&mut self) -> Option<u64> {
        let journal = &self.storage.journal;
        let following = self.replication.following_mut().filter(|_| journal.is_on())?;
        following.logged.offset(journal.durable())
    }

    /// The mode of the server, as Redis calls it.
    pub(crate) fn mode(&self) -> &'static str {
        if self.group.is_member() { "cluster" } else { "standalone" }
    }

    /// Whether expired keys must stay, because a deletion would be a change.
    pub(crate) fn spares_expired(&self) -> bool {
        let replication = &self.replication;
        self.hub.is_paused()
            || replication.is_replica()
            || self.group.spares_expired()
            || replication.failover().is_some()
            || self.group.hands_over()
    }
}
