//! The memory of the process at one instant, kept by a child that sleeps.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use super::Child;

/// Bytes that are read at once.
const PIECE: usize = 32 << 10;
/// How often the child looks whether its parent is there.
const LOOK: Duration = Duration::from_millis(100);

/// What the memory of this process held when this was made, whatever is written meanwhile: `fork`
/// gives a child that sleeps, and its memory is read from here. The kernel copies a page when the
/// parent first writes to it. Unlike a forked image it can be read in process, at the cost of a
/// copy. The child ends with this value, or soon after this process.
#[derive(Debug)]
pub struct Frozen {
    memory: File,
    _child: Child,
}

impl Frozen {
    /// Forks. Words whose image is wanted must not be written by any thread just now.
    ///
    /// # Errors
    /// That of `fork`, or of the file of the child's memory.
    pub fn new() -> io::Result<Self> {
        let parent = std::os::unix::process::parent_id;
        let own = std::process::id();
        let body = move || {
            while parent() == own {
                thread::sleep(LOOK);
            }
            0
        };
        let child = Child::spawn_kept(body).map_err(io::Error::from_raw_os_error)?;
        let memory = File::open(format!("/proc/{}/mem", child.id()))?;
        Ok(Self { memory, _child: child })
    }

    /// Copies what `words` held then. They must have been in memory by then, else this is an error
    /// or of no meaning.
    ///
    /// # Errors
    /// That of reading: the child is gone.
    ///
    /// # Panics
    /// If `into` has another length than `words`.
    pub fn load(&self, words: &[AtomicU64], into: &mut [u64]) -> io::Result<()> {
        assert_eq!(words.len(), into.len(), "one place for each word");
        let mut bytes = [0; PIECE];
        let pieces = words.chunks(PIECE / 8).zip(into.chunks_mut(PIECE / 8));
        for (words, into) in pieces {
            let bytes = &mut bytes[..size_of_val(words)];
            self.memory.read_exact_at(bytes, words.as_ptr() as u64)?;
            let (words, _) = bytes.as_chunks::<8>();
            into.iter_mut().zip(words).for_each(|(to, &word)| *to = u64::from_ne_bytes(word));
        }
        Ok(())
    }
}

#[cfg(all(test, not(miri), not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_are_what_they_were_though_the_thread_that_froze_them_has_ended() {
        let words: Vec<_> = (0..100_000).map(AtomicU64::new).collect();
        let freeze = || Frozen::new().expect("a process more");
        let frozen = thread::scope(|scope| scope.spawn(freeze).join().expect("it froze"));
        words.iter().for_each(|word| word.store(7, Ordering::Relaxed));
        for range in [0..1, 5..5, 17..4099, 0..words.len()] {
            let mut found = vec![0; range.len()];
            frozen.load(&words[range.clone()], &mut found).expect("it sleeps");
            assert!(found.iter().copied().eq(range.map(|word| word as u64)));
        }
    }

    #[test]
    fn a_child_that_was_killed_is_told() {
        let words = [AtomicU64::new(1)];
        let frozen = Frozen::new().expect("a process more");
        frozen._child.kill();
        // Its memory goes with its last thread, a moment later.
        while frozen.load(&words, &mut [0]).is_ok() {
            thread::yield_now();
        }
    }
}
