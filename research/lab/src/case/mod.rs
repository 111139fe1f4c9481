//! A case: one algorithm under one workload, as data for the process that runs it.

pub mod check;
mod players;
pub mod record;
pub(crate) mod workload;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use stillframe::{BLOCK_WORDS, Unit};

/// The name of the algorithm that is none: plain memory, no snapshots. What it measures is the
/// floor. Records and command lines have this word; code asks [`is_floor`].
pub const FLOOR: &str = "none";

/// Whether an algorithm of this name is none.
#[must_use]
pub fn is_floor(name: &str) -> bool {
    name == FLOOR
}

/// One algorithm under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Name in the registry, or [`FLOOR`].
    pub algorithm: String,
    /// The unit that one flag describes, where the algorithm leaves the choice.
    #[serde(with = "unit_name")]
    pub unit: Unit,
    /// State in bytes; rounded up to whole 8-byte words.
    pub size_bytes: u64,
    /// Bytes of an item, which one update replaces: 4 (as in the papers) or 8.
    pub item_bytes: u32,
    /// Updates in a tick.
    pub updates_per_tick: u64,
    /// Length of a tick in milliseconds, the rest of which is idle; 0: full speed, no idle time.
    pub tick_ms: u64,
    /// Ticks that are timed.
    pub ticks: u64,
    /// Most images begun in those ticks; 0: as many as there is time for.
    pub checkpoints: u32,
    /// Least time from one begin to the next; 0: as soon as the last image is durable.
    pub interval_ms: u64,
    /// Which items are updated (and read).
    pub distribution: Distribution,
    /// Reads that follow each update, on average, timed with it.
    pub reads_per_update: f64,
    /// How many updates ahead each one is announced ([`stillframe::Algorithm::approach`]); 0: none.
    #[serde(default)]
    pub ahead: u32,
    /// Updates that are handed over at once ([`stillframe::Algorithm::write_many`]); 0: one by one.
    #[serde(default)]
    pub batch: u32,
    /// Most bytes of image a second that the sink takes; none: no limit.
    pub disk_rate: Option<u64>,
    /// For how long after its begin nothing of an image is read, as where a paper has the writer of
    /// images off; then as fast as the rate allows. The base image is not held.
    #[serde(default)]
    pub hold_ms: u64,
    /// Whether the writer is alone: an image is begun, nothing of it is read, and the process ends
    /// with the last tick. For counting what a write executes.
    #[serde(default)]
    pub alone: bool,
    /// Whether the first image of the process is timed, without a base image before it: a fork that
    /// no earlier fork has left traces for.
    #[serde(default)]
    pub first: bool,
    /// Cores for writer and snapshotter: 1 for both together; 0: one each, if there are two.
    #[serde(default)]
    pub cores: usize,
    /// Where images go.
    pub sink: SinkKind,
    /// Ask for 2 MiB pages.
    pub huge_pages: bool,
    /// Threads that copy, for algorithms that copy with several.
    pub threads: usize,
    /// Most memory an image may take for itself; 0: a quarter of the state, at least 64 MiB.
    pub budget_bytes: u64,
    /// How many blocks of each image are compared with the oracle.
    pub verify: Verify,
    /// Seed of the updates.
    pub seed: u64,
    /// Whether the record keeps the latency of every tick.
    pub trace: bool,
    /// Whether memory is measured, which takes one more image after the timed ticks.
    pub memory: bool,
    /// Flips a bit in every image on its way into the sink: the run must find it.
    pub corrupt: bool,
    /// The workload is a server's: the algorithm is that of `stillframe serve`, or [`REDIS`] or
    /// [`VALKEY`], and the floor is a server that does nothing. Of the rest only the seed counts,
    /// and the size, which is about that of the records.
    #[serde(default)]
    pub service: Option<Service>,
}

/// redis-server, which forks, in the place of an algorithm.
pub const REDIS: &str = "redis-server";
/// valkey-server, in the place of an algorithm.
pub const VALKEY: &str = "valkey-server";

/// A workload of a server. Names are those of `stillframe load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Queries and records.
    pub workload: String,
    /// Parts that write.
    pub writes: u32,
    /// Parts that read.
    pub reads: u32,
    /// Which keys.
    pub distribution: String,
    /// Records.
    pub keys: u64,
    /// Bytes of a value, or of a field of a record.
    pub value_size: usize,
    /// Connections.
    pub clients: usize,
    /// Queries a second where latency is measured.
    pub rate: u64,
    /// How long latency is measured, and as long throughput.
    pub pass_ms: u64,
    /// From one save to the next.
    pub every_ms: u64,
    /// Whether throughput is measured.
    pub full_speed: bool,
    /// Whether the server keeps a log, which is rewritten in place of saves.
    pub rewrite: bool,
}

