//! Settings of how the server runs on its machine: unix socket, metrics, log, the end.

use super::Config;
use super::parameter::{Parameter, always, at_start, several_words, store, text};
use super::values::{any, number, switch, yes_no};

/// How the server runs on its machine.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSettings {
    /// The server leaves the terminal.
    pub(crate) daemonize: bool,
    /// The file for the id of its process, or empty.
    pub(crate) pidfile: String,
    /// Path of the unix socket, or empty.
    pub(crate) unixsocket: String,
    /// The mode of its file; 0: by the umask.
    pub(crate) unixsocketperm: u32,
    /// The port of figures for Prometheus, or 0.
    pub(crate) metrics_port: u16,
    /// The address of that port.
    pub(crate) metrics_bind: std::net::IpAddr,
    /// The log file, or empty.
    pub(crate) logfile: String,
    pub(crate) log_format: LogFormat,
    /// Whether to notify systemd of start and end.
    pub(crate) supervised: Supervised,
    /// How long a shutdown waits for replicas.
    pub(crate) shutdown_timeout_s: u32,
    /// How SIGINT ends the server.
    pub(crate) on_sigint: AtSignal,
    /// How SIGTERM ends the server.
    pub(crate) on_sigterm: AtSignal,
    /// How likely the system kills the process when memory is short.
    pub(crate) oom_score: OomScore,
    /// Values added to that, or replacing it: of a primary, of a replica, and of a child.
    pub(crate) oom_scores: [i32; 3],
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

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            daemonize: false,
            pidfile: String::new(),
            unixsocket: String::new(),
            unixsocketperm: 0,
            metrics_port: 0,
            metrics_bind: std::net::Ipv4Addr::LOCALHOST.into(),
            logfile: String::new(),
            log_format: LogFormat::Text,
            supervised: Supervised::Auto,
            shutdown_timeout_s: 10,
            on_sigint: AtSignal::default(),
            on_sigterm: AtSignal::default(),
            oom_score: OomScore::Kept,
            oom_scores: [0, 200, 800],
        }
    }
}

/// The settings; metrics and the format of the log are this server's own.
pub(super) static PROCESS: &[Parameter] = &[
    at_start("daemonize", |c| yes_no(c.process.daemonize), store!(process.daemonize, switch)),
    text(at_start("pidfile", |c| c.process.pidfile.clone(), store!(process.pidfile, any))),
    text(at_start("unixsocket", |c| c.process.unixsocket.clone(), store!(process.unixsocket, any))),
    at_start(
        "unixsocketperm",
        |c| format!("{:o}", c.process.unixsocketperm),
        store!(process.unixsocketperm, mode),
    ),
    at_start(
        "metrics-port",
        |c| c.process.metrics_port.to_string(),
        store!(process.metrics_port, |v| number(v, 0, 65535)),
    ),
    at_start(
        "metrics-bind",
        |c| c.process.metrics_bind.to_string(),
        store!(process.metrics_bind, |v: &str| v
            .parse()
            .map_err(|_| "this is no IP address".to_owned())),
    ),
    text(at_start("logfile", |c| c.process.logfile.clone(), store!(process.logfile, any))),
    at_start("log-format", show_format, store!(process.log_format, format)),
    always("syslog-enabled", |_| "no".to_owned(), no_syslog),
    at_start("supervised", show_supervised, store!(process.supervised, supervised)),
    several_words(always(
        "shutdown-on-sigint",
        |c| c.process.on_sigint.show(),
        store!(process.on_sigint, AtSignal::parse),
    )),
    several_words(always(
        "shutdown-on-sigterm",
        |c| c.process.on_sigterm.show(),
        store!(process.on_sigterm, AtSignal::parse),
    )),
    always("oom-score-adj", show_oom_score, store!(process.oom_score, oom_score)),
    several_words(always(
        "oom-score-adj-values",
        |c| c.process.oom_scores.map(|score| score.to_string()).join(" "),
        store!(process.oom_scores, oom_scores),
    )),
    always(
        "shutdown-timeout",
        |c| c.process.shutdown_timeout_s.to_string(),
        store!(process.shutdown_timeout_s, |v| number(v, 0, i32::MAX as u32)),
    ),
];

