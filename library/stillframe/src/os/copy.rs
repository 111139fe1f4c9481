//! Copies of many words.
//!
//! - [`load_words`], [`store_words`] and [`copy_words`] copy memory that another thread may access:
//!   each word is one relaxed load, or store, in no order. The compiler keeps atomics in single
//!   moves of 8 bytes, so on x86-64 the loop is one `rep movsq`: to the processor the same loop,
//!   run by microcode with whole lines at a time (half as fast again from memory, 2.5 times in
//!   cache).
//! - [`copy_memory`] copies memory that no other thread can reach, as `memcpy` does, which bypasses
//!   the cache: nearly twice as fast for large copies.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::sync::{AtomicU64, Ordering};

/// Whether `words` words are worth the start of the microcode. Checkers must see each word.
#[cfg(target_arch = "x86_64")]
#[inline]
fn in_bulk(words: usize) -> bool {
    words >= 32 && !cfg!(any(miri, stillframe_tsan, feature = "loom", feature = "shuttle"))
}

/// Loads each word of `from`, which is as long as `into`.
#[inline]
pub(crate) fn load_words(from: &[AtomicU64], into: &mut [u64]) {
    assert_eq!(from.len(), into.len());
    #[cfg(target_arch = "x86_64")]
    if in_bulk(into.len()) {
        // SAFETY: both ranges are `into.len()` words, `into` is ours alone; see `move_words`.
        return unsafe { move_words(from.as_ptr().cast(), into.as_mut_ptr(), into.len()) };
    }
    for (value, word) in into.iter_mut().zip(from) {
        *value = word.load(Ordering::Relaxed);
    }
}

/// Stores each word of `from` in `to`, which is as long.
#[inline]
pub(crate) fn store_words(from: &[u64], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    if in_bulk(to.len()) {
        // SAFETY: both ranges are `to.len()` words, and atomics may be stored to through a shared
        // reference; see `move_words`.
        return unsafe { move_words(from.as_ptr(), to.as_ptr().cast_mut().cast(), to.len()) };
    }
    for (to, &value) in to.iter().zip(from) {
        to.store(value, Ordering::Relaxed);
    }
}

/// Copies each word of `from` to `to`, which is as long.
#[inline]
pub(crate) fn copy_words(from: &[AtomicU64], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    if in_bulk(to.len()) {
        // SAFETY: both ranges are `to.len()` words, and atomics may be stored to through a shared
        // reference; see `move_words`.
        return unsafe {
            move_words(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), to.len())
        };
    }
    for (to, word) in to.iter().zip(from) {
        to.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Which of the 64 bytes of a line are `value`, as bits; `None` where that must be asked byte by
/// byte. To the threads that store those bytes it is 64 relaxed loads of single bytes, in no order:
/// x86-64 tears none, and nothing wider is relied on.
#[inline]
pub(crate) fn equal_bytes(line: &[AtomicU64; 8], value: u8) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    if !cfg!(any(miri, stillframe_tsan, feature = "loom", feature = "shuttle")) {
        let pattern = u64::from(value) * 0x0101_0101_0101_0101;
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: the block reads the 64 bytes of `line`, which are only accessed atomically, and
        // stands for a relaxed load of each; SSE2 is part of x86-64.
        unsafe {
            std::arch::asm!(
                "movq {x}, {pattern}",
                "punpcklqdq {x}, {x}",
                "movdqu {y}, [{line}]",
                "pcmpeqb {y}, {x}",
                "pmovmskb {a:e}, {y}",
                "movdqu {y}, [{line} + 16]",
                "pcmpeqb {y}, {x}",
                "pmovmskb {b:e}, {y}",
                "movdqu {y}, [{line} + 32]",
                "pcmpeqb {y}, {x}",
                "pmovmskb {c:e}, {y}",
                "movdqu {y}, [{line} + 48]",
                "pcmpeqb {y}, {x}",
                "pmovmskb {d:e}, {y}",
                line = in(reg) line.as_ptr(),
                pattern = in(reg) pattern,
                x = out(xmm_reg) _,
                y = out(xmm_reg) _,
                a = out(reg) a,
                b = out(reg) b,
                c = out(reg) c,
                d = out(reg) d,
                options(nostack, readonly, preserves_flags),
            );
        }
        let [a, b, c, d] = [a, b, c, d].map(u64::from);
        return Some(a | b << 16 | c << 32 | d << 48);
    }
    let _ = (line, value);
    None
}