impl Service {
    /// The request for an image.
    #[must_use]
    pub fn request(&self) -> &'static str {
        if self.rewrite { "BGREWRITEAOF" } else { "BGSAVE" }
    }
    /// Bytes of all values.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        let fields = if self.workload.starts_with("ycsb") { 10 } else { 1 };
        self.keys.saturating_mul(fields * self.value_size as u64)
    }
    /// Seconds of a round, about, on two idle cores.
    #[must_use]
    pub fn expected_s(&self, is_floor: bool) -> f64 {
        let passes_s = self.pass_ms as f64 / 1e3 * if self.full_speed { 2.0 } else { 1.0 };
        // Filled, saved some times, loaded and read back.
        let data_s = self.keys as f64 * 15e-6 + self.value_bytes() as f64 * 20e-9;
        passes_s + if is_floor { 0.1 } else { 1.5 + data_s }
    }
}

impl Default for Case {
    /// The defaults of `lab compare`, whose flags have them from here: about three images a round
    /// of two and a half seconds.
    fn default() -> Self {
        Self {
            algorithm: FLOOR.to_owned(),
            unit: Unit::Word,
            size_bytes: 100 << 20,
            item_bytes: 4,
            updates_per_tick: 64_000,
            tick_ms: 50,
            ticks: 40,
            checkpoints: 0,
            interval_ms: 0,
            distribution: Distribution::Uniform,
            reads_per_update: 0.0,
            ahead: 0,
            batch: 0,
            disk_rate: Some(250 << 20),
            hold_ms: 0,
            alone: false,
            first: false,
            cores: 0,
            sink: SinkKind::Discard,
            huge_pages: false,
            threads: 1,
            budget_bytes: 0,
            verify: Verify::Full,
            seed: 1,
            trace: false,
            memory: true,
            corrupt: false,
            service: None,
        }
    }
}

impl Case {
    /// The same workload for another algorithm.
    #[must_use]
    pub fn with_algorithm(&self, algorithm: &str) -> Self {
        Self { algorithm: algorithm.to_owned(), ..self.clone() }
    }
    /// State in 8-byte words.
    #[must_use]
    pub fn words(&self) -> usize {
        usize::try_from(self.size_bytes.div_ceil(8)).unwrap_or(usize::MAX)
    }
    /// Items of state.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.size_bytes.div_ceil(8).saturating_mul(8) / u64::from(self.item_bytes.max(1))
    }
    /// Blocks of 4 KiB.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.words().div_ceil(BLOCK_WORDS)
    }
    /// The budget that is used.
    #[must_use]
    pub fn budget(&self) -> usize {
        let bytes = match self.budget_bytes {
            0 => (self.size_bytes / 4).max(64 << 20),
            bytes => bytes,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
    /// Whether the case is the floor.
    #[must_use]
    pub fn is_floor(&self) -> bool {
        is_floor(&self.algorithm)
    }
}

/// Which items are updated.
///
/// Ranks are scattered: rank `r` (0 is the hottest) of `n` is item `(r * p) mod n`, with `p` near
/// `0.618 n` and coprime to `n`. Neighbours in rank so lie on different pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// Every item alike.
    Uniform,
    /// An item by Zipf with this exponent.
    Zipf(f64),
    /// A 4 KiB page by Zipf with this exponent, then any item of it alike (Li et al.: 256,000
    /// updates with exponent 2 touch about 700 of 250,000 pages).
    Pages(f64),
    /// A 4 KiB page by Zipf with this exponent, then any item of one line of 64 bytes in it: the
    /// other reading of Li et al., whose hot set is 45 KB so, not 2.9 MB.
    Lines(f64),
    /// An object by Zipf, then an item of it by Zipf (Cao et al.: 2,000 items, exponent 0.5).
    Objects {
        /// Items in an object.
        object_words: u64,
        /// The exponent of both.
        theta: f64,
    },
    /// Players of a game with so many items each (Cao et al.: 25,000), whose updates follow what
    /// they do.
    Players(u64),
    /// Normal around the middle item; the standard deviation as a share of all items.
    Gaussian(f64),
}

