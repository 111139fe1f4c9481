//! The plan of a measurement, and whether it can be run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use stillframe_measure::scale::number;
use stillframe_measure::target::Place;

/// Bounds beyond which the value of a flag is taken for a slip.
const RATE_MAX: u64 = 50_000_000;
const CLIENTS_MAX: usize = 50_000;
const KEYS_MAX: u64 = 1_000_000_000_000;
const VALUE_BYTES_MAX: usize = 64 << 20;
const PIPELINE_MAX: usize = 10_000;
const THREADS_MAX: usize = 64;
const DURATION_MAX: Duration = Duration::from_secs(3600);

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Host and port, or `unix:` and the path of a socket.
    pub target: String,
    /// Name of an ACL user.
    #[serde(skip)]
    pub user: Option<String>,
    /// Its password, or the server's.
    #[serde(skip)]
    pub password: Option<String>,
    /// When queries are sent.
    pub rate: Rate,
    /// Connections.
    pub clients: usize,
    /// Threads that serve them.
    pub threads: usize,
    /// Queries sent at once on a connection.
    pub pipeline: usize,
    /// The queries.
    pub workload: Workload,
    /// Keys, or fields, or members.
    pub keys: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Writes to reads.
    pub ratio: Ratio,
    /// Which keys the queries name.
    pub distribution: Distribution,
    /// From the first to the last intended time.
    pub duration: Duration,
    /// From one BGSAVE to the next; the first comes after one such time.
    pub bgsave_every: Option<Duration>,
    /// The same for BGREWRITEAOF.
    pub rewrite_every: Option<Duration>,
    /// Load all keys before.
    pub fill: bool,
    /// Compare the values read with those written.
    pub check: bool,
    /// Seed of keys and operations.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            target: "127.0.0.1:6379".to_owned(),
            user: None,
            password: None,
            rate: Rate::PerSecond(50_000),
            clients: 50,
            threads: 1,
            pipeline: 1,
            workload: Workload::String,
            keys: 1_000_000,
            value_size: 1024,
            ratio: Ratio { writes: 1, reads: 0 },
            distribution: Distribution::Uniform,
            duration: Duration::from_secs(30),
            bgsave_every: None,
            rewrite_every: None,
            fill: false,
            check: false,
            seed: 1,
        }
    }
}

impl Plan {
    /// Whether this can be run.
    ///
    /// # Errors
    /// One sentence that names the flag, what is wrong with it, and what to do.
    pub fn check(&self) -> Result<(), String> {
        Place::check(&self.target)?;
        let Self { clients, threads, pipeline, value_size, .. } = *self;
        within("clients", clients as u64, 1, CLIENTS_MAX as u64)?;
        within("threads", threads as u64, 1, THREADS_MAX as u64)?;
        within("pipeline", pipeline as u64, 1, PIPELINE_MAX as u64)?;
        within("keys", self.keys, 1, KEYS_MAX)?;
        within("value-size", value_size as u64, 1, VALUE_BYTES_MAX as u64)?;
        if let Rate::PerSecond(rate) = self.rate {
            within("rate", rate, 1, RATE_MAX)?;
        }
        if threads > clients {
            return Err(format!(
                "--threads {threads} leaves threads without work: give --clients {threads} or more"
            ));
        }
        if self.duration.is_zero() || self.duration > DURATION_MAX {
            return Err("--duration: give a time from 1ms to 3600s".to_owned());
        }
        self.check_together()
    }

    /// The queries in words, with their shares.
    #[must_use]
    pub fn mix(&self) -> String {
        let Ratio { writes, reads } = self.ratio;
        let all = f64::from(writes) + f64::from(reads);
        let (write, read) = self.workload.words();
        let part = |count: u32, name: &str| {
            (count > 0).then(|| format!("{} % {name}", number(f64::from(count) * 100.0 / all)))
        };
        let parts: Vec<String> =
            [part(writes, write), part(reads, read)].into_iter().flatten().collect();
        format!("{}: {}", self.workload, parts.join(", "))
    }

    /// Finds flags that contradict each other.
    fn check_together(&self) -> Result<(), String> {
        let repeated = [
            ("bgsave-every", self.bgsave_every, "save"),
            ("rewrite-every", self.rewrite_every, "rewrite"),
        ];
        for (flag, every, what) in repeated {
            let Some(every) = every else { continue };
            if every.is_zero() {
                return Err(format!("--{flag} 0: give a time such as 10s, or leave it out"));
            }
            if every >= self.duration {
                return Err(format!(
                    "--{flag} {every:?} comes after --duration {:?}: no {what} would run; make \
                     the duration longer",
                    self.duration
                ));
            }
        }
        if self.user.is_some() && self.password.is_none() {
            return Err("--user needs --password as well".to_owned());
        }
        if self.ratio.writes == 0 && self.ratio.reads == 0 {
            return Err("--ratio 0:0 asks for nothing: give 1:0, 1:10 or 0:1".to_owned());
        }
        if self.workload == Workload::List && self.distribution != Distribution::Uniform {
            return Err("--distribution has no meaning for --workload list: leave it out".into());
        }
        Ok(())
    }
}

