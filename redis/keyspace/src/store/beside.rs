//! Images beside one that is under way.
//!
//! The library takes one image at a time. A further one is read from a view: as the caller tends
//! the keyspace, the writer goes from slot to slot and hands on what the view sees there, which a
//! thread of its own gives to the sink. That costs the writer a copy of each entry, without large
//! values, which are shared; so the first image never goes this way.
//!
//! - The writer never waits for the thread: at most [`AHEAD`] pieces lie between them, and the
//!   thread wakes the caller when it has taken one.
//! - Slots that the walk has passed are the image's no more: entries there change in place again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use stillframe::{Algorithm, BeginError, CaptureError, Point};

use super::Keyspace;
use crate::memory::access::Seen;
use crate::memory::entry::Owned;
use crate::memory::history::mutants::Mutant;
use crate::memory::read_view::{Wake, rouse};
use crate::memory::word_sink::EntrySink;

/// Pieces between the writer and the thread.
const AHEAD: usize = 4;
/// Entries of a piece, about.
const PIECE: usize = if cfg!(any(test, miri)) { 4 } else { 128 };
/// Bytes of a piece, about.
const PIECE_BYTES: usize = 128 << 10;
/// Slots that the writer passes in one call of [`Keyspace::tend`].
const SLOTS_PER_STEP: usize = if cfg!(any(test, miri)) { 16 } else { 1024 };

/// An image that was begun. It is held until the keyspace no longer [holds](Keyspace::holds) it.
#[derive(Debug, Clone, Copy)]
pub struct HeldImage {
    /// How long the writer was delayed.
    pub begin: Duration,
    taker: Taker,
}

#[derive(Debug, Clone, Copy)]
enum Taker {
    /// The library, as its image of this number.
    Library(u64),
    /// A walk over the view of this number.
    Walk(u64),
}

/// The images that are read from views.
#[derive(Default)]
pub(crate) struct ViewImages {
    walks: Vec<Walk>,
}

/// One of them.
struct Walk {
    view: u64,
    next: usize,
    /// What the thread had no room for.
    waiting: Option<Piece>,
    /// None when all is handed on, or nobody wants more.
    sender: Option<SyncSender<Piece>>,
    signs: Arc<Signs>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signs {
    cancelled: AtomicBool,
    /// Released by the thread when it is done with everything, and acquired before the writer
    /// counts the image as over.
    ended: AtomicBool,
}

enum Piece {
    Entries(Vec<Handed>),
    End,
}

/// An entry that the view sees, in one of its databases.
struct Handed {
    slot: usize,
    db: usize,
    class: Option<u8>,
    entry: Owned,
}

impl<A: Algorithm> Keyspace<A> {
    /// As [`snapshot`](Self::snapshot), also while images are under way. `wake` is called whenever
    /// [`tend`](Self::tend) should be, and when the image is over.
    ///
    /// # Errors
    /// [`BeginError`]: nothing changes, the sink is dropped, `publish` is not called.
    pub fn image<E: EntrySink + 'static>(
        &mut self,
        point: Point,
        sink: E,
        wake: Arc<dyn Fn() + Send + Sync>,
        publish: impl FnOnce(&mut E, Result<(), CaptureError>) + Send + 'static,
    ) -> Result<HeldImage, BeginError> {
        let progress = self.slots.progress();
        if progress.running() {
            let busy = BeginError::Busy { epoch: progress.epoch() };
            return self.begin_walk(sink, wake, publish).ok_or(busy);
        }
        let publish = move |sink: &mut E, captured: Result<_, _>| {
            publish(sink, captured.map(|_: stillframe::CaptureReport| ()));
        };
        let begun = self.snapshot(point, sink, publish)?;
        Ok(HeldImage { begin: begun.begin, taker: Taker::Library(begun.epoch) })
    }

    /// Whether an image is held: not captured, or not yet published.
    #[must_use]
    pub fn holds(&self, image: HeldImage) -> bool {
        match image.taker {
            Taker::Library(epoch) => {
                let progress = self.slots.progress();
                progress.running() && progress.epoch() == epoch
            }
            Taker::Walk(view) => self.view_images.walks.iter().any(|walk| walk.view == view),
        }
    }

