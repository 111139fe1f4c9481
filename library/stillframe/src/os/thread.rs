//! Scheduling of the calling thread.

use std::time::Duration;

/// Lets every thread of ordinary priority run before the calling one, so that images take the time
/// that the writer leaves.
///
/// Best effort: a system that refuses keeps the priority as it was.
pub fn lower_priority() {
    #[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
    {
        // Linux keeps nice values per thread; `None` is the calling one.
        let _ = rustix::process::setpriority_process(None, 19);
    }
}

/// How long the calling thread has had a processor; zero where the system does not say.
pub(crate) fn thread_time() -> Duration {
    // SAFETY: a `timespec` is plain data; all zero is a value of it.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is a valid place.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if status != 0 {
        return Duration::ZERO;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
