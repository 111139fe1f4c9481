//! `stillframe-query`, which `stillframe query` and `stillframe export` run, and `stillframe serve`
//! with a `query-port`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stillframe_query::session::STACK_BYTES;
use stillframe_query::{Bounds, Format, Image, Login, Opening, QueryError, QuerySession};
use stillframe_tls::{Identity, Material, Named, TLS12, TLS13};
use tempfile::TempDir;

/// SQL over the data of one instant: of a dump file, a data directory, an archive, or a server.
#[derive(Parser)]
#[command(name = "stillframe", bin_name = "stillframe", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer SQL.
    #[command(after_help = QUERY_EXAMPLES)]
    Query(QueryArguments),
    /// Write all tables into files.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Run a server that answers SQL at its query-port.
    #[command(after_help = stillframe_cli::serve::examples())]
    Serve(stillframe_cli::serve::Arguments),
}

const QUERY_EXAMPLES: &str = "\
Examples:
  stillframe query data \"select type, count(*), sum(bytes) from keys group by type\"
  stillframe query 127.0.0.1:6379 \"select key, bytes from keys order by bytes desc limit 10\"
  stillframe query s3://bucket/prefix --until 2026-11-22T03:04:05Z \"select * from strings\"
  stillframe query dump.rdb \"create table orders as hash 'order:*'
      (id bigint from key, price double, state text);
    select state, avg(price) from orders group by state\"
  stillframe query data \"show tables\"

Tables: keys, strings, hashes, lists, sets, zsets, streams, groups, pending.
Exit status: 0 done, 1 no answer, 2 wrong usage.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  stillframe export data --out tables                       one Parquet file a table
  stillframe export 127.0.0.1:6379 --format csv --out tables
  stillframe export data --out tables --declare \"create table orders as hash 'order:*' (...)\"";

#[derive(Args)]
struct SourceArguments {
    /// A dump file, a data directory, the URL of an archive, or HOST:PORT of a server (Redis and
    /// Valkey, too)
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Last record, or last time, of a directory's log or an archive: 2026-11-22T03:04:05Z, or @
    /// and unix seconds
    #[arg(long, value_name = "SEQ|TIME")]
    until: Option<stillframe_durability::Until>,
    /// Give texts as bytes, not as UTF-8 with \xNN for what is none
    #[arg(long)]
    binary: bool,
    /// Memory for sorting, grouping and joining; beyond, temporary files are used
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = at_least_one)]
    memory: usize,
    /// Threads that compute [default: one for each processor]
    #[arg(long, value_name = "COUNT", value_parser = at_least_one)]
    threads: Option<usize>,
    /// Directory for temporary files [default: that of the system]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// User of a server
    #[arg(long, value_name = "NAME", requires = "password")]
    user: Option<String>,
    /// Its password
    #[arg(long, value_name = "PASSWORD", env = "REDISCLI_AUTH", hide_env_values = true)]
    password: Option<String>,
    /// Connect to the server over TLS, with authorities in this file
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Certificate that this program shows
    #[arg(long, value_name = "FILE", requires_all = ["tls_key_file", "tls_ca_cert_file"])]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Show nothing but the answer
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
struct QueryArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Statements, with ';' between them
    #[arg(value_name = "SQL", required_unless_present = "file")]
    sql: Option<String>,
    /// A file of statements
    #[arg(long, short, value_name = "FILE", conflicts_with = "sql")]
    file: Option<PathBuf>,
    /// The form of the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// File for the answer [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct ExportArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// The form of the files
    #[arg(long, value_enum, default_value = "parquet")]
    format: Format,
    /// Directory for the files, created if missing; files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Declarations of more tables: create table ... as hash ...
    #[arg(long, value_name = "SQL")]
    declare: Option<String>,
    /// Only this table; may be given more than once
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or("give a number from 1 on".to_owned())
}

impl SourceArguments {
    /// A directory for all temporary files, which goes with them.
    fn scratch(&self) -> Result<TempDir, QueryError> {
        let path = self.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        let builder = tempfile::Builder::new().prefix("stillframe-query-").tempdir_in(&path);
        builder.map_err(|source| QueryError::File { path, source })
    }

    fn open(&self, temporary: &Path) -> Result<QuerySession, QueryError> {
        let login = Login {
            user: self.user.clone(),
            password: self.password.clone(),
            tls: self.tls_ca_cert_file.as_ref().map(|file| self.tls(file)).transpose()?,
        };
        let temporary = temporary.to_owned();
        let opening = Opening { until: self.until, login, temporary: Some(temporary.clone()) };
        let image = Image::open(&self.source, &opening)?;
        for notice in image.notices() {
            self.note(&notice);
        }
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let bounds = Bounds {
            memory_bytes: self.memory.saturating_mul(1 << 20),
            threads: self.threads.unwrap_or_else(processors),
            temporary,
        };
        QuerySession::new(image, self.binary, &bounds)
    }

    fn tls(&self, file: &Path) -> Result<Arc<stillframe_tls::ClientConfig>, QueryError> {
        let named = |setting, path: &Option<PathBuf>| {
            Named::by_setting(setting, path.clone().unwrap_or_default())
        };
        let server = |why: &dyn std::fmt::Display| QueryError::Server {
            address: self.source.clone(),
            why: format!("cannot be asked over TLS: {why}"),
        };
        let authorities = named("--tls-ca-cert-file", &Some(file.to_owned()));
        let own = Identity {
            chain: named("--tls-cert-file", &self.tls_cert_file),
            key: named("--tls-key-file", &self.tls_key_file),
        };
        let none = named("--tls-ca-cert-dir", &None);
        let material = Material::read(vec![&TLS12, &TLS13], &authorities, &none);
        let material = material.map_err(|error| server(&error))?;
        material.client(&own).map(Arc::new).map_err(|error| server(&error))
    }