    /// Asks an image to stop; it ends with [`CaptureError::Cancelled`], or is whole already.
    pub fn cancel(&self, image: HeldImage) {
        match image.taker {
            Taker::Library(_) if self.holds(image) => self.slots.progress().cancel(),
            Taker::Library(_) => {}
            Taker::Walk(view) => {
                let walks = self.view_images.walks.iter().filter(|walk| walk.view == view);
                walks.for_each(|walk| walk.signs.cancelled.store(true, Ordering::Relaxed));
            }
        }
    }

    /// Waits until an image is no longer held.
    pub fn wait_for(&mut self, image: HeldImage) {
        if let Taker::Library(_) = image.taker
            && self.holds(image)
        {
            self.slots.wait();
        }
        self.feed_while(|keyspace| keyspace.holds(image));
    }

    /// Waits until no image is read from a view.
    pub(crate) fn wait_for_walks(&mut self) {
        self.feed_while(Self::walks);
    }

    fn feed_while(&mut self, goes_on: impl Fn(&Self) -> bool) {
        while goes_on(self) {
            if !self.feed() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Whether images are read from views.
    pub(crate) fn walks(&self) -> bool {
        !self.view_images.walks.is_empty()
    }

    fn begin_walk<E: EntrySink + 'static>(
        &mut self,
        sink: E,
        wake: Wake,
        publish: impl FnOnce(&mut E, Result<(), CaptureError>) + Send + 'static,
    ) -> Option<HeldImage> {
        let started = Instant::now();
        let (sender, receiver) = sync_channel(AHEAD);
        let (signs, seen) = (Arc::<Signs>::default(), self.access.seen());
        let theirs = Arc::clone(&signs);
        let thread = Builder::new().name("image beside".into()).spawn(move || {
            stillframe::os::lower_priority();
            let _ended = Ended { signs: Arc::clone(&theirs), wake: Arc::clone(&wake) };
            let mut sink = sink;
            let receive = AssertUnwindSafe(|| receive(&mut sink, &receiver, &seen, &theirs, &wake));
            let captured = catch_unwind(receive).map_err(std::mem::forget);
            let captured = captured.unwrap_or(Err(CaptureError::Panicked));
            drop(receiver); // the writer hands on no more
            publish(&mut sink, captured);
        });
        let thread = Some(thread.ok()?);
        let view = self.slots.history_mut().own_id();
        self.open_instant(view, i64::MIN, true);
        let (next, waiting, sender) = (0, None, Some(sender));
        self.view_images.walks.push(Walk { view, next, waiting, sender, signs, thread });
        Some(HeldImage { begin: started.elapsed(), taker: Taker::Walk(view) })
    }

    /// Hands on some entries of each image that is read from a view, as far as there is room.
    /// Whether there is room for more.
    pub(crate) fn feed(&mut self) -> bool {
        let mut walks = std::mem::take(&mut self.view_images.walks);
        let mut more = false;
        for walk in &mut walks {
            let had = walk.sender.is_some();
            more |= self.step(walk);
            if had && walk.sender.is_none() {
                self.close_view(walk.view);
            }
        }
        // The thread has ended, or is about to return: joining it takes no time.
        walks.retain(|walk| walk.sender.is_some() || !walk.signs.ended.load(Ordering::Acquire));
        self.view_images.walks = walks;
        more
    }

    /// Hands on some entries; whether there is room for more.
    fn step(&mut self, walk: &mut Walk) -> bool {
        let mut left = SLOTS_PER_STEP;
        while let Some(sender) = &walk.sender {
            if walk.signs.cancelled.load(Ordering::Relaxed) {
                walk.sender = None;
                break;
            }
            let piece = match walk.waiting.take() {
                Some(piece) => piece,
                None if left == 0 => return true,
                None => self.piece(walk.view, &mut walk.next, &mut left),
            };
            let is_end = matches!(piece, Piece::End);
            match sender.try_send(piece) {
                Ok(()) if !is_end => {}
                Err(TrySendError::Full(piece)) => {
                    walk.waiting = Some(piece);
                    return false;
                }
                Ok(()) | Err(TrySendError::Disconnected(_)) => walk.sender = None,
            }
        }
        false
    }

    /// What a view sees in the next slots.
    fn piece(&mut self, view: u64, next: &mut usize, left: &mut usize) -> Piece {
        let Some(seen) = self.view(view) else { return Piece::End };
        let (used, mut bytes, mut entries) = (seen.used(), 0, Vec::with_capacity(PIECE));
        while *next < used && *left > 0 && entries.len() < PIECE && bytes < PIECE_BYTES {
            if let Some(entry) = seen.at(*next as u32) {
                bytes += size_of_val(entry);
                let (slot, class) = (*next, seen.class_of(entry));
                let copy = |db| Handed { slot, db, class, entry: entry.copy() };
                entries.extend(seen.dbs_of(entry).map(copy));
            }
            (*next, *left) = (*next + 1, *left - 1);
        }
        let is_end = *next == used && entries.is_empty();
        let early = usize::from(Mutant::PassesEarly.is_made()) * PIECE;
        self.slots.history_mut().pass(view, *next + early);
        if is_end { Piece::End } else { Piece::Entries(entries) }
    }
}

/// On the image's thread: gives the sink what comes.
fn receive<E: EntrySink>(
    sink: &mut E,
    receiver: &Receiver<Piece>,
    seen: &Seen,
    signs: &Signs,
    wake: &Wake,
) -> Result<(), CaptureError> {
    loop {
        // Without a sender before the end, the image was cancelled.
        let piece = receiver.recv().map_err(|_| CaptureError::Cancelled)?;
        let Piece::Entries(entries) = piece else { break };
        wake();
        for Handed { slot, db, class, entry } in entries {
            if signs.cancelled.load(Ordering::Relaxed) {
                return Err(CaptureError::Cancelled);
            }
            class.map_or(Ok(()), |class| sink.class(class))?;
            sink.used_entry(db, entry.entry(), seen.usage(slot))?;
        }
    }
    Ok(sink.finish()?)
}

/// Says that the image is over, however the thread ends.
struct Ended {
    signs: Arc<Signs>,
    wake: Wake,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.signs.ended.store(true, Ordering::Release);
        rouse(&self.wake);
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.signs.cancelled.store(true, Ordering::Relaxed);
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic was reported
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use stillframe::SinkError;