/// Asks the processor to bring what lies at `place` near. Nothing is accessed: any address will do.
#[inline]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see, and does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// The same for what is read once and must not take the place of other lines in shared caches.
#[inline]
pub fn prefetch_once<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_NTA }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Copies words as a sequence of aligned 8-byte moves, which x86-64 never tears (Intel SDM, volume
/// 3, "guaranteed atomic operations"); fast strings may reorder them, as relaxed atomics may be.
///
/// # Safety
/// `from` and `to` are aligned to 8 bytes and valid for `words` words; any other thread that
/// accesses `from` (and `to`, if it is shared) does so with atomic operations of words.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn move_words(from: *const u64, to: *mut u64, words: usize) {
    // SAFETY: the direction flag is clear by the ABI; the block reads and writes what the caller
    // vouches for, and stands for a loop of relaxed atomic loads and stores.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Atomics that no other thread can reach, as plain words; `None` where a checker's atomics are
/// more than a word.
pub(crate) fn plain(words: &mut [AtomicU64]) -> Option<&mut [u64]> {
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    {
        let _ = words;
        None
    }
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    {
        let (first, len) = (words.as_mut_ptr().cast(), words.len());
        // SAFETY: an `AtomicU64` has the size, alignment and values of a `u64`, and the exclusive
        // borrow passes on to the result.
        Some(unsafe { std::slice::from_raw_parts_mut(first, len) })
    }
}

/// Words that a thread copies at a time: 2 MiB, some 200 microseconds. Few in tests, whose states
/// are small.
const SHARE_WORDS: usize = if cfg!(test) { 700 } else { 1 << 18 };

/// Copies `from` to `to`, which is as long, with `threads` threads: the caller's, and others that
/// live as long as this copy. Where the system gives no thread, the others copy more.
pub(crate) fn copy_memory(from: &[u64], to: &mut [u64], threads: usize) {
    assert_eq!(from.len(), to.len());
    if threads <= 1 || from.len() <= SHARE_WORDS {
        return to.copy_from_slice(from);
    }
    let others = threads.min(from.len().div_ceil(SHARE_WORDS)) - 1;
    let shares = Mutex::new(from.chunks(SHARE_WORDS).zip(to.chunks_mut(SHARE_WORDS)));
    let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
    let copy = || {
        while let Some((from, to)) = next() {
            to.copy_from_slice(from);
        }
    };
    thread::scope(|scope| {
        let copier = || thread::Builder::new().name("copier".into()).spawn_scoped(scope, copy);
        let _copiers: Vec<_> = (0..others).map_while(|_| copier().ok()).collect();
        copy();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_found_each_in_its_place() {
        let bytes: [u8; 64] = std::array::from_fn(|at| (at * at % 7) as u8);
        let words = bytes.as_chunks().0;
        let line = std::array::from_fn(|at| AtomicU64::new(u64::from_ne_bytes(words[at])));
        for value in 0..=7 {
            let expected = (0..64).fold(0, |bits, at| bits | u64::from(bytes[at] == value) << at);
            assert!(equal_bytes(&line, value).is_none_or(|found| found == expected), "{value}");
        }
    }

    #[test]
    fn every_word_is_copied_once_by_any_number_of_threads() {
        let lengths = [0, 1, 31, 32, 1000, SHARE_WORDS, 3 * SHARE_WORDS + 5];
        for len in if cfg!(miri) { &lengths[..5] } else { &lengths[..] } {
            let from: Vec<u64> = (1..=*len as u64).collect();
            for threads in [1, 2, 5] {
                let mut to = vec![0; *len];
                copy_memory(&from, &mut to, threads);
                assert_eq!(to, from, "{threads} threads");
            }
            let atomics: Vec<_> = from.iter().map(|&word| AtomicU64::new(word)).collect();
            let mut loaded = vec![0; *len];
            load_words(&atomics, &mut loaded);
            assert_eq!(loaded, from);
            let copied: Vec<_> = from.iter().map(|_| AtomicU64::new(0)).collect();
            copy_words(&atomics, &copied);
            load_words(&copied, &mut loaded);
            assert_eq!(loaded, from);
            let stored: Vec<_> = from.iter().map(|_| AtomicU64::new(0)).collect();
            store_words(&from, &stored);
            load_words(&stored, &mut loaded);
            assert_eq!(loaded, from);
        }
    }
}
