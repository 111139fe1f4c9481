//! A snapshot on its way from one member to another: one stream of bytes, as openraft sends it.
//!
//! - The stream is a head, which names the image and lists its files, and then the files as they
//!   are. `docs/reference/formats.md` has the bytes. The head has a checksum; so have the
//!   files, block by block, and all are checked before a snapshot counts.
//! - It can be read and written at any place that is not behind a gap, so that a chunk that went
//!   wrong is sent again.
//! - Reads and writes of files run on threads for that, never on those of the runtime.

mod head;
mod incoming;

use std::fmt::Debug;
use std::io::{self, Read, SeekFrom};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::Error;
use crate::mutant::{Mutant, Mutation};
use crate::state::Image;
pub(crate) use head::Head;
pub use incoming::Incoming;

/// Bytes read from a file at once.
const READ_BYTES: usize = 1 << 20;

/// A snapshot that is sent or received: `SnapshotData` of the type configuration.
#[derive(Debug)]
pub struct SnapshotData {
    source: Source,
    position: u64,
    /// Bytes from the position on that were read and not handed out.
    ahead: Vec<u8>,
    work: Option<JoinHandle<io::Result<Vec<u8>>>>,
    /// Files are not waited for on other threads.
    is_direct: bool,
    /// What has come is durable, or about to be.
    is_synced: bool,
}

#[derive(Debug)]
enum Source {
    /// One of this node, to be read.
    Outgoing(Arc<Outgoing>),
    /// One of another node.
    Incoming(Arc<Mutex<Incoming>>),
}

/// The stream of an image.
#[derive(Debug)]
struct Outgoing {
    head: Vec<u8>,
    image: Image,
    bytes: u64,
}

impl Outgoing {
    fn from_image(image: Image) -> Result<Self, Error> {
        let head = Head::from_image(&image);
        let wrong = |what| Error::Snapshot { id: image.id.clone(), what };
        let bytes = head.total_bytes().ok_or_else(|| wrong("it is too large".into()))?;
        let head = head.encode().map_err(wrong)?;
        Ok(Self { bytes: bytes + head.len() as u64, head, image })
    }

    /// Some of the bytes from `position` on; none at the end.
    fn read_at(&self, position: u64) -> io::Result<Vec<u8>> {
        let head = self.head.len() as u64;
        if position < head {
            return Ok(self.head[position as usize..].to_vec()); // below a length
        }
        let mut start = head;
        for file in &self.image.files {
            if position < start + file.bytes {
                let offset = position - start;
                let mut bytes = vec![0; READ_BYTES.min((file.bytes - offset) as usize)];
                file.input.at(offset).read_exact(&mut bytes)?;
                return Ok(bytes);
            }
            start += file.bytes;
        }
        Ok(Vec::new())
    }
}

impl SnapshotData {
    /// The stream of an image of this node.
    ///
    /// # Errors
    /// [`Error::Snapshot`]: it is too large, or has too many files.
    pub fn from_image(image: Image) -> Result<Self, Error> {
        Ok(Self::new(Source::Outgoing(Arc::new(Outgoing::from_image(image)?))))
    }

