//! `stillframe migrate-cluster`: the data of all primaries of a Redis Cluster into one server.
//!
//! - This program is a replica of each primary, and the primary of the target. So the target runs
//!   what came with the authority of a primary: it expires no key by its own clock, refuses the
//!   writes of clients, and needs no more than REPLICAOF NO ONE at the end.
//! - `topology` is the shape of the cluster, `connection` a client, `stream` TLS or not; a `link`
//!   follows one primary by a `wire`, and passes its `image` and its requests, as `translate`
//!   understands them and a `batch` makes them whole, to the `feed`, from which `target` serves.
//!   `watch` looks at all of them.
//! - While slots move, the streams of two primaries tell of one key in an order that nobody knows.
//!   So nothing counts as caught up then, and all primaries start anew afterwards.

mod batch;
mod connection;
mod feed;
mod image;
mod link;
mod stream;
mod target;
mod topology;
mod translate;
mod watch;
mod wire;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use stillframe_server::LogLevel;
use stillframe_tls::ServerConfig;

use self::connection::{Connection, Login};
use self::feed::Feed;
use self::stream::{Tls, TlsArguments};
use self::topology::Address;
use self::watch::Watch;
use crate::logs;
use crate::outcome::{OrFail, print, watch_signals};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe migrate-cluster 10.0.0.1:7000 --to 10.0.0.9:6380        until Ctrl-C
  stillframe migrate-cluster 10.0.0.1:7000 --to 10.0.0.9:6380 --until-caught-up

The target, a server without data, follows this program as a replica follows its primary, and must
reach it. Wait for 'caught up', stop the clients or pause their writes at every primary (redis-cli
--cluster call 10.0.0.1:7000 client pause 60000 write), then press Ctrl-C: what was written is
applied, and the target becomes a primary. Before the pause ends have the old primaries refuse the
writes that waited (... config set min-replicas-to-write 100). A second Ctrl-C ends at once.
Exit status: 0 all data is there, 1 it is not (the target then stays a replica), 2 wrong usage.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Any node of the cluster
    #[arg(value_name = "HOST:PORT")]
    from: Address,
    /// Server that takes the data, which holds none yet
    #[arg(long, value_name = "HOST:PORT")]
    to: Address,
    /// End by itself once the target has what all primaries wrote, as after Ctrl-C
    #[arg(long)]
    until_caught_up: bool,
    /// User of the cluster's access control list
    #[arg(long, value_name = "NAME", requires = "password")]
    user: Option<String>,
    /// Password of the cluster's nodes, or of --user
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// User of the target's access control list
    #[arg(long, value_name = "NAME", requires = "to_password")]
    to_user: Option<String>,
    /// Password of the target, or of --to-user
    #[arg(long, value_name = "PASSWORD")]
    to_password: Option<String>,
    /// Address and port at which the target reaches this program [default: that from which this
    /// program reaches the target, any free port]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    #[command(flatten)]
    tls: TlsArguments,
    /// How long a primary or the target may be silent
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    timeout: u32,
}

impl Arguments {
    /// Who asks the cluster's nodes, and who the target.
    fn logins(&self, tls: &Tls) -> [Login; 2] {
        let login = |user: &Option<String>, password: &Option<String>, tls| Login {
            user: user.clone(),
            password: password.clone(),
            tls,
        };
        [
            login(&self.user, &self.password, tls.cluster.clone()),
            login(&self.to_user, &self.to_password, tls.target.clone()),
        ]
    }
}

/// How long after slots have moved the target may still get what it cannot apply.
const MOVE_TIME: Duration = Duration::from_secs(15);
/// The target may fail by slots that move before the cluster tells of them: so long is waited for
/// that news.
const NEWS_TIME: Duration = Duration::from_secs(3);

/// What all threads share.
struct Shared {
    feed: Feed,
    /// Who asks the cluster's nodes.
    cluster: Login,
    to: Address,
    /// Who asks the target.
    login: Login,
    /// What TLS needs with the target that follows, if it follows over TLS.
    follower: Option<Arc<ServerConfig>>,
    /// The name of the stream.
    id: String,
    /// Where the target connects.
    port: u16,
    /// How long a primary or the target may be silent.
    timeout: Duration,
    over: AtomicBool,
    failure: Mutex<Option<String>>,
    moved: Mutex<Option<Instant>>,
    trouble: Mutex<Option<Trouble>>,
    numbers: AtomicU64,
}

/// The target has said that it cannot go on.
struct Trouble {
    why: String,
    since: Instant,
    /// It asked for all data because of that, and may be well by now.
    is_lasting: bool,
}

