//! Clock and chance of the machine, as the thread of a simulation has them: functions of the C
//! library that the standard library and others call, under their names.
//!
//! Each thread that was not told otherwise has those of the kernel.

use std::cell::Cell;
use std::mem::MaybeUninit;

use libc::{c_int, c_long, c_void, clockid_t, size_t, ssize_t, timespec};

/// Unix time when a simulation begins, in nanoseconds.
const BEGAN: i64 = 1_700_000_000_000_000_000;
/// What the clock that only rises shows then.
const RISEN: i64 = 1_000_000_000_000;

thread_local! {
    /// Nanoseconds since the beginning, and how far the unix time is off.
    static TIME: Cell<Option<(i64, i64)>> = const { Cell::new(None) };
    static CHANCE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on this thread has the clock that [`set_time`] sets, and chance by a seed.
pub(crate) fn enter(seed: u64) {
    TIME.set(Some((0, 0)));
    CHANCE.set(Some(seed));
}

/// It is so many milliseconds after the beginning. The clock that only rises has stood for `lag_ms`
/// of them; the unix time is off by others.
pub(crate) fn set_time(ms: u64, lag_ms: u64, off_ms: i64) {
    let (risen, off) = (ms as i64 - lag_ms as i64, off_ms + lag_ms as i64);
    TIME.set(Some((risen * 1_000_000, off * 1_000_000)));
}

/// # Safety
/// As of the C library's: `time` points to a `timespec`, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let simulated = TIME.get().and_then(|(since, off)| match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Some(BEGAN + since + off),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
            Some(RISEN + since)
        }
        _ => None,
    });
    match simulated {
        Some(ns) if !time.is_null() => {
            let shown = timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
            // SAFETY: the caller's promise.
            unsafe { time.write(shown) };
            0
        }
        // SAFETY: the kernel checks the address.
        _ => unsafe { libc::syscall(libc::SYS_clock_gettime, clock as c_long, time) as c_int },
    }
}

/// # Safety
/// As of the C library's: `buffer` points to so many bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: u32) -> ssize_t {
    let Some(mut chance) = CHANCE.get() else {
        // SAFETY: the kernel checks the address.
        return unsafe {
            libc::syscall(libc::SYS_getrandom, buffer, length, flags as c_long) as ssize_t
        };
    };
    if buffer.is_null() {
        return 0;
    }
    let buffer = buffer.cast::<MaybeUninit<u8>>();
    // SAFETY: the caller promises so many bytes, of whatever content, and does not look at them.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for byte in bytes {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        byte.write((chance >> 33) as u8);
    }
    CHANCE.set(Some(chance));
    length as ssize_t
}