    /// One that is to be written.
    #[must_use]
    pub fn receiving(incoming: Incoming) -> Self {
        Self::new(Source::Incoming(Arc::new(Mutex::new(incoming))))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            position: 0,
            ahead: Vec::new(),
            work: None,
            is_direct: false,
            is_synced: false,
        }
    }

    /// The same, whose files are read and written where it is polled, if they are on a disk
    /// [without a time of its own](stillframe_durability::disk::Disk::sync_time).
    #[must_use]
    pub fn directly(self, is_direct: bool) -> Self {
        Self { is_direct, ..self }
    }

    /// Has a thread work for the next poll, or works at once.
    fn begin(
        &mut self,
        work: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
    ) -> io::Result<()> {
        match self.is_direct {
            true => self.ahead = work()?,
            false => self.work = Some(spawn_blocking(work)),
        }
        Ok(())
    }

    /// Hands what was received to `install`; of a snapshot of this node, a copy that was written
    /// into `copy`. It waits for files.
    ///
    /// # Errors
    /// Those of `copy` and `install`; [`Error::Snapshot`]: it cannot be copied.
    pub fn received<T>(
        self,
        copy: impl FnOnce() -> Result<Incoming, Error>,
        install: impl FnOnce(&mut Incoming) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.source {
            Source::Incoming(incoming) => install(&mut lock(&incoming)),
            Source::Outgoing(outgoing) => {
                let (mut incoming, mut position) = (copy()?, 0);
                let failed = |error: io::Error| Error::Snapshot {
                    id: outgoing.image.id.clone(),
                    what: error.to_string(),
                };
                while position < outgoing.bytes {
                    let bytes = outgoing.read_at(position).map_err(failed)?;
                    incoming.write_at(position, &bytes).map_err(failed)?;
                    position += bytes.len() as u64;
                }
                install(&mut incoming)
            }
        }
    }

    /// Waits for the work under way.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(work) = &mut self.work else { return Poll::Ready(Ok(())) };
        let done = ready!(Pin::new(work).poll(cx));
        self.work = None;
        self.ahead = done.map_err(io::Error::other)??;
        Poll::Ready(Ok(()))
    }
}

fn lock(incoming: &Mutex<Incoming>) -> MutexGuard<'_, Incoming> {
    // Taken though poisoned: what it lacks is noticed at the end.
    incoming.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for SnapshotData {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Source::Outgoing(outgoing) = &this.source else {
            return Poll::Ready(Err(io::Error::other("a snapshot that is received is not read")));
        };
        let outgoing = Arc::clone(outgoing);
        if this.ahead.is_empty() && this.work.is_none() && this.position < outgoing.bytes {
            let position = this.position;
            if let Err(error) = this.begin(move || outgoing.read_at(position)) {
                return Poll::Ready(Err(error));
            }
        }
        ready!(this.poll_work(cx))?;
        let taken = this.ahead.len().min(into.remaining());
        into.put_slice(&this.ahead[..taken]);
        this.ahead.drain(..taken);
        this.position += taken as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SnapshotData {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_work(cx))?; // of what was written before
        let Source::Incoming(incoming) = &this.source else {
            return Poll::Ready(Err(io::Error::other("a snapshot of this node is not written")));
        };
        let (incoming, position, bytes) = (Arc::clone(incoming), this.position, bytes.to_vec());
        let length = bytes.len();
        let write = move || lock(&incoming).write_at(position, &bytes).map(|()| Vec::new());
        if let Err(error) = this.begin(write) {
            return Poll::Ready(Err(error));
        }
        this.position += length as u64;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.source {
            Source::Incoming(_) => self.poll_work(cx),
            Source::Outgoing(_) => Poll::Ready(Ok(())),
        }
    }

    /// Makes what has come durable: openraft lets go of the log before it once this is done.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        let this = &mut *self;
        if let Source::Incoming(incoming) = &this.source
            && !std::mem::replace(&mut this.is_synced, true)
            && !Mutation::current().is(Mutant::InstallsUnsynced)
        {
            let incoming = Arc::clone(incoming);
            let sync =
                move || lock(&incoming).sync().map(|()| Vec::new()).map_err(io::Error::other);
            if let Err(error) = this.begin(sync) {
                return Poll::Ready(Err(error));
            }
        }
        this.poll_work(cx)
    }
}

impl AsyncSeek for SnapshotData {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        if self.work.is_some() {
            return Err(io::Error::other("call poll_complete before start_seek"));
        }
        let end = match &self.source {
            Source::Outgoing(outgoing) => outgoing.bytes,
            Source::Incoming(incoming) => lock(incoming).end(),
        };
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        self.ahead.clear();
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let reads = matches!(self.source, Source::Outgoing(_));
        let done = ready!(self.poll_work(cx));
        if reads {
            self.ahead.clear(); // of a read that nobody waits for any more
        }
        done?;
        Poll::Ready(Ok(self.position))
    }
}
