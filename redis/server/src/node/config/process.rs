//! Settings of how the server runs on its machine: unix socket, metrics, log, the end.

use std::net::{IpAddr, Ipv4Addr};

use super::error::ValueError;
use super::kinds::{Kind, one_of, text, whole, word, words, yes_or_no};
use super::setting::settings;
use super::values::Size;
use super::{Effect, INT_MAX};

settings! {
    /// How the server runs on its machine; metrics and the format of the log are this server's own.
    pub(crate) struct ProcessSettings, entries PROCESS of config[.process];

    /// The server leaves the terminal.
    daemonize: bool = false,
        "daemonize": yes_or_no() .at_start()
        .help("yes|no", "leave the terminal [{daemonize}]");
    /// The file for the id of its process, or empty.
    pidfile: String = String::new(),
        "pidfile": text() .at_start();
    /// Path of the unix socket, or empty.
    unixsocket: String = String::new(),
        "unixsocket": text() .at_start()
        .help("PATH, --tls-port PORT", "clients connect by a unix socket, or with TLS");
    /// The mode of its file; 0: by the umask.
    unixsocketperm: u32 = 0,
        "unixsocketperm": word(mode, |mode| format!("{mode:o}")) .at_start();
    /// The port of figures for Prometheus, or 0.
    metrics_port: u16 = 0,
        "metrics-port": whole(0, 65535) .own_at_start()
        .help("PORT", "figures for Prometheus [{metrics-port}: no port]");
    /// The address of that port.
    metrics_bind: IpAddr = Ipv4Addr::LOCALHOST.into(),
        "metrics-bind": word(address, IpAddr::to_string) .own_at_start();
    /// The port of questions in SQL, by Arrow Flight, or 0.
    query_port: u16 = 0,
        "query-port": whole(0, 65535) .own_at_start()
        .help("PORT", "SQL by Arrow Flight, with stillframe-query [{query-port}: no port]");
    /// The address of that port.
    query_bind: IpAddr = Ipv4Addr::LOCALHOST.into(),
        "query-bind": word(address, IpAddr::to_string) .own_at_start();
    /// What sorting, grouping and joining may take before they use temporary files.
    query_memory: Size = Size::Percent(10),
        "query-memory": word(Size::parse, Size::to_string) .own_at_start();
    /// The threads that read and write the sockets of clients; 1: the one that runs commands does.
    io_threads: usize = io_threads_by_cores(),
        "io-threads": whole(1, 128) .at_start()
        .help("COUNT", "threads that read and write sockets; 1: that of commands [{io-threads}]");
    /// The log file, or empty.
    logfile: String = String::new(),
        "logfile": text() .at_start()
        .help("FILE, --loglevel LEVEL", "the log [standard error, {loglevel}]");
    log_format: LogFormat = LogFormat::Text,
        "log-format": one_of([("text", LogFormat::Text), ("json", LogFormat::Json)])
        .own_at_start();
    /// Whether to notify systemd of start and end.
    supervised: Supervised = Supervised::Auto,
        "supervised": word(supervised, |it| Kind::show(&watchers(), it)) .at_start();
    /// The server stops, as by SIGTERM, when its standard input ends: with its parent.
    ends_with_input: bool = false,
        "end-with-stdin": yes_or_no() .own_at_start();
    /// How SIGINT ends the server.
    on_sigint: AtSignal = AtSignal::default(),
        "shutdown-on-sigint": words(AtSignal::parse, |it| it.show());
    /// How SIGTERM ends the server.
    on_sigterm: AtSignal = AtSignal::default(),
        "shutdown-on-sigterm": words(AtSignal::parse, |it| it.show());
    /// How willing the system is to kill the process when memory is short; in Redis `yes` and
    /// `relative` are two names of one thing.
    oom_score: OomScore = OomScore::Kept,
        "oom-score-adj": one_of([
            ("no", OomScore::Kept),
            ("yes", OomScore::Relative),
            ("relative", OomScore::Relative),
            ("absolute", OomScore::Absolute),
        ])
        .effects(&[Effect::OomScore]);
    /// Values added to that, or replacing it: of a primary, of a replica, and of a child.
    oom_scores: [i32; 3] = [0, 200, 800],
        "oom-score-adj-values":
            words(oom_scores, |it| it.map(|score| score.to_string()).join(" "))
        .effects(&[Effect::OomScore]);
    /// How long a shutdown waits for replicas.
    shutdown_timeout_s: u32 = 10,
        "shutdown-timeout": whole(0, INT_MAX);
}