impl AtSignal {
    fn parse(value: &str) -> Result<Self, String> {
        let mut wish = Self::default();
        let mut words = value.split_whitespace().map(str::to_ascii_lowercase).peekable();
        if words.peek().is_none() {
            return Err(Self::NONE_OF.to_owned());
        }
        for word in words {
            match (&*word, wish.saves) {
                ("default", _) => {}
                ("save", Some(false)) | ("nosave", Some(true)) => {
                    let both = "shutdown options SAVE and NOSAVE can't be used simultaneously";
                    return Err(both.to_owned());
                }
                ("save", _) => wish.saves = Some(true),
                ("nosave", _) => wish.saves = Some(false),
                ("now", _) => wish.now = true,
                ("force", _) => wish.force = true,
                _ => return Err(Self::NONE_OF.to_owned()),
            }
        }
        Ok(wish)
    }

    const NONE_OF: &str =
        "argument(s) must be one of the following: default, save, nosave, now, force";

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

/// The values of oom-score-adj; in Redis `yes` and `relative` are two names of one thing.
const OOM_SCORES: [(&str, OomScore); 4] = [
    ("no", OomScore::Kept),
    ("yes", OomScore::Relative),
    ("relative", OomScore::Relative),
    ("absolute", OomScore::Absolute),
];

fn oom_score(value: &str) -> Result<OomScore, String> {
    let found = OOM_SCORES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    let refused = "argument(s) must be one of the following: no, yes, relative, absolute";
    found.map(|(_, score)| *score).ok_or_else(|| refused.to_owned())
}

fn show_oom_score(config: &Config) -> String {
    let found = OOM_SCORES.iter().find(|(_, score)| *score == config.process.oom_score);
    found.map_or("no", |(name, _)| name).to_owned()
}

fn oom_scores(value: &str) -> Result<[i32; 3], String> {
    let number = |word: &str| word.parse::<i32>().ok().filter(|it| (-2000..=2000).contains(it));
    match value.split_whitespace().map(number).collect::<Vec<_>>()[..] {
        [Some(primary), Some(replica), Some(child)] => Ok([primary, replica, child]),
        [_, _, _] => {
            Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned())
        }
        _ => Err("wrong number of arguments".to_owned()),
    }
}

/// Permissions in octal digits.
fn mode(value: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "argument must be an octal number between 0 and 777".to_owned())
}

fn show_format(config: &Config) -> String {
    match config.process.log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    }
    .to_owned()
}

fn format(value: &str) -> Result<LogFormat, String> {
    match value.to_ascii_lowercase().as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("argument(s) must be one of the following: text, json".to_owned()),
    }
}

fn no_syslog(_: &mut Config, value: &str) -> Result<(), String> {
    if value.eq_ignore_ascii_case("no") {
        return Ok(());
    }
    Err("this server does not speak to syslog; the log goes to standard error, which systemd \
         keeps in its journal, or to a logfile"
        .to_owned())
}

fn show_supervised(config: &Config) -> String {
    match config.process.supervised {
        Supervised::No => "no",
        Supervised::Systemd => "systemd",
        Supervised::Auto => "auto",
    }
    .to_owned()
}

fn supervised(value: &str) -> Result<Supervised, String> {
    match value.to_ascii_lowercase().as_str() {
        "no" => Ok(Supervised::No),
        "systemd" => Ok(Supervised::Systemd),
        "auto" => Ok(Supervised::Auto),
        "upstart" => Err("this server knows systemd alone: no, systemd or auto".to_owned()),
        _ => Err("argument(s) must be one of the following: no, systemd, auto".to_owned()),
    }
}
