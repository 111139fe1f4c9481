//! Messages on a connection: a head of 24 bytes, then the body. `docs/reference/formats.md` has the
//! bytes.
//!
//! - A head has a checksum of its own, so that a damaged length is found before it is believed.
//! - Memory grows with the bytes that have come, not with what a head promises, and is asked for
//!   before it grows.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::Error;

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 24;
/// Bytes that are read or written at once.
const PIECE_BYTES: usize = 64 << 10;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Append,
    Vote,
    Snapshot,
    Forward,
    Ping,
    /// The reply to the request of the same id.
    Reply,
    /// In place of a reply: the request was not looked at.
    Busy,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Append,
        Self::Vote,
        Self::Snapshot,
        Self::Forward,
        Self::Ping,
        Self::Reply,
        Self::Busy,
    ];

    fn byte(self) -> u8 {
        self as u8 + 1
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: u32,
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    sum: u32,
}

fn u32_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

impl Head {
    fn decode(bytes: &[u8; HEAD_BYTES], length_max: u32) -> Result<Self, Error> {
        if crc_fast::crc32_iscsi(&bytes[..20]) != u32_at(bytes, 20) {
            return Err(Error::Damaged { what: "the head of a message" });
        }
        let kind = Kind::from_byte(bytes[4]).ok_or(Error::Nonsense { what: "its kind" })?;
        let length = u32_at(bytes, 0);
        if length > length_max {
            return Err(Error::TooLarge { bytes: length.into(), most: length_max });
        }
        let id = u64::from(u32_at(bytes, 8)) | u64::from(u32_at(bytes, 12)) << 32;
        Ok(Self { length, kind, id, sum: u32_at(bytes, 16) })
    }
}

/// An empty message: room for the head. The body goes behind it.
pub(crate) fn begin() -> Vec<u8> {
    vec![0; HEAD_BYTES]
}

/// Writes the head into its room, before the body.
pub(crate) fn seal(message: &mut [u8], kind: Kind, id: u64) {
    let length = (message.len() - HEAD_BYTES) as u32; // callers have checked it
    let sum = crc_fast::crc32_iscsi(&message[HEAD_BYTES..]);
    message[..4].copy_from_slice(&length.to_le_bytes());
    message[4..8].copy_from_slice(&[kind.byte(), 0, 0, 0]);
    message[8..16].copy_from_slice(&id.to_le_bytes());
    message[16..20].copy_from_slice(&sum.to_le_bytes());
    let sum = crc_fast::crc32_iscsi(&message[..20]);
    message[20..24].copy_from_slice(&sum.to_le_bytes());
}

/// The next head; none if the peer has closed the connection between two messages.
pub(crate) async fn read_head(
    from: &mut (impl AsyncRead + Unpin),
    length_max: u32,
) -> Result<Option<Head>, Error> {
    let (mut bytes, mut count) = ([0; HEAD_BYTES], 0);
    while count < HEAD_BYTES {
        match from.read(&mut bytes[count..]).await? {
            0 if count == 0 => return Ok(None),
            0 => return Err(Error::Closed),
            more => count += more,
        }
    }
    Head::decode(&bytes, length_max).map(Some)
}

/// What a body needs as it comes.
pub(crate) trait Room {
    /// Bytes have come.
    fn came(&mut self);

    /// Returns when a body may have so many bytes.
    fn grow(&mut self, bytes: usize) -> impl Future<Output = ()> + Send;
}

/// Bodies that have room; calls this as bytes come.
impl<F: FnMut() + Send> Room for F {
    fn came(&mut self) {
        self();
    }

    async fn grow(&mut self, _: usize) {}
}

/// The body behind a head.
pub(crate) async fn read_body(
    from: &mut (impl AsyncRead + Unpin),
    head: &Head,
    check: bool,
    mut room: impl Room,
) -> Result<Vec<u8>, Error> {
    let (length, mut body) = (head.length as usize, Vec::new());
    while body.len() < length {
        if body.len() == body.capacity() {
            let piece = (length - body.len()).min(body.len().max(PIECE_BYTES));
            room.grow(body.len() + piece).await;
            body.reserve_exact(piece);
        }
        let most = (body.capacity().min(length) - body.len()) as u64;
        if (&mut *from).take(most).read_buf(&mut body).await? == 0 {
            return Err(Error::Closed);
        }
        room.came();
    }
    if check && crc_fast::crc32_iscsi(&body) != head.sum {
        return Err(Error::Damaged { what: "the body of a message" });
    }
    Ok(body)
}

/// Writes a message that was sealed. Calls `went` as pieces of a large one have gone.
pub(crate) async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    message: &[u8],
    went: impl Fn(),
) -> Result<(), Error> {
    for piece in message.chunks(PIECE_BYTES) {
        to.write_all(piece).await?;
        if message.len() > PIECE_BYTES {
            went();
        }
    }
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_peers::Random;

    async fn read(mut bytes: &[u8]) -> Result<Option<(Kind, u64, Vec<u8>)>, Error> {
        let Some(head) = read_head(&mut bytes, 1 << 20).await? else { return Ok(None) };
        let body = read_body(&mut bytes, &head, true, || ()).await?;
        Ok(Some((head.kind, head.id, body)))
    }

    #[tokio::test]
    async fn each_flipped_bit_and_each_cut_is_found() {
        let mut random = Random::new("frames");
        for length in [0, 1, 7, 300] {
            let (mut message, body) = (begin(), random.bytes(length));
            message.extend_from_slice(&body);
            let id = random.next();
            seal(&mut message, Kind::Snapshot, id);
            let found = read(&message).await.expect("it is whole");
            assert_eq!(found, Some((Kind::Snapshot, id, body)));
            for bit in 0..message.len() * 8 {
                message[bit / 8] ^= 1 << (bit % 8);
                let error = read(&message).await.expect_err("a bit is wrong");
                assert!(matches!(error, Error::Damaged { .. }), "bit {bit}: {error}");
                message[bit / 8] ^= 1 << (bit % 8);
            }
            for cut in 1..message.len() {
                assert!(matches!(read(&message[..cut]).await, Err(Error::Closed)), "at {cut}");
            }
            assert!(matches!(read(&[]).await, Ok(None)));
        }
    }

    #[tokio::test]
    async fn a_large_body_comes_in_pieces_and_a_giant_one_not_at_all() {
        let (mut message, body) = (begin(), Random::with_seed(1).bytes(1 << 20));
        message.extend_from_slice(&body);
        seal(&mut message, Kind::Reply, 5);
        let (mut near, mut far) = tokio::io::duplex(10_000);
        let sent = async { write(&mut near, &message, || ()).await.expect("it is read") };
        let read = async {
            let head = read_head(&mut far, 1 << 20).await.expect("sound").expect("there");
            read_body(&mut far, &head, true, || ()).await.expect("sound")
        };
        assert!(tokio::join!(sent, read).1 == body);
        let error = read_head(&mut &message[..], (1 << 20) - 1).await.expect_err("too long");
        assert!(matches!(error, Error::TooLarge { bytes: 1_048_576, most: 1_048_575 }));
        // A peer that promises much and sends little costs little.
        let head = Head { length: u32::MAX, kind: Kind::Reply, id: 0, sum: 0 };
        read_body(&mut &[0; 100][..], &head, true, || ()).await.expect_err("it ends");
    }
}
