//! Where an image goes: the receiving end of a capture.

use std::fmt::{self, Write as _};

use crate::budget::OnFull;

/// Words in a block: the largest run a [`Sink`] receives at once (4 KiB of state). Small under the
/// model checkers, so that they can explore several blocks.
pub const BLOCK_WORDS: usize = if cfg!(feature = "loom") {
    2
} else if cfg!(any(miri, feature = "shuttle")) {
    8
} else {
    512
};

/// Receives the words of one image, in order, each exactly once.
///
/// A sink may run in a forked child (see [`crate::algorithms::fork`]), where taking a lock or
/// allocating can deadlock. A sink meant for every algorithm therefore prepares its buffers before
/// `begin`, and its methods neither allocate, lock nor log.
pub trait Sink: Send {
    /// Takes the words `start..start + words.len()` as they were at begin. Calls come in rising
    /// order, without gaps except those that [`wants`](Sink::wants) and [`before`](Sink::before)
    /// asked for; one call carries at most [`BLOCK_WORDS`] words.
    ///
    /// When this returns, the sink is done with every object that the words refer to: an object
    /// layer may free them.
    ///
    /// # Errors
    /// Any error ends the capture, which returns it as
    /// [`CaptureError::Sink`](crate::CaptureError::Sink).
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError>;

    /// Whether the sink wants the block from word `start` on; asked before the block is captured. A
    /// block that is not wanted is not pushed, and counts as captured. A sink that knows what
    /// changed since an earlier image does without the rest.
    ///
    /// Declining a block changes nothing but what this sink is given: the algorithm's later images
    /// are as if it had been taken, and an [incremental](crate::Completeness::Incremental) one
    /// carries the changes of the block until a sink takes them.
    fn wants(&mut self, start: usize) -> bool {
        let _ = start;
        true
    }

    /// Asked by an [incremental](crate::Completeness::Incremental) image for each block that did
    /// not change as a whole, before it is pushed: what did the image before (the last one that was
    /// [settled](crate::Image::settle) and whose sink [wanted](Sink::wants) the block) hold in
    /// these words? Words that it did not have are zero.
    ///
    /// # Errors
    /// As for [`push`](Sink::push); a sink that knows nothing of earlier images refuses.
    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        let _ = (start, into);
        Err(SinkError::new(format_args!(
            "this sink keeps no image that an incremental one could build on"
        )))
    }

    /// Takes half a word (the low half of word `index / 2` if `index` is even) whose other half did
    /// not change. Called only for an [incremental](crate::Completeness::Incremental) image with
    /// units of [half a word](crate::Unit::Half), for blocks that are [pushed](Sink::push) in part,
    /// and before the other words of the block.
    ///
    /// # Errors
    /// As for [`push`](Sink::push); a sink of whole words refuses.
    fn push_half(&mut self, index: usize, half: u32) -> Result<(), SinkError> {
        let _ = (index, half);
        Err(SinkError::new(format_args!(
            "this sink takes whole words: choose units of a word or more for incremental images"
        )))
    }

    /// What happens when the budget is used up while its image is the oldest one, if not what the
    /// [`Options`](crate::Options::on_full) say. Asked at begin, by algorithms that can hold
    /// several images.
    fn on_full(&self) -> Option<OnFull> {
        None
    }

    /// Called once, after the last word: flush what is buffered.
    ///
    /// # Errors
    /// As for [`push`](Sink::push).
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What a sink does about words that did not change since the image before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It has given them: the block is completed and pushed whole (the papers' *Merge*).
    Given,
    /// It does without them: of this block only runs of changed units are pushed (an *increment*).
    Skipped,
}

/// Collects the image in memory. Allocates, so it is not for the fork algorithm.
impl Sink for Vec<u64> {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        debug_assert_eq!(start, self.len(), "blocks come in order");
        self.extend_from_slice(words);
        Ok(())
    }
}

/// Takes no words, for an image that is kept to be [asked](crate::Image::get) for them.
#[derive(Debug)]
pub struct Unread {
    on_full: OnFull,
}

impl Unread {
    /// `on_full`: what happens when the budget is used up while its image is the oldest one.
    #[must_use]
    pub fn new(on_full: OnFull) -> Self {
        Self { on_full }
    }
}

impl Sink for Unread {
    fn push(&mut self, _start: usize, _words: &[u64]) -> Result<(), SinkError> {
        Ok(())
    }
    fn wants(&mut self, _start: usize) -> bool {
        false
    }
    fn on_full(&self) -> Option<OnFull> {
        Some(self.on_full)
    }
}

/// Why a sink could not take the image. Plain bytes without a heap part, so that it can cross from
/// a forked child to its parent.
#[derive(Clone, Copy)]
pub struct SinkError {
    errno: i32,
    length: u32,
    message: [u8; Self::MESSAGE_BYTES_MAX],
}

impl SinkError {
    const MESSAGE_BYTES_MAX: usize = 104;
    /// Size in 8-byte words.
    pub(crate) const WORDS: usize = size_of::<Self>() / 8;

    /// An error with a message (cut at 104 bytes) and no operating-system code.
    #[must_use]
    pub fn new(message: fmt::Arguments<'_>) -> Self {
        let mut error = Self { errno: 0, length: 0, message: [0; Self::MESSAGE_BYTES_MAX] };
        let _ = error.write_fmt(message); // a message that does not fit is cut
        error
    }

    /// An operating-system error: what was tried, and its `errno`.
    #[must_use]
    pub fn from_errno(what: fmt::Arguments<'_>, errno: i32) -> Self {
        Self { errno, ..Self::new(what) }
    }

    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        words[0] = u64::from(self.errno.cast_unsigned()) << 32 | u64::from(self.length);
        for (word, bytes) in words[1..].iter_mut().zip(self.message.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let length = (words[0] as u32).min(Self::MESSAGE_BYTES_MAX as u32);
        let mut message = [0; Self::MESSAGE_BYTES_MAX];
        for (bytes, word) in message.as_chunks_mut().0.iter_mut().zip(&words[1..]) {
            *bytes = word.to_le_bytes();
        }
        Self { errno: ((words[0] >> 32) as u32).cast_signed(), length, message }
    }

    /// The operating system's code, 0 if it did not come from there.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// What failed, without the operating system's sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        let bytes = self.message.get(..self.length as usize).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(cut) => std::str::from_utf8(&bytes[..cut.valid_up_to()]).unwrap_or_default(),
        }
    }
}

impl fmt::Write for SinkError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = self.length as usize;
        let taken = text.len().min(Self::MESSAGE_BYTES_MAX - start);
        self.message[start..start + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken as u32;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())?;
        if self.errno != 0 {
            write!(f, ": {}", std::io::Error::from_raw_os_error(self.errno))?;
        }
        Ok(())
    }
}

impl fmt::Debug for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkError({self})")
    }
}

impl std::error::Error for SinkError {}
