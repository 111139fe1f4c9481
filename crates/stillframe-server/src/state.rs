//! What the server works on beside the data: its owners, each of which knows nothing of the others.

mod admit;
mod clients;
pub(crate) mod give_back;
mod invalidate;
mod loading;
pub(crate) mod memory;
mod pause;
mod publish;

use stillframe_redis::{Ledger, Random, Refusal};
use stillframe_resp::Out;

use self::give_back::Memory;
use crate::acl::Users;
use crate::client::Replies;
use crate::clock::Clock;
use crate::config::Config;
use crate::hub::Hub;
use crate::meter::Meter;
use crate::net::Network;
use crate::persistence::{Saves, Storage};
use crate::process::Process;
use crate::replication::{Replication, Transfers};

/// What every command may see and change of the server.
pub(crate) struct ServerState {
    /// Configuration.
    pub(crate) config: Config,
    /// Who may do what.
    pub(crate) users: Users,
    /// What commands on data keep beside the data.
    pub(crate) ledger: Ledger,
    /// The clients.
    pub(crate) hub: Hub,
    /// What keeps the data on the disk.
    pub(crate) storage: Storage,
    /// Replicas, or the primary.
    pub(crate) replication: Replication,
    /// Counters and times.
    pub(crate) meter: Meter,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Memory that is to be freed.
    pub(crate) memory: Memory,
    /// Sockets, TLS, and other servers.
    pub(crate) net: Network,
    /// How this process is to end.
    pub(crate) process: Process,
}

impl ServerState {
    /// State of a server that has no clients yet.
    pub(crate) fn new(config: Config, saves: Saves, users: Users) -> Self {
        let clock = Clock::new();
        let mut random = Random::seeded();
        let transfers = Transfers::new(saves.waker());
        Self {
            replication: Replication::new(&mut random, transfers, clock.started),
            meter: Meter::new(users.catalog.len(), clock.started),
            process: Process::new(random.identifier()),
            ledger: Ledger::new(config.of_commands(), random),
            storage: Storage::new(saves, &config),
            hub: Hub::default(),
            memory: Memory::default(),
            net: Network::default(),
            config,
            users,
            clock,
        }
    }

    /// Ends a client's waiting with the reply that `answer` writes, or the refusal that it returns;
    /// false if the client does not wait.
    pub(crate) fn unblock(
        &mut self,
        id: u64,
        answer: impl FnOnce(&mut Out<'_>) -> Result<(), Refusal>,
    ) -> bool {
        let Some(waiter) = self.ledger.waiters.leave(id) else { return false };
        self.meter.stats.commands[waiter.command].calls += 1;
        let Some(client) = self.hub.clients.get_mut(waiter.place) else { return false };
        client.session.caller.waits = false;
        let start = client.output.len();
        let mut out = Out::new(&mut client.output, client.session.protocol);
        if let Err(refusal) = answer(&mut out) {
            out.error(&refusal);
            self.meter.stats.commands[waiter.command].failed += 1;
            self.meter.stats.count_error(refusal.text());
        }
        if client.session.replies == Replies::Dropped {
            client.output.truncate(start);
        }
        self.hub.clients.woken.push(waiter.place);
        true
    }

    /// Ends a client's waiting as its timeout does; false if it does not wait.
    pub(crate) fn give_up(&mut self, id: u64) -> bool {
        let replicas = self.ledger.waiters.acks(id).map(|acks| self.replicas_at(acks.offset));
        self.unblock(id, |out| {
            match replicas {
                Some(count) => out.integer(count as i64),
                None => out.null_array(),
            }
            Ok(())
        })
    }
}
