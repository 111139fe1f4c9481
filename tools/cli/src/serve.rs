//! `stillframe serve`: a configuration file and flags to settings, as redis-server takes them.
//!
//! - Every directive of the file is a flag of that name: `--maxmemory 1gb`, `--save "60 1000"`.
//!   What flags say is read after the file, as if it stood at its end.
//! - Files and flags go through one registry, so that a value means the same in both.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stillframe_server::{
    Config, ConfigError, Hooks, OpenQueries, enter_directory, leaves_terminal, split_words,
};

use crate::outcome::{OrFail, fail};
use crate::{allocator, archive, daemon, logs, query};

/// The text of `serve --help` that clap does not write.
#[must_use]
pub fn examples() -> String {
    let flags = stillframe_server::flags_help();
    format!("Flags: every directive of stillframe.conf or redis.conf, such as\n{flags}{EXAMPLES}")
}

const EXAMPLES: &str = "\
stillframe.conf and CONFIG GET '*' of a running server show all of them with their defaults.

Examples:
  stillframe serve                              data in ./stillframe-data, 127.0.0.1:6379
  stillframe serve --port 7000 --dir /data --save \"300 100 60 10000\"
  stillframe serve --save \"\"                    save only on BGSAVE, SAVE and SHUTDOWN SAVE
  stillframe serve --appendonly yes --appendfsync always      a crash loses nothing acknowledged
  stillframe serve redis.conf --maxmemory 1gb   a file of directives; flags are read after it
  echo 'maxmemory 1gb' | stillframe serve -     directives from standard input

Sizes: 100, 64k (thousands), 64kb, 64MB, 1GiB (powers of 1024). Clients: redis-cli, or any Redis
library. Progress of a save: redis-cli info persistence. Stop: SHUTDOWN, Ctrl-C or SIGTERM save
first if there is a schedule; a second Ctrl-C stops at once.";

/// The command line of `serve`.
#[derive(Args)]
#[command(override_usage = "stillframe serve [FILE] [--DIRECTIVE VALUE...]... [-]")]
pub struct Arguments {
    /// A file of redis.conf directives, then directives as flags; - reads more from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FILE and flags")]
    words: Vec<OsString>,
}

/// The command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    file: Option<PathBuf>,
    /// Directives come from standard input, too.
    reads_input: bool,
    /// Directives as words, the name first.
    flags: Vec<Vec<Vec<u8>>>,
}

impl Line {
    fn read(words: &[OsString]) -> Result<Self, String> {
        let mut line = Self::default();
        // A word that begins with -- is a value if the flag before it has none yet.
        let mut is_open = false;
        let mut rest = words.iter().enumerate().peekable();
        while let Some((place, word)) = rest.next() {
            let bytes = word.as_bytes();
            let ends = place == 0 || place + 1 == words.len();
            match (bytes.strip_prefix(b"--"), line.flags.last_mut()) {
                _ if bytes == b"-" && ends => line.reads_input = true,
                (Some(b"config"), _) if !is_open => match rest.next() {
                    Some((_, file)) if line.file.is_none() => line.file = Some(file.into()),
                    Some(_) => return Err("name one configuration file".to_owned()),
                    None => return Err("--config: name a file".to_owned()),
                },
                (Some(flag), _) if !is_open => {
                    let mut flag = directive(flag)?;
                    is_open = flag.len() == 1;
                    let next = rest.peek().map(|(_, next)| next.as_bytes());
                    // An empty list of a script: --save --port 7000.
                    if is_open
                        && flag[0].eq_ignore_ascii_case(b"save")
                        && next.is_none_or(|next| next.starts_with(b"--"))
                    {
                        flag.push(Vec::new());
                        is_open = false;
                    }
                    line.flags.push(flag);
                }
                (_, Some(flag)) => {
                    flag.push(bytes.to_vec());
                    is_open = false;
                }
                (_, None) if place == 0 && !bytes.starts_with(b"-") => {
                    line.file = Some(word.into());
                }
                (_, None) => return Err(format!("'{}' is no flag", word.display())),
            }
        }
        Ok(line)
    }

    fn config(&self, input: &[u8]) -> Result<Config, String> {
        let mut config = Config::default();
        config.on_rename(stillframe_server::check_names);
        if let Some(file) = &self.file {
            config.load_file(file).map_err(|error| error.to_string())?;
        }
        config.load("standard input", input).map_err(|error| error.to_string())?;
        for flag in &self.flags {
            let wrong = |error: ConfigError| {
                let problem = error.to_string();
                let name = flag.first().map(|name| String::from_utf8_lossy(name));
                match name.filter(|name| !problem.starts_with(&**name)) {
                    Some(name) => format!("--{name}: {problem}"),
                    None => format!("--{problem}"),
                }
            };
            config.apply(flag).map_err(wrong)?;
        }
        Ok(config)
    }
}

