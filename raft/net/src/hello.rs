//! The handshake: who calls whom, in which group, by which version. `docs/reference/formats.md` has
//! the bytes.
//!
//! - Magic, version and length stand at the same place in every version, so a node of another
//!   version is refused by that name. Version 1, which says nothing of directories, is spoken too,
//!   so that the nodes of a group are upgraded one after the other.
//! - Nothing of a peer is believed before its checksum.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::directory::{Id, STARTS_MAX, Starts};
use crate::error::Error;

/// Of the protocol.
pub(crate) const VERSION: u32 = 2;
/// The one before: the same without a [`Statement`].
pub(crate) const OLDER: u32 = 1;

/// Most bytes of a group's name.
pub(crate) const GROUP_BYTES_MAX: usize = 255;

const MAGIC: &[u8; 8] = b"STILLNET";
/// Bytes before the part that depends on the version: magic, version, length.
const START_BYTES: usize = 16;
/// Bytes without the group: the start, two numbers of nodes, a byte for lane or verdict, the length
/// of the group, the checksum.
const FIXED_BYTES: usize = START_BYTES + 8 + 8 + 1 + 1 + 4;
/// Most bytes of a message: later versions may add some at its end.
const LENGTH_MAX: usize = 4096;

/// What a connection is for. Each has its own, so that a large message of one delays no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lane {
    /// Votes and heartbeats.
    Control,
    /// Entries of the log.
    Entries,
    /// Snapshots.
    Snapshots,
    /// Requests that are forwarded.
    Forward,
}

impl Lane {
    pub(crate) const ALL: [Self; 4] =
        [Self::Control, Self::Entries, Self::Snapshots, Self::Forward];
}

/// What a listener says to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Welcome,
    OtherVersion,
    OtherGroup,
    OtherNode,
    Full,
    /// The listener belongs to another group of that name.
    OtherIdentity,
    /// The listener has no data, and would have to have some.
    Blank,
    /// The caller has no data, and would have to have some.
    CallerBlank,
    /// The caller has another directory than before.
    OtherDirectory,
    /// The directory of the caller went back to an older copy.
    WentBack,
    /// The listener has not finished its start.
    NotReady,
    /// The caller's certificate is another node's.
    OtherCertificate,
}

impl Verdict {
    const ALL: [Self; 12] = [
        Self::Welcome,
        Self::OtherVersion,
        Self::OtherGroup,
        Self::OtherNode,
        Self::Full,
        Self::OtherIdentity,
        Self::Blank,
        Self::CallerBlank,
        Self::OtherDirectory,
        Self::WentBack,
        Self::NotReady,
        Self::OtherCertificate,
    ];

    /// As version 1 says it.
    fn older(self) -> Self {
        match self {
            Self::Welcome | Self::OtherVersion | Self::OtherGroup | Self::OtherNode => self,
            Self::OtherIdentity => Self::OtherGroup,
            _ => Self::Full,
        }
    }
}

/// What a node says of its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The id of its group.
    pub(crate) group: Option<Id>,
    /// The directory and its starts.
    pub(crate) starts: Option<Starts>,
    /// It has neither a vote nor a log.
    pub(crate) is_blank: bool,
    /// The other one has a vote.
    pub(crate) counts_on_you: bool,
}

const BLANK: u8 = 1;
const COUNTS_ON_YOU: u8 = 2;

