//! The handshake: who calls whom, in which group, by which version. `docs/formats/raft-net.md` has
//! the bytes.
//!
//! - Magic, version and length stand at the same place in every version, so a node of another
//!   version is refused by that name.
//! - Nothing of a peer is believed before its checksum.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::Error;
use crate::settings::GROUP_BYTES_MAX;

/// Of the protocol.
pub(crate) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"STILLNET";
/// Bytes before the part that depends on the version: magic, version, length.
const START_BYTES: usize = 16;
/// Bytes without the group: the start, two numbers of nodes, a byte for lane or verdict, the length
/// of the group, the checksum.
const FIXED_BYTES: usize = START_BYTES + 8 + 8 + 1 + 1 + 4;

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
}

impl Verdict {
    const ALL: [Self; 5] =
        [Self::Welcome, Self::OtherVersion, Self::OtherGroup, Self::OtherNode, Self::Full];
}

/// The first message of each side. A caller says who it is, whom it wants and for what (`code` is a
/// [`Lane`]); a listener says who it is, who has called and its [`Verdict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) own: u64,
    pub(crate) other: u64,
    code: u8,
    pub(crate) group: String,
}

impl Hello {
    pub(crate) fn call(own: u64, other: u64, lane: Lane, group: &str) -> Self {
        Self { own, other, code: lane as u8, group: group.to_owned() }
    }

    pub(crate) fn answer(own: u64, other: u64, verdict: Verdict, group: &str) -> Self {
        Self { own, other, code: verdict as u8, group: group.to_owned() }
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
        let length = FIXED_BYTES + self.group.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.extend_from_slice(&self.own.to_le_bytes());
        bytes.extend_from_slice(&self.other.to_le_bytes());
        bytes.push(self.code);
        bytes.push(self.group.len() as u8); // settings were checked
        bytes.extend_from_slice(self.group.as_bytes());
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
            let (&[code, length], group) = rest.split_first_chunk::<2>()?;
            (group.len() == usize::from(length)).then_some((own, other, code, group))
        });
        let (own, other, code, group) = parts.ok_or(damaged)?;
        let group = String::from_utf8_lossy(group).into_owned();
        let (own, other) = (u64::from_le_bytes(*own), u64::from_le_bytes(*other));
        Ok(Self { own, other, code, group })
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
        let number = |at: usize| {
            let four: [u8; 4] = bytes[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(four)
        };
        let (theirs, length) = (number(8), number(12) as usize);
        if theirs != VERSION {
            return Err(Error::OtherVersion { theirs, ours: VERSION });
        }
        if !(FIXED_BYTES..=FIXED_BYTES + GROUP_BYTES_MAX).contains(&length) {
            return Err(Error::Damaged { what: "the length of a handshake" });
        }
        bytes.resize(length, 0);
        read_exactly(from, &mut bytes[START_BYTES..]).await?;
        Self::decode(&bytes)
    }
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

    #[tokio::test]
    async fn each_flipped_bit_and_each_cut_is_found() {
        let hello = Hello::call(1, u64::MAX, Lane::Snapshots, "grüße");
        let mut bytes = hello.encode();
        assert_eq!(Hello::read(&mut &bytes[..]).await.expect("whole"), hello);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Hello::read(&mut &bytes[..]).await.expect_err("a bit is wrong");
            let fits = match bit / 8 {
                0..8 => matches!(error, Error::NotOurs),
                8..12 => matches!(error, Error::OtherVersion { ours: VERSION, .. }),
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