fn within(flag: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    match value {
        _ if (least..=most).contains(&value) => Ok(()),
        _ => Err(format!("--{flag} {value} is out of range: give {least} to {most}")),
    }
}

/// When queries are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Open loop: so many a second, whatever the replies do.
    PerSecond(u64),
    /// Closed loop: each connection sends again when it has its replies.
    Max,
}

/// The queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// SET and GET of as many keys.
    String,
    /// HSET and HGET of one hash with as many fields.
    Hash,
    /// LPUSH to one list, and LINDEX of its head.
    List,
    /// ZADD and ZSCORE of one sorted set with as many members.
    Zset,
    /// YCSB's A, update heavy: half reads, half updates of one field.
    YcsbA,
    /// YCSB's B, read mostly: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB's C, reads only.
    YcsbC,
    /// YCSB's D, read latest: 95 % reads, 5 % inserts, of which new ones are read most.
    YcsbD,
    /// YCSB's E, short ranges: 95 % scans of 1 to 100 records, 5 % inserts.
    YcsbE,
    /// YCSB's F: half reads, half reads with a write after them.
    YcsbF,
}

/// Names on the command line.
const WORKLOADS: [(&str, Workload); 10] = [
    ("string", Workload::String),
    ("hash", Workload::Hash),
    ("list", Workload::List),
    ("zset", Workload::Zset),
    ("ycsb-a", Workload::YcsbA),
    ("ycsb-b", Workload::YcsbB),
    ("ycsb-c", Workload::YcsbC),
    ("ycsb-d", Workload::YcsbD),
    ("ycsb-e", Workload::YcsbE),
    ("ycsb-f", Workload::YcsbF),
];

impl Workload {
    /// Whether it is one of YCSB's, whose items are records: hashes with ten fields.
    #[must_use]
    pub fn has_records(self) -> bool {
        !matches!(self, Self::String | Self::Hash | Self::List | Self::Zset)
    }
    /// Whether what is read of an item shows that the load has written it.
    #[must_use]
    pub fn is_verifiable(self) -> bool {
        !matches!(self, Self::List | Self::Zset)
    }
    /// Writes to reads, if nothing else is asked for.
    #[must_use]
    pub fn ratio(self) -> Ratio {
        let (writes, reads) = match self {
            Self::YcsbA | Self::YcsbF => (1, 1),
            Self::YcsbB | Self::YcsbD | Self::YcsbE => (5, 95),
            Self::YcsbC => (0, 1),
            Self::String | Self::Hash | Self::List | Self::Zset => (1, 0),
        };
        Ratio { writes, reads }
    }
    /// Which keys, if nothing else is asked for: YCSB's constant is 0.99.
    #[must_use]
    pub fn distribution(self) -> Distribution {
        match self {
            Self::YcsbD => Distribution::Latest(YCSB_THETA),
            _ if self.has_records() => Distribution::Zipf(YCSB_THETA),
            _ => Distribution::Uniform,
        }
    }
    /// Bytes of a value, or of a field of a record, if nothing else is asked for.
    #[must_use]
    pub fn value_size(self) -> usize {
        if self.has_records() { 100 } else { 1024 }
    }
    /// What a write and a read are, in words.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::String => ("SET", "GET"),
            Self::Hash => ("HSET", "HGET"),
            Self::List => ("LPUSH", "LINDEX"),
            Self::Zset => ("ZADD", "ZSCORE"),
            Self::YcsbA | Self::YcsbB | Self::YcsbC => {
                ("update (HSET of a field)", "read (HGETALL)")
            }
            Self::YcsbD => ("insert (HSET, ZADD)", "read (HGETALL)"),
            Self::YcsbE => ("insert (HSET, ZADD)", "scan (ZRANGEBYSCORE, HGETALL of each)"),
            Self::YcsbF => ("read-modify-write (HGETALL, then HSET)", "read (HGETALL)"),
        }
    }
}

/// The exponent of YCSB's generators.
const YCSB_THETA: f64 = 0.99;