impl Statement {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let id = |id: Option<Id>| id.map_or([0; 16], Id::to_bytes);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        bytes.push(flag(self.is_blank, BLANK) | flag(self.counts_on_you, COUNTS_ON_YOU));
        bytes.extend_from_slice(&id(self.group));
        bytes.extend_from_slice(&id(self.starts.as_ref().map(|starts| starts.directory)));
        let (count, drawn) = self.starts.as_ref().map_or((0, &[][..]), |it| (it.count, &it.drawn));
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.push(drawn.len() as u8); // at most `STARTS_MAX`
        drawn.iter().for_each(|drawn| bytes.extend_from_slice(&drawn.to_le_bytes()));
    }

    /// That at the start of these bytes; more may follow.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[flags], bytes) = bytes.split_first_chunk::<1>()?;
        let (group, bytes) = bytes.split_first_chunk::<16>()?;
        let (directory, bytes) = bytes.split_first_chunk::<16>()?;
        let (count, bytes) = bytes.split_first_chunk::<8>()?;
        let (&[length], bytes) = bytes.split_first_chunk::<1>()?;
        let length = usize::from(length);
        let drawn = bytes.get(..length * 8).filter(|_| length <= STARTS_MAX)?;
        let drawn =
            drawn.chunks_exact(8).filter_map(|it| Some(u64::from_le_bytes(*it.first_chunk()?)));
        let (count, drawn) = (u64::from_le_bytes(*count), drawn.collect());
        let starts = Id::from_bytes(*directory).map(|directory| Starts { directory, count, drawn });
        let (is_blank, counts_on_you) = (flags & BLANK != 0, flags & COUNTS_ON_YOU != 0);
        Some(Self { group: Id::from_bytes(*group), starts, is_blank, counts_on_you })
    }
}

/// The first message of each side. A caller says who it is, whom it wants and for what (`code` is a
/// [`Lane`]); a listener says who it is, who has called and its [`Verdict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) own: u64,
    pub(crate) other: u64,
    code: u8,
    pub(crate) group: String,
    /// `None` in version 1.
    pub(crate) statement: Option<Statement>,
}

impl Hello {
    pub(crate) fn call(own: u64, other: u64, lane: Lane, group: &str) -> Self {
        let (code, group, statement) = (lane as u8, group.to_owned(), Some(Statement::default()));
        Self { own, other, code, group, statement }
    }

    pub(crate) fn answer(own: u64, other: u64, verdict: Verdict, group: &str) -> Self {
        let (code, group, statement) =
            (verdict as u8, group.to_owned(), Some(Statement::default()));
        Self { own, other, code, group, statement }
    }

    /// The same with a statement.
    pub(crate) fn stating(self, statement: Statement) -> Self {
        Self { statement: Some(statement), ..self }
    }

    /// The same in version 1.
    pub(crate) fn older(self) -> Self {
        Self { statement: None, ..self }
    }

    /// The same answer in the version of the caller's message.
    pub(crate) fn in_answer_to(mut self, call: &Self) -> Self {
        if call.statement.is_none() {
            self.statement = None;
            self.code = self.verdict().map_or(self.code, |verdict| verdict.older() as u8);
        }
        self
    }

    pub(crate) fn lane(&self) -> Result<Lane, Error> {
        let lane = Lane::ALL.into_iter().find(|&lane| lane as u8 == self.code);
        lane.ok_or(Error::Nonsense { what: "the purpose of a connection" })
    }

