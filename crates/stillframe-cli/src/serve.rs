//! `stillframe serve`: flags to settings.
//!
//! Flags bear redis.conf's names and go through the same registry as the configuration file, so
//! that a value means the same in both; flags win.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stillframe_server::Config;

use crate::{fail, logs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe serve                              data in ./stillframe-data, 127.0.0.1:6379
  stillframe serve --port 7000 --dir /data --save \"300 100\" --save \"60 10000\"
  stillframe serve --save \"\"                    save only on BGSAVE, SAVE and SHUTDOWN SAVE
  stillframe serve --appendonly yes --appendfsync always      a crash loses nothing acknowledged
  stillframe serve --config redis.conf          redis.conf directives; flags win

Sizes: 100, 64k (thousands), 64kb, 64MB, 1GiB (powers of 1024). Clients: redis-cli, or any Redis
library. Progress of a save: redis-cli info persistence. Stop: SHUTDOWN, Ctrl-C or SIGTERM save
first if there is a schedule; a second Ctrl-C stops at once.";

/// Every flag but `--config` is a setting of that name; `CONFIG GET *` lists all settings.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory of dump.rdb, created if missing [default: ./stillframe-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
    /// Name of the dump file in it [default: dump.rdb]
    #[arg(long, value_name = "NAME")]
    dbfilename: Option<String>,
    /// Address to listen on; may be repeated. Beyond this machine, set a password
    /// [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<String>,
    /// TCP port; 0 picks a free one, or is none if there is a TLS port or a unix socket
    /// [default: 6379]
    #[arg(long)]
    port: Option<String>,
    /// Listen on a unix socket, too
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<String>,
    /// Permissions of that socket, such as 700
    #[arg(long, value_name = "MODE")]
    unixsocketperm: Option<String>,
    /// Port for TLS; 0: none [default: 0]
    #[arg(long, value_name = "PORT")]
    tls_port: Option<String>,
    /// Certificates in PEM form, the server's own first
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<String>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<String>,
    /// Authorities whose certificates are trusted, clients' and the primary's
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<String>,
    /// Directory with more of them
    #[arg(long, value_name = "DIR")]
    tls_ca_cert_dir: Option<String>,
    /// Whether clients have to show a certificate: yes, no or optional [default: yes]
    #[arg(long, value_name = "yes|no|optional")]
    tls_auth_clients: Option<String>,
    /// Follow the primary over TLS: yes or no [default: no]
    #[arg(long, value_name = "yes|no")]
    tls_replication: Option<String>,
    /// Port where Prometheus finds figures at /metrics; 0: none [default: 0]
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<String>,
    /// Address of that port [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind: Option<String>,
    /// Algorithm that takes snapshots: imprint, or any of 'stillframe lab list' whose images are
    /// whole, or its family (hourglass, piggyback, zigzag, ...) [default: imprint]
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Save after SECONDS if at least CHANGES were made; may be repeated; "" saves never
    /// [default: "3600 1 300 100 60 10000"]
    #[arg(long, value_name = "SECONDS CHANGES")]
    save: Vec<String>,
    /// Most memory a snapshot may take for itself: a size, or a share of the machine's
    /// [default: 25%]
    #[arg(long, value_name = "SIZE")]
    snapshot_memory: Option<String>,
    /// When that is used up: slow the writers down, or cancel the snapshot [default: slow]
    #[arg(long, value_name = "slow|cancel")]
    snapshot_memory_policy: Option<String>,
    /// Most bytes a second that a background save writes, as 200MB/s; 0: no limit. SAVE and the
    /// last save of a server that stops know no limit [default: 200MB/s]
    #[arg(long, value_name = "RATE")]
    snapshot_bandwidth: Option<String>,
    /// Refuse writes while saving fails: yes or no [default: yes]
    #[arg(long, value_name = "yes|no")]
    stop_writes_on_bgsave_error: Option<String>,
    /// Compress strings in dump files: yes or no [default: yes]
    #[arg(long, value_name = "yes|no")]
    rdbcompression: Option<String>,
    /// Log every change, so that a crash loses none: yes or no. A log that is there is replayed in
    /// any case [default: no]
    #[arg(long, value_name = "yes|no")]
    appendonly: Option<String>,
    /// When logged changes are on the disk: always (before they are answered), everysec, or no
    /// (when the system likes) [default: everysec]
    #[arg(long, value_name = "always|everysec|no")]
    appendfsync: Option<String>,
    /// Directory of the log in the data directory [default: appendonlydir]
    #[arg(long, value_name = "NAME")]
    appenddirname: Option<String>,
    /// Put an image in the place of the log when that has grown by so many percent of the image; 0:
    /// never [default: 100]
    #[arg(long, value_name = "PERCENT")]
    auto_aof_rewrite_percentage: Option<String>,
    /// But only when both together are larger than this [default: 64mb]
    #[arg(long, value_name = "SIZE")]
    auto_aof_rewrite_min_size: Option<String>,
    /// Start although the log is damaged, without what is lost: yes or no [default: no]
    #[arg(long, value_name = "yes|no")]
    accept_log_loss: Option<String>,
    /// Follow the primary at HOST PORT: take its data, then its changes
    #[arg(long, num_args = 1..=2, value_names = ["HOST", "PORT"])]
    replicaof: Vec<String>,
    /// Password of that primary
    #[arg(long, value_name = "PASSWORD")]
    masterauth: Option<String>,
    /// User name at that primary
    #[arg(long, value_name = "NAME")]
    masteruser: Option<String>,
    /// How long a replica waits for others that could share its first image, in seconds
    /// [default: 5]
    #[arg(long, value_name = "SECONDS")]
    repl_diskless_sync_delay: Option<String>,
    /// How much of the changes is kept for replicas that were cut off [default: 1mb]
    #[arg(long, value_name = "SIZE")]
    repl_backlog_size: Option<String>,
    /// Password that clients must give (AUTH)
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// Refuse clients from other machines while there is no password: yes or no [default: yes]
    #[arg(long, value_name = "yes|no")]
    protected_mode: Option<String>,
    /// Most clients at once [default: 10000]
    #[arg(long, value_name = "COUNT")]
    maxclients: Option<String>,
    /// Close clients idle for so many seconds; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,
    /// Probe silent connections after so many seconds; 0: never [default: 300]
    #[arg(long, value_name = "SECONDS")]
    tcp_keepalive: Option<String>,
    /// Longest queue of connections not yet accepted [default: 511]
    #[arg(long, value_name = "COUNT")]
    tcp_backlog: Option<String>,
    /// Most unread requests of one client [default: 1gb]
    #[arg(long, value_name = "SIZE")]
    client_query_buffer_limit: Option<String>,
    /// Unread replies above which a client is closed [default: "normal 0 0 0"]
    #[arg(long, value_name = "CLASS HARD SOFT SECONDS")]
    client_output_buffer_limit: Option<String>,
    /// Longest string a client may send [default: 512mb]
    #[arg(long, value_name = "SIZE")]
    proto_max_bulk_len: Option<String>,
    /// Runs of the clock (expiry, timeouts) a second [default: 10]
    #[arg(long, value_name = "COUNT")]
    hz: Option<String>,
    /// debug, verbose, notice or warning [default: notice]
    #[arg(long, value_name = "LEVEL")]
    loglevel: Option<String>,
    /// Write the log into a file instead of to standard error
    #[arg(long, value_name = "FILE")]
    logfile: Option<String>,
    /// Lines of the log for people, or a JSON object each [default: text]
    #[arg(long, value_name = "text|json")]
    log_format: Option<String>,
    /// Tell systemd of the start and the end: no, systemd, or auto (if it asks for it)
    /// [default: auto]
    #[arg(long, value_name = "no|systemd|auto")]
    supervised: Option<String>,
    /// How long the end waits for replicas, in seconds [default: 10]
    #[arg(long, value_name = "SECONDS")]
    shutdown_timeout: Option<String>,
    /// File of redis.conf directives, read before the flags
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Arguments {
    /// The flags that were given, with their names in redis.conf.
    fn settings(&self) -> Vec<(&'static str, &str)> {
        let single = [
            ("dir", &self.dir),
            ("dbfilename", &self.dbfilename),
            ("port", &self.port),
            ("snapshot", &self.snapshot),
            ("snapshot-memory", &self.snapshot_memory),
            ("snapshot-memory-policy", &self.snapshot_memory_policy),
            ("snapshot-bandwidth", &self.snapshot_bandwidth),
            ("stop-writes-on-bgsave-error", &self.stop_writes_on_bgsave_error),
            ("rdbcompression", &self.rdbcompression),
            ("appendonly", &self.appendonly),
            ("appendfsync", &self.appendfsync),
            ("appenddirname", &self.appenddirname),
            ("auto-aof-rewrite-percentage", &self.auto_aof_rewrite_percentage),
            ("auto-aof-rewrite-min-size", &self.auto_aof_rewrite_min_size),
            ("accept-log-loss", &self.accept_log_loss),
            ("masterauth", &self.masterauth),
            ("masteruser", &self.masteruser),
            ("repl-diskless-sync-delay", &self.repl_diskless_sync_delay),
            ("repl-backlog-size", &self.repl_backlog_size),
            ("requirepass", &self.requirepass),
            ("protected-mode", &self.protected_mode),
            ("maxclients", &self.maxclients),
            ("timeout", &self.timeout),
            ("tcp-keepalive", &self.tcp_keepalive),
            ("tcp-backlog", &self.tcp_backlog),
            ("client-query-buffer-limit", &self.client_query_buffer_limit),
            ("client-output-buffer-limit", &self.client_output_buffer_limit),
            ("proto-max-bulk-len", &self.proto_max_bulk_len),
            ("hz", &self.hz),
            ("loglevel", &self.loglevel),
            ("logfile", &self.logfile),
            ("log-format", &self.log_format),
            ("supervised", &self.supervised),
            ("shutdown-timeout", &self.shutdown_timeout),
            ("unixsocket", &self.unixsocket),
            ("unixsocketperm", &self.unixsocketperm),
            ("tls-port", &self.tls_port),
            ("tls-cert-file", &self.tls_cert_file),
            ("tls-key-file", &self.tls_key_file),
            ("tls-ca-cert-file", &self.tls_ca_cert_file),
            ("tls-ca-cert-dir", &self.tls_ca_cert_dir),
            ("tls-auth-clients", &self.tls_auth_clients),
            ("tls-replication", &self.tls_replication),
            ("metrics-port", &self.metrics_port),
            ("metrics-bind", &self.metrics_bind),
        ];
        let given = single.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        given.collect()
    }

    fn config(&self) -> Result<Config, String> {
        let mut config = Config::default();
        if let Some(file) = &self.config {
            config.load_file(file).map_err(|error| error.to_string())?;
        }
        let wrong = |problem| format!("--{problem}");
        for (name, value) in self.settings() {
            config.set(name, &[value]).map_err(wrong)?;
        }
        let bind: Vec<&str> = self.bind.iter().map(String::as_str).collect();
        if !bind.is_empty() {
            config.set("bind", &bind).map_err(wrong)?;
        }
        let primary: Vec<&str> = self.replicaof.iter().map(String::as_str).collect();
        if !primary.is_empty() {
            config.set("replicaof", &primary).map_err(wrong)?;
        }
        config.replace_save_points(&self.save).map_err(wrong)?;
        Ok(config)
    }
}

/// Runs the server until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut config = match arguments.config() {
        Ok(config) => config,
        Err(problem) => return fail(2, &format_args!("{problem} (see 'stillframe serve --help')")),
    };
    if let Err(problem) = logs::start_for(&mut config) {
        return fail(1, &problem);
    }
    match stillframe_server::serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &error),
    }
}