/// The words of a flag: `port`, `port 7000`, or `port=7000`.
fn directive(flag: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let end = flag.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'=');
    let words = match end {
        Some(end) if flag[end] == b'=' => vec![flag[..end].to_vec(), flag[end + 1..].to_vec()],
        _ => split_words(flag).map_err(|problem| format!("{}: {problem}", shown(flag)))?,
    };
    if words.is_empty() { Err("-- is no flag".to_owned()) } else { Ok(words) }
}

fn shown(flag: &[u8]) -> String {
    format!("--{}", String::from_utf8_lossy(flag))
}

/// Runs the server until a signal or SHUTDOWN stops it. With `query-port` a program that has
/// `queries` runs it: this one becomes that one if it has none.
///
/// # Errors
/// The exit status of the process.
pub fn run(arguments: &Arguments, queries: Option<OpenQueries>) -> Result<(), ExitCode> {
    let (is_daemon, words) = daemon::is_daemon(&arguments.words);
    let mut input = Vec::new();
    let read = Line::read(words).and_then(|line| {
        if line.reads_input {
            let read = std::io::stdin().read_to_end(&mut input);
            read.map_err(|error| format!("cannot read standard input: {error}"))?;
        }
        line.config(&input)
    });
    let mut config = read
        .map_err(|problem| fail(2, &format_args!("{problem} (see 'stillframe serve --help')")))?;
    if config.answers_queries() && queries.is_none() {
        if !input.is_empty() {
            return Err(fail(2, &"query-port does not go with settings from standard input"));
        }
        return query::become_the_program("serve", &arguments.words, "the setting 'query-port'");
    }
    if leaves_terminal(&config) && !is_daemon {
        return daemon::start(words, &input)
            .map_err(|error| fail(1, &format_args!("cannot leave the terminal: {error}")));
    }
    enter_directory(&mut config).or_fail(1)?;
    logs::start_for(&mut config).or_fail(1)?;
    let has_file = config.logfile().is_some();
    allocator::start_giving_back().or_fail(1)?;
    config.on_give_back(allocator::give_back);
    config.on_defragment(allocator::is_sparse);
    config.on_archive(archive::open);
    let start = Box::new(|begin| stillframe_group::start(begin).map_err(|error| error.to_string()));
    let served = stillframe_server::serve(config, Hooks { start, queries });
    if has_file {
        let _ = served.as_ref().inspect_err(|error| tracing::error!("{error}"));
    }
    served.or_fail(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Line, String> {
        Line::read(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn flags(words: &[&str]) -> Vec<Vec<String>> {
        let flags = read(words).expect("it is understood").flags;
        let text = |word: Vec<u8>| String::from_utf8(word).expect("text");
        flags.into_iter().map(|flag| flag.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn lines_are_understood_as_redis_server_does() {
        for (words, file, input) in [
            (&[][..], None, false),
            (&["a.conf"][..], Some("a.conf"), false),
            (&["a.conf", "-"], Some("a.conf"), true),
            (&["-"], None, true),
            (&["-", "--port", "1"], None, true),
            (&["a.conf", "--port", "1", "-"], Some("a.conf"), true),
            (&["--port", "1", "--config", "a.conf"], Some("a.conf"), false),
        ] {
            let line = read(words).expect("it is understood");
            assert_eq!(
                (line.file, line.reads_input),
                (file.map(PathBuf::from), input),
                "{words:?}"
            );
        }
        assert_eq!(
            flags(&["--port", "7000", "--save", ""]),
            [vec!["port", "7000"], vec!["save", ""]]
        );
        assert_eq!(flags(&["--port 7000", "--hz=5"]), [["port", "7000"], ["hz", "5"]]);
        assert_eq!(flags(&["--save", "--port", "1"]), [["save", ""], ["port", "1"]]);
        assert_eq!(flags(&["--save"]), [["save", ""]]);
        assert_eq!(flags(&["--requirepass", "--port", "--hz", "5"]).len(), 2);
        assert_eq!(flags(&["--requirepass", "a b", "--bind", "1.1.1.1", "-::1"]).len(), 2);
        let limit = ["--client-output-buffer-limit", "pubsub", "1", "2", "3"];
        assert_eq!(flags(&limit)[0].len(), 5);
        assert_eq!(flags(&["--slaveof", "no", "one"])[0].len(), 3);
        for wrong in [&["-x"][..], &["--config"], &["a", "--config", "b"], &["--"], &["-p", "7"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