    pub(crate) fn verdict(&self) -> Result<Verdict, Error> {
        let verdict = Verdict::ALL.into_iter().find(|&verdict| verdict as u8 == self.code);
        verdict.ok_or(Error::Nonsense { what: "the answer to a handshake" })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let version = if self.statement.is_some() { VERSION } else { OLDER };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.own.to_le_bytes());
        bytes.extend_from_slice(&self.other.to_le_bytes());
        bytes.push(self.code);
        bytes.push(self.group.len() as u8); // settings were checked
        bytes.extend_from_slice(self.group.as_bytes());
        if let Some(statement) = &self.statement {
            statement.encode(&mut bytes);
        }
        let length = (bytes.len() + 4) as u32; // below `LENGTH_MAX`
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The message in `bytes`, whose start was checked.
    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = Error::Damaged { what: "the handshake" };
        let Some((bytes, sum)) = bytes.split_last_chunk::<4>() else { return Err(damaged) };
        if crc_fast::crc32_iscsi(bytes) != u32::from_le_bytes(*sum) {
            return Err(damaged);
        }
        let rest = bytes.get(START_BYTES..).unwrap_or_default();
        let parts = rest.split_first_chunk::<8>().and_then(|(own, rest)| {
            let (other, rest) = rest.split_first_chunk::<8>()?;
            let (&[code, length], rest) = rest.split_first_chunk::<2>()?;
            let (group, rest) = rest.split_at_checked(usize::from(length))?;
            let statement = match number(bytes, 8) {
                OLDER => None.filter(|_: &Statement| rest.is_empty()),
                _ => Some(Statement::decode(rest)?),
            };
            Some((own, other, code, group, statement))
        });
        let (own, other, code, group, statement) = parts.ok_or(damaged)?;
        let group = String::from_utf8_lossy(group).into_owned();
        let (own, other) = (u64::from_le_bytes(*own), u64::from_le_bytes(*other));
        Ok(Self { own, other, code, group, statement })
    }

    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Error> {
        to.write_all(&self.encode()).await?;
        Ok(to.flush().await?)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Error::NotOurs`], [`Error::OtherVersion`], [`Error::Damaged`], or the connection broke.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, Error> {
        let mut bytes = vec![0; START_BYTES];
        read_exactly(from, &mut bytes[..8]).await?;
        if bytes[..8] != *MAGIC {
            return Err(Error::NotOurs);
        }
        read_exactly(from, &mut bytes[8..]).await?;
        let (theirs, length) = (number(&bytes, 8), number(&bytes, 12) as usize);
        let most = match theirs {
            OLDER => FIXED_BYTES + GROUP_BYTES_MAX,
            VERSION => LENGTH_MAX,
            _ => return Err(Error::OtherVersion { theirs, ours: VERSION }),
        };
        if !(FIXED_BYTES..=most).contains(&length) {
            return Err(Error::Damaged { what: "the length of a handshake" });
        }
        bytes.resize(length, 0);
        read_exactly(from, &mut bytes[START_BYTES..]).await?;
        Self::decode(&bytes)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    u32::from_le_bytes(four.copied().unwrap_or_default())
}

/// Who calls, as the first bytes of a connection say, which stay to be read: for proxies of tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) async fn caller(from: &tokio::net::TcpStream) -> Option<u64> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
    let mut bytes = [0; START_BYTES + 8];
    loop {
        match from.peek(&mut bytes).await {
            Ok(count) if count == bytes.len() => break,
            Ok(1..) => tokio::time::sleep(PAUSE).await,
            Ok(0) | Err(_) => return None,
        }
    }
    let own = bytes.last_chunk::<8>().filter(|_| bytes.starts_with(MAGIC))?;
    Some(u64::from_le_bytes(*own))
}

async fn read_exactly(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<(), Error> {
    match from.read_exact(into).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::Closed),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hellos() -> [Hello; 3] {
        let starts =
            Starts { count: 3, drawn: vec![1, 2, u64::MAX], ..Starts::new().expect("bytes") };
        let group = Some(Id::draw().expect("bytes"));
        let statement =
            Statement { group, starts: Some(starts), is_blank: true, counts_on_you: false };
        let hello = Hello::call(1, u64::MAX, Lane::Snapshots, "grüße");
        [hello.clone(), hello.clone().older(), hello.stating(statement)]
    }

    #[tokio::test]
    async fn each_flipped_bit_and_each_cut_is_found() {
        for hello in hellos() {
            let mut bytes = hello.encode();
            assert_eq!(Hello::read(&mut &bytes[..]).await.expect("whole"), hello);
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let error = Hello::read(&mut &bytes[..]).await.expect_err("a bit is wrong");
                let fits = match bit / 8 {
                    0..8 => matches!(error, Error::NotOurs),
                    // One version is a bit away from the other, whose length may be another.
                    8..12 => matches!(error, Error::OtherVersion { .. } | Error::Damaged { .. }),
                    12..16 => matches!(error, Error::Damaged { .. } | Error::Closed),
                    _ => matches!(error, Error::Damaged { .. }),
                };
                assert!(fits, "bit {bit}: {error}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for cut in 0..bytes.len() {
                let error = Hello::read(&mut &bytes[..cut]).await.expect_err("it is cut");
                assert!(matches!(error, Error::Closed), "at {cut}: {error}");
            }
        }
    }

    #[tokio::test]
    async fn what_a_later_version_adds_is_passed_over() {
        let [_, _, hello] = hellos();
        let mut bytes = hello.encode();
        bytes.truncate(bytes.len() - 4);
        bytes.extend_from_slice(b"more");
        let length = (bytes.len() + 4) as u32;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(Hello::read(&mut &bytes[..]).await.expect("whole"), hello);
    }
}