impl FromStr for Workload {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = WORKLOADS.iter().find(|(name, _)| *name == text);
        named.map(|(_, workload)| *workload).ok_or_else(|| {
            format!("'{text}' is not a workload; give string, hash, list, zset or ycsb-a to -f")
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = WORKLOADS.iter().find(|(_, workload)| workload == self);
        f.write_str(named.map_or("unnamed", |(name, _)| name))
    }
}

/// Writes to reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ratio {
    /// Parts that write.
    pub writes: u32,
    /// Parts that read.
    pub reads: u32,
}

impl FromStr for Ratio {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(writes, reads)| {
            Some(Self { writes: writes.parse().ok()?, reads: reads.parse().ok()? })
        });
        let parts = parts.filter(|it| it.writes <= 1_000_000 && it.reads <= 1_000_000);
        parts.ok_or_else(|| format!("'{text}' is not a ratio SET:GET such as 1:0, 1:10 or 0:1"))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.writes, self.reads)
    }
}

/// Which keys the queries name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Keys by Zipf's law of this exponent, scattered over the key space.
    Zipf(f64),
    /// Keys by Zipf's law of this exponent, the newest first.
    Latest(f64),
    /// A bell curve around the middle key; its deviation is this share of all keys.
    Gaussian(f64),
}

/// A sixth: nearly the whole curve lies on the keys, as with memtier_benchmark.
const DEVIATION: f64 = 1.0 / 6.0;

impl FromStr for Distribution {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<f64>().ok())),
            None => (text, None),
        };
        match (name, number) {
            ("uniform", None) => Ok(Self::Uniform),
            ("zipf", Some(Some(theta))) if theta > 0.0 && theta <= 16.0 => Ok(Self::Zipf(theta)),
            ("latest", None) => Ok(Self::Latest(YCSB_THETA)),
            ("latest", Some(Some(theta))) if theta > 0.0 && theta <= 16.0 => {
                Ok(Self::Latest(theta))
            }
            ("gaussian", None) => Ok(Self::Gaussian(DEVIATION)),
            ("gaussian", Some(Some(share))) if share > 0.0 && share <= 10.0 => {
                Ok(Self::Gaussian(share))
            }
            _ => Err(format!(
                "'{text}' is no distribution; there are uniform, zipf:S and latest:S (0 < S <= \
                 16), latest, gaussian and gaussian:DEVIATION (a share of the keys, up to 10)"
            )),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Latest(theta) => write!(f, "latest:{theta}"),
            Self::Gaussian(share) => write!(f, "gaussian:{share:.3}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let plan = Plan::default();
        assert_eq!(plan.check(), Ok(()));
        let second = Duration::from_secs(1);
        let bad = [
            ("--target", Plan { target: "localhost".into(), ..plan.clone() }),
            ("--target", Plan { target: "a:0".into(), ..plan.clone() }),
            ("--target", Plan { target: "unix:".into(), ..plan.clone() }),
            ("--clients", Plan { clients: 0, ..plan.clone() }),
            ("--threads", Plan { threads: 3, clients: 2, ..plan.clone() }),
            ("--value-size", Plan { value_size: 1 << 30, ..plan.clone() }),
            ("--rate", Plan { rate: Rate::PerSecond(0), ..plan.clone() }),
            ("--duration", Plan { duration: Duration::ZERO, ..plan.clone() }),
            ("--bgsave-every", Plan { bgsave_every: Some(plan.duration), ..plan.clone() }),
            ("--rewrite-every", Plan { rewrite_every: Some(plan.duration), ..plan.clone() }),
            ("--user", Plan { user: Some("u".into()), ..plan.clone() }),
            ("--ratio", Plan { ratio: Ratio { writes: 0, reads: 0 }, ..plan.clone() }),
        ];
        for (flag, bad) in bad {
            let problem = bad.check().expect_err(flag);
            assert!(problem.starts_with(flag), "{flag}: {problem}");
        }
        let fine = Plan { bgsave_every: Some(second), rate: Rate::Max, ..plan };
        assert_eq!(fine.check(), Ok(()));
    }

    #[test]
    fn values_as_people_write_them() {
        assert_eq!("zipf:0.99".parse(), Ok(Distribution::Zipf(0.99)));
        assert_eq!("gaussian".parse(), Ok(Distribution::Gaussian(DEVIATION)));
        assert_eq!("1:10".parse(), Ok(Ratio { writes: 1, reads: 10 }));
        for text in ["", "zipf", "zipf:0", "zipf:NaN", "zipf:-1", "uniform:1", "gaussian:x"] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
        for text in ["", "1", "1:", "-1:1", "1:2:3", "9999999:1"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
        assert!("stream".parse::<Workload>().is_err() && "ycsb-g".parse::<Workload>().is_err());
        for (name, workload) in WORKLOADS {
            assert_eq!((name.parse(), workload.to_string().as_str()), (Ok(workload), name));
        }
    }
}
