//! A member of the group: its disk, its server, and a runtime for the rest of it.

use std::sync::Arc;
use std::time::Duration;

use stillframe_durability::disk::{Fault, Location, Platter, SimulatedDisk};
use stillframe_peers::Random;
use stillframe_server::consensus::View;
use stillframe_server::{Config, Connection, Stepped};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::machine;
use crate::network::{Network, port};
use crate::plan::Plan;

/// A member, whether it runs or not.
pub(crate) struct Member {
    pub(crate) id: u64,
    disk: SimulatedDisk,
    running: Option<Running>,
    /// How far its unix time is off.
    pub(crate) off_ms: i64,
    /// It stands still until then.
    pub(crate) stands_until: u64,
    /// Since when its machine stands, and with it the clock that only rises.
    suspended: Option<u64>,
    /// How long that clock has stood.
    lag_ms: u64,
    /// It is to run: it belongs to the group, or is on its way there.
    pub(crate) is_there: bool,
    /// It is taken into a group that is there.
    joins: bool,
    /// Its disk as it was at the start before.
    earlier: Option<Platter>,
    /// Its own disk, and whether it joins with that, while it has another.
    home: Option<(Platter, bool)>,
    /// Its disk as it was before has run: others may refuse its own.
    pub(crate) went_back: bool,
    /// A call of its disk fails, or there is no room: it may end by itself.
    pub(crate) is_excused: bool,
    /// A connection on which something was asked.
    operator: Option<Connection>,
    /// A PING that is not answered yet, and since when.
    ping: Option<(Connection, u64)>,
}

/// How long PING may take, whatever the group does.
const PING: u64 = 1000;

struct Running {
    // The server first: it ends while the tasks of the runtime are there.
    server: Stepped,
    runtime: Runtime,
}

fn on(platter: Platter) -> SimulatedDisk {
    SimulatedDisk::on(platter).without_history()
}

/// How often all tasks of a runtime that can go on do so in a millisecond: what is due, what that
/// makes due, and the rest.
const ROUNDS: usize = 3;

/// How a member ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its process is killed: the machine keeps what was written.
    Kill,
    /// The machine loses its power, and some of what was not synced.
    Power,
}

/// The disk that a member gets in place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    /// An empty one.
    Empty,
    /// An empty one, and it asks to be taken in.
    Joins,
    /// A copy of the next member's.
    Copied,
    /// Its own, as it was at the start before.
    Earlier,
}