/// The value behind a lock, whatever became of its last owner.
fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(arguments: &Arguments, tls: &Tls, port: u16) -> Self {
        let part = || RandomState::new().hash_one(port);
        let id = format!("{:016x}{:016x}{:016x}", part(), part(), part());
        let [cluster, login] = arguments.logins(tls);
        Self {
            feed: Feed::new(),
            cluster,
            to: arguments.to.clone(),
            login,
            follower: tls.follower.clone(),
            id: id[..40].to_owned(),
            port,
            timeout: Duration::from_secs(arguments.timeout.into()),
            over: AtomicBool::new(false),
            failure: Mutex::default(),
            moved: Mutex::default(),
            trouble: Mutex::default(),
            numbers: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    fn for_tests() -> Self {
        let address = |port| Address { host: "localhost".to_owned(), port };
        let arguments = Arguments {
            from: address(1),
            to: address(2),
            until_caught_up: false,
            user: None,
            password: None,
            to_user: None,
            to_password: None,
            listen: None,
            tls: TlsArguments::default(),
            timeout: 60,
        };
        Self::new(&arguments, &Tls::default(), 3)
    }

    /// Whether all threads are to end.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Ends all threads.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Ends all threads for a reason. The first reason counts.
    fn fail(&self, why: String) {
        locked(&self.failure).get_or_insert(why);
        self.end();
    }

    fn failure(&self) -> Option<String> {
        locked(&self.failure).clone()
    }

    /// Notes that slots are being moved: until a while later the target may not be able to apply
    /// what it gets.
    fn note_move(&self) {
        *locked(&self.moved) = Some(Instant::now());
    }

    /// Whether slots were moved a short time ago.
    fn has_moved(&self) -> bool {
        locked(&self.moved).is_some_and(|moved| moved.elapsed() < MOVE_TIME)
    }

    /// Waits until it is clear whether a target that cannot go on is given up: data that it gets
    /// anew must not hide why.
    fn await_judgement(&self) {
        let begun = Instant::now();
        while self.trouble().is_some() && !self.is_over() && begun.elapsed() < 2 * NEWS_TIME {
            std::thread::sleep(NEWS_TIME / 100);
        }
    }

    /// A number that no other call gets.
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the target whether it can go on, for [`judge`](Self::judge).
    fn note_state(&self, target: &mut Connection, asks_for_all: bool) -> Result<(), String> {
        let problem = target::problem(target, self.port)?;
        let mut trouble = locked(&self.trouble);
        match problem {
            Some(why) => {
                let new = Trouble { why, since: Instant::now(), is_lasting: false };
                trouble.get_or_insert(new).is_lasting |= asks_for_all;
            }
            None => drop(trouble.take_if(|it| !it.is_lasting)),
        }
        Ok(())
    }

    /// Why the target cannot go on, if it has said so.
    fn trouble(&self) -> Option<String> {
        let trouble = locked(&self.trouble);
        trouble.as_ref().map(|it| format!("the target {} cannot go on: {}", self.to, it.why))
    }

    /// Whether the migration goes on: a target that cannot is given up, unless slots were moving.
    fn judge(&self) -> Result<(), String> {
        let Some(why) = self.trouble() else { return Ok(()) };
        let mut trouble = locked(&self.trouble);
        if self.has_moved() {
            tracing::info!("slots have moved, so that the target begins again: {why}");
            *trouble = None;
        }
        let is_over = trouble.as_ref().is_some_and(|it| it.since.elapsed() > NEWS_TIME);
        if is_over { Err(why) } else { Ok(()) }
    }
}

/// What was moved.
struct Moved {
    primaries: usize,
    keys: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    logs::start(LogLevel::Notice);
    let stop = watch_signals(1)?;
    let begun = Instant::now();
    let Moved { primaries, keys } = migrate(arguments, &stop).or_fail(1)?;
    let (to, seconds) = (&arguments.to, begun.elapsed().as_secs());
    print(&format!(
        "moved {primaries} primaries into {to}, which is a primary of {keys} keys now, in \
         {seconds} s\n"
    ))
}

fn migrate(arguments: &Arguments, stop: &AtomicBool) -> Result<Moved, String> {
    let mut tls = Tls::read(&arguments.tls)?;
    let [login, to_login] = arguments.logins(&tls);
    let topology = watch::first_look(&arguments.from, &login)?;
    let mut target = Connection::open(&arguments.to, &to_login)?;
    if topology.nodes.contains(&arguments.to) {
        return Err(format!("{} is a node of the cluster itself", arguments.to));
    }
    if !target::check(&mut target, &arguments.to.to_string())? {
        tls.follower = None;
    } else if tls.follower.is_none() {
        return Err(format!(
            "{} follows over TLS (tls-replication yes): give this program a certificate by \
             --tls-cert-file and --tls-key-file",
            arguments.to
        ));
    }
    let unbound = |error: io::Error| format!("cannot listen for the target: {error}");
    let own = target.local().map_err(unbound)?;
    let own = arguments.listen.clone().unwrap_or(Address { host: own.to_string(), port: 0 });
    let listener = TcpListener::bind((own.host.as_str(), own.port)).map_err(unbound)?;
    listener.set_nonblocking(true).map_err(unbound)?;
    let port = listener.local_addr().map_err(unbound)?.port();
    let from = target.peer().map_err(unbound)?;
    let shared = &Shared::new(arguments, &tls, port);
    let port = port.to_string();
    target.ask(&[b"REPLICAOF", own.host.as_bytes(), port.as_bytes()])?;
    std::thread::scope(|scope| {
        scope.spawn(|| target::serve(scope, &listener, from, shared));
        let mut watch = Watch::new(scope, shared, topology, target);
        let ended = watch.run(stop, arguments.until_caught_up);
        shared.end();
        ended.map_err(|why| {
            format!(
                "{why}\nThe target {} does not have all data, and stays a replica. To try again: \
                 REPLICAOF NO ONE and FLUSHALL there",
                arguments.to
            )
        })
    })
}