    /// Says something beside the answer.
    fn note(&self, sentence: &str) {
        if !self.quiet {
            // Nobody may read it.
            let _ = writeln!(std::io::stderr(), "stillframe: {sentence}");
        }
    }
}

/// Shows on a terminal how far the newest scan has come, until it is dropped.
struct Progress(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Progress {
    fn new(image: &Arc<Image>, quiet: bool) -> Self {
        let (over, image) = (Arc::new(AtomicBool::new(false)), Arc::clone(image));
        let is_shown = !quiet && std::io::stderr().is_terminal();
        let ended = Arc::clone(&over);
        let show = move || {
            let mut shown = false;
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(500));
                let share = image.progress().saturating_mul(100) / image.bytes().max(1);
                if (1..100).contains(&share) {
                    let _ = write!(std::io::stderr(), "\r{}: {share} % read ", image.name());
                    shown = true;
                } else if std::mem::take(&mut shown) {
                    let _ = write!(std::io::stderr(), "\r\x1b[K");
                }
            }
            if shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        Self(over, is_shown.then(|| std::thread::spawn(show)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn query(arguments: &QueryArguments, temporary: &Path) -> Result<(), QueryError> {
    let sql = match (&arguments.sql, &arguments.file) {
        (Some(sql), _) => sql.clone(),
        (None, Some(path)) => std::fs::read_to_string(path)
            .map_err(|source| QueryError::File { path: path.clone(), source })?,
        (None, None) => String::new(),
    };
    let place = |path: &Path| path.canonicalize().ok();
    if let Some(out) = &arguments.out
        && place(out).is_some_and(|it| Some(it) == place(Path::new(&arguments.source.source)))
    {
        let (what, why) = (out.display().to_string(), "it is the source".to_owned());
        return Err(QueryError::Output { what, why });
    }
    let mut session = arguments.source.open(temporary)?;
    let progress = Progress::new(session.image(), arguments.source.quiet);
    let answers = session.run(&sql, arguments.format, arguments.out.as_deref());
    let outcome = runtime()?.block_on(answers);
    drop(progress);
    session.findings().iter().for_each(|sentence| arguments.source.note(sentence));
    outcome
}

fn export(arguments: &ExportArguments, temporary: &Path) -> Result<(), QueryError> {
    let mut session = arguments.source.open(temporary)?;
    let runtime = runtime()?;
    if let Some(sql) = &arguments.declare {
        runtime.block_on(session.run(sql, Format::Table, None))?;
    }
    let unwritten = |path: &Path, error: std::io::Error| QueryError::Output {
        what: path.display().to_string(),
        why: error.to_string(),
    };
    std::fs::create_dir_all(&arguments.out).map_err(|error| unwritten(&arguments.out, error))?;
    let extension = match arguments.format {
        Format::Table => "txt",
        Format::Csv => "csv",
        Format::Json => "jsonl",
        Format::Arrow => "arrow",
        Format::Parquet => "parquet",
    };
    let tables = match &arguments.table[..] {
        [] => session.tables(),
        some => some.to_vec(),
    };
    let progress = Progress::new(session.image(), arguments.source.quiet);
    let mut told = Vec::new();
    for table in tables {
        let path = arguments.out.join(format!("{table}.{extension}"));
        let rows = runtime.block_on(session.export(&table, arguments.format, &path))?;
        told.push(format!("{rows} rows of {table} into {}", path.display()));
    }
    drop(progress);
    told.iter().chain(&session.findings()).for_each(|sentence| arguments.source.note(sentence));
    Ok(())
}

/// Threads that compute. What opens a source must not run on them: it waits.
fn runtime() -> Result<tokio::runtime::Runtime, QueryError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    runtime.map_err(|error| QueryError::Sql(format!("no threads: {error}")))
}

/// Answers. A signal ends it, and its temporary files: what is done meanwhile is not waited for.
fn answer(
    source: &SourceArguments,
    work: impl FnOnce(&Path) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let scratch = source.scratch()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| QueryError::Sql(format!("cannot watch for Ctrl-C: {error}")))?;
    let path = scratch.path().to_owned();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            stillframe_query::output::remove_unfinished();
            let _ = std::fs::remove_dir_all(path);
            std::process::exit(128 + signal);
        }
    });
    work(scratch.path())
}

fn main() -> ExitCode {
    let work: Box<dyn FnOnce() -> Result<(), QueryError> + Send> = match Cli::parse().command {
        Command::Query(it) => Box::new(move || answer(&it.source, |scratch| query(&it, scratch))),
        Command::Export(it) => Box::new(move || answer(&it.source, |scratch| export(&it, scratch))),
        Command::Serve(it) => {
            let served = stillframe_cli::serve::run(&it, Some(stillframe_query::flight::open));
            return served.err().unwrap_or(ExitCode::SUCCESS);
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    let outcome = match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => Err(QueryError::Sql(format!("no thread: {error}"))),
    };
    match outcome {
        Ok(()) | Err(QueryError::Gone) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "stillframe: {error}");
            ExitCode::FAILURE
        }
    }
}