impl FromStr for Distribution {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let number = |text: &str| match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 && number <= 16.0 => Ok(number),
            _ => bail!("'{text}' is not a number above 0 and at most 16"),
        };
        match (name, rest.as_slice()) {
            ("uniform", []) => Ok(Self::Uniform),
            ("zipf", [theta]) => Ok(Self::Zipf(number(theta)?)),
            ("pages", [theta]) => Ok(Self::Pages(number(theta)?)),
            ("lines", [theta]) => Ok(Self::Lines(number(theta)?)),
            ("players", [items]) => match items.parse() {
                Ok(items) if items > 0 => Ok(Self::Players(items)),
                _ => bail!("'{items}' is not a number of items of a player"),
            },
            ("gaussian", []) => Ok(Self::Gaussian(0.125)),
            ("gaussian", [deviation]) => Ok(Self::Gaussian(number(deviation)?)),
            ("objects", [items, theta]) => match items.parse() {
                Ok(object_words) if object_words > 0 => {
                    Ok(Self::Objects { object_words, theta: number(theta)? })
                }
                _ => bail!("'{items}' is not a number of items in an object"),
            },
            _ => bail!(
                "'{text}' is no distribution; there are uniform, zipf:THETA, pages:THETA, \
                 lines:THETA, objects:ITEMS:THETA, players:ITEMS and gaussian[:DEVIATION]"
            ),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Pages(theta) => write!(f, "pages:{theta}"),
            Self::Lines(theta) => write!(f, "lines:{theta}"),
            Self::Objects { object_words, theta } => write!(f, "objects:{object_words}:{theta}"),
            Self::Players(items) => write!(f, "players:{items}"),
            Self::Gaussian(deviation) => write!(f, "gaussian:{deviation}"),
        }
    }
}

/// Where images go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SinkKind {
    /// Nowhere: words are looked at and forgotten. What an incremental image builds on is kept in
    /// memory, as a part of the workload.
    Discard,
    /// Files in a directory, flushed to the disk at the end of each image.
    File(PathBuf),
    /// Files in memory (`/dev/shm`).
    Tmpfs,
}

impl FromStr for SinkKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "discard" => Ok(Self::Discard),
            None if text == "tmpfs" => Ok(Self::Tmpfs),
            Some(("file", directory)) if !directory.is_empty() => Ok(Self::File(directory.into())),
            _ => bail!("'{text}' is not a sink; give discard, tmpfs or file:DIR"),
        }
    }
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discard => f.write_str("discard"),
            Self::Tmpfs => f.write_str("tmpfs"),
            Self::File(directory) => write!(f, "file:{}", directory.display()),
        }
    }
}

/// How many blocks of each image are compared with the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Verify {
    /// All of them.
    Full,
    /// Every 16th.
    Sample,
    /// None.
    Off,
}

impl Verify {
    /// Whether a block is compared.
    pub(crate) fn looks_at(self, block: usize) -> bool {
        match self {
            Self::Full => true,
            Self::Sample => block.is_multiple_of(16),
            Self::Off => false,
        }
    }
}

impl FromStr for Verify {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "full" => Ok(Self::Full),
            "sample" => Ok(Self::Sample),
            "off" => Ok(Self::Off),
            _ => bail!("'{text}' is not full, sample or off"),
        }
    }
}

impl fmt::Display for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Sample => "sample",
            Self::Off => "off",
        })
    }
}

/// The unit of that name.
///
/// # Errors
/// One sentence when there is none.
pub fn parse_unit(text: &str) -> Result<Unit> {
    let named = Unit::ALL.iter().find(|unit| unit.name() == text);
    named.copied().with_context(|| format!("'{text}' is not word, line or page"))
}

/// Values that serde writes as people do, by `Display` and `FromStr`.
macro_rules! as_text {
    ($($type:ty),*) => {
        $(impl TryFrom<String> for $type {
            type Error = anyhow::Error;
            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        })*
    };
}
as_text!(Distribution, SinkKind, Verify);

mod unit_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use stillframe::Unit;

    pub(super) fn serialize<S: Serializer>(unit: &Unit, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(unit.name())
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Unit, D::Error> {
        super::parse_unit(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_they_are_written() {
        for text in [
            "uniform",
            "zipf:2",
            "zipf:0.5",
            "pages:2",
            "lines:2",
            "objects:2000:0.5",
            "players:25000",
            "gaussian:0.1",
        ] {
            assert_eq!(text.parse::<Distribution>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:x",
            "zipf:-1",
            "zipf:NaN",
            "objects:0:1",
            "players:0",
            "uni:1",
        ] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
        for text in ["discard", "tmpfs", "file:a:b"] {
            assert_eq!(text.parse::<SinkKind>().expect(text).to_string(), text);
        }
        assert!("file:".parse::<SinkKind>().is_err() && "disk".parse::<SinkKind>().is_err());
        assert!(parse_unit("page").is_ok() && parse_unit("block").is_err());
    }

    #[test]
    fn a_case_survives_json() {
        let case = Case {
            distribution: Distribution::Objects { object_words: 2000, theta: 0.5 },
            sink: SinkKind::File("out".into()),
            unit: Unit::Page,
            ..Case::default()
        };
        let json = serde_json::to_string(&case).expect("plain data");
        assert_eq!(serde_json::from_str::<Case>(&json).expect("what was written"), case);
    }
}