/// As many I/O threads as there are cores beside that of commands, up to a number that feeds it.
fn io_threads_by_cores() -> usize {
    const MOST: usize = 6;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores - 1).clamp(1, MOST)
}

/// The kind of shutdown that a signal requests: the options of SHUTDOWN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AtSignal {
    /// To save, or not to; `None`: as the schedule says.
    pub(crate) saves: Option<bool>,
    /// Without waiting for replicas.
    pub(crate) now: bool,
    /// Even if the data cannot be saved.
    pub(crate) force: bool,
}

/// The change of the score by which the system chooses which process to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OomScore {
    /// Nothing.
    Kept,
    /// It is changed by so much.
    Relative,
    /// It is set.
    Absolute,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// The supervisor of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervised {
    /// None.
    No,
    /// systemd.
    Systemd,
    /// systemd, if `NOTIFY_SOCKET` is set.
    Auto,
}

impl AtSignal {
    /// As this, at once and whatever fails.
    pub(crate) fn at_any_price(self) -> Self {
        Self { force: true, now: true, ..self }
    }

    fn parse(value: &str) -> Result<Self, ValueError> {
        let mut wish = Self::default();
        let mut words = value.split_whitespace().map(str::to_ascii_lowercase).peekable();
        if words.peek().is_none() {
            return Err(Self::none_of());
        }
        for word in words {
            match (&*word, wish.saves) {
                ("default", _) => {}
                ("save", Some(false)) | ("nosave", Some(true)) => {
                    return Err(ValueError::SaveAndNoSave);
                }
                ("save", _) => wish.saves = Some(true),
                ("nosave", _) => wish.saves = Some(false),
                ("now", _) => wish.now = true,
                ("force", _) => wish.force = true,
                _ => return Err(Self::none_of()),
            }
        }
        Ok(wish)
    }

    fn none_of() -> ValueError {
        ValueError::none_of(&["default", "save", "nosave", "now", "force"])
    }

    fn show(self) -> String {
        let said = [
            (self.saves == Some(true), "save"),
            (self.saves == Some(false), "nosave"),
            (self.now, "now"),
            (self.force, "force"),
        ];
        let said: Vec<&str> =
            said.into_iter().filter_map(|(is, word)| is.then_some(word)).collect();
        if said.is_empty() { "default".to_owned() } else { said.join(" ") }
    }
}

fn oom_scores(value: &str) -> Result<[i32; 3], ValueError> {
    let number = |word: &str| word.parse::<i32>().ok().filter(|it| (-2000..=2000).contains(it));
    match value.split_whitespace().map(number).collect::<Vec<_>>()[..] {
        [Some(primary), Some(replica), Some(child)] => Ok([primary, replica, child]),
        [_, _, _] => Err(ValueError::OomScores),
        _ => Err(ValueError::Count),
    }
}

/// Permissions in octal digits.
fn mode(value: &str) -> Result<u32, ValueError> {
    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or(ValueError::Mode)
}

fn address(value: &str) -> Result<IpAddr, ValueError> {
    value.parse().map_err(|_| ValueError::Address)
}

fn watchers() -> impl Kind<Supervised> {
    one_of([("no", Supervised::No), ("systemd", Supervised::Systemd), ("auto", Supervised::Auto)])
}

fn supervised(value: &str) -> Result<Supervised, ValueError> {
    if value.eq_ignore_ascii_case("upstart") {
        return Err(ValueError::Supervisor);
    }
    watchers().read(value, &Supervised::No)
}