    use super::*;
    use crate::store::tests::keyspace;
    use crate::{Entry, Expire};

    /// Counts entries as soon as nobody holds it up any more.
    struct Held(Receiver<()>, usize);

    impl EntrySink for Held {
        fn entry(&mut self, _db: usize, _entry: &Entry) -> Result<(), SinkError> {
            let _ = self.0.recv();
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_piece_that_finds_no_room_waits_for_it() {
        let (mut keyspace, keys) = (keyspace(), 3 * AHEAD * PIECE);
        for key in 0..keys {
            keyspace.set(0, &key.to_le_bytes(), b"value", Expire::Never).expect("memory");
        }
        let (sender, counts) = channel();
        let mut begin = || {
            let ((gate, open), sender) = (channel::<()>(), sender.clone());
            let publish = move |sink: &mut Held, captured: Result<(), CaptureError>| {
                sender.send(captured.map(|()| sink.1)).expect("the test listens");
            };
            let image = keyspace.image(Point::declare(), Held(open, 0), Arc::new(|| ()), publish);
            (image.expect("memory and a thread"), gate)
        };
        let [(first, one), (second, other)] = [begin(), begin()];
        (0..keys).for_each(|_| _ = keyspace.tend()); // more often than there are pieces
        drop((one, other));
        for image in [second, first] {
            keyspace.wait_for(image);
        }
        for _ in 0..2 {
            let count = counts.recv().expect("both end").expect("nothing fails");
            assert_eq!(count, keys);
        }
    }
}