impl Member {
    /// A founder of the group, or one that joins it later.
    pub(crate) fn new(id: u64, founds: bool) -> Self {
        Self {
            id,
            disk: on(Platter::default()),
            running: None,
            off_ms: 0,
            stands_until: 0,
            suspended: None,
            lag_ms: 0,
            is_there: founds,
            joins: !founds,
            earlier: None,
            home: None,
            went_back: false,
            is_excused: false,
            operator: None,
            ping: None,
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Starts it.
    pub(crate) fn start(&mut self, plan: &Plan, network: &Network, now: u64) -> Result<(), String> {
        self.resume(now);
        network.find(self.id);
        self.is_excused = false;
        if self.home.is_none() {
            self.earlier = Some(self.disk.platter());
        }
        self.set_sync_ms(plan.sync_ms);
        // A round ends when nothing is left that can go on.
        let runtime = Builder::new_current_thread().enable_time().event_interval(u32::MAX).build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (handle, carrier) = (runtime.handle().clone(), network.site_of(self.id));
        let start = Box::new(move |begin| {
            stillframe_group::start_on(&handle, carrier, begin).map_err(|error| error.to_string())
        });
        let disk = Arc::new(self.disk.clone());
        let location = Location::on(format!("member-{}", self.id), disk);
        let server = Stepped::start(self.config(plan), location, start);
        let server = server.map_err(|error| error.to_string())?;
        self.running = Some(Running { server, runtime });
        Ok(())
    }

    fn config(&self, plan: &Plan) -> Config {
        let mut config = Config::embedded("/");
        let peers = (1..=plan.members).map(|id| {
            let raft = port(id);
            format!("{id}=127.0.0.1:{raft}/127.0.0.1:{}", raft - 1000)
        });
        let own = format!("127.0.0.1:{}", port(self.id));
        let peers = peers.collect::<Vec<_>>().join(",");
        let begins = match self.joins {
            true => ("raft-join", "yes".to_owned()),
            false => ("raft-peers", peers),
        };
        let settings = [
            ("save", String::new()),
            ("raft-id", self.id.to_string()),
            ("raft-listen", own),
            begins,
            ("raft-election-timeout", plan.election_ms.to_string()),
            ("raft-log-min-size", plan.log_bytes.to_string()),
            ("raft-log-keep-entries", plan.entries_kept.to_string()),
        ];
        for (name, value) in settings {
            config.set(name, &[value]).expect("a setting");
        }
        config
    }

    /// From now on a sync of its disk takes so long.
    pub(crate) fn set_sync_ms(&self, ms: u64) {
        self.disk.set_sync_time(Duration::from_millis(ms));
    }

    /// Goes on to this time. An error: it has ended by itself.
    pub(crate) fn go_on(&mut self, now: u64) -> Result<(), String> {
        if now < self.stands_until {
            return Ok(());
        }
        self.resume(now);
        let Some(Running { server, runtime }) = &mut self.running else { return Ok(()) };
        let _told = tracing::info_span!("member", id = self.id, now).entered();
        let turned = server.turn();
        runtime.block_on(async {
            for _ in 0..ROUNDS {
                yield_now().await;
            }
        });
        if let Err(why) = turned {
            self.running = None;
            return Err(why.to_string());
        }
        Ok(())
    }

    /// Its machine stands still until then.
    pub(crate) fn suspend(&mut self, now: u64, until: u64) {
        self.suspended = self.suspended.or(Some(now));
        self.stands_until = self.stands_until.max(until);
    }

    /// Its machine goes on, or has never stood.
    fn resume(&mut self, now: u64) {
        if let Some(since) = self.suspended.take() {
            self.lag_ms += now - since;
        }
        machine::set_time(now, self.lag_ms, self.off_ms);
    }

    /// Its disk is full but for so many bytes.
    pub(crate) fn fill_disk(&mut self, bytes: u64) {
        if self.runs() {
            self.is_excused = true;
            self.disk.set_room(Some(self.disk.used() + bytes));
        }
    }

    /// One of the next calls of its disk fails.
    pub(crate) fn fail_call(&mut self, behind: u64) {
        if self.runs() {
            self.is_excused = true;
            self.disk.fail_at(self.disk.calls() + 1 + behind, Fault::IO);
        }
    }

    /// Its disk is well.
    pub(crate) fn mend_disk(&self) {
        self.disk.set_room(None);
        self.disk.fail_at(0, Fault::IO);
    }

    /// Its disk as it is.
    pub(crate) fn platter(&self) -> Platter {
        self.disk.platter()
    }

    /// Gives it another disk while it does not run.
    pub(crate) fn displace(&mut self, other: Other, next: Platter) {
        self.home = Some((self.disk.platter(), self.joins));
        self.joins |= other == Other::Joins;
        self.went_back |= other == Other::Earlier;
        self.disk = on(match other {
            Other::Empty | Other::Joins => Platter::default(),
            Other::Copied => next,
            Other::Earlier => self.earlier.clone().unwrap_or_default(),
        });
    }

    /// Whether it has another disk than its own.
    pub(crate) fn is_displaced(&self) -> bool {
        self.home.is_some()
    }

    /// It does not run any more, and has its own disk again, if it had another.
    pub(crate) fn go_home(&mut self) {
        self.running = None;
        if let Some((home, joins)) = self.home.take() {
            (self.disk, self.joins) = (on(home), joins);
        }
    }

    /// It does not run any more; the next time it joins with an empty disk.
    pub(crate) fn leave(&mut self) {
        self.running = None;
        (self.is_there, self.joins, self.went_back) = (false, true, false);
        (self.earlier, self.home) = (None, None);
        self.disk = on(Platter::default());
    }

    /// Ends it without a word.
    pub(crate) fn end(&mut self, how: End, network: &Network, random: &mut Random) {
        let platter = self.disk.platter();
        if how == End::Power {
            network.lose(self.id);
        }
        // What it does to the disk while it ends, it does to another.
        self.running = None;
        let platter = match how {
            End::Kill => platter,
            End::Power => {
                let chance = random.pick(&[0, 10, 50, 90, 100]);
                Platter::holding(&platter.lose_power(|_| random.below(100) < chance))
            }
        };
        self.disk = on(platter);
    }

    /// A new connection of a client.
    pub(crate) fn connect(&self) -> Option<Connection> {
        self.running.as_ref()?.server.connect().ok()
    }

    /// What it knows of the group.
    pub(crate) fn view(&self) -> Option<&View> {
        self.running.as_ref()?.server.view()
    }

    /// The term in which it leads, if it says so.
    pub(crate) fn leads(&self) -> Option<u64> {
        self.running.as_ref()?.server.leads()
    }

    /// Asks whether it answers, whatever role it has.
    pub(crate) fn ping(&mut self, now: u64) -> Result<(), String> {
        if now < self.stands_until || !self.runs() {
            self.ping = None;
            return Ok(());
        }
        let Some((connection, since)) = &self.ping else {
            let connection = self.connect();
            let asked = connection.filter(|it| it.try_write(b"PING\r\n").is_ok());
            self.ping = asked.map(|connection| (connection, now));
            return Ok(());
        };
        match connection.try_read(&mut [0; 64]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if now - since > PING {
                    return Err(format!("member {} does not answer PING for {PING} ms", self.id));
                }
            }
            _ => self.ping = None,
        }
        Ok(())
    }

    /// Has it asked something, whose answer nobody waits for.
    pub(crate) fn ask(&mut self, words: &[&str]) {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        stillframe_peers::reply::encode(&words, &mut bytes);
        if let Some(connection) = self.connect()
            && connection.try_write(&bytes).is_ok()
        {
            self.operator = Some(connection);
        }
    }

    /// A digest of its data.
    pub(crate) fn digest(&mut self) -> Option<String> {
        self.running.as_mut().map(|running| running.server.digest())
    }
}
